"""Stubs: both kinds fail in the same words, for names, exceptions and `stub.raises`."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from grading.runner.failures import Blocked, StubError
from profiling_lab.errors import CaptureError, EmptyCapture
from tests.harness.stubs.failures import failure

# --- names ---------------------------------------------------------------------------------------


def test_a_misnamed_function_is_explained_once(opened):
    stub = opened(
        "def busy_tme(c): return 1\ndef idle_gaps(c): return []",
        functions=["busy_time", "idle_gaps"],
    )
    with pytest.raises(StubError) as caught:
        _ = stub.busy_time
    message = str(caught.value)
    assert "ex_00.py defines no function busy_time; did you misname it?" in message
    assert "There is busy_tme." in message
    assert "The file defines: busy_tme, idle_gaps" in message
    assert failure(lambda: stub.busy_time) == (
        "ex_00.py defines no function busy_time (see the first failure of this kind)"
    )


def test_a_missing_function_without_a_likeness(opened):
    message = failure(lambda: opened("import os\nclass A: pass").busy_time)
    assert "did you misname" not in message
    assert "The file defines: no function at all" in message


def test_a_name_that_is_no_function(opened):
    assert "defines busy_time, but as an int" in failure(lambda: opened("busy_time = 3").busy_time)


def test_a_changed_signature_is_named(opened):
    message = failure(opened("def f(a): return a").f, 1, 2)
    assert "f(1, 2) raised TypeError: f() takes 1 positional argument but 2 were given" in message
    assert "keep the parameters that the file came with" in message


def test_names_of_the_stub_itself_are_no_tasks(opened):
    with pytest.raises(ValueError, match="a task cannot be called 'raises'"):
        opened("", functions=["raises"])


# --- exceptions ----------------------------------------------------------------------------------


def test_an_exception_is_shown_with_the_learner_s_lines(opened):
    stub = opened(
        """
        def busy_time(capture, device=0):
            return share(3, device)

        def share(part, whole):
            return part / whole
        """
    )
    message = failure(stub.busy_time, Path("/a/b/c/node/timeline.sqlite"), device=0)
    assert message.startswith(
        "busy_time(…/node/timeline.sqlite, device=0) raised ZeroDivisionError: division by zero"
    )
    assert "line 3, in busy_time\n    return share(3, device)" in message
    assert message.endswith("line 6, in share\n    return part / whole")
    assert "grading" not in message
    assert "worker" not in message


def test_where_a_library_raised_is_shown_too(opened):
    stub = opened("import json\ndef f():\n    return json.loads('{')\n")
    message = failure(stub.f)
    assert "line 3, in f\n    return json.loads('{')" in message
    assert "decoder.py, line" in message


def test_deep_recursion_is_shown_short(opened):
    message = failure(opened("def f(x): return f(x)").f, 1)
    assert "raised RecursionError" in message
    assert message.count("\n") < 20


def test_an_exception_whose_text_cannot_be_had(opened):
    stub = opened(
        """
        class Odd(Exception):
            def __str__(self): raise ValueError
            def __getattr__(self, name): raise ValueError
        def f(): raise Odd
        """
    )
    assert "raised Odd: (its message cannot be shown" in failure(stub.f)


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("sys.exit(0)", "ended the program (SystemExit: 0) instead of returning"),
        ("raise KeyboardInterrupt", "as if someone had pressed Ctrl-C"),
        ("raise GeneratorExit", "raised GeneratorExit"),
        ("pytest.skip('later')", "raised Skipped: later"),
        ("pytest.exit('later')", "raised Exit: later"),
        ("pytest.xfail('later')", "raised XFailed: later"),
    ],
)
def test_ways_out_of_a_call_are_failures(opened, statement, words):
    stub = opened(f"import sys, pytest\ndef f():\n    {statement}\n")
    message = failure(stub.f)
    assert words in message
    assert "line 3, in f" in message


def test_not_implemented_elsewhere_is_a_failure(opened):
    stub = opened("def f(x):\n    if x:\n        raise NotImplementedError\n", todo={"g"})
    message = failure(stub.f, 1)
    assert "raised NotImplementedError" in message
    assert "only while the body is nothing but" in message


def test_reaching_another_todo_blocks(opened):
    stub = opened(
        """
        def gaps(x): raise NotImplementedError
        def longest(x): return max(helper(x))
        def helper(x): return gaps(x)
        """,
        todo={"gaps"},
        task_of={"gaps": "ex_00.gaps"},
    )
    for call in (stub.longest, stub.gaps):
        with pytest.raises(Blocked, match="blocked by ex_00.gaps") as caught:
            call(1)
        assert caught.value.task == "ex_00.gaps"
    with pytest.raises(Blocked), stub.raises(ValueError):
        stub.longest(1)


def test_a_todo_of_the_same_name_elsewhere_does_not_block(opened):
    stub = opened(
        """
        class A:
            def gaps(self): raise NotImplementedError
        def f(x): return A().gaps()
        """,
        todo={"gaps"},
    )
    assert "raised NotImplementedError" in failure(stub.f, 1)


# --- stub.raises ---------------------------------------------------------------------------------

RAISING = """
from profiling_lab.errors import EmptyCapture
class Own(ValueError): pass
def value(): raise ValueError("device 3 is not in the capture")
def own(): raise Own("mine")
def empty(): raise EmptyCapture("no kernels in timeline.sqlite")
def fine(): return [1, 2]
def leave(): raise SystemExit(2)
def loop():
    while True: pass
