"""Source that must not be parsed."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from grading.grader.intake.parsing import parse_guarded, too_deep

pytestmark = [
    pytest.mark.proof,  # it is the grader's
    pytest.mark.skipif(sys.platform == "win32", reason="needs openat"),
]

ROOT = Path(__file__).resolve().parents[3]


N = 20_000  # so that length alone stops none but one
TOO_DEEP = {
    "brackets": "(" * N,
    "minus": "x = " + "-" * N + "1",
    "not": "x = " + "not " * N + "1",
    "plus": "x = 1" + "+1" * N,
    "attributes": "a" + ".b" * N,
    "calls": "f" + "()" * N,
    "items": "f" + "[0]" * N,
    "lambda": "lambda:" * N + "1",
    "lambda with commas": "lambda a,:" * N + "1",
    "conditions": "x = " + "1 if 1 else " * N + "1",
    "elif": "if 1:\n pass\n" + "elif 1:\n pass\n" * N,
    "powers": "x = 1" + "**1" * N,
    "f-string": 'f"{' + "-" * N + '1}"',
    "f-string in f-string": "f'{" + 'f"{' + "-" * N + '1}"' + "}'",
    "behind a carriage return": "# hello\r" + "-" * N + "1",
    "continued lines": "x=\\\n" + "-\\\n" * N + "1",
    "await": "async def f():\n return " + "await " * N + "1",
    "length": "x = 1\n" * 100_000,
}


@pytest.mark.parametrize("case", TOO_DEEP)
def test_source_that_nests_too_deeply_is_not_parsed(monkeypatch, case):
    def parse(text):
        raise AssertionError("the parser was called")

    monkeypatch.setattr("grading.grader.intake.parsing.ast", SimpleNamespace(parse=parse))
    assert ("characters" in too_deep(TOO_DEEP[case])) == (case == "length")
    assert too_deep(TOO_DEEP[case])
    assert parse_guarded(TOO_DEEP[case]) is None


@pytest.mark.parametrize(
    "text", ["def f(:", "x = 'abc", "\0", "(]", "x = 1\n  y = 2", "\ud800 = 1"]
)
def test_what_is_no_python_has_no_tree_and_is_not_too_deep(text):
    assert too_deep(text) == ""
    assert parse_guarded(text) is None


def test_people_write_nothing_too_deep(recwarn):
    references = sorted((ROOT / "solutions").rglob("*.py"))
    assert len(references) > 40
    for file in references:
        assert parse_guarded(file.read_text(encoding="utf-8")) is not None, file
    assert parse_guarded("\ufeffx = 1\n") is not None
    assert parse_guarded("x = '\\d'\n") is not None
    assert parse_guarded("table = [" + "-1, " * 5_000 + "]") is not None
    assert (
        parse_guarded("x = [\n" + "  {'a': (1 + 2), 'b': f'{x!r}: {{'},\n" * 1_000 + "]")
        is not None
    )
    assert not recwarn.list
