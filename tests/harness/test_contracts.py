"""The functions that the library calls are those that the exercises ask for, with the same signatures."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

import profiling_lab
from profiling_lab.course import manifest as course
from profiling_lab.course import stubs
from profiling_lab.mine import contracts, questions
from profiling_lab.mine.functions import EXERCISES, load_file

COURSE = course.load(Path(__file__).resolve().parents[2])
LIBRARY = Path(profiling_lab.__file__).parent
# The protocol of each exercise whose functions the library calls.
PROTOCOLS: dict[str, Any] = {
    "ex_30": contracts.TimelineFunctions,
    "nsys_ex02": contracts.StreamFunctions,
    "nsys_ex04": contracts.RankFunctions,
    "energy_ex01": contracts.ClockFunctions,
    "ex_31": contracts.KernelFunctions,
    "ex_32": contracts.TraceFunctions,
    "torch_ex03": contracts.RankTraceFunctions,
    "ex_33": contracts.CounterFunctions,
    "case_files": contracts.RunFunctions,
}
CALL = re.compile(r"""\b(?:call|ask|_ask|of_trace)\(\s*(?:\w+, )*"(\w+)\"""")


def promised(exercise: str) -> set[str]:
    return {name for name in vars(PROTOCOLS[exercise]) if not name.startswith("_")}


@pytest.mark.concerns("identifier")
@pytest.mark.parametrize("identifier", PROTOCOLS)
def test_the_reference_keeps_the_contract(identifier: str) -> None:
    exercise = COURSE.exercise(identifier)
    reference = load_file(COURSE.solution(exercise.stub), f"contract_{exercise.id}")
    stub = stubs.generate(COURSE, exercise)[COURSE.root / exercise.stub]
    handed_out = {node.name for node in ast.parse(stub).body if isinstance(node, ast.FunctionDef)}
    assert promised(identifier) <= handed_out  # tasks, and what the stub gives (`find_window`)
    for name in promised(identifier):
        asked = inspect.signature(getattr(PROTOCOLS[identifier], name))
        asked = asked.replace(parameters=list(asked.parameters.values())[1:])  # without self
        given = inspect.signature(getattr(reference, name))
        assert plain(given) == plain(asked), f"{name}: contracts.py says {asked}"


def plain(signature: inspect.Signature) -> str:
    """A signature as text: dict[str, Any] says no less than dict there."""
    return str(signature).replace("dict[str, Any]", "dict")


@pytest.mark.concerns()
def test_what_the_library_calls_is_promised() -> None:
    named = {question.function for question in questions.QUESTIONS}
    for file in LIBRARY.rglob("*.py"):
        if file.parent.name != "tools":  # what is measured there is no exercise's
            named |= set(CALL.findall(file.read_text(encoding="utf-8")))
    assert named == set().union(*map(promised, PROTOCOLS))


def test_exercises_that_are_asked_have_a_contract() -> None:
    asked = {question.exercise: question.function for question in questions.QUESTIONS}
    assert set(asked) | set(EXERCISES.values()) <= set(PROTOCOLS)
    for question in questions.QUESTIONS:
        assert question.function in promised(question.exercise)
