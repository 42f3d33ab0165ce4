"""The autograder of Gradescope."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from grading.classroom import class_repo, gradescope
from grading.cli import UNPROTECTED
from grading.errors import SandboxUnavailable
from grading.grader.sandbox import strongest
from grading.runner.scoring import NotGraded
from profiling_lab.course import manifest
from profiling_lab.errors import LabError
from tests.harness.classroom.small_course import STUB

# It is instructors who hand out.
pytestmark = [pytest.mark.proof, pytest.mark.needs("tomlkit", "yaml")]

ROOT = Path(__file__).resolve().parents[3]


# -- the instructor guide ---------------------------------------------------------------------------------

GUIDE = (ROOT / "docs" / "instructor-guide.md").read_text(encoding="utf-8")


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
