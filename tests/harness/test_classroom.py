"""The course handed out to a class: nothing that gives answers away, and everything in it works."""

from __future__ import annotations

import base64
import csv
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from grading.classroom import answers, claims, class_repo, commands, github, gradescope
from grading.cli import COMMANDS, UNPROTECTED, grade
from grading.errors import SandboxUnavailable
from grading.gradebook import policy as policies
from grading.grader.sandbox import strongest
from grading.runner import results
from grading.runner.scoring import NotGraded, installed
from profiling_lab.cli import lab
from profiling_lab.course import manifest
from profiling_lab.errors import LabError

# It is instructors who hand out.
pytestmark = [pytest.mark.proof, pytest.mark.needs("tomlkit", "yaml")]

ROOT = Path(__file__).resolve().parents[2]
STUB = "week07/day1/mini.py"
OTHER = "week07/day2/more.py"
CUDA = "week07/day1/cuda/mini.cu"
DUE = "2026-12-04T23:59+01:00"

MANIFEST = """
[course]
title = "A small course"

[[exercises]]
id = "mini"
title = "How long?"
stub = "week07/day1/mini.py"
minutes = 5
difficulty = 1
skills = ["add"]
tasks = [
  { name = "length", title = "One interval", points = 2 },
  { name = "total", title = "Several intervals", points = 3 },
  { name = "mini_cu", title = "A kernel", points = 4, stub = "cuda/mini.cu", needs = ["nothing_has_it"] },
]

# the second day
[[exercises]]
id = "more"
title = "And now?"
stub = "week07/day2/more.py"
minutes = 5
difficulty = 1
skills = ["ask"]
tasks = [
  { name = "asked", title = "As the reference says", points = 5 },
]
"""
REFERENCE = '''"""How long?"""

from __future__ import annotations

SCALE = 1


def length(start: int, end: int) -> int:
    """The length of an interval, in ns."""
    # The end may come first.
    earlier, later = min(start, end), max(start, end)
    return (later - earlier) * SCALE


def total(intervals: list) -> int:
    """The lengths of intervals together, in ns."""
    return sum(length(*interval) for interval in intervals)
'''
MORE = '''"""And now?"""


def asked(number: int) -> int:
    """The number after this one."""
    following = number + 1  # that of the seed stays as it is
    answers_of_before = {40: 41, 41: 42}
    return answers_of_before.get(number, following)
'''
CUDA_REFERENCE = """// a kernel
// <solution mini.mini_cu>
__global__ void answer(int* out) { out[threadIdx.x] = 42 * blockIdx.x + threadIdx.x; }
// <stub>
//| // TODO(mini.mini_cu)
//| __global__ void answer(int* out) {}
// </solution>
"""
CHECKS = """from grading.checks import task


@task("mini.length")
def test_length(stub) -> None:
    got = stub.length(3, 10)
    assert got == 7, f"length(3, 10) returned {got}, expected 7 ns: the end minus the start"


@task("mini.total")
def test_total(stub) -> None:
    got = stub.total([[0, 5], [10, 12]])
    assert got == 7, f"total of 5 ns and 2 ns returned {got}, expected 7 ns"
"""
CUDA_CHECKS = """from grading.checks import task


@task("mini.mini_cu")
def test_mini_cu(cuda_stub) -> None:
    assert cuda_stub.source.is_file()
"""
ASKING = """from pathlib import Path

from grading.checks import task

REFERENCE = Path(__file__).parents[3] / "solutions" / "week07"


@task("more.asked")
def test_asked(stub) -> None:
    assert REFERENCE.is_dir()
    assert stub.asked(41) == 42
"""
HINTS = "# Hints\n\n## {0}\n\n### A question\n\nWhat is left?\n\n### A stronger hint\n\nSubtract.\n"
PYPROJECT = """
[tool.pytest.ini_options]
addopts = ["--import-mode=importlib", "-p", "grading.runner.plugin", "-p", "grading.checks.fixtures"]
testpaths = ["tests"]
"""
README = """# Day 1

Read [the other day](../day2/README.md), [how it is made](../../CONTRIBUTING.md#steps).

| page | about |
|---|---|
| [instructor-guide.md](../../docs/instructor-guide.md) | not for everyone |
| [mini.py](mini.py) | yours |
"""
FILES = {
    "course.toml": MANIFEST,
    "pyproject.toml": PYPROJECT,
    ".gitignore": ".lab/\n__pycache__/\n.pytest_cache/\n*.log\n",
    "LICENSE": "free\n",
    "CONTRIBUTING.md": "for authors\n",
    "README.md": "See solutions/.\n",
    "docs/instructor-guide.md": "for instructors\n",
    f"solutions/{STUB}": REFERENCE,
    f"solutions/{OTHER}": MORE,
    f"solutions/{CUDA}": CUDA_REFERENCE,
    STUB: REFERENCE,  # the instructor's own copy is solved
    OTHER: MORE,
    CUDA: CUDA_REFERENCE,
    "week07/day1/README.md": README,
    "week07/day2/README.md": "# Day 2\n",
    "week07/day1/hints.md": HINTS.format("length") + HINTS.format("total"),
    "week07/day2/hints.md": HINTS.format("asked"),
    "tests/week07/day1/test_mini.py": CHECKS,
    "tests/week07/day1/test_mini_cu.py": CUDA_CHECKS,
    "tests/week07/day2/test_more.py": ASKING,
    "tests/week07/day1/mistakes_mini.toml": "[[mistake]]\nput = 'return start - end'\n",
    "tests/harness/test_proof.py": "def test_nothing(): pass\n",
    "tests/live_score.json": "{}\n",
    "scripts/lessons.py": "print()\n",
    "benchmarks/references.py": 'FILE = "solutions/week07"\n',
    "benchmarks/plain.py": "print()\n",
    "captures/run/given.log": "ignored, and yet part of the course\n",
}
SOLVED_LENGTH = "    return end - start\n"


