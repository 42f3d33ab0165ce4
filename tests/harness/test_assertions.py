"""The judging helpers that all check files share, and that no check file has its own of them."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest

from grading.checks import assertions
from grading.checks.assertions import (
    agree,
    alike,
    call_words,
    judge_finding,
    judge_recommendation,
    show,
)
from grading.checks.cuda import runs
from profiling_lab.findings import Finding

ROOT = Path(__file__).resolve().parents[2]
# `judge` alone has many meanings: of some exercises it runs a benchmark, or knows the mistakes behind a value.
SHARED = {
    node.name
    for module in (assertions, runs)
    for node in ast.parse(Path(module.__file__ or "").read_text(encoding="utf-8")).body
    if isinstance(node, ast.FunctionDef)
} - {"judge", "issued"}


def second_definitions(source: str) -> list[str]:
    """Functions of a check file that have the name of a shared one, or try a build by themselves."""
    tree = ast.parse(source)
    found = [
        node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name in SHARED
    ]
    caught = {
        part.attr if isinstance(part, ast.Attribute) else getattr(part, "id", "")
        for node in ast.walk(tree)
        if isinstance(node, ast.ExceptHandler) and node.type
        for part in ast.walk(node.type)
    }
    told = {"BuildError", "ToolchainError", "RunError", "EmulatorError", "Unsupported"}
    return found + sorted(caught & told)


def test_no_check_file_has_its_own() -> None:
    checks = [
        file
        for folder in ("labs", "modules", "week07")
        for file in (ROOT / "tests" / folder).rglob("test_*.py")
        if "wrong" not in file.parts
    ]
    assert len(checks) > 40
    own = {
        file.relative_to(ROOT).as_posix(): found
        for file in checks
        if (found := second_definitions(file.read_text(encoding="utf-8")))
    }
    assert not own
    assert second_definitions("def agree(got, want): return got == want") == ["agree"]
    tried = "try: build()\nexcept (toolchain.BuildError, KeyError) as error: fail(str(error))"
    assert second_definitions(tried) == ["BuildError"]


@pytest.mark.parametrize(
    ("got", "want", "right"),
    [
        (1, 1, True),
        (True, 1, False),
        (1, True, False),
        (1.0, 1, False),
        (1, 1.0, True),
        (True, 1.0, False),
        (1 + 1e-10, 1.0, True),
        (1 + 1e-8, 1.0, False),
        ([1, 2], [1, 2], True),
        ((1, 2), [1, 2], False),
        ([1, 2], (1, 2), False),
        ([1], [1, 2], False),
        ([(0, 1.0)], [(0, 1.0)], True),
        ([[0, 1.0]], [(0, 1.0)], False),
        ({"a": [1]}, {"a": [1]}, True),
        ({"a": (1,)}, {"a": [1]}, False),
        ({"a": 1, "b": 2}, {"a": 1}, False),
        (None, 0, False),
        (None, None, True),
        ("1", 1, False),
    ],
)
def test_types_agree_exactly(got: object, want: object, right: bool) -> None:
    assert agree(got, want) is right


def test_alike_takes_whole_numbers_and_others() -> None:
    assert alike({"a": [1.0, None]}, {"a": [1, None]}) and alike(2, 2.0)
    assert not alike(True, 1) and not alike((1.0,), [1]) and not alike(1.1, 1)


def test_words_of_a_call() -> None:
    assert call_words("f", "/tmp/made_3.sqlite", 2, None) == "f('made_3.sqlite', 2)"
    assert call_words("f", "name", None, "x", rank=1) == "f('name', None, 'x', rank=1)"
    assert len(call_words("f", list(range(100)))) < 70
    assert show(np.arange(3)) == "[0, 1, 2]"


FOUND = Finding(
    "transfer_bound",
    "device:0",
    {"recoverable_ns": 10, "window_ns": 100.0, "recoverable_ratio": 0.1},
    "copy less",
)


def judged(got: object = FOUND, **changed: object) -> None:
    given = {
        "category": "transfer_bound",
        "subject": "device:0",
        "evidence": {"recoverable_ns": 10.0, "window_ns": 100, "recoverable_ratio": 0.1},
        "facts": "copies take 3 ns",
        "why": {"window_ns": "From first to last."},
    }
    judge_finding("f()", got, **(given | changed))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"got": ("transfer_bound",)}, "expected a Finding"),
        ({"category": "healthy"}, "says transfer_bound, but copies take 3 ns"),
        ({"subject": "device:1", "about": "the busiest"}, "expected 'device:1': the busiest"),
        ({"evidence": {"window_ns": 101}, "others": True}, "window_ns is 100, expected 101 .*From"),
        ({"evidence": {"window_ns": 100}}, "evidence has"),
        # All that is wrong is said: a wrong category often follows from wrong evidence.
        ({"category": "healthy", "evidence": {"window_ns": 1}}, "(?s)evidence window_ns.*says tra"),
    ],
)
def test_findings_are_judged(changed: dict[str, object], words: str) -> None:
    judged()
    with pytest.raises(pytest.fail.Exception, match=words):
        judged(**changed)


@pytest.mark.parametrize(
    ("category", "says", "options", "right"),
    [
        ("healthy", "none", {}, True),
        ("healthy", "copy less", {}, False),
        ("transfer_bound", "none", {}, False),
        ("transfer_bound", "copy less", {}, True),
        ("transfer_bound", "copy less", {"borderline": True}, False),
        ("transfer_bound", "borderline: copy less", {"borderline": True}, True),
        ("transfer_bound", "borderline: none", {"borderline": True}, False),
        ("transfer_bound", "it is borderline", {"borderline": True, "anywhere": True}, True),
        ("healthy", "borderline: look again", {"borderline": True}, True),
        ("healthy", "borderline: look again", {"borderline": False}, False),
        ("transfer_bound", "see a.py:12", {"names": ("a.py:12", "the line")}, True),
        ("transfer_bound", "see a.py:123", {"names": ("a.py:12", "the line")}, False),
    ],
)
def test_recommendations_are_judged(category: str, says: str, options: dict, right: bool) -> None:
    finding = Finding(category, "device:0", {}, says)
    if right:
        judge_recommendation("f()", finding, "the floor is 1 %", **options)
    else:
        with pytest.raises(pytest.fail.Exception):
            judge_recommendation("f()", finding, "the floor is 1 %", **options)
