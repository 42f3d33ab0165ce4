"""The week fits a week: each core, held against its bounds.

`uv run python -m grading.proof.yardstick ID` shows the figures.
"""

from __future__ import annotations

import re
import statistics
from pathlib import Path

import pytest

from grading.proof import yardstick
from profiling_lab.course import manifest
from profiling_lab.reports.progress import CHECKLIST

pytestmark = pytest.mark.proof  # it measures the references
ROOT = Path(__file__).resolve().parents[2]
COURSE = manifest.load(ROOT)
# Most of their time is reading recordings and tuning a kernel, which the yardstick does not count.
NOT_WRITTEN = ("case_files", "triton_ex07")
DAYS = {"ex_30": 240, "ex_31": 240, "ex_32": 240, "ex_33": 240, "ex_34": 180}  # minutes at most
MODULE_MIN = 120
# Lab 05 keeps the five functions of its sources in one loop (time, take apart, explain, change, measure again).
LABS = {"lab05": 230, "lab05_techniques": 150, "lab05_jax": 125}
DAY_POINTS = 60
FIRST_REPAIR_MIN = 60
CONTRACT_MEDIAN, CONTRACT_LONGEST = 120, 170  # words, without the worked example
# What the week promises (week07/README.md), and the core tasks that show it.
OBJECTIVES = {
    "Profile a GPU program with Nsight Systems, and a kernel with Nsight Compute.": (
        "ex_30.nsys_command",
        "ex_31.choose_counters",
    ),
    "Profile a model with the PyTorch profiler.": (
        "ex_32.profile_steps",
        "ex_32.synchronizing_calls",
    ),
    "Say what limits a program or a kernel, with numbers that prove it.": (
        "ex_30.name_bottleneck",
        "ex_31.classify_kernel",
        "ex_33.classify_bound",
    ),
    "Choose the optimization that the evidence supports, and recognise when there is nothing to gain.": (
        "ex_31.transpose_block",
        "ex_33.choose_optimization",
        "ex_34.evidence_verdict",
    ),
    "Analyse the latency of a whole inference pipeline, and balance it against throughput.": (
        "ex_34.latency_from_intended",
        "ex_34.best_batch",
    ),
}


def at_most(key: str, found: float, bound: float, unit: str) -> None:
    """Hold a figure against its bound."""
    assert found <= bound, f"{key}: {found:g} {unit}, at most {bound:g}"


@pytest.mark.parametrize("identifier", DAYS)
def test_a_day_has_its_points_and_half_of_them_for_thinking(identifier):
    tasks = yardstick.core(COURSE.exercise(identifier))
    points = sum(task.points for task in tasks)
    thinking = sum(task.points for task in tasks if task.asks in yardstick.THINKING)
    assert points == DAY_POINTS
    assert thinking >= DAY_POINTS / 2, f"{thinking} points to choose, predict, repair or derive"


@pytest.mark.parametrize(
    ("identifier", "minutes"),
    [
        *DAYS.items(),
        *LABS.items(),
        *((e.id, MODULE_MIN) for e in COURSE.exercises if e.folder.parts[0] == "modules"),
    ],
)
def test_the_core_fits_its_time(identifier, minutes):
    at_most("minutes", COURSE.exercise(identifier).minutes, minutes, "min")


@pytest.mark.parametrize(
    "exercise",
    [e for e in COURSE.exercises if e.id not in NOT_WRITTEN],
    ids=lambda e: e.id,
)
def test_the_stated_minutes_are_near_the_yardstick(exercise):
    found = yardstick.TRIED * yardstick.measure(COURSE, exercise).minutes
    assert 0.75 * exercise.minutes <= found <= 1.25 * exercise.minutes, f"{found:.0f} minutes"