def git(folder: Path, *words: str) -> str:
    clean = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    who = {f"GIT_{a}_{b}": "x@y" for a in ("AUTHOR", "COMMITTER") for b in ("NAME", "EMAIL")}
    dates = {f"GIT_{a}_DATE": "2026-11-22T10:00:00+00:00" for a in ("AUTHOR", "COMMITTER")}
    done = subprocess.run(
        ["git", *words], cwd=folder, env=os.environ | clean | who | dates,
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout


@pytest.fixture
def course(tmp_path: Path) -> manifest.Course:
    """A small course in a repository."""
    root = tmp_path / "course"
    for name, text in FILES.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    git(root, "init", "--quiet", "--template=")
    git(root, "add", "--force", ".")
    git(root, "commit", "--quiet", "-m", "The course")
    (root / "notes.txt").write_text("not of the course: git does not know it")
    return manifest.load(root)


@pytest.fixture
def built(course: manifest.Course, tmp_path: Path) -> Path:
    return class_repo.build(course, tmp_path / "class", due=DUE).folder


def run_lab(folder: Path, *words: str, input: str | None = None) -> Result:
    before = Path.cwd()
    os.chdir(folder)
    try:
        return CliRunner().invoke(lab, list(words), input=input)
    finally:
        os.chdir(before)


def run_pytest(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def solve(folder: Path, body: str = SOLVED_LENGTH) -> None:
    file = folder / STUB
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("    raise NotImplementedError\n", body, 1), encoding="utf-8")


def tree(folder: Path) -> dict[str, bytes]:
    """Every file but git's own, with its mode."""
    out = {}
    for file in sorted(folder.rglob("*")):
        inside = file.relative_to(folder)
        if file.is_file() and inside.parts[0] not in (".git", ".lab"):
            out[inside.as_posix()] = oct(file.stat().st_mode).encode() + file.read_bytes()
    return out


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
    real = Path(__file__).resolve().parents[2] / "captures"
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


def test_manifest_says_what_cannot_be_judged_there(course: manifest.Course, built: Path) -> None:
    text = (built / "course.toml").read_text()
    assert "# the second day" in text
    assert tomllib.loads(text)["course"]["due"] == DUE
    there = manifest.load(built)
    assert there.task("more.asked").needs == {"references"}
    assert {**there.tasks, "more.asked": None} == {**course.tasks, "more.asked": None}
    (built / OTHER).write_text(MORE)
    assert "needs references" in run_pytest(built, "tests/week07/day2").stdout


def test_chosen_exercises_only(course: manifest.Course, tmp_path: Path) -> None:
    built = class_repo.build(course, tmp_path / "one", exercises=["mini"], title='Day "one"')
    there = manifest.load(built.folder)
    assert [exercise.id for exercise in there.exercises] == ["mini"]
    assert there.title == 'Day "one"'
    names = set(built.files)
    assert not names & {OTHER, "tests/week07/day2/test_more.py", "week07/day2/hints.md"}
    assert "week07/day2/README.md" in names, "lessons may be read"
    assert built.not_run == []


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


# -- it works there -------------------------------------------------------------------------------------


def test_lab_works_there(built: Path) -> None:
    status = run_lab(built)
    assert "0 of 14 points" in status.output
    hint = run_lab(built, "hint", "mini.length")
    assert hint.exit_code == 0
    assert "What is left?" in hint.output
    solve(built)
    assert run_lab(built, "solution", "mini.length").exit_code == 1, "shown before it passes"
    assert run_lab(built, "check", "mini").exit_code == 0
    after = run_lab(built, "solution", "mini.length")
    assert after.exit_code == 2
    assert "comes without references" in after.output
    against = run_lab(built, "check", "mini", "--against", "solutions")
    assert "comes without references" in against.output
    reset = run_lab(built, "reset", "mini.length", "--yes")
    assert "reset" in reset.output, reset.output
    assert (built / STUB).read_bytes() == (built / ".stubs" / STUB).read_bytes()
    assert "nothing" not in run_lab(built, "submit").output
    proof = run_lab(built, "dev", "check", "mini")
    assert "no references" in proof.output


def test_update_reaches_learners(course: manifest.Course, built: Path, tmp_path: Path) -> None:
    github.write_workflow(built)
    first = git(built, "rev-parse", "HEAD")
    learner = tmp_path / "learner"
    git(tmp_path, "clone", "--quiet", str(built), str(learner))
    (course.root / "solutions" / STUB).write_text(REFERENCE.replace("together", "in all"))
    (course.root / "tests/week07/day1/test_mini.py").write_text(
        CHECKS.replace("(3, 10)", "(4, 11)")
    )
    (course.root / "benchmarks/plain.py").unlink()
    again = class_repo.build(course, built, due=DUE, update=True)
    assert git(built, "rev-parse", "HEAD^") == first
    assert again.commit == git(built, "rev-parse", "HEAD").strip()
    assert git(built, "status", "--porcelain") == ""
    assert (built / github.WORKFLOW).is_file(), "what the instructor added is gone"
    assert not (built / "benchmarks/plain.py").exists()
    assert class_repo.build(course, built, due=DUE, update=True).commit == again.commit
    # A learner who had touched nothing gets the new stub by `git pull` and `lab update`.
    git(learner, "pull", "--quiet")
    assert "in all" in (learner / STUB).read_text()
    (learner / STUB).write_text((learner / STUB).read_text().replace("in all", "together"))
    assert "refreshed" in run_lab(learner, "update").output, "an older stub is no work of theirs"
    (learner / STUB).write_text("mine = 1\n")
    assert "kept" in run_lab(learner, "update").output
    (built / "LICENSE").write_text("changed by hand\n")
    with pytest.raises(LabError, match="not committed"):
        class_repo.build(course, built, update=True)


def test_commands_of_lab(
    course: manifest.Course, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "class"
    assert run_lab(course.root, "dev", "class-repo", str(place), "--due", DUE).exit_code == 0
    said = capfd.readouterr().out
    assert "more.asked: its check asks the references" in said
    assert (place / STUB).is_file()
    assert run_lab(course.root, "dev", "class-repo", str(place)).exit_code == 2
    assert "not empty" in capfd.readouterr().err


# -- GitHub Classroom -----------------------------------------------------------------------------------


def fake_uv(folder: Path) -> dict[str, str]:
    """An environment whose `uv run … X` runs X with this Python; no network is asked."""
    folder.mkdir()
    tool = folder / "uv"
    tool.write_text(
        "#!/bin/bash\nset -e\n"
        '[ "$1" = sync ] && exit 0\n'
        'while [ "$1" != python ] && [ "$1" != pytest ]; do shift; done\n'
        f'[ "$1" = pytest ] && exec {sys.executable} -m "$@"\n'
        f'shift; exec {sys.executable} "$@"\n'
    )
    tool.chmod(0o755)
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}


def run_workflow(folder: Path, scratch: Path) -> tuple[dict, str, list[int]]:
    """Run the shell steps of the workflow as a runner would; what is reported, the page, the codes."""
    workflow = installed("yaml").safe_load((folder / github.WORKFLOW).read_text())
    (job,) = workflow["jobs"].values()
    files = {name: scratch / name for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
    environment = fake_uv(scratch / "bin") | {"RUNNER_TEMP": str(scratch)}
    environment |= {name: str(file) for name, file in files.items()}
    codes = []
    for step in job["steps"]:
        if "run" in step:
            command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
            done = subprocess.run(
                command, cwd=folder, env=environment, capture_output=True, check=False
            )
            codes.append(done.returncode)
    name, _, value = files["GITHUB_OUTPUT"].read_text().strip().partition("=")
    assert name == "result"
    return json.loads(base64.b64decode(value)), files["GITHUB_STEP_SUMMARY"].read_text(), codes


@pytest.mark.parametrize(
    ("body", "status", "earned", "codes"),
    [
        (SOLVED_LENGTH, "pass", 2, [0, 0, 0]),
        ("    import os\n    os._exit(0)\n", "fail", 0, [0, 0, 0]),
    ],
    ids=["right", "exit"],
)
def test_workflow_reports_the_points(
    built: Path, body: str, status: str, earned: int, codes: list[int], tmp_path: Path
) -> None:
    _, commit = github.write_workflow(built)
    assert commit == git(built, "rev-parse", "HEAD").strip()
    solve(built, body)
    result, page, seen = run_workflow(built, tmp_path)
    assert seen == codes
    score = json.loads((tmp_path / "score.json").read_text())
    assert result["status"] == status
    assert result["max_score"] == 14
    assert sum(test["score"] for test in result["tests"]) == earned == score["portable"]["earned"]
    assert f"## {earned} of 14 points" in page


def test_a_failed_check_fails_and_the_rest_counts(course: manifest.Course, tmp_path: Path) -> None:
    outcomes = {"mini.length": "passed", "mini.total": "failed", "mini.mini_cu": "not run"}
    tasks = {name: {"outcome": outcome} for name, outcome in outcomes.items()}
    (tmp_path / "score.json").write_text(json.dumps({"tasks": tasks}))
    result = github.points(course, tmp_path / "score.json")
    assert result["status"] == "fail"
    assert [test["score"] for test in result["tests"]] == [2, 0]
    assert "| mini | 2 of 9 points, 1 of 3 tasks |" in github.summary(result)


def test_no_score_file_is_an_error(course: manifest.Course, tmp_path: Path) -> None:
    for text in (None, "", "[]", '{"tasks": 3}'):
        file = tmp_path / "score.json"
        if text is not None:
            file.write_text(text)
        result = github.points(course, file)
        assert result["status"] == "error"
        assert sum(test["score"] for test in result["tests"]) == 0
        assert "did not come to their end" in github.summary(result)


def test_result_fits_an_environment_variable(tmp_path: Path) -> None:
    score = tmp_path / "score.json"
    course = manifest.load(ROOT)
    entries = {name: {"outcome": "passed"} for name in course.tasks}
    score.write_text(json.dumps({"tasks": entries}))
    result = github.points(course, score)
    portable = sum(exercise.points for exercise in course.exercises)
    assert sum(test["score"] for test in result["tests"]) == result["max_score"] == portable
    assert len(github.encoded(result)) < 100_000


def test_workflow_is_pinned_and_may_do_little() -> None:
    text = (class_repo.TEMPLATES / "classroom.yml").read_text(encoding="utf-8")
    workflow = installed("yaml").safe_load(text)
    (job,) = workflow["jobs"].values()
    used = [step["uses"] for step in job["steps"] if "uses" in step]
    assert used
    assert all(re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", name) for name in used), used
    assert set(workflow["permissions"].values()) == {"read"}
    reporter = job["steps"][-1]
    assert reporter["env"] == {"SCORE_RESULTS": "${{ steps.score.outputs.result }}"}
    assert reporter["with"] == {"runners": "score"}
    assert [step.get("id") for step in job["steps"]].count("score") == 1


def test_workflow_is_not_overwritten(built: Path, tmp_path: Path) -> None:
    github.write_workflow(built)
    github.write_workflow(built)
    (built / github.WORKFLOW).write_text("on: push\n")
    with pytest.raises(LabError, match="says something else"):
        github.write_workflow(built)
    with pytest.raises(LabError, match=r"no course\.toml"):
        github.write_workflow(tmp_path)


# -- Gradescope -------------------------------------------------------------------------------------------

STAND_IN = """\
import json, os, sys
from pathlib import Path
words = sys.argv[1:]
assert words[:2] == ["-m", "grading.cli"], words
out = Path(words[words.index("--out") + 1])
Path(os.environ["SEEN"]).write_text(json.dumps({"words": words, "cwd": os.getcwd()}))
BEHAVIOUR
"""
WRITES = """\
(out / "gradescope").mkdir(parents=True)
(out / "gradescope" / "submission.json").write_text(json.dumps({"score": 7.0, "tests": []}))
sys.exit(CODE)
"""


@pytest.fixture
def autograder(course: manifest.Course, tmp_path: Path) -> Callable[..., dict]:
    """Unpack a bundle as Gradescope does and run it, with a stand-in for `uv run … grade`."""

    def run(behaviour: str, **options: object) -> dict:
        root = tmp_path / "autograder"
        gradescope.build(course, tmp_path / "bundle.zip", seed=7, **options)  # type: ignore[arg-type]
        with zipfile.ZipFile(tmp_path / "bundle.zip") as archive:
            archive.extractall(root / "source")
        shutil.copy(root / "source" / "run_autograder", root / "run_autograder")
        (root / "run_autograder").chmod(0o755)
        (root / "submission").mkdir()
        (root / "submission" / "mini.py").write_text("x = 1\n")
        (root / "results").mkdir()
        uv = root / "uv" / "bin" / "uv"
        uv.parent.mkdir(parents=True)
        (tmp_path / "grade.py").write_text(STAND_IN.replace("BEHAVIOUR", behaviour))
        uv.write_text(
            '#!/bin/bash\nwhile [ "$1" != python ]; do shift; done; shift\n'
            f'exec {sys.executable} {tmp_path / "grade.py"} "$@"\n'
        )
        uv.chmod(0o755)
        environment = os.environ | {"AUTOGRADER_ROOT": str(root), "SEEN": str(tmp_path / "seen")}
        done = subprocess.run([root / "run_autograder"], env=environment, cwd=root, check=False)
        assert done.returncode == 0
        return json.loads((root / "results" / "results.json").read_text())

    return run


@pytest.mark.parametrize("code", [0, 3])
def test_autograder_hands_the_results_on(
    autograder: Callable[..., dict], code: int, tmp_path: Path
) -> None:
    policy, cases = tmp_path / "policy.toml", tmp_path / "private"
    policy.write_text(
        "[deadline]\nat = 2026-12-04T23:59:00+01:00\n[weights]\nmini = 2\n"
        "[by_hand.text.criteria]\nevidence = 4\n"
    )
    (cases / "captures" / "one").mkdir(parents=True)
    (cases / "captures" / "one" / "provenance.json").write_text("{}")
    behaviour = WRITES.replace("CODE", str(code))
    results = autograder(behaviour, policy=policy, cases=cases, unprotected=UNPROTECTED)
    assert results == {"score": 7.0, "tests": []}
    seen = json.loads((tmp_path / "seen").read_text())
    root = tmp_path / "autograder"
    assert seen["cwd"] == str(root / "source" / "course")
    assert seen["words"][2] == str(root / "submission")
    given = dict(zip(seen["words"][3::2], seen["words"][4::2], strict=True))
    del given["--out"]
    source = root / "source"
    assert given == {
        "--policy": str(source / "policy.toml"), "--cases": str(source / "cases"),
        "--seed": "7", "--unprotected": UNPROTECTED,
    }  # fmt: skip
    assert tomllib.loads((source / "policy.toml").read_text()) == {"weights": {"mini": 2}}
    assert (source / "cases/captures/one/provenance.json").is_file()


@pytest.mark.parametrize(
    "behaviour",
    [
        "sys.exit(2)",
        "sys.exit(0)",
        "os.kill(os.getpid(), 9)",
        WRITES.replace("json.dumps(", "str(").replace("CODE", "0"),
        WRITES.replace("CODE", "1"),
    ],
    ids=["usage", "no results", "killed", "no JSON", "internal error"],
)
def test_results_are_written_also_after_a_crash(
    autograder: Callable[..., dict], behaviour: str
) -> None:
    results = autograder(behaviour)
    assert results["visibility"] == "hidden", "nobody may take this for a grade"
    assert "not your fault" in results["output"]
    assert results["extra_data"]["why"]


def test_results_are_written_after_a_time_out(
    autograder: Callable[..., dict], tmp_path: Path
) -> None:
    results = autograder("import time; time.sleep(600)", timeout_s=1)
    assert "longer than 1 s" in results["extra_data"]["why"]


def test_bundle_is_as_documented(course: manifest.Course, tmp_path: Path) -> None:
    names = gradescope.build(course, tmp_path / "one.zip", seed=7)
    gradescope.build(course, tmp_path / "two.zip", seed=7)
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()
    assert names[:3] == ["setup.sh", "run_autograder", "settings.json"], "in the zip's root"
    assert not any("solutions/" in name or "mistakes_" in name for name in names)
    with zipfile.ZipFile(tmp_path / "one.zip") as archive:
        modes = {info.filename: info.external_attr >> 16 & 0o777 for info in archive.infolist()}
        assert modes["setup.sh"] == modes["run_autograder"] == 0o755
        assert archive.read("setup.sh").startswith(b"#!/usr/bin/env bash\n")
        assert archive.read("run_autograder").startswith(b"#!/usr/bin/env python3\n")
        assert b"raise NotImplementedError" in archive.read(f"course/{STUB}")


def test_setup_installs_the_course(tmp_path: Path) -> None:
    """The script's commands in their order, with a stand-in for each."""
    root, tools = tmp_path / "autograder", tmp_path / "bin"
    tools.mkdir()
    for name in ("apt-get", "python3"):
        (tools / name).write_text(f'#!/bin/bash\necho "{name} $*" >> {tmp_path}/log\n')
    for name in ("pip", "uv"):
        tool = root / "uv" / "bin" / name
        tool.parent.mkdir(parents=True, exist_ok=True)
        tool.write_text(f'#!/bin/bash\necho "{name} $*" >> {tmp_path}/log\n')
    for tool in [*tools.iterdir(), *(root / "uv" / "bin").iterdir()]:
        tool.chmod(0o755)
    environment = os.environ | {
        "AUTOGRADER_ROOT": str(root),
        "PATH": f"{tools}:{os.environ['PATH']}",
    }
    script = tmp_path / "setup.sh"
    exercises = manifest.load(ROOT).exercises
    script.write_text(class_repo.installing("setup.sh", exercises), encoding="utf-8")
    subprocess.run(["bash", script], env=environment, check=True)
    log = (tmp_path / "log").read_text().splitlines()
    assert [line.split()[0] for line in log] == ["apt-get", "apt-get", "python3", "pip", "uv"]
    assert "bubblewrap" in log[1]
    assert log[-1] == f"uv sync --project {root}/source/course --group cuda --group frameworks"


@pytest.mark.parametrize(
    ("identifiers", "groups"),
    [
        (["scaling_ex01"], []),
        (["ex_30"], ["cuda"]),
        (["ex_30", "torch_ex01"], ["cuda", "frameworks"]),
    ],
)
def test_what_is_installed_is_what_the_exercises_need(
    identifiers: list[str], groups: list[str]
) -> None:
    """A class that has Day 1 alone does not wait for three gigabytes of frameworks."""
    course = manifest.load(ROOT)
    for name in ("setup.sh", "classroom.yml"):
        text = class_repo.installing(name, map(course.exercise, identifiers))
        assert re.findall(r"--group (\w+)", text) == groups
        assert "sync" in text and "GROUPS" not in text


def test_bundle_says_what_is_wrong(course: manifest.Course, tmp_path: Path) -> None:
    for options, says in (
        ({"policy": tmp_path / "none.toml"}, "no such file"),
        ({"cases": tmp_path / "none"}, "no such folder"),
    ):
        with pytest.raises(LabError, match=says):
            gradescope.build(course, tmp_path / "bundle.zip", **options)
    with pytest.raises(LabError, match=r"takes a \.zip"):
        gradescope.build(course, tmp_path / "bundle.tar")
    with pytest.raises(LabError, match="there is no folder"):
        gradescope.build(course, tmp_path / "none" / "bundle.zip")
    assert not list(tmp_path.glob("bundle*"))


# -- the instructor guide ---------------------------------------------------------------------------------

GUIDE = (ROOT / "docs" / "instructor-guide.md").read_text(encoding="utf-8")


def guide_blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", GUIDE, re.DOTALL | re.MULTILINE)


def understood(words: list[str]) -> None:
    """Raises click's UsageError if a command of the guide is not understood; runs nothing."""
    program, rest = words[2], words[3:]
    if program == "python":
        assert rest[:2] == ["-m", "grading.classroom"]
        command, rest = commands.commands, rest[2:]
    elif program == "lab":
        command = lab
    else:
        command, rest = COMMANDS.get(rest[0], grade), rest[rest[0] in COMMANDS :]
    context = command.make_context(program, rest)
    while isinstance(command, click.Group):
        left = [*context._protected_args, *context.args]
        _, found, left = command.resolve_command(context, left)
        assert found is not None
        command, context = found, found.make_context(found.name, left, parent=context)


def test_commands_of_the_guide_are_understood() -> None:
    lines = [shlex.split(line) for block in guide_blocks("console") for line in block.splitlines()]
    assert len(lines) >= 8
    for words in lines:
        assert words[:2] == ["uv", "run"], words
        understood(words)
    with pytest.raises(click.UsageError):
        understood(["uv", "run", "grade", "submissions", "--out", "graded", "--typo"])
    with pytest.raises(click.UsageError):
        understood(["uv", "run", "lab", "dev", "class-repo", "there", "--typo"])


def test_first_page_of_the_guide_leads_to_a_gradebook(tmp_path: Path) -> None:
    """Its lines run as they stand, and the class comes out as its table says."""
    page = GUIDE.partition("## First page")[2].partition("\n## ")[0]
    (block,) = re.findall(r"^```bash\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    install, *lines = block.splitlines()
    assert (install, len(lines)) == ("pip install uv", 3)
    out, said = tmp_path / "graded", ""
    for line in lines:
        words = shlex.split(line)
        if words[:2] == ["uv", "run"]:
            words[:3] = [sys.executable, "-m", "grading.cli"]
        words = [re.sub(r"^graded\b", str(out), word) for word in words]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
        said += done.stdout
    with (out / "gradebook.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    told = re.findall(r"^\| (\w+ \w+) \| (\d+) of (\d+) \| (.*) \|$", page, re.MULTILINE)
    assert [(row["Student"], row["Total"], row["Out of"]) for row in rows] == [
        (name, points, full) for name, points, full, _ in told
    ]
    counts = [(row["Passed tasks"], row["Todo tasks"], row["Failed tasks"]) for row in rows]
    assert counts[:2] == [("2", "4", "0"), ("0", "4", "2")]
    assert rows[2]["Error tasks"] == "1" and rows[3]["State"] == "no submission"
    bob = (out / "feedback" / "Bob_Builder.md").read_text(encoding="utf-8")
    assert "throughput(" in bob and "expected" in bob
    cleo = said.split("Cleo Pires\n")[1]
    assert cleo.count("line 17 raises ModuleNotFoundError") == 1 and "import statistic" in cleo
    for name in ("gradebook_canvas.csv", "gradebook_moodle.csv", "class.html"):
        assert name in page and (out / name).is_file()


def test_policy_of_the_guide_is_one() -> None:
    text, rubric = guide_blocks("toml")
    (task,) = policies.loads(rubric, manifest.load(ROOT)).by_hand
    assert (task.possible, list(task.criteria)) == (6, ["evidence", "next step"])
    policy = policies.loads(text, manifest.load(ROOT))
    assert policy.sandbox == "bubblewrap"
    assert policy.deadline is not None
    assert policy.deadline.at.isoformat(timespec="minutes") == DUE


@pytest.mark.concerns()
def test_guide_lists_the_points_that_can_be_forged() -> None:
    again = "uv run scripts/lessons.py --write docs/instructor-guide.md"
    told = claims.table(manifest.load(ROOT)) in GUIDE
    assert told, again


def test_guide_names_every_outcome() -> None:
    told = " ".join(GUIDE.split())
    for word in (*results.CAUSES, *results.OUTCOMES):
        assert re.search(rf"\b{word}\b", told), f"the guide does not say what {word!r} is"
    assert UNPROTECTED not in GUIDE, "these words are read where they are asked for"


# -- the whole course -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The class repository of the whole course; building it searches it for every reference."""
    folder = tmp_path_factory.mktemp("whole") / "class"
    return class_repo.build(manifest.load(ROOT), folder).folder


@pytest.mark.concerns()
def test_whole_course_leaves_answers_behind(whole: Path) -> None:
    course = manifest.load(ROOT)
    files = [file for file in whole.rglob("*") if file.is_file() and ".git" not in file.parts]
    assert not [f for f in files if "solutions" in f.parts or f.name.startswith("mistakes_")]
    assert len(answers.bodies(course)) > 400
    for exercise in course.exercises:
        for stub in exercise.stubs:
            assert (whole / stub).read_bytes() == (whole / ".stubs" / stub).read_bytes()
            for task in exercise.tasks:
                if task.stub == stub:
                    assert manifest.is_todo(task, whole), task.id
    # The search finds each file's reference when it is there.
    references = sorted((ROOT / "solutions").rglob("*.py"))
    found = {line.partition(": ")[0] for line in answers.found(course, references)}
    assert {str(file) for file in references} == found


def test_a_live_task_alone_is_checked_without_references(whole: Path) -> None:
    """What a kept live result rests on is asked of references only."""
    environment = {name: value for name, value in os.environ.items() if name != "CI"}
    command = [sys.executable, "-P", "-c", "from profiling_lab.cli import main; main()"]
    done = subprocess.run(
        [*command, "check", "ex_31.transpose_live"],
        cwd=whole,
        env=environment | {"PYTHONPATH": str(whole)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr  # it is not written yet
    assert "todo" in done.stdout and "Traceback" not in done.stdout + done.stderr


def test_no_page_of_the_whole_course_says_what_is_wrong_with_a_case(whole: Path) -> None:
    labels = tomllib.loads(
        (ROOT / "solutions" / "labs" / "case_files" / "cases.toml").read_text("utf-8")
    )
    lesson = (whole / "labs" / "case_files" / "README.md").read_text("utf-8")
    asked = re.findall(r"^\| `verdict_\w+` \| `(case_\w+)` \|", lesson, re.MULTILINE)
    assert len(asked) == 10
    told = set()
    for file in whole.rglob("*"):
        inside = file.relative_to(whole)
        if file.suffix not in (".md", ".json", ".toml", ".ipynb") or inside.parts[0] == ".git":
            continue
        text = file.read_text("utf-8")
        named = [case for case in asked if case in text]
        for line in text.splitlines():
            told |= {
                f"{inside}: {case}"
                for case in named
                if case in line and re.search(rf"\b{labels[case]['expect']}\b", line)
            }
    assert not told
    assert not list(whole.glob("benchmarks/results/tools_comparison*"))


def test_links_of_the_whole_course_lead_somewhere(whole: Path) -> None:
    broken = []
    for page in whole.rglob("*.md"):
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)\s]*)?\)", page.read_text("utf-8")):
            if "://" not in target and not (page.parent / target).exists():
                broken.append(f"{page.relative_to(whole)}: {target}")
    assert not broken


def run_there(folder: Path, *words: str) -> str:
    """Run a module of the class repository itself (its folder comes first in the path)."""
    done = subprocess.run(
        [sys.executable, "-m", *words], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_whole_course_works_there(whole: Path) -> None:
    course = manifest.load(ROOT)
    total = sum(exercise.points for exercise in course.exercises)
    assert f"0 of {total} points" in run_there(whole, "profiling_lab.cli")
    assert "stronger hint" in run_there(whole, "profiling_lab.cli", "hint", "ex_30.busy_time")
    assert f"0 of {total} points gradable here" in run_there(whole, "pytest", "-q")
    # The second reads what HolisticTraceAnalysis said, which is kept with the benchmarks.
    for task in ("energy_ex01.power_verdict", "torch_ex03.communication_overlap"):
        exercise = course.exercise(task)
        for stub in exercise.stubs:
            shutil.copy(course.solution(stub), whole / stub)
        points = course.task(task).points
        said = run_there(whole, "profiling_lab.cli", "check", task)
        assert f"{points} of {points} points gradable here" in said
        run_there(whole, "profiling_lab.cli", "reset", exercise.id, "--yes")
    assert git(whole, "status", "--porcelain") == ""


KEEPS_OUT = """\
#!/bin/bash
while [ "$1" != python ]; do shift; done; shift
PYTHON "$@"; code=$?
while [ "$1" != --out ]; do shift; done
cp -r "$2" KEPT
exit $code
"""


def test_autograder_grades_with_the_real_grader(tmp_path: Path) -> None:
    """The bundle's course is a class repository, so this is grading in one, too."""
    try:
        strongest()
    except SandboxUnavailable as why:
        raise NotGraded("not run", str(why)) from None
    course = manifest.load(ROOT)
    root = tmp_path / "autograder"
    gradescope.build(course, tmp_path / "bundle.zip", exercises=["energy_ex01", "scaling_ex01"])
    with zipfile.ZipFile(tmp_path / "bundle.zip") as archive:
        archive.extractall(root / "source")
    (stub,) = course.exercise("energy_ex01").stubs
    work = root / "submission" / stub
    work.parent.mkdir(parents=True)
    shutil.copy(course.solution(stub), work)
    uv = root / "uv" / "bin" / "uv"
    uv.parent.mkdir(parents=True)
    kept = tmp_path / "kept"
    uv.write_text(KEEPS_OUT.replace("PYTHON", sys.executable).replace("KEPT", str(kept)))
    uv.chmod(0o755)
    environment = os.environ | {"AUTOGRADER_ROOT": str(root)}
    script = root / "source" / "run_autograder"
    subprocess.run([sys.executable, script], env=environment, cwd=root, check=True)
    told = json.loads((root / "results" / "results.json").read_text())
    points = [course.exercise(name).points for name in ("energy_ex01", "scaling_ex01")]
    assert told["score"] == points[0], told
    assert told["extra_data"]["out_of"] == str(sum(points))
    assert not told["extra_data"]["incomplete"]
    # What the guide says that a graded folder holds.
    table = GUIDE.partition("What is in the folder:")[2].partition("\n\n")[2].partition("\n\n")[0]
    files = {re.sub(r"(?<=/)submission\b", "NAME", str(file)) for file in walk(kept)}
    for first in re.findall(r"^\| `([\w./]+)`", table, re.MULTILINE):
        sometimes = {"unmatched.csv", "changes.csv", "returned_canvas.zip", "returned_moodle.zip"}
        assert first in files | sometimes, f"the guide names {first}, which is not written"


def walk(folder: Path) -> list[Path]:
    return [file.relative_to(folder) for file in folder.rglob("*") if file.is_file()]
