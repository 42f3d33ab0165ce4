"""A class repository: `lab` works there, and updates reach learners."""

from __future__ import annotations

from pathlib import Path

import pytest

from grading.classroom import class_repo, github
from profiling_lab.course import manifest
from profiling_lab.errors import LabError
from tests.harness.classroom.small_course import CHECKS, DUE, REFERENCE, STUB, git, run_lab, solve

# It is instructors who hand out.
pytestmark = [pytest.mark.proof, pytest.mark.needs("tomlkit", "yaml")]


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
    assert "no reference among them" in capfd.readouterr().out
    assert (place / STUB).is_file()
    assert run_lab(course.root, "dev", "class-repo", str(place)).exit_code == 2
    assert "not empty" in capfd.readouterr().err
