"""The judge of one exercise, over runs of checks that are made up here; real ones are in the proof."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from grading.grader import judge
from grading.grader.intake.submissions import Submission
from grading.grader.judge import Judge
from grading.grader.verdicts import without_folders
from grading.runner.forkserver import TIMED_OUT, Job
from grading.runner.forkserver import Result as Run
from grading.runner.results import Result
from profiling_lab.course import manifest

pytestmark = pytest.mark.proof  # it is the grader's

COURSE = manifest.load(Path(__file__).resolve().parents[2])
EXERCISE = COURSE.exercise("scaling_ex01")


class MadeUp:
    """A judge whose checks end as `ends` says of each run: an exit code, or the messages of all checks."""

    def __init__(self, folder: Path, ends: Callable[[Path], int | str]) -> None:
        self.judge = Judge(COURSE, seed=1)
        nowhere = SimpleNamespace(address="nowhere")
        self.judge.sandbox = lambda _: contextlib.nullcontext(nowhere)  # type: ignore[assignment]
        self.judge._scratch = folder / "scratch"
        self.judge._server = SimpleNamespace(run=self.run)  # type: ignore[assignment]
        self.tree = folder / "ada"
        (self.tree / EXERCISE.stub).parent.mkdir(parents=True)
        (self.tree / EXERCISE.stub).write_text("mine = 1\n")
        (self.judge._scratch / "exchange").mkdir(parents=True)
        self.ends = ends
        self.trees: list[Path] = []

    def run(self, job: Job) -> Run:
        own = dict(option.split("=", 1) for option in job.own)
        self.trees.append(Path(own["--against"]))
        end = self.ends(self.trees[-1])
        if isinstance(end, str):
            outcome = "infrastructure" if "sandbox" in end else "failed"
            end = end.format(seen=Path(own["--basetemp"]).parent, unit=job.env["TMPDIR"])
            bound = {
                task.id: [
                    {"name": name, "outcome": outcome, "message": end}
                    for name, to in manifest.checks_in(COURSE.checks(task.stub))
                    if to == task.id
                ]
                for task in EXERCISE.tasks
            }
            tasks = {name: {"checks": checks} for name, checks in bound.items()}
            Path(own["--score-json"]).write_text(json.dumps({"tasks": tasks}))
            end = 1
        return Run(end, 0.1, "the last line")

    def grade(self) -> Result:
        states = dict.fromkeys(map(str, EXERCISE.stubs), "submitted")
        return self.judge.grade(Submission("ada", self.tree, "", states), EXERCISE)


def told(result: Result) -> set[Any]:
    return {(t.outcome, t.cause, t.earned) for t in result.tasks.values()}


@pytest.mark.parametrize(("code", "cause", "runs"), [(-11, "crash", 3), (TIMED_OUT, "time-out", 2)])
def test_a_submission_that_makes_its_checks_die_has_itself_to_thank(
    tmp_path: Path, code: int, cause: str, runs: int
) -> None:
    made = MadeUp(tmp_path, lambda tree: code if tree == tmp_path / "ada" else "as it should be")
    result = made.grade()
    assert told(result) == {("error", cause, 0)}
    assert result.infrastructure == ""
    assert len(made.trees) == runs
    message = result.tasks[EXERCISE.tasks[0].id].checks[0].message
    assert "while they judged this, and they do not with the file as handed out" in message


@pytest.mark.parametrize("code", [-9, TIMED_OUT])
def test_checks_that_die_whatever_they_judge_are_infrastructure(tmp_path: Path, code: int) -> None:
    assert MadeUp(tmp_path, lambda tree: code).grade().infrastructure


def test_checks_that_die_once_or_are_asked_to_are_infrastructure(tmp_path: Path) -> None:
    ends = iter([-9])
    once = MadeUp(tmp_path / "once", lambda tree: next(ends, "now they end well"))
    assert once.grade().infrastructure == "the checks were ended by signal 9"
    asked = MadeUp(tmp_path / "asked", lambda tree: -15)
    assert asked.grade().infrastructure == "the checks were ended by signal 15"
    assert len(asked.trees) == 1
    other = MadeUp(tmp_path / "other", lambda tree: 3)
    assert other.grade().infrastructure == "the checks ended with exit code 3: the last line"


def test_who_breaks_the_sandbox_twice_where_the_reference_does_not_has_itself_to_thank(
    tmp_path: Path,
) -> None:
    ada = tmp_path / "ada"
    made = MadeUp(tmp_path, lambda tree: "the sandbox has ended" if tree == ada else "fine")
    result = made.grade()
    assert told(result) == {("error", "crash", 0)}
    assert result.infrastructure == ""
    assert made.trees == [ada, ada, COURSE.root / "solutions"]


def test_a_sandbox_that_breaks_once_or_for_all_is_infrastructure(tmp_path: Path) -> None:
    ends = iter(["the sandbox has ended"])
    once = MadeUp(tmp_path / "once", lambda tree: next(ends, "now it is there"))
    assert once.grade().infrastructure == ""
    always = MadeUp(tmp_path / "always", lambda tree: "the sandbox has ended")
    assert always.grade().infrastructure == "the sandbox has ended"


def test_a_sandbox_that_has_given_up_is_opened_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = []

    def open_sandbox(*_: Any, **__: Any) -> SimpleNamespace:
        opened.append(SimpleNamespace(address="here", is_open=True, close=lambda: None))
        return opened[-1]

    monkeypatch.setattr(judge, "open_sandbox", open_sandbox)
    made = MadeUp(tmp_path, lambda tree: "fine")
    del made.judge.sandbox  # the made-up one
    for count in (1, 1, 2):
        assert made.grade().infrastructure == ""
        assert len(opened) == count
        opened[0].is_open = len(made.trees) < 2


def test_messages_hold_no_paths_of_this_machine(tmp_path: Path) -> None:
    text = (
        f"{tmp_path}/ada/week07/a.py and {COURSE.root}/captures/b, '{{seen}}/test_a0/c.sqlite' or "
        f"{tmp_path}/scratch/cuda/d, {{unit}}/e"
    )
    result = MadeUp(tmp_path, lambda tree: text).grade()
    messages = {check.message for task in result.tasks.values() for check in task.checks}
    assert messages == {"week07/a.py and captures/b, 'test_a0/c.sqlite' or cuda/d, e"}
    course = Path("/course")
    said = "graded/.work/1/week07/a.py, ./app and /course/week07/b.py"
    assert without_folders([course / "graded/.work/1", course], said, course) == (
        "week07/a.py, ./app and week07/b.py"
    )


def test_private_recordings_are_copied_to_where_one_run_sees_one_of_them(tmp_path: Path) -> None:
    cases = tmp_path / "cases"
    for name in ("late/baseline.json", "early/baseline.json"):
        (cases / EXERCISE.id / name).parent.mkdir(parents=True)
        (cases / EXERCISE.id / name).write_text(name)
    made = MadeUp(tmp_path, lambda tree: "as it should be")
    made.judge.cases = cases
    exchange = tmp_path / "scratch" / "exchange"
    made.judge._copy_private_captures(exchange / "cases")
    argv = [arguments[-1] for arguments in made.judge._private_runs(EXERCISE)]
    folder = exchange / "cases" / EXERCISE.id
    assert argv == [f"--recording={folder}/early", f"--recording={folder}/late"]
    assert (folder / "late" / "baseline.json").read_text() == "late/baseline.json"
