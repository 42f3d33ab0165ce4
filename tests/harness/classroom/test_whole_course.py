"""A class repository of the whole course."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path, PurePosixPath

import pytest

from grading.classroom import answers, class_repo
from profiling_lab.course import manifest, mistakes
from tests.harness.classroom.small_course import git

# It is instructors who hand out.
pytestmark = [pytest.mark.proof, pytest.mark.needs("tomlkit", "yaml")]

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The class repository of the whole course; building it searches it for every reference."""
    folder = tmp_path_factory.mktemp("whole") / "class"
    return class_repo.build(manifest.load(ROOT), folder).folder


DIVE = PurePosixPath("week07/day5_end_to_end/deep_dive.py")


def dive_checked(whole: Path, text: str) -> str:
    """What pytest says there of a deep dive."""
    (whole / DIVE).write_text(text)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "tests/week07/day5_end_to_end/test_deep_dive.py",
    ]
    done = subprocess.run(command, cwd=whole, capture_output=True, text=True, check=False)
    return done.stdout.replace("\nE     ", " ")


def test_deep_dive_is_checked_without_references(whole: Path) -> None:
    """As far as it can be, and never with points: what the course's functions say only the grader knows."""
    course = manifest.load(ROOT)
    text = course.solution(DIVE).read_text()
    others = [course.exercise(number).stub for number in ("ex_30", "ex_34")]
    try:
        said = " ".join(dive_checked(whole, text).split())
        assert "not run 0 of 11 points 5/7 checks" in said
        assert "6 of 11 numbers of the evidence agree" in said
        assert "No answer yet for E7: utilization is still to do (ex_30.utilization)" in said
        for stub in others:
            shutil.copy(course.solution(stub), whole / stub)
        said = " ".join(dive_checked(whole, text).split())
        assert "not run 0 of 11 points 5/7 checks" in said
        assert "11 of 11 numbers of the evidence agree" in said
        assert "what your own ex_34.evidence_verdict returns" in said
        # One for each check: the proof plants all of them.
        for mistake in {one.caught_by: one for one in mistakes.read(course, DIVE)}.values():
            said = dive_checked(whole, mistake.source)
            assert mistake.says in said and mistake.caught_by in said, (mistake.slug, said)
            assert "0 of 11 points" in said
        wrong = text.replace("10.7 % [E7]", "11.7 % [E7]")
        said = dive_checked(whole, wrong)
        assert "your own ex_30.utilization(capture='decode_eager')[0] gives 10.7" in said
    finally:
        for stub in (DIVE, *others):
            shutil.copy(whole / ".stubs" / stub, whole / stub)


@pytest.mark.concerns()
def test_whole_course_leaves_answers_behind(whole: Path) -> None:
    course = manifest.load(ROOT)
    files = [file for file in whole.rglob("*") if file.is_file() and ".git" not in file.parts]
    assert not [f for f in files if "solutions" in f.parts or f.name.startswith("mistakes_")]
    assert not [file for file in whole.rglob("tests/**/*.py") if answers.rests_on_references(file)]
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
    for task in ("energy_ex01.phase_energy", "torch_ex03.communication_overlap"):
        exercise = course.exercise(task)
        for stub in exercise.stubs:
            shutil.copy(course.solution(stub), whole / stub)
        points = course.task(task).points
        said = run_there(whole, "profiling_lab.cli", "check", task)
        assert f"{points} of {points} points gradable here" in said
        run_there(whole, "profiling_lab.cli", "reset", exercise.id, "--yes")
    assert git(whole, "status", "--porcelain") == ""
