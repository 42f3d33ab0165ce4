"""Stubs: values and callables cross both ways alike in both kinds, and are shown short."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pytest

from grading.runner.abbreviated import abbreviate
from grading.runner.wire import ForbiddenValue
from profiling_lab.errors import EmptyCapture
from profiling_lab.findings import Finding
from tests.harness.stubs.failures import failure

# --- values --------------------------------------------------------------------------------------


def test_values_cross_both_ways(opened):
    stub = opened("def same(value): return value\ndef kind(value): return type(value).__name__")
    for value in [1, 2.5, "x", None, [1, (2,)], {1: "a"}, Path("/a/b"), Finding("a", "b", {}, "c")]:
        assert stub.same(value) == value
        assert type(stub.same(value)) is type(value)
        assert stub.kind(value) == type(value).__name__
    array = np.arange(6).reshape(2, 3)
    assert np.array_equal(stub.same(array), array)


def test_arguments_by_name_and_defaults(opened):
    stub = opened("def f(a, b=2, *, c=3): return (a, b, c)")
    assert stub.f(1) == (1, 2, 3)
    assert stub.f(1, c=5, b=4) == (1, 4, 5)


def test_the_learner_cannot_change_the_check_s_values(opened):
    stub = opened("def clear(items): items.clear(); return items")
    items = [1, 2]
    assert stub.clear(items) == []
    assert items == [1, 2]


def test_module_state_lasts_from_call_to_call(opened):
    stub = opened("seen = []\ndef note(x): seen.append(x); return len(seen)")
    assert [stub.note(1), stub.note(1)] == [1, 2]


def test_dataclasses_and_library_work_in_the_learner_s_file(opened):
    stub = opened(
        """
        from __future__ import annotations
        import pickle
        from dataclasses import dataclass
        from profiling_lab.findings import Finding

        @dataclass
        class Gap:
            start_ns: int

        def gaps(): return pickle.loads(pickle.dumps(Gap(3))).start_ns
        def diagnose(): return [Finding("healthy", "device:0", {"window_ns": 1}, "none")]
        """
    )
    assert stub.gaps() == 3
    assert stub.diagnose() == [Finding("healthy", "device:0", {"window_ns": 1}, "none")]


def test_a_value_that_cannot_cross_is_the_learner_s_failure(opened):
    stub = opened("import polars\ndef f(): return [{'a': polars.Series([1])}]")
    message = failure(stub.f)
    assert message.startswith('f() cannot be graded: result[0]["a"] is a polars Series')
    assert "return .to_list() or .to_numpy()" in message


def test_an_argument_that_cannot_cross_is_the_check_s_mistake(opened):
    stub = opened("def f(x): return x")
    with pytest.raises(ForbiddenValue, match="argument 1 of f is a set"):
        stub.f({1})


def test_forged_numbers_do_not_pass(opened):
    stub = opened(
        """
        class Any(int):
            def __eq__(self, other): return True
            __hash__ = int.__hash__
        def f(): return Any(3)
        """
    )
    assert "an int of the subclass Any" in failure(stub.f)


def test_a_result_over_the_limit(opened):
    stub = opened("def f(n): return bytes(n)", limit_bytes=100_000)
    assert len(stub.f(90_000)) == 90_000
    assert "its result has 0.2 MB, and 0.1 MB is the most that may cross" in failure(
        stub.f, 200_000
    )
    assert len(stub.f(90_000)) == 90_000


def test_output_of_the_learner_is_shown(opened, capsys):
    stub = opened(
        """
        import sys
        print("while importing")
        def f(): print("hello"); print("oops", file=sys.stderr); return 1
        """
    )
    stub.f()
    stub.f()
    out, err = capsys.readouterr()
    assert out == "while importing\nhello\nhello\n"
    assert err == "oops\noops\n"


# --- callables -----------------------------------------------------------------------------------


def test_callbacks_run_on_the_check_s_side(opened):
    stub = opened("def run(f, n): return [f(i, twice=True) for i in range(n)]")
    seen = []

    def callback(i, twice):
        seen.append((i, twice, os.getpid()))
        return i * 2

    assert stub.run(callback, 3) == [0, 2, 4]
    assert seen == [(i, True, os.getpid()) for i in range(3)]


def test_a_callback_s_builtin_exception_can_be_caught_by_the_learner(opened):
    stub = opened(
        """
        def run(f):
            try:
                f()
            except KeyError as error:
                return ["caught", error.args[0]]
        """
    )

    def callback():
        raise KeyError("no such stream")

    assert stub.run(callback) == ["caught", "no such stream"]


def test_a_callback_s_library_exception_keeps_its_type(opened):
    stub = opened(
        """
        from profiling_lab.errors import EmptyCapture
        def run(f):
            try:
                f()
            except EmptyCapture as error:
                return str(error)
        """
    )

    def callback():
        raise EmptyCapture("nothing in it")

    assert stub.run(callback) == "nothing in it"


def test_a_callback_s_other_exception_becomes_the_nearest_builtin(opened):
    stub = opened(
        """
        def run(f):
            try:
                f()
            except Exception as error:
                return [type(error).__name__, str(error)]
        """
    )

    class Odd(LookupError):
        pass

    class Odder(Exception):
        pass

    def odd():
        raise Odd("a")

    def odder():
        raise Odder("b")

    assert stub.run(odd) == ["LookupError", "a"]
    assert stub.run(odder) == ["RuntimeError", "b"]


def test_a_callback_s_exception_comes_back_as_itself(opened):
    stub = opened("def run(f): return f()")
    raised = AssertionError("the check's own words")

    def callback():
        raise raised

    with pytest.raises(AssertionError) as caught:
        stub.run(callback)
    assert caught.value is raised
    with stub.raises(AssertionError, match="own words"):
        stub.run(callback)


def test_what_the_learner_hands_to_a_callback_must_be_plain(opened):
    stub = opened("def run(f): return f({1})")
    message = failure(stub.run, lambda value: value)
    assert "raised ForbiddenValue: argument 1 of" in message
    assert "is a set" in message


def test_functions_that_the_learner_returns_can_be_called(opened):
    stub = opened(
        """
        def counted(f):
            count = 0
            def wrapper(x):
                nonlocal count
                count += 1
                return (f(x), count)
            return wrapper
        def failing():
            def inner(): raise ValueError("inside")
            return inner
        """
    )
    wrapper = stub.counted(lambda x: x + 1)
    assert wrapper(1) == (2, 1)
    assert wrapper(5) == (6, 2)
    with stub.raises(ValueError, match="inside"):
        stub.failing()()


def test_the_stub_may_be_called_from_a_callback(opened):
    stub = opened("def outer(f): return f(3) + 1\ndef inner(x): return x * 10")
    assert stub.outer(lambda x: stub.inner(x)) == 31  # noqa: PLW0108 - stubs are not handed over


def test_callbacks_from_the_learner_s_threads(opened):
    stub = opened(
        """
        from concurrent.futures import ThreadPoolExecutor
        def run(f):
            with ThreadPoolExecutor(4) as pool:
                return list(pool.map(f, range(50)))
        """
    )
    assert stub.run(lambda x: x * x) == [x * x for x in range(50)]


def test_a_callback_after_the_end_of_its_call_is_refused(opened):
    stub = opened(
        """
        import threading, time
        errors = []
        def start(f):
            def late():
                time.sleep(0.05)
                try:
                    f()
                except RuntimeError as error:
                    errors.append(str(error))
            thread = threading.Thread(target=late)
            thread.start()
        def result():
            return errors
        """
    )
    called = []

    def callback():
        called.append(1)

    stub.start(callback)
    for _ in range(3000):
        if stub.result():
            break
        time.sleep(0.02)
    assert "had ended" in stub.result()[0]
    assert called == []


# --- words ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ([1, 2, 3], "[1, 2, 3]"),
        ((1,), "(1,)"),
        (list(range(1000)), ", … 1000 in all]"),
        ({"a": [1]}, "{'a': [1]}"),
        ("x" * 300, "…"),
        (np.arange(3), "array([0, 1, 2], int64)"),
        (np.zeros((100, 2)), "array(100x2 float64)"),
        (Path("/a/b/c/d.sqlite"), "…/c/d.sqlite"),
        ("/tmp" + "/a" * 60 + "/c/d", "'…/c/d'"),
        (len, "len"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_are_abbreviated(value, text):
    shown = abbreviate(value)
    assert text in shown
    assert len(shown) < 140