@pytest.mark.parametrize("identifier", DAYS)
def test_the_first_repair_comes_within_the_first_hour(identifier):
    """Of Day 4, whose core derives and predicts, there is none."""
    minutes = yardstick.before_repair(COURSE, COURSE.exercise(identifier))
    assert (minutes is None) == (identifier == "ex_33"), "no repair in the lesson's core"
    if minutes is not None:
        at_most("first_repair", round(minutes), FIRST_REPAIR_MIN, "min")


@pytest.mark.parametrize("identifier", [*DAYS, *LABS])
def test_contracts_are_short_and_have_an_example(identifier):
    found = yardstick.contracts(COURSE, COURSE.exercise(identifier))
    lengths = {name: contract.words for name, contract in found.items()}
    median = statistics.median(lengths.values())
    at_most("contract_median", median, CONTRACT_MEDIAN, "words")
    longest = max(lengths, key=lengths.__getitem__)
    unit = f"words ({longest})"
    at_most("contract_longest", lengths[longest], CONTRACT_LONGEST, unit)
    without = [name for name, contract in found.items() if not contract.has_example]
    assert not without, f"no_example: {without}"


@pytest.mark.parametrize("identifier", DAYS)
def test_one_task_is_about_bad_input_and_no_other(identifier):
    exercise = COURSE.exercise(identifier)
    found = yardstick.checks_of_bad_input(COURSE, exercise)
    if not any(task.name == "refuses_bad_input" for task in yardstick.core(exercise)):
        found.append("no task refuses_bad_input")
    assert not found, f"bad_input: {found}"


@pytest.mark.parametrize("exercise", COURSE.exercises, ids=lambda exercise: exercise.id)
def test_no_core_reference_calls_a_further_task(exercise):
    found = yardstick.calls_of_further(COURSE, exercise)
    assert not found, f"calls_further: {found}"


@pytest.mark.parametrize("exercise", COURSE.exercises, ids=lambda exercise: exercise.id)
def test_further_tasks_stand_apart_in_the_lesson(exercise):
    """Each behind the heading `## Further`, each core task before it; but where all is further."""
    if not yardstick.core(exercise):
        return
    text = COURSE.lesson(exercise).read_text(encoding="utf-8")
    before = yardstick.core_text(text)
    behind = text[len(before) :]
    found = []
    for task in exercise.tasks:
        here, elsewhere = (behind, before) if task.further else (before, behind)
        command = rf"lab check {task.id}\b"
        if (re.search(command, elsewhere) and not task.live) or (
            task.further and not re.search(rf"\b{task.name}\b", here)
        ):
            found.append(task.name)
    assert not found, f"not_apart: {found}"


def test_every_objective_and_every_line_of_the_checklist_has_a_core_task():
    readme = (ROOT / "week07/README.md").read_text(encoding="utf-8")
    section = readme.partition("## What you will be able to do")[2].partition("\n## ")[0]
    assert re.findall(r"^- (.+)$", section, re.MULTILINE) == list(OBJECTIVES)
    checklist = dict(CHECKLIST)
    assert any("healthy" in line for line in checklist)
    for line, tasks in {**OBJECTIVES, **checklist}.items():
        assert tasks, line
        for task in tasks:
            assert COURSE.task(task).core, f"{line}: {task} is no core task"
            assert task.split(".")[0] in DAYS, f"{line}: {task} is no task of the week"


def test_a_yardstick_measures_what_is_written(tmp_path):
    """The parts of the measure, on a small exercise."""
    assert yardstick.words_in("Two words, <!-- none --> [a link](https://example.org/x) | – |") == 4
    assert yardstick.core_text("a\n## Further\nb") == "a\n"
    source = (
        "def _help(x):\n    return x\n\n\ndef task(x):\n    '''Says.'''\n    y = (\n        _help(x)\n    )\n"
        "    return y\n\n\ndef other(x):\n    return x\n"
    )
    names = yardstick._written(source, {"task"})
    assert names == {"task", "_help"}
    assert yardstick._lines_of_statements(source, names) == {1, 2, 7, 10}
