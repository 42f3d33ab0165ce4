"""A policy means what it says, exactly, and says where it is wrong."""

from __future__ import annotations

from datetime import datetime
from fractions import Fraction

import pytest

from grading.gradebook import policy as policies
from grading.gradebook.marks import Sheet, Survey, mark_student
from grading.gradebook.policy import Policy, PolicyError
from grading.runner import results
from grading.runner.results import Check, Key, Result
from profiling_lab.course import manifest

COURSE = manifest.load()
EX_30 = COURSE.exercise("ex_30")
DEADLINE = """
[deadline]
at = 2026-11-30T23:59:00+01:00
grace_minutes = 15
per_day_pct = 10
at_most_pct = 35
cut_off_days = 7
[deadline.extensions]
"Ada@Example.edu" = 2026-12-04T23:59:00+01:00
grace = 3
"""
DUE_S = datetime.fromisoformat("2026-11-30T23:59:00+01:00").timestamp()
DAY_S = 24 * 60 * 60


def read(text: str) -> Policy:
    return policies.loads(text, COURSE)


def result(exercise=EX_30, outcome="passed", **other) -> Result:
    """A result whose tasks all have one outcome; `other` names those that have another."""
    tasks = {}
    for task in exercise.tasks:
        one = other.get(task.name, "not run" if task.live else outcome)
        earned = task.points if one == "passed" else 0
        checks = [Check("test_it", one)]
        tasks[task.id] = results.Task(one, task.points, earned, task.live, task.trust, "", checks)
    return Result("ada", exercise.id, Key("", "", "", 0), tasks)


def marked(policy: Policy, *found: Result, exercises=(EX_30,), late=None):
    survey = Survey()
    for one in found:
        survey.add(one)
    sheet = Sheet(tuple(exercises), policy, survey)
    return mark_student("ada", {one.exercise: one for one in found}, sheet, late)


FURTHER = sum(task.points for task in EX_30.tasks if task.further)
NO_FURTHER = {task.name: "todo" for task in EX_30.tasks if task.further}


@pytest.mark.parametrize(
    ("further", "out_of", "all_passed", "core_passed", "one_core_lost", "all_but_further_lost"),
    [
        ("apart", EX_30.points, EX_30.points, EX_30.points, EX_30.points - 5, 0),
        ("bonus", EX_30.points, EX_30.points, EX_30.points, EX_30.points, FURTHER),
        (
            *("count", EX_30.points + FURTHER, EX_30.points + FURTHER, EX_30.points),
            *(EX_30.points + FURTHER - 5, FURTHER),
        ),
    ],
)
def test_further_tasks_count_as_the_policy_says(
    further, out_of, all_passed, core_passed, one_core_lost, all_but_further_lost
):
    policy = read(f"[score]\nfurther = '{further}'")
    lost = {task.name: "failed" for task in EX_30.tasks if task.core}
    assert COURSE.task("ex_30.busy_time").points == 5 < FURTHER < EX_30.points
    for other, after in (
        ({}, all_passed),
        (NO_FURTHER, core_passed),
        ({"busy_time": "failed"}, one_core_lost),
        (lost, all_but_further_lost),
    ):
        mark = marked(policy, result(**other))
        assert (mark.after, mark.out_of) == (after, out_of)
        assert mark.further_possible == FURTHER
    assert marked(policy, result(**NO_FURTHER)).further_earned == 0


def test_an_exercises_weight_is_shared_among_its_core():
    policy = read("[weights]\nex_30 = 30")
    mark = marked(policy, result(**NO_FURTHER))
    assert mark.after == mark.out_of == 30


# -- reading ------------------------------------------------------------------------------------------


def test_the_example_is_the_default_policy():
    made = read(policies.example(COURSE))
    assert made == Policy(source="policy.toml")