"""


def test_raises_accepts_the_type_and_its_subclasses(opened):
    stub = opened(RAISING)
    with stub.raises(ValueError, match="device [0-9]") as caught:
        stub.value()
    assert (caught.type_name, caught.message) == ("ValueError", "device 3 is not in the capture")
    with stub.raises(ValueError):
        stub.own()
    with stub.raises(CaptureError, match="no kernels"):
        stub.empty()
    with stub.raises(EmptyCapture):
        stub.empty()
    with stub.raises(SystemExit):
        stub.leave()


@pytest.mark.parametrize(
    ("name", "kind", "match", "words"),
    [
        ("fine", ValueError, (), "fine() returned [1, 2]; it must raise ValueError, because why"),
        ("value", KeyError, (), "It must raise KeyError, because why."),
        ("value", EmptyCapture, (), "It must raise EmptyCapture, because why."),
        ("own", OSError, (), "own() raised Own: mine"),
        ("value", ValueError, "stream", "its message must hold these words: stream"),
        ("value", ValueError, ("capture", "3", "[4]"), "must hold these words: [4]"),
        ("empty", ValueError, (), "empty() raised EmptyCapture: no kernels"),
    ],
)
def test_raises_explains_what_happened_instead(opened, name, kind, match, words):
    stub = opened(RAISING)
    with pytest.raises(StubError) as caught, stub.raises(kind, match, "why"):
        getattr(stub, name)()
    assert words in str(caught.value)


def test_raises_does_not_hide_other_failures(opened):
    stub = opened(RAISING, timeout_s=0.3)
    with pytest.raises(StubError, match="had not come back"), stub.raises(BaseException):
        stub.loop()
    with pytest.raises(StubError, match="defines no function nothing"), stub.raises(Exception):
        stub.nothing()
    with pytest.raises(ZeroDivisionError), stub.raises(ZeroDivisionError):
        print(1 / 0)  # the check's own


def test_raises_is_for_calls_and_for_types_that_cross(opened):
    stub = opened(RAISING)
    with pytest.raises(RuntimeError, match="calls no function"), stub.raises(ValueError):
        pass
    with pytest.raises(TypeError, match="does not cross"):
        stub.raises(subprocess.TimeoutExpired)
    with pytest.raises(TypeError, match="means todo"):
        stub.raises(NotImplementedError)
