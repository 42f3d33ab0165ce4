"""The functions that the library calls are those that the exercises ask for, with the same signatures."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from profiling_lab import asking, contracts, course, diagnosis
from profiling_lab.functions import EXERCISES, load_file

COURSE = course.load(Path(__file__).resolve().parents[2])
PROTOCOLS: dict[str, Any] = {
    "timeline": contracts.TimelineFunctions,
    "kernels": contracts.KernelFunctions,
    "trace": contracts.TraceFunctions,
    "counters": contracts.CounterFunctions,
}


def promised(kind: str) -> set[str]:
    return {name for name in vars(PROTOCOLS[kind]) if not name.startswith("_")}


@pytest.mark.parametrize("kind", PROTOCOLS)
def test_the_reference_keeps_the_contract(kind: str) -> None:
    exercise = COURSE.exercise(EXERCISES[kind])
    reference = load_file(COURSE.solution(exercise.stub), f"contract_{exercise.id}")
    tasks = {task.name for task in exercise.tasks if task.stub == exercise.stub}
    assert promised(kind) <= tasks
    for name in promised(kind):
        asked = inspect.signature(getattr(PROTOCOLS[kind], name))
        asked = asked.replace(parameters=list(asked.parameters.values())[1:])  # without self
        given = inspect.signature(getattr(reference, name))
        assert plain(given) == plain(asked), f"{name}: contracts.py says {asked}"


def plain(signature: inspect.Signature) -> str:
    """A signature as text: dict[str, Any] says no less than dict there."""
    return str(signature).replace("dict[str, Any]", "dict")


def test_what_is_asked_of_a_timeline_is_promised() -> None:
    source = Path(diagnosis.__file__).read_text(encoding="utf-8")
    asked = set(re.findall(r'_ask\(out, functions, "(\w+)"', source))
    assert asked == promised("timeline")
    for kind in ("kernels", "trace"):
        own = {question.function for question in asking.QUESTIONS if question.kind == kind}
        assert own == promised(kind)
