"""The functions that a diagnosis calls: asked once, and nobody changes what another one gets."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from profiling_lab.mine.functions import Functions, FunctionUnavailable, load_file

pytestmark = pytest.mark.proof

SOURCE = """
asked = []

def saved(capture, nvtx_range=None):
    asked.append(capture)
    return {"waits": len(asked)}

def gaps(capture):
    asked.append(capture)
    return [{"start_ns": len(asked)}]

def worst(capture):
    saved(capture)["waits"] = 1000
    return max(saved(capture).values())

def refuses(capture):
    asked.append(capture)
    raise ValueError(str(len(asked)))
"""


@pytest.fixture
def functions(tmp_path: Path) -> Functions:
    file = tmp_path / "own.py"
    file.write_text(SOURCE)
    return Functions(file, {name: f"x.{name}" for name in ("saved", "gaps", "worst", "refuses")})


def test_what_was_asked_is_not_computed_again(functions: Functions) -> None:
    assert [functions.call("saved", "a") for _ in range(2)] == [{"waits": 1}, {"waits": 1}]
    assert functions.call("saved", "b") == {"waits": 2}
    assert functions.call("saved", "b", "a range") == {"waits": 3}
    assert functions.call("saved", "a", nvtx_range="a range") == {"waits": 4}


def test_functions_that_ask_each_other_share_answers_and_cannot_spoil_them(
    functions: Functions,
) -> None:
    assert functions.call("saved", "a") == {"waits": 1}
    assert functions.call("worst", "a") == 1
    functions.call("saved", "a")["waits"] = 1000
    assert functions.call("saved", "a") == {"waits": 1}


def test_answers_that_could_be_changed_inside_are_computed_again(functions: Functions) -> None:
    assert [functions.call("gaps", "a")[0]["start_ns"] for _ in range(2)] == [1, 2]


def test_errors_are_not_remembered(functions: Functions) -> None:
    for count in (1, 2):
        with pytest.raises(FunctionUnavailable, match=f"refuses raised ValueError: {count} "):
            functions.call("refuses", "a")


def test_a_file_that_is_saved_twice_in_a_second_is_read_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Same name, same size, same second: what Python keeps of the first must not be taken."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path / "kept"))
    file = tmp_path / "own.py"
    for number in (1, 2):
        file.write_text(f"number = {number}\n")
        os.utime(file, (1_000_000_000, 1_000_000_000))
        assert load_file(file).number == number
