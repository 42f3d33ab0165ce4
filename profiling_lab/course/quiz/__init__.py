"""Questions about real captures, each with an answer that is computed when it is asked.

`questions.py` holds them, by the topics of the week's interview questions; `lab quiz` asks. A question
can be asked about any of several captures, so that asking again is not asking the same.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

from profiling_lab.errors import LabError

# What an interviewer asks (week07/README.md), and the key that questions name it by.
TOPICS = {
    "begin": "How do you profile GPU code? Where do you begin?",
    "tools": "Nsight Systems or Nsight Compute: when do you use which?",
    "limits": "How do you find out whether a kernel is compute-bound or memory-bound?",
    "priorities": "How do you decide what to optimize from a profile?",
    "serving": "How do you balance throughput against latency?",
    "metrics": "Which metrics do you look at, and what can each of them not tell you?",
}
TOLERANCE = 0.05
# What one of a unit is, in the unit that answers of its kind are kept in. Case does not matter.
UNITS = {
    "ns": {"ns": 1.0, "µs": 1e3, "us": 1e3, "ms": 1e6, "s": 1e9},
    "bytes": {"b": 1.0, "kb": 1e3, "mb": 1e6, "gb": 1e9},
    "bytes_per_s": {"b/s": 1.0, "kb/s": 1e3, "mb/s": 1e6, "gb/s": 1e9, "tb/s": 1e12},
    "pct": {"%": 1.0, "percent": 1.0, "": 1.0},
    "ratio": {"x": 1.0, "×": 1.0, "times": 1.0, "": 1.0},
    "count": {"": 1.0},
}
EXAMPLES = {
    "ns": "1.5 ms",
    "bytes": "20 MB",
    "bytes_per_s": "300 GB/s",
    "pct": "45 %",
    "ratio": "1.8",
    "count": "120",
}


@dataclass(frozen=True)
class Asked:
    """A question about one capture.

    text: what is asked. answer: a number in `unit` (a key of `UNITS`), or one of `choices`.
    because: what the answer means, with figures from the capture. look: how to find it, a query or a
    command. tolerance: by what share a number may be off.
    """

    text: str
    answer: float | str
    because: str
    look: str
    unit: str = ""
    choices: tuple[str, ...] = ()
    tolerance: float = TOLERANCE


@dataclass(frozen=True)
class Question:
    """A question as it can be asked about each of `captures`.

    lesson: the page that explains it, with its section, as `week07/…/README.md#Heading without its number`.
    """

    name: str
    topic: str
    captures: tuple[str, ...]
    lesson: str
    ask: Callable[[str], Asked]


def judge(asked: Asked, given: str) -> bool:
    """Whether an answer is right: a number with a unit, or a choice by its letter or its words.

    Raises LabError, with an example, for what is neither.
    """
    if asked.choices:
        return _chosen(asked.choices, given) == asked.answer
    value = _number(asked.unit, given)
    assert isinstance(asked.answer, (int, float))
    return math.isclose(value, asked.answer, rel_tol=asked.tolerance, abs_tol=1e-9)


def letters(choices: tuple[str, ...]) -> dict[str, str]:
    """The choices by letter: a, b, c …"""
    return dict(zip("abcdefgh", choices, strict=False))


def _chosen(choices: tuple[str, ...], given: str) -> str:
    text = given.strip()
    by_letter = letters(choices)
    if text.lower().rstrip(".)") in by_letter:
        return by_letter[text.lower().rstrip(".)")]
    same = [choice for choice in choices if choice.casefold() == text.casefold()]
    if not same:
        raise LabError(f"{text or 'nothing'}: answer with a letter, {', '.join(by_letter)}")
    return same[0]


def _number(unit: str, given: str) -> float:
    found = re.fullmatch(r"([+-]?[\d,_]*\.?\d+(?:e[+-]?\d+)?)\s*(\S*)", given.strip().lower())
    known = UNITS[unit]
    if not found or found[2] not in known:
        raise LabError(
            f"{given.strip() or 'nothing'}: answer with a number"
            + (" and its unit" if "" not in known else "")
            + f", as in {EXAMPLES[unit]}"
        )
    return float(found[1].replace(",", "").replace("_", "")) * known[found[2]]
