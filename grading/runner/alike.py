"""Failures of one check that say the same of several cases: told once, the other cases by their names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

MOST_NAMED = 8  # cases
# What a case brings into a message: names in quotes, numbers with their signs and units of size, lists of them.
_OF_A_CASE = re.compile(
    r"'[^'\n]*'|\"[^\"\n]*\"|[\[({][^\n\])}]*[\])}]|[-+]?\d(?:[\w.,+-]*\w)?|\b(True|False|None)\b"
)


def function(check: str) -> str:
    """The name of a check without its case: test_recorded[decode_eager] is a case of test_recorded."""
    return check.partition("[")[0]


def case(check: str) -> str:
    """The case of a check; "" if it has none."""
    return check.partition("[")[2].removesuffix("]")


def named(check: str, first: str) -> str:
    """A check's case, or its name if it is no case of the first."""
    return case(check) if function(check) == function(first) else check.rpartition("::")[2]


def own_words(message: str) -> str:
    """An assertion's message without the expression that pytest adds below it; "" if it has none of its own."""
    return "" if message.startswith("assert ") else message.split("\nassert ")[0]


def shape(message: str) -> str:
    """A message without what a case brings into it: two of the same shape say the same.

    Of an assertion's own words only: what pytest adds below shows the values.
    """
    said = own_words(message) or message
    said = said.split("\n")[0] if said.startswith("assert ") else said
    return " ".join(_OF_A_CASE.sub("…", said).split())


def further(cases: Sequence[str]) -> str:
    """Cases in words, to stand below the message that says the same of another."""
    named = [case for case in cases if case]
    shown = ", ".join(named[:MOST_NAMED]) + (", …" if len(named) > MOST_NAMED else "")
    plural = "case" if len(cases) == 1 else "cases"
    return f"and in {len(cases)} further {plural}{shown and ': '}{shown}"


def folded(failures: Iterable[tuple[str, str]]) -> list[tuple[str, str, list[str]]]:
    """Failures (check, message) with those of one check that say the same at the first: their cases."""
    out: dict[tuple[str, str], tuple[str, str, list[str]]] = {}
    for check, message in failures:
        key = function(check), shape(message)
        if key in out:
            out[key][2].append(case(check))
        else:
            out[key] = check, message, []
    return list(out.values())
