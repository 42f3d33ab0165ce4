"""The proof of the course: every check is itself checked.

For each exercise: the generated stub is todo, the reference passes, each mistake fails with the
message meant for it, and the grader's verdicts, with the code in the sandbox, are the same.
"""

from __future__ import annotations

import ast
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from grading.proof import live_results, mutation
from grading.proof.background_runs import mistakes_of
from grading.proof.prove import Run
from grading.runner.results import Result
from grading.runner.scoring import NotGraded
from grading.runner.session import bound_checks
from profiling_lab import needs
from profiling_lab.course import manifest, mistakes, stubs
from profiling_lab.course.doctor import capabilities

ROOT = Path(__file__).resolve().parents[2]
COURSE = manifest.load(ROOT)
EXERCISES = {exercise.id: exercise for exercise in COURSE.exercises}
MISTAKES = mistakes_of(COURSE)

# In a process of its own a mistake takes twice the time, and the same way as the others: every fifth
# stands for them. A compiled source is never imported.
ISOLATED = [name for name, (_, stub, _) in MISTAKES.items() if stub.suffix == ".py"][::5]

each_exercise = pytest.mark.parametrize("identifier", EXERCISES)
each_mistake = pytest.mark.parametrize("name", MISTAKES)


def not_run(exercise: manifest.Exercise, what: str) -> NotGraded:
    """A verdict that nobody could give here, for want of what tasks of the exercise need."""
    asked = {need for task in exercise.tasks if not task.live for need in task.needs}
    missing = asked - capabilities()
    return NotGraded("not run", f"{what} cannot be run on this machine", missing=missing)


@pytest.mark.concerns("identifier")
@pytest.mark.proof
@pytest.mark.background("reference")
@each_exercise
def test_reference_earns_every_point(identifier: str, background: Callable[..., Any]) -> None:
    run: Run = background("reference", identifier)
    exercise = EXERCISES[identifier]
    assert set(run.tasks) == {task.id for task in exercise.tasks}, run.output
    lost = {
        name: result
        for name, result in run.tasks.items()
        if result["outcome"] not in ("passed", "not run")
    }
    assert not lost, run.output
    partly = not_run(exercise, f"all of {identifier}")
    if any(map(needs.group, partly.missing)):
        raise partly


@pytest.mark.concerns("identifier")
@pytest.mark.proof
@pytest.mark.background("stub")
@each_exercise
def test_generated_stub_is_todo(identifier: str, background: Callable[..., Any]) -> None:
    run: Run = background("stub", identifier)
    assert run.exit_code == 0, run.output
    assert set(run.outcomes().values()) == {"todo"}, run.outcomes()
    assert all(result["earned"] == 0 for result in run.tasks.values())


@pytest.mark.concerns("identifier")
@each_exercise
def test_stub_in_place_is_the_generated_one(identifier: str) -> None:
    for path, text in stubs.generate(COURSE, EXERCISES[identifier]).items():
        same = path.is_file() and path.read_text(encoding="utf-8") == text
        if not same and os.environ.get("CI"):
            pytest.fail(f"{path} differs: uv run lab dev stub {identifier}")


@pytest.mark.concerns("name")
@pytest.mark.proof
@pytest.mark.background("mistake")
@each_mistake
def test_mistake_is_caught(name: str, background: Callable[..., Any]) -> None:
    expect_caught(name, background("mistake", name))


@pytest.mark.concerns("identifier")
@pytest.mark.proof
@pytest.mark.background("graded", "reference")
@each_exercise
def test_graders_verdicts_are_identical(identifier: str, background: Callable[..., Any]) -> None:
    graded, of_stub = background("graded", identifier)
    plain: Run = background("reference", identifier)
    assert graded.infrastructure == ""
    assert outcomes_of(graded) == plain.outcomes()
    assert {name: task.earned for name, task in graded.tasks.items()} == {
        name: task["earned"] for name, task in plain.tasks.items()
    }
    assert set(outcomes_of(of_stub).values()) == {"todo"}, of_stub


def expect_caught(name: str, verdict: str) -> None:
    if verdict == "not run":
        raise not_run(MISTAKES[name][0], name)
    assert not verdict, verdict


def outcomes_of(graded: Result) -> dict[str, str]:
    """Outcome of every check, as `Run.outcomes` gives it."""
    return {
        f"{name}::{check.name}": check.outcome
        for name, task in graded.tasks.items()
        for check in task.checks
    }


