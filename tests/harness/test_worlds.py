"""A decision is judged as a rule: labels, names and habits do not pass."""

from __future__ import annotations

from dataclasses import replace

import pytest

from grading.checks.worlds import Family, World, judge_families


def world(waits: int, name: str) -> dict[str, object]:
    """A drawn program, in two facts of which one does not matter."""
    return {"waits": waits, "name": name}


FAMILIES = [
    Family(
        World(world(90, "decode"), "sync_bound", "the host waits often"),
        without=(World(world(0, "decode"), "healthy", "the same without waits"),),
        alike=(World(world(90, "healthy"), told="another name"),),
    ),
    Family(
        World(world(1, "sync"), "healthy", "nothing costs much"),
        without=(World(world(80, "sync"), told="the same with many waits"),),
        alike=(World(world(2, "copy"), told="another name"),),
    ),
]


def rule(shown):
    return "sync_bound" if shown["waits"] > 50 else "healthy"


def test_a_rule_passes():
    judge_families(rule, FAMILIES, "decide")


@pytest.mark.parametrize(
    ("decide", "says"),
    [
        (lambda shown: "sync_bound", "the same where that is gone"),
        (lambda shown: "healthy", "that decides here"),
        (lambda shown: "healthy" if shown["name"] == "healthy" else rule(shown), "does not matter"),
        (lambda shown: "none" if not shown["waits"] else rule(shown), "What decides then"),
        (
            lambda shown: ["sync_bound"] if rule(shown) == "sync_bound" else "healthy",
            "decides here",
        ),
    ],
)
def test_what_is_no_rule_fails(decide, says):
    with pytest.raises(pytest.fail.Exception, match=says) as raised:
        judge_families(decide, FAMILIES, "decide", " (LAB_SEED=7 repeats it)")
    assert "(LAB_SEED=7 repeats it)" in str(raised.value)


@pytest.mark.parametrize(
    "wrong",
    [
        {"without": ()},
        {"alike": ()},
        {"without": (World(None, "sync_bound"),)},
        {"alike": (World(None, "sync_bound"),)},
    ],
)
def test_a_family_that_shows_nothing_is_refused(wrong):
    with pytest.raises(ValueError, match=r"world|family"):
        replace(FAMILIES[0], **wrong)
