"""Run a command so that nothing of it is left behind: output untouched, signals passed on."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
TIMED_OUT = 124  # as timeout(1) says it


def run_whole(
    command: Sequence[str],
    environment: Mapping[str, str] | None = None,
    timeout_s: float | None = None,
    grace_s: float = 30.0,
) -> int:
    """Run a command to its end and return its exit code, 128 + n for one that signal n ended.

    It writes to this process' own stdout and stderr. SIGINT and SIGTERM go on to its process group;
    after timeout_s it gets SIGINT, so that a profiler can still write its report, and the code is
    124. What lives grace_s longer gets SIGTERM, then SIGKILL. Processes that it left running are
    ended in the same way. For a process that does nothing else meanwhile: on Linux it takes every
    descendant that appears for one of the command's.

    Raises OSError when it cannot be started.
    """
    _adopt_orphans()
    others = set(_descendants(os.getpid()))
    process = subprocess.Popen(
        command,
        env=None if environment is None else dict(environment),
        start_new_session=os.name == "posix",
    )
    asked = False

    def pass_on(number: int, _frame: object) -> None:
        nonlocal asked
        asked = True
        _signal(process, number)

    before = {number: signal.signal(number, pass_on) for number in (signal.SIGINT, signal.SIGTERM)}
    timed_out = False
    try:
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while process.poll() is None:
            time.sleep(0.02)
            if asked and deadline is None:
                deadline = time.monotonic() + grace_s
            if deadline is not None and time.monotonic() > deadline:
                timed_out = not asked
                _end(process, grace_s, signal.SIGTERM if asked else signal.SIGINT)
    finally:
        _end_rest(process, grace_s, others)
        for number, handler in before.items():
            signal.signal(number, handler)
    if timed_out:
        return TIMED_OUT
    code = process.returncode
    return 128 - code if code < 0 else code


def _end(process: subprocess.Popen[bytes], grace_s: float, first: int) -> None:
    """Signals of growing strength until the process has ended."""
    for number in dict.fromkeys((first, signal.SIGTERM, _KILL)):
        _signal(process, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(grace_s)
            return


def _end_rest(process: subprocess.Popen[bytes], grace_s: float, others: set[int]) -> None:
    """End what the command left behind: its group, and on Linux all that descends from it."""
    if process.poll() is None:
        _end(process, grace_s, signal.SIGTERM)
    if not sys.platform.startswith("linux"):
        _signal(process, _KILL)
        return
    for number, wait_s in ((0, 1.0), (signal.SIGTERM, min(grace_s, 5.0)), (_KILL, 5.0)):
        deadline = time.monotonic() + wait_s
        while left := set(_descendants(os.getpid())) - others:
            if number:
                for pid in left:
                    with contextlib.suppress(OSError):
                        os.kill(pid, number)
            if time.monotonic() > deadline:
                break
            time.sleep(0.02)
        if not left:
            return


_KILL = getattr(signal, "SIGKILL", signal.SIGTERM)


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    with contextlib.suppress(OSError):
        if os.name == "posix":
            os.killpg(process.pid, number)
        else:
            process.terminate()


def _adopt_orphans() -> None:
    """On Linux, become the parent of grandchildren whose parent ends, so that they can be found."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _descendants(of: int) -> list[int]:
    """On Linux, living processes that descend from one; ended ones that are its children are collected."""
    if not sys.platform.startswith("linux"):
        return []
    parents = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            # The name in parentheses may hold anything: state and parent stand after the last one.
            state, parent, *_ = (entry / "stat").read_text().rpartition(")")[2].split()
            if state != "Z":
                parents[int(entry.name)] = int(parent)
            elif int(parent) == of:
                os.waitpid(int(entry.name), os.WNOHANG)
    found: list[int] = []
    for pid in parents:
        above = pid
        while above in parents and above != of:
            above = parents[above]
        if above == of and pid != of:
            found.append(pid)
    return found