def test_every_line_of_the_example_can_be_taken_in():
    """Without its comment signs the example is a policy that uses every key."""
    lines = []
    for line in policies.example(COURSE).splitlines():
        bare = line[2:] if line.startswith("# ") else line
        if bare.startswith("[") or " = " in bare.split("#")[0]:
            lines.append(bare)
    made = read("\n".join(lines))
    assert made.total == 100 and made.deadline is not None and made.private_weight is not None
    assert made.canvas.total and made.moodle.exercises and made.deadline.extensions["grace"] == 3


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[score\n", "policy.toml: .*line 1"),
        ("[scores]\n", r"line 1: scores: no such key \(did you mean score\?\)"),
        ("[score]\ntotl = 3", r"line 2: score.totl: .*did you mean total\?"),
        ("[score]\ntotal = 0", "line 2: score.total: must be above 0"),
        ("[score]\ntotal = '9'", "not a number"),
        ("[score]\ntotal = true", "not a number"),
        ("[score]\ntotal = nan", "not a number"),
        ("[score]\ntotal = 1e999999999", "too large or too small"),
        ("[score]\nrounding = 'up'", 'allowed: "half up", "half even"'),
        ("[score]\ncount_claims = 1", "allowed: true, false"),
        ("[score]\ndecimals = 7", "from 0 to 6"),
        ("[score]\nfurther = 'yes'", 'allowed: "apart", "bonus", "count"'),
        ("[score]\ndrop_lowest = 1", "needs score.total"),
        ("[score]\ntotal = 9\ndrop_lowest = 999", r"from 0 to \d+"),
        ("score = 3", "must be a table"),
        ("[weights]\nex_3 = 1", r"'ex_3' is no exercise \(did you mean ex_3"),
        ("[weights]\nex_30.busytime = 1", r"no task \(did you mean ex_30.busy_time\?\)"),
        ("[weights]\n'ex_30.busy_time' = -1", "allowed: 0 or more"),
        ("[weights]\nothers = 2", 'allowed: "points", 0'),
        ("[deadline]\nat = 2026-11-30", "line 2: deadline.at: has no time zone"),
        ("[deadline]\nat = 2026-11-30T10:00:00", "has no time zone"),
        ("[deadline]\nat = 'noon'", "not a point in time"),
        ("[deadline]\nper_day_pct = 10", "needs `at`"),
        ("[deadline]\nat = 2026-11-30T10:00:00Z\nper_day_pct = 101", "from 0 to 100"),
        ("[deadline]\nat = 2026-11-30T10:00:00Z\n[deadline.extensions]\nada = 0", "line 4: .*days"),
        ("[hidden]\ntasks = ['ex_30.nothing']", "is no task"),
        ("[hidden]\ntasks = 'ex_30'", "must be a list"),
        ("[hidden]\nchecks = ['test_nothing_like_it']", "is the name of no check"),
        ("[private]\nweight = 1.5", "from 0 to 1"),
        ("[sandbox]\nrequire = 'docker'", 'allowed: "any", "namespaces", "bubblewrap"'),
        ("[canvas]\ntotal = 'Final Score of it (3)'", "Canvas ignores such a column"),
        ("[canvas]\ntotal = 'a'\n[canvas.exercises]\nex_30 = 'a'", "two columns are called 'a'"),
        ("[canvas]\nout_of = 3", "no such key"),
        ("[moodle]\nout_of = 0", "must be above 0"),
    ],
)
def test_a_mistake_is_named_with_its_place_and_what_is_allowed(text, says):
    with pytest.raises(PolicyError, match=says):
        read(text)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(PolicyError, match="no such policy file"):
        policies.load(tmp_path / "none.toml", COURSE)
    bad = tmp_path / "bad.toml"
    bad.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(PolicyError, match="UTF-8"):
        policies.load(bad, COURSE)
    with pytest.raises(PolicyError, match="cannot be read"):
        policies.load(tmp_path, COURSE)
    bad.write_text("a = " + "[" * 100_000)
    with pytest.raises(PolicyError):
        policies.load(bad, COURSE)


def test_hidden_names_tasks_whole_exercises_and_checks():
    check, task = manifest.checks_in(COURSE.checks(EX_30.stub))[0]
    made = read(
        f"[hidden]\ntasks = ['ex_31', 'ex_32.{COURSE.exercise('ex_32').tasks[0].name}']\n"
        f"checks = ['{check[:-1]}*']"
    )
    assert made.hides("ex_31.transpose", "test_anything")
    assert made.hides(task, f"{check}[recording]")
    assert not made.hides("ex_33.roofs", "test_anything")