@pytest.mark.concerns("name")
@pytest.mark.proof
@pytest.mark.background("isolated mistake")
@pytest.mark.parametrize("name", ISOLATED)
def test_isolated_mistake_is_caught(name: str, background: Callable[..., Any]) -> None:
    expect_caught(name, background("isolated mistake", name))


@pytest.mark.concerns("identifier")
@each_exercise
def test_every_task_has_checks_mistakes_and_hints(identifier: str) -> None:
    exercise = EXERCISES[identifier]
    hints = COURSE.hints(exercise).read_text(encoding="utf-8")
    caught_by = [
        m.caught_by.split("[")[0] for s in exercise.stubs for m in mistakes.read(COURSE, s)
    ]
    for task in exercise.tasks:
        checks = bound_checks(COURSE.checks(task.stub), task.id)
        assert checks, f"{task.id} has no check"
        section = re.search(rf"^## {task.name}\n(.*?)(?=^## |\Z)", hints, re.DOTALL | re.MULTILINE)
        assert section, f"hints.md has no section for {task.id}"
        assert section[1].count("### ") >= 2, f"the hints for {task.id} have fewer than two steps"
        assert "```" not in section[1], f"the hints for {task.id} hold code"
        if not task.live:
            count = sum(name in checks for name in caught_by)
            assert count >= 2, f"{task.id}: its checks catch {count} mistakes, two are needed"
    assert COURSE.lesson(exercise).is_file()


@pytest.mark.proof
@each_exercise
def test_no_mutant_survives_unexplained(identifier: str) -> None:
    exercise = EXERCISES[identifier]
    file = mutation.result_file(COURSE, exercise)
    again = f"run: uv run --group authors python -m grading.proof.mutation {identifier} --changed"
    assert file.is_file(), again
    result = json.loads(file.read_text(encoding="utf-8"))
    stale = mutation.is_stale(COURSE, exercise)
    changed = mutation.changed(COURSE, exercise, result) if stale else []
    assert not changed, f"{file} is of earlier {', '.join(changed)} or their checks; {again}"
    explained = mutation.equivalents(COURSE, exercise)
    assert set(result["survivors"].values()) <= set(explained), result["survivors"]
    assert all(len(reason) > 20 for reason in explained.values())
    if stale:
        # What all checks share is proven by all their mistakes, here and now; so this is said and does not fail.
        raise NotGraded("not run", f"{file}: of earlier code that checks share; {again}")


@pytest.mark.concerns("identifier")
@pytest.mark.proof
@each_exercise
def test_live_result_is_of_the_present_references(identifier: str) -> None:
    exercise = EXERCISES[identifier]
    tasks = [task for task in exercise.tasks if task.live]
    if not tasks:
        return
    kept = json.loads((ROOT / live_results.FILE).read_text(encoding="utf-8"))
    earned = {task.id: kept["tasks"].get(task.id, {}).get("outcome") for task in tasks}
    assert set(earned.values()) <= {"passed", None}, earned
    if new := [name for name, outcome in earned.items() if outcome is None]:
        # Only a machine with a GPU can run them, so this is said and does not fail.
        raise NotGraded("not run", f"{live_results.FILE}: {', '.join(new)}: not yet run on a GPU")
    assert kept["live_run"]["gpus"], "the kept live result names no GPU"
    if stale := [task.id for task in live_results.stale(COURSE, kept, [exercise])]:
        # Only a machine with a GPU can make it new, so this is said and does not fail.
        raise NotGraded(
            "not run",
            f"{live_results.FILE}: {', '.join(stale)}: of an earlier reference or check; see grading.proof.live_results",
        )


@pytest.mark.concerns("identifier")
@each_exercise
def test_every_check_is_bound_and_only_checks_are_there(identifier: str) -> None:
    exercise = EXERCISES[identifier]
    known = {task.id for task in exercise.tasks}
    for stub in exercise.stubs:
        file = COURSE.checks(stub)
        functions = {
            node.name
            for node in ast.parse(file.read_text(encoding="utf-8")).body
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
        }
        bound = set().union(*(bound_checks(file, identifier) for identifier in known))
        assert functions == bound, f"{file}: not bound to a task: {sorted(functions - bound)}"
