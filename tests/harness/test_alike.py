"""Failures of one check that say the same of several cases are told once."""

from __future__ import annotations

import pytest

from grading.gradebook import feedback
from grading.gradebook.student_view import CheckView
from grading.runner import alike


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("f('a') says 1.5; expected 2.", "f('b') says -3; expected 1e-9.", True),
        ("f('a') says {0: 1}; expected {}.", "f('b') says {}; expected {0: 1, 1: 2}.", True),
        ("f('a') says 1. Count it once.", "f('a') says 1. It is in ns.", False),
        ("f('a') says None.", "f('b') says 7.", True),
        ("f(x) raised ValueError", "f(x) raised KeyError", False),
    ],
)
def test_what_says_the_same(one: str, other: str, same: bool) -> None:
    assert (alike.shape(one) == alike.shape(other)) is same


def test_own_words_of_an_assertion() -> None:
    assert alike.own_words("2 is not 1\nassert 2 == 1\n +  where 2 = f()") == "2 is not 1"
    assert alike.own_words("two\nlines") == "two\nlines"
    assert alike.own_words("assert 2 == 1\n +  where 2 = f()") == ""


def test_cases_in_words() -> None:
    assert alike.further(["a"]) == "and in 1 further case: a"
    assert alike.further(["a", ""]) == "and in 2 further cases: a"
    assert alike.further([str(n) for n in range(20)]).endswith("5, 6, 7, …")
    assert alike.further(["", ""]) == "and in 2 further cases"


def test_only_cases_of_one_check_are_folded() -> None:
    failures = [
        ("test_a[x]", "f('x') is 1"),
        ("test_b[x]", "f('x') is 1"),
        ("test_a[y]", "f('y') is 2"),
        ("test_a[z]", "f('z') is of the wrong device"),
    ]
    assert alike.folded(failures) == [
        ("test_a[x]", "f('x') is 1", ["y"]),
        ("test_b[x]", "f('x') is 1", []),
        ("test_a[z]", "f('z') is of the wrong device", []),
    ]


def test_feedback_tells_cases_with_the_first() -> None:
    views = [
        CheckView(f"test_a[{n}]", "failed", "", [f"f({n}) is 0; expected {n}."], False)
        for n in range(5)
    ]
    views += [CheckView(f"test_{n}", "failed", "", [f"new {n}"], False) for n in "bc"]
    shown, more = feedback._telling(views)
    assert shown[0].lines == ["f(0) is 0; expected 0.", "and in 4 further cases: 1, 2, 3, 4"]
    assert len(shown) + more == 3