def test_sandboxes_are_ordered():
    assert Policy().accepts_sandbox("none")
    assert not Policy(sandbox="namespaces").accepts_sandbox("none")
    assert Policy(sandbox="namespaces").accepts_sandbox("bubblewrap")
    assert not Policy(sandbox="bubblewrap").accepts_sandbox("namespaces")


# -- points -------------------------------------------------------------------------------------------


def test_points_are_the_manifests_by_default():
    mark = marked(Policy(), result(busy_time="failed"))
    assert mark.out_of == EX_30.points
    assert mark.after == EX_30.points - COURSE.task("ex_30.busy_time").points


def test_an_exercises_weight_is_shared_by_its_tasks_exactly():
    policy = read("[weights]\nex_30 = 10\n'ex_30.busy_time' = 0")
    mark = marked(policy, result())
    assert mark.after == mark.possible == 10
    task = COURSE.task("ex_30.utilization")
    rest = EX_30.points - COURSE.task("ex_30.busy_time").points
    assert policy.weight(EX_30, task) == Fraction(10 * task.points, rest)
    assert policy.weight(EX_30, COURSE.task("ex_30.busy_time")) == 0


def test_others_count_nothing_when_told_so():
    policy = read("[weights]\nex_30 = 7\nothers = 0\n'ex_31.transpose_block' = 2")
    ex_31 = COURSE.exercise("ex_31")
    mark = marked(policy, result(), result(ex_31), exercises=(EX_30, ex_31))
    assert mark.possible == 9


def test_a_decimal_weight_is_exact():
    assert read("[weights]\nex_30 = 0.1").weights["ex_30"] == Fraction(1, 10)


def test_a_total_scales_the_sum():
    mark = marked(read("[score]\ntotal = 100"), result(busy_time="failed"))
    points = COURSE.task("ex_30.busy_time").points
    assert mark.after == Fraction(100 * (EX_30.points - points), EX_30.points)
    assert mark.out_of == 100


def test_infrastructure_is_no_number():
    for one in (result(busy_time="infrastructure"), Result("ada", "ex_30", Key("", "", "", 0), {})):
        mark = marked(Policy(), one)
        assert mark.after is None and mark.earned is None and mark.left == ["ex_30"]
    whole = result()
    whole.infrastructure = "no sandbox"
    assert marked(Policy(), whole).after is None


def test_what_the_machine_cannot_judge_counts_for_nobody():
    points = COURSE.task("ex_30.blocking_time").points
    assert marked(Policy(), result(blocking_time="not run")).possible == EX_30.points - points
    # Judged for one, not run for another: that one is left to grade.
    survey = Survey()
    mine = result(blocking_time="not run")
    for one in (mine, result()):
        survey.add(one)
    mark = mark_student("ada", {"ex_30": mine}, Sheet((EX_30,), Policy(), survey))
    assert mark.possible == EX_30.points and mark.after is None


def test_live_points_stand_apart():
    mark = marked(Policy(), result(pipeline_improved_live="passed"))
    assert mark.out_of == EX_30.points
    assert mark.live_earned == mark.live_possible == 4
    assert marked(Policy(), result()).live_possible == 0


def test_only_a_passed_task_earns():
    """Points beside another outcome, or more than a task has, are not taken."""
    one = result(outcome="failed", busy_time="passed")
    one.tasks["ex_30.utilization"].earned = 1000
    one.tasks["ex_30.busy_time"].earned = 1000
    assert marked(Policy(), one).after == COURSE.task("ex_30.busy_time").points


def test_claims_are_counted_apart_or_left_out():
    exercise = next(e for e in COURSE.exercises for t in e.tasks if t.trust == "claim" and t.core)
    claims = sum(t.points for t in exercise.tasks if t.trust == "claim" and t.core)
    counted = marked(Policy(), result(exercise), exercises=(exercise,))
    assert counted.claims == claims and counted.after == exercise.points
    without = marked(Policy(count_claims=False), result(exercise), exercises=(exercise,))
    assert without.claims == 0 and without.out_of == exercise.points - claims


