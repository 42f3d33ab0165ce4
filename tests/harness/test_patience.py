"""The tests' guard against commands that hang."""

from __future__ import annotations

import subprocess
import sys

import pytest

from grading.proof import patience


@pytest.mark.skipif(sys.platform == "win32", reason="a limit of processor time is POSIX's")
def test_what_computes_for_ever_is_ended_and_said() -> None:
    with pytest.raises(AssertionError, match="ended after 1 s of processor time"):
        patience.run([sys.executable, "-c", "while True: pass"], cpu_s=1)


def test_what_sleeps_is_ended_by_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "CLOCK_S", 0.2)
    with pytest.raises(subprocess.TimeoutExpired):
        patience.run(
            [sys.executable, "-c", "import time; time.sleep(60)"], timeout=patience.CLOCK_S
        )


def test_what_ends_by_itself_is_left_alone() -> None:
    done = patience.run([sys.executable, "-c", "print(1); raise SystemExit(3)"])
    assert (done.returncode, done.stdout) == (3, "1\n")
