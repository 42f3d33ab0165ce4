"""A class repository: what is handed out, and that no answer is; bad input."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from grading.classroom import answers, class_repo
from profiling_lab.course import manifest
from profiling_lab.errors import LabError
from tests.harness.classroom.small_course import (
    CUDA,
    CUDA_REFERENCE,
    DUE,
    OTHER,
    REFERENCE,
    STUB,
    git,
    tree,
)

# It is instructors who hand out.
pytestmark = [pytest.mark.proof, pytest.mark.needs("tomlkit", "yaml")]

ROOT = Path(__file__).resolve().parents[3]


# -- what is handed out -------------------------------------------------------------------------------


def test_answers_stay_behind(course: manifest.Course, built: Path) -> None:
    names = set(tree(built))
    assert names == {
        "course.toml", "pyproject.toml", ".gitignore", "LICENSE", "README.md", "captures/run/given.log",
        STUB, OTHER, CUDA, f".stubs/{STUB}", f".stubs/{OTHER}", f".stubs/{CUDA}", ".stubs/class.json",
        "week07/day1/README.md", "week07/day2/README.md", "week07/day1/hints.md",
        "week07/day2/hints.md", "tests/week07/day1/test_mini.py", "tests/week07/day1/test_mini_cu.py",
        "tests/week07/day2/test_more.py", "benchmarks/plain.py",
    }  # fmt: skip
    stub = (built / STUB).read_text()
    assert stub.count("raise NotImplementedError") == 2, (
        "the instructor's solved file was handed out"
    )
    assert "earlier" not in stub
    assert "42" not in (built / CUDA).read_text()
    assert not answers.found(course, [built / name for name in names])


def test_case_files_do_not_say_what_is_wrong_with_them(
    course: manifest.Course, built: Path, tmp_path: Path
) -> None:
    told = re.compile(r"--(variant|trouble|share)|\"(variant|trouble)\":")
    real = Path(__file__).resolve().parents[3] / "captures"
    names = ["captures.toml", *(f"{f.parent.name}/{f.name}" for f in real.glob("case_*/*.json"))]
    for name in names:
        (course.root / "captures" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(real / name, course.root / "captures" / name)
    git(course.root, "add", "--force", "captures")
    git(course.root, "commit", "--quiet", "-m", "Recordings")
    folder = class_repo.build(course, tmp_path / "cases", due=DUE).folder / "captures"
    recordings = tomllib.loads((folder / "captures.toml").read_text())
    assert "torch_inference_baseline" in recordings
    assert not [name for name in recordings if name.startswith("case_")]
    cases = sorted(folder.glob("case_*/*.json"))
    assert len(cases) == len(names) - 1 > 40
    for file in cases:
        before, text = (real / file.relative_to(folder)).read_text(), file.read_text()
        assert not told.search(text), file
        if file.name == "provenance.json":
            was, now = json.loads(before), json.loads(text)
            assert told.search(before)
            assert was["command"].startswith(now["command"])
            assert was["files"] == now["files"]


def test_pages_link_to_what_is_there(built: Path) -> None:
    text = (built / "week07/day1/README.md").read_text()
    assert "[the other day](../day2/README.md), how it is made." in text
    assert "instructor-guide" not in text
    assert "| [mini.py](mini.py) | yours |" in text
    readme = (built / "README.md").read_text()
    assert f"Due {DUE}" in readme
    assert "uv run lab check mini" in readme
    assert "2 exercises, 14 points" in readme
    assert "uv sync" not in readme


def test_readme_of_a_class_names_what_its_tasks_need() -> None:
    known = manifest.load(ROOT)
    words = class_repo._words(known, [known.exercise("ex_32")], "", "")
    command = "`uv sync --inexact --group frameworks` installs it"
    assert command in class_repo.template("class_readme.md", **words)


def test_manifest_has_the_same_tasks(course: manifest.Course, built: Path) -> None:
    text = (built / "course.toml").read_text()
    assert "# the second day" in text
    assert tomllib.loads(text)["course"]["due"] == DUE
    assert manifest.load(built).tasks == course.tasks


def test_chosen_exercises_only(course: manifest.Course, tmp_path: Path) -> None:
    built = class_repo.build(course, tmp_path / "one", exercises=["mini"], title='Day "one"')
    there = manifest.load(built.folder)
    assert [exercise.id for exercise in there.exercises] == ["mini"]
    assert there.title == 'Day "one"'
    names = set(built.files)
    assert not names & {OTHER, "tests/week07/day2/test_more.py", "week07/day2/hints.md"}
    assert "week07/day2/README.md" in names, "lessons may be read"


def test_same_course_same_commit(course: manifest.Course, tmp_path: Path) -> None:
    one = class_repo.build(course, tmp_path / "one", due=DUE)
    (course.root / "more notes.txt").write_text("not of the course either")
    os.utime(course.root / STUB, (1, 1))
    two = class_repo.build(course, tmp_path / "deeper" / "two", due=DUE)
    assert one.commit == two.commit
    assert re.fullmatch("[0-9a-f]{40}", one.commit)
    assert tree(one.folder) == tree(two.folder)
    assert git(one.folder, "status", "--porcelain") == ""
    assert git(one.folder, "rev-list", "--count", "HEAD").strip() == "1"
    other = class_repo.build(course, tmp_path / "three", title="Other")
    assert other.commit != one.commit


def test_a_copy_without_git(course: manifest.Course, tmp_path: Path) -> None:
    shutil.rmtree(course.root / ".git")
    (course.root / ".venv").mkdir()
    (course.root / ".venv" / "big").write_text("x")
    built = class_repo.build(course, tmp_path / "class", git=False)
    assert not (built.folder / ".git").exists()
    assert not any(".venv" in name for name in built.files)
    assert STUB in built.files


def test_the_engine_stays_behind_if_asked(course: manifest.Course, tmp_path: Path) -> None:
    """And the library works without it: what asks the engine says that it is not there."""
    names = [
        "diagnosis/engine.py",
        "analysis/savings.py",
        "mine/limits.py",
        "analysis/compare.py",
    ]
    for name in names:
        file = course.root / "profiling_lab" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("", encoding="utf-8")
    git(course.root, "add", "--force", ".")
    built = class_repo.build(course, tmp_path / "class", git=False, engine=False)
    kept = [name in {n.removeprefix("profiling_lab/") for n in built.files} for name in names]
    assert kept == [False, False, True, True]

    library = Path(class_repo.__file__).parents[2] / "profiling_lab"

    def left_out(folder: str, files: list[str]) -> set[str]:
        place = Path(folder).relative_to(library.parent)
        return {name for name in files if class_repo.ENGINE.match((place / name).as_posix())}

    shutil.copytree(library, tmp_path / "alone/profiling_lab", ignore=left_out)
    capture = str(library.parent / "captures/loader_few/timeline.sqlite")
    for words, code, said in (
        (["diagnose", capture], 2, "without the engine"),
        (["compare", capture, capture], 2, "without the engine"),
        (["report", capture], 2, "without the engine"),
        (["quiz", "--list"], 0, ""),
        (["diagnose", "--against", str(library.parent / "solutions"), capture], 0, ""),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "profiling_lab.cli", *words],
            cwd=tmp_path / "alone", env=os.environ | {"PYTHONPATH": str(tmp_path / "alone")},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert (done.returncode, said in done.stderr) == (code, True), done.stderr


# -- nothing leaks --------------------------------------------------------------------------------------

LEAKS = {
    "week07/notes.md": "Look:\n\n```python\n" + REFERENCE.partition('in ns."""\n')[2] + "```\n",
    "week07/day1/given.py": "def other(start, end):\n"
    "    earlier, later = min(start,\n        end), max(start, end)  # differently laid out\n"
    "    # and commented\n    return (later - earlier)*SCALE\n",
    "week07/day1/given.cu": "__global__ void copy() { /* new */\n"
    + "\n".join(CUDA_REFERENCE.splitlines()[2:3])
    + "}\n",
}