def test_the_lowest_share_is_dropped():
    exercises = (EX_30, COURSE.exercise("ex_31"), COURSE.exercise("ex_32"))
    found = [result(), result(exercises[1], "failed"), result(exercises[2], "failed")]
    mark = marked(read("[score]\ntotal = 10\ndrop_lowest = 1"), *found, exercises=exercises)
    assert mark.dropped == ("ex_32",)
    assert mark.after == Fraction(10 * EX_30.points, EX_30.points + exercises[1].points)


def test_private_cases_may_have_a_weight_of_their_own():
    one = result()
    one.tasks["ex_30.busy_time"] = results.Task(
        "failed", 4, 0, checks=[Check("test_a", "passed"), Check("test_b", "failed", hidden=True)]
    )
    lost = COURSE.task("ex_30.busy_time").points
    assert marked(Policy(), one).after == EX_30.points - lost
    policy = read("[private]\nweight = 0.25")
    assert marked(policy, one).after == EX_30.points - lost * Fraction(1, 4)
    one.tasks["ex_30.busy_time"].checks[1].outcome = "infrastructure"
    assert marked(policy, one).after is None


def test_a_private_weight_gives_nothing_for_checks_that_passed_in_a_task_that_did_not():
    one = result()
    checks = [Check("test_a", "passed"), Check("test_b", "passed", hidden=True)]
    one.tasks["ex_30.busy_time"] = results.Task("error", 4, 0, checks=checks)
    assert marked(read("[private]\nweight = 0.25"), one).after == EX_30.points - 5


# -- rounding -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "up", "even"),
    [("1/8", "0.13", "0.12"), ("3/8", "0.38", "0.38"), ("1/3", "0.33", "0.33"), ("7", "7", "7"),
     ("2/3", "0.67", "0.67"), ("1005/1000", "1.01", "1"), ("999/1000", "1", "1"), ("10", "10", "10")],
)  # fmt: skip
def test_a_half_is_rounded_as_told(value, up, even):
    assert Policy().show(Fraction(value)) == up
    assert Policy(rounding="half even").show(Fraction(value)) == even


def test_a_sum_is_rounded_once():
    policy = read("[weights]\nex_30 = 1\n[score]\ndecimals = 0")
    assert policy.show(marked(policy, result()).after) == "1"


# -- time ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("after_s", "days", "factor"),
    [
        (-1, 0, 1),
        (0, 0, 1),
        (15 * 60, 0, 1),
        (15 * 60 + 1, 1, Fraction(9, 10)),
        (DAY_S, 1, Fraction(9, 10)),
        (DAY_S + 1, 2, Fraction(8, 10)),
        (4 * DAY_S, 4, Fraction(65, 100)),
        (7 * DAY_S, 7, Fraction(65, 100)),
        (7 * DAY_S + 1, 8, 0),
    ],
)
def test_late_rules_at_their_edges(after_s, days, factor):
    late = read(DEADLINE).lateness(DUE_S + after_s)
    assert (late.days, late.factor) == (days, factor)


def test_an_extension_moves_the_deadline_of_one_student():
    policy = read(DEADLINE)
    at = DUE_S + 3 * DAY_S
    assert policy.lateness(at, ["s1", "ada@example.EDU"]).factor == 1
    assert policy.lateness(at, ["Grace"]).factor == 1
    assert policy.lateness(at + DAY_S, ["Grace"]).days == 1
    assert policy.lateness(at, ["linus"]).days == 3


@pytest.mark.parametrize("unknown", [None, float("nan"), float("inf")])
def test_an_unknown_time_costs_nothing_and_is_said(unknown):
    late = read(DEADLINE).lateness(unknown)
    assert late.factor == 1 and "not known" in late.note
    assert policies.utc(unknown) == ""


def test_the_late_rule_takes_from_what_was_earned():
    late = read(DEADLINE).lateness(DUE_S + DAY_S)
    mark = marked(Policy(), result(), late=late)
    assert mark.before == EX_30.points and mark.after == Fraction(9, 10) * EX_30.points
