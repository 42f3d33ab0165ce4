"""Gradescope's file and JUnit's say what the gradebook says, in their own terms."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from grading.gradebook import exports, feedback, policy
from grading.gradebook.marks import Sheet, mark_student
from grading.gradebook.policy import Policy
from grading.gradebook.where_to_read import Guide
from grading.runner import results
from grading.runner.results import Check, Key, Result
from profiling_lab.course import manifest

COURSE = manifest.load()
EXERCISE = COURSE.exercise("ex_30")
PORTABLE = [task for task in EXERCISE.tasks if not task.live]


def result(**tasks) -> Result:
    made = {}
    for task in EXERCISE.tasks:
        outcome, *checks = tasks.get(task.name, ("passed", Check("test_it", "passed")))
        if task.live:
            outcome, checks = "not run", [Check("test_live", "not run")]
        earned = task.points if outcome == "passed" else 0
        made[task.id] = results.Task(outcome, task.points, earned, task.live, "checked", "", checks)
    return Result("ada", "ex_30", Key("", "", "", 0), made)


def made(one: Result, rules: Policy | None = None, late=None):
    rules = rules or Policy()
    mark = mark_student("ada", {"ex_30": one}, Sheet((EXERCISE,), rules), late)
    return mark, feedback.view(COURSE, Guide(COURSE), mark, rules), rules


def gradescope(one: Result, rules: Policy | None = None, late=None) -> dict:
    return json.loads(exports.gradescope(*made(one, rules, late)))


FAILED = (
    "failed",
    Check("test_a", "failed", "returned 3 <b>", hidden=False),
    Check("test_b", "passed"),
)
SECRET = ("failed", Check("test_a", "passed"), Check("test_s", "failed", "say 42", hidden=True))
BROKEN = ("infrastructure", Check("test_a", "infrastructure", "no sandbox"))


def test_gradescope_gets_a_test_a_task():
    data = gradescope(result(busy_time=FAILED))
    points = COURSE.task("ex_30.busy_time").points
    assert data["score"] == EXERCISE.points - points
    assert len(data["tests"]) == len(PORTABLE)
    assert sum(test.get("score", 0) for test in data["tests"]) == data["score"]
    assert sum(test.get("max_score", 0) for test in data["tests"]) == EXERCISE.points
    apart = [test for test in data["tests"] if "further" in test["tags"]]
    assert apart and not any("score" in test for test in apart)
    test = next(test for test in data["tests"] if test["name"].startswith("ex_30.busy_time"))
    assert (test["score"], test["status"], test["number"]) == (0, "failed", "1.1")
    assert (
        "returned 3 <b>" in test["output"] and "uv run lab hint ex_30.busy_time" in test["output"]
    )


def test_gradescope_gets_only_what_is_documented_and_no_markup():
    """Fields of "Autograder Specifications"; only "text" is never rendered."""
    data = gradescope(result(busy_time=FAILED, idle_gaps=SECRET))
    assert set(data) <= {
        *("score", "execution_time", "output", "output_format", "test_output_format"),
        *("test_name_format", "visibility", "stdout_visibility", "extra_data", "tests"),
        "leaderboard",
    }
    allowed = {"hidden", "after_due_date", "after_published", "visible"}
    assert {data["visibility"], data["stdout_visibility"]} <= allowed
    for test in data["tests"]:
        assert set(test) <= {
            *("score", "max_score", "status", "name", "name_format", "number", "output"),
            *("output_format", "tags", "visibility", "extra_data"),
        }
        assert test["output_format"] == test["name_format"] == "text"
        assert test["status"] in ("passed", "failed")
    assert data["output_format"] == "text"


def test_gradescope_shows_nothing_of_a_hidden_check_and_keeps_the_total_visible():
    data = gradescope(result(idle_gaps=SECRET))
    assert "say 42" not in json.dumps(data) and "test_s" not in json.dumps(data)
    assert data["visibility"] == "visible"
    assert not [test for test in data["tests"] if test.get("visibility", "visible") != "visible"]


def test_gradescope_shows_no_score_while_something_is_left_to_grade():
    data = gradescope(result(busy_time=BROKEN))
    assert data["visibility"] == "hidden" and data["extra_data"]["incomplete"] == ["ex_30"]
    test = next(test for test in data["tests"] if test["name"].startswith("ex_30.busy_time"))
    assert "score" not in test and "status" not in test
    assert "Not your fault" in data["output"]


def test_gradescopes_score_is_the_gradebooks_after_late_rules_and_scale():
    rules = policy.loads(
        "[score]\ntotal = 10\n[deadline]\nat = 2026-01-01T00:00:00Z\nper_day_pct = 50", COURSE
    )
    late = rules.lateness(rules.deadline.at.timestamp() + 60)
    data = gradescope(result(), rules, late)
    assert data["score"] == 5 and "10 before the late rule." in data["output"]


# -- JUnit --------------------------------------------------------------------------------------------


def junit(one: Result, rules: Policy | None = None) -> ElementTree.Element:
    return ElementTree.fromstring(exports.junit(*made(one, rules)).encode())


def test_junit_has_a_case_a_check_and_counts_them():
    root = junit(
        result(
            busy_time=FAILED,
            idle_gaps=("error", Check("test_a", "error", "no answer", "time-out")),
            blocking_time=("todo", Check("test_a", "todo", "todo")),
            utilization=BROKEN,
            launch_latency=("blocked",),
        )
    )
    (suite,) = root.findall("testsuite")
    for one in (root, suite):
        cases = suite.findall("testcase")
        assert int(one.get("tests")) == len(cases)
        assert int(one.get("failures")) == len(suite.findall("testcase/failure")) == 1
        assert int(one.get("errors")) == len(suite.findall("testcase/error")) == 1
        assert int(one.get("skipped")) == len(suite.findall("testcase/skipped")) == 3
    assert len(cases) == len(PORTABLE) + 1  # one task has two checks
    error = suite.find("testcase/error")
    assert error.get("type") == "time-out" and error.text == "no answer"
    failure = suite.find("testcase/failure")
    assert failure.text == "returned 3 <b>" and failure.get("message") == "returned 3 <b>"
    infrastructure = next(case for case in cases if case.get("classname") == "ex_30.utilization")
    assert infrastructure.find("skipped").get("type") == "infrastructure"


def test_junit_shows_nothing_of_a_hidden_check():
    text = exports.junit(*made(result(idle_gaps=SECRET)))
    assert "say 42" not in text and "test_s" not in text and 'name="hidden check 1"' in text


@pytest.mark.parametrize(
    "evil", ["]]>", "\x00\x1b[1m", "<!--", '"&', "\ud800", "a\nb\tc", "\ufffe"]
)
def test_junit_is_xml_whatever_a_submission_says(evil):
    check = Check(f"test_{evil}", "failed", f"returned {evil}")
    one = result(busy_time=("failed", check))
    ElementTree.fromstring(exports.junit(*made(one)).encode())
    json.loads(exports.gradescope(*made(one)).encode())


def test_exports_have_no_times(tmp_path: Path):
    first, second = result(), result()
    second.seconds, second.attempts = 77.0, 3
    assert exports.junit(*made(first)) == exports.junit(*made(second))
    assert exports.gradescope(*made(first)) == exports.gradescope(*made(second))
