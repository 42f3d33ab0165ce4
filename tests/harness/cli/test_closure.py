"""What a change of a file can alter: the closure of a function."""

from __future__ import annotations

import pytest

from grading.runner.watcher import affected
from profiling_lab.course import closure
from profiling_lab.course.closure import closure_hash

BEFORE = """import math
LIMIT = 3

def a():
    return _helper()

def b():
    return a() + LIMIT

def c():
    return 1

def _helper():
    return 1
"""


@pytest.mark.parametrize(
    ("old", "new", "direct", "others"),
    [
        ("", "", "", ""),
        ("import math", "# a comment\nimport math", "", ""),
        ("def c():\n    return 1", "def c():\n    return 2", "c", ""),
        ("def _helper():\n    return 1", "def _helper():\n    return 2", "", "ab"),
        ("return _helper()", "return 7", "a", "b"),
        ("LIMIT = 3", "LIMIT = 4", "", "b"),
        ("import math", "import os", "", "abc"),
        ("def c():", "def c(:", "", "abc"),
    ],
)
def test_affected_follows_uses(old: str, new: str, direct: str, others: str) -> None:
    after = BEFORE.replace(old, new) if old else BEFORE
    assert affected(BEFORE, after, {"a", "b", "c"}) == (set(direct), set(others))


def test_closure_hash_changes_with_what_is_used() -> None:
    names = ("a", "b", "c")
    before = {name: closure_hash(BEFORE, name) for name in names}

    def altered(old: str, new: str) -> str:
        return "".join(n for n in names if closure_hash(BEFORE.replace(old, new), n) != before[n])

    assert altered("LIMIT = 3", "LIMIT = 4") == "b"
    assert altered("def _helper():\n    return 1", "def _helper():\n    return 2") == "ab"
    assert altered("import math", "import os") == "abc"
    assert altered("import math", "# words\nimport math") == ""
    assert altered("def c():", "def c(:") == "abc"


SAMPLE = '''
LIMIT = {"a": 1}  # what is allowed
@cached
def shown(rows):
    """Words."""
    return [
        f"{row['name']!r:>{LIMIT["a"]}} {'ns'}" f"""{
            row}""" for row in rows]
'''.replace('LIMIT["a"]', "LIMIT")


def test_words_of_code_are_those_that_were_typed() -> None:
    assert closure.words("def f( x ):  # why\n\n    return f'{x!r}' + 'a'\n") == (
        "def f ( x ) : NEWLINE INDENT return f'{x!r}' + 'a' NEWLINE DEDENT"
    )
    assert closure.words(SAMPLE) == closure.words(
        SAMPLE.replace("  # what is allowed", "").replace(", ", ",  ")
    )
    assert closure.words(SAMPLE) != closure.words(SAMPLE.replace("'ns'", "'us'"))
    beside = "a = 1; b = (\n    2)\n"  # lines that two statements share
    assert closure_hash(beside, "a") != closure_hash(beside.replace("1", "3"), "a")
    # The same under every Python, where ast.unparse and ast.dump of it differ.
    assert closure_hash(SAMPLE, "shown") == "5274e1fe3b935589"