@pytest.mark.parametrize("name", LEAKS)
def test_reference_elsewhere_is_refused(course: manifest.Course, name: str, tmp_path: Path) -> None:
    (course.root / name).write_text(LEAKS[name])
    git(course.root, "add", name)
    with pytest.raises(LabError, match=rf"{re.escape(name)}: as in solutions/.*leave them out"):
        class_repo.build(course, tmp_path / "class")
    assert not (tmp_path / "class").exists()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["course"], "something half-built is left"


def test_what_the_stub_gives_is_no_answer(course: manifest.Course) -> None:
    found = {place for places in answers.bodies(course).values() for place in places}
    assert found == {
        f"solutions/{STUB}: length", f"solutions/{OTHER}: asked", f"solutions/{CUDA}: mini.mini_cu",
    }  # fmt: skip


# -- bad input ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"exercises": ["minni"]}, "did you mean mini"),
        ({"due": "tomorrow"}, "write date, time and zone"),
        ({"due": "2026-12-04T23:59"}, "write date, time and zone"),
        ({"update": True}, "is no class repository"),
    ],
)
def test_wrong_choice(course: manifest.Course, options: dict, says: str, tmp_path: Path) -> None:
    with pytest.raises(LabError, match=says):
        class_repo.build(course, tmp_path / "class", **options)


def test_wrong_folder(course: manifest.Course, built: Path, tmp_path: Path) -> None:
    with pytest.raises(LabError, match="lies inside the course"):
        class_repo.build(course, course.root / "class")
    with pytest.raises(LabError, match="not empty.*--update"):
        class_repo.build(course, built)
    with pytest.raises(LabError, match="is a file"):
        class_repo.build(course, built / "LICENSE")
    with pytest.raises(LabError, match="is a class repository already"):
        class_repo.build(manifest.load(built), tmp_path / "again")


def test_full_disk(
    course: manifest.Course, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", "x.py")

    monkeypatch.setattr(class_repo.shutil, "copyfile", full)
    with pytest.raises(LabError, match="No space left on device"):
        class_repo.build(course, tmp_path / "class")
    assert [p.name for p in tmp_path.iterdir()] == ["course"]
