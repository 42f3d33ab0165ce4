"""The guard against code that does not come back."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from grading.runner import hang_guard as hang_guards
from grading.runner.hang_guard import HANG_EXIT_CODE, HangError, hang_guard
from grading.runner.journal import Journal
from tests.harness.stubs.failures import AFTER, posix_proof

ROOT = Path(__file__).resolve().parents[2]


def spin(swallow=0):
    while True:
        try:
            while True:
                pass
        except HangError:
            if swallow == 0:
                raise
            swallow -= 1


@pytest.mark.parametrize("threaded", [False, True])
def test_the_guard_interrupts_in_any_thread(threaded):
    errors = []

    def run():
        try:
            with hang_guard(0.2, "spin()", sources=[__file__]):
                spin(swallow=2)
        except HangError as error:
            errors.append(error)

    if threaded:
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    else:
        run()
    (error,) = errors
    assert re.search(rf"spin\(\) {AFTER}; it was at test_hang_guard.py, line", str(error)), error
    assert error.where is not None
    assert error.where[2] == "spin"


def test_waiting_for_a_processor_takes_no_time_of_the_guard(monkeypatch):
    clocks = [0.0, 0.0]
    monkeypatch.setattr(hang_guards.time, "monotonic", lambda: clocks[0])
    monkeypatch.setattr(hang_guards.time, "process_time", lambda: clocks[1])
    for passed_s, computed_s, spent in (
        (3.0, 0.5, ""),  # a busy machine
        (3.0, 1.0, "1 s of processor time"),
        (4.0, 0.5, "4 s, 0.5 s of it processor time"),
    ):
        clocks[:] = 0.0, 0.0
        state = hang_guards._State(1.0, "f()", (), None)
        clocks[:] = passed_s, computed_s
        assert (state.is_due(), state.spent) == (bool(spent), spent)


def test_what_sleeps_is_ended_by_the_clock():
    slept = pytest.raises(HangError, match=r"f\(\) had not come back after 0.4 s, \S+ s of it")
    with slept, hang_guard(0.1, "f()"):
        time.sleep(600)


@pytest.mark.parametrize("threaded", [False, True])
def test_the_guard_leaves_nothing_behind(threaded):
    done = []

    def run():
        # Half a second: a busy machine may leave a process alone for longer than a few milliseconds.
        for _ in range(200):
            with hang_guard(0.5, "quick"):
                pass
        with hang_guard(60, "slow"):
            time.sleep(0.7)
        done.append(1)

    if threaded:
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    else:
        run()
    assert done == [1]


def test_a_guard_in_a_guard():
    with pytest.raises(HangError) as caught, hang_guard(0.4, "outer"):
        with pytest.raises(HangError, match="inner"), hang_guard(0.1, "inner"):
            spin()
        spin()
    assert caught.value.what == "outer"


def test_exceptions_pass_the_guard():
    with pytest.raises(ValueError, match="mine"), hang_guard(5, "x"):
        raise ValueError("mine")


@posix_proof
def test_the_guard_gives_up_after_five_swallowed_interruptions(tmp_path):
    script = tmp_path / "swallow.py"
    script.write_text(
        textwrap.dedent(
            """
            import sys
            from grading.runner.hang_guard import hang_guard
            from grading.runner.journal import Journal
            journal = Journal(sys.argv[1])
            journal.enter(exercise="ex_00", task="ex_00.f", check="test_f", source_hash="1")
            def loop():
                while True:
                    try:
                        x = 0
                        while True: x += 1
                    except BaseException: pass
            with hang_guard(0.1, "loop()", sources=[__file__], on_end=journal.note):
                loop()
            """
        )
    )
    path = tmp_path / "running.json"
    ended = subprocess.run(
        [sys.executable, str(script), str(path)],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == HANG_EXIT_CODE
    assert re.search(rf"loop\(\) {AFTER} and swallowed 5 interruptions", ended.stderr)
    left = Journal(path).left_over()
    assert "swallowed 5 interruptions (at swallow.py, line" in left.describe()


@posix_proof
def test_time_at_a_breakpoint_does_not_count(tmp_path):
    script = tmp_path / "debugged.py"
    script.write_text(
        textwrap.dedent(
            """
            from grading.runner.hang_guard import hang_guard
            with hang_guard(0.2, "x"):
                breakpoint()
                total = sum(range(10))
            print("through", total)
            """
        )
    )
    process = subprocess.Popen(
        [sys.executable, str(script)],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    time.sleep(1.5)  # longer than the guard's time by the clock
    out, err = process.communicate("next\ncontinue\n", timeout=600)
    assert "through 45" in out, err
