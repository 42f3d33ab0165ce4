"""Runs SQL that came from the code under judgement: it reads the database that it is given, for a while.

A connection that was opened read-only still writes elsewhere when it is told to: VACUUM INTO and ATTACH make
files (https://www.sqlite.org/lang_vacuum.html#vacuuminto, https://www.sqlite.org/lang_attach.html). And
SQLite's progress handler is not called inside of a function, so one call of `instr` over large blobs runs as
long as it likes. On Linux each statement therefore runs in a child of its own, which the kernel ends.
"""

from __future__ import annotations

import marshal
import os
import signal
import sqlite3
import sys
from collections.abc import Callable
from typing import Any, TypeVar

MOST_STEPS = 200_000_000  # of SQLite's machine, for all statements of a connection
MOST_VALUE_BYTES = 2**20
MOST_CPU_S = 20  # of a child; no query of the course takes a second
MOST_ENDED = 3  # children; then a run's further SQL is refused
MOST_MEMORY_BYTES = 2**30  # of a child, besides what it is born with
_STEPS_AT_A_TIME = 100_000
_READING = frozenset(
    (
        sqlite3.SQLITE_SELECT,
        sqlite3.SQLITE_READ,
        sqlite3.SQLITE_FUNCTION,
        sqlite3.SQLITE_RECURSIVE,
    )
)
T = TypeVar("T")

_cpu_s = MOST_CPU_S
# Why children of this process were ended; a submission is judged in one of its own.
_ended: list[str] = []


def allow(cpu_s: float) -> None:
    """From here on a child of this process may compute for so long, if that is less than MOST_CPU_S."""
    global _cpu_s
    _cpu_s = max(1, min(MOST_CPU_S, int(cpu_s)))


def confine(connection: sqlite3.Connection, most_steps: int = MOST_STEPS) -> None:
    """From here on the connection runs queries only, for at most so many steps of SQLite's machine.

    What is no query raises sqlite3.DatabaseError ("not authorized"), a step too many
    sqlite3.OperationalError ("interrupted"), a value of more than MOST_VALUE_BYTES sqlite3.DataError.
    """
    connection.set_authorizer(_only_reading)
    limit(connection, most_steps)


def limit(connection: sqlite3.Connection, most_steps: int = MOST_STEPS) -> None:
    """The limits of `confine` alone, for a database of which nothing is kept."""
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MOST_VALUE_BYTES)
    left = [max(1, most_steps // _STEPS_AT_A_TIME)]

    def step() -> int:
        left[0] -= 1
        return int(left[0] < 0)

    connection.set_progress_handler(step, min(most_steps, _STEPS_AT_A_TIME))


def apart(run: Callable[[], T]) -> T:
    """What `run()` returns, run in a child that is ended after MOST_CPU_S or MOST_MEMORY_BYTES more memory.

    run: executes SQL; may return None, numbers, texts, bytes, and lists, tuples and dicts of them. The
    sqlite3.Error that it raises is raised here with its class and words; a child that was ended raises
    sqlite3.OperationalError. Elsewhere than on Linux it runs here, under the limits of `confine` alone.
    """
    if not sys.platform.startswith("linux"):
        return run()
    if len(_ended) >= MOST_ENDED:
        raise sqlite3.OperationalError(
            f"not run: {MOST_ENDED} statements before it were {_ended[-1]}"
        )
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _answer(run, writing)
    os.close(writing)
    try:
        with os.fdopen(reading, "rb") as answers:
            answer = answers.read()
    finally:
        _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        out_of_time = code == -signal.SIGXCPU
        why = f"after {_cpu_s} s of processor time" if out_of_time else f"by signal {-code}"
        _ended.append(f"ended {why}")
        raise sqlite3.OperationalError(_ended[-1])
    good, value = marshal.loads(answer)
    if good:
        return value
    kind, words = value
    error = getattr(sqlite3, kind, None)
    raise (error or sqlite3.OperationalError)(words if error else f"{kind}: {words}")


def _answer(run: Callable[[], Any], writing: int) -> None:
    """Be the child: run, write what came of it, and end."""
    code = 70
    try:
        _limit_this_process()
        try:
            answer = marshal.dumps((True, run()))
        except (sqlite3.Error, MemoryError) as error:
            kind, words = type(error).__name__, str(error)
            if isinstance(error, MemoryError):
                kind, words = "OperationalError", "takes more memory than it may"
            answer = marshal.dumps((False, (kind, words)))
        with os.fdopen(writing, "wb") as file:
            file.write(answer)
        code = 0
    finally:
        os._exit(code)


def _limit_this_process() -> None:
    import resource  # not on Windows

    signal.signal(signal.SIGXCPU, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, 0)  # the judge's own limit is the judge's
    used = int(sum(resource.getrusage(resource.RUSAGE_SELF)[:2]))
    for which, soft, hard in (
        (resource.RLIMIT_CPU, used + _cpu_s, used + _cpu_s + 1),
        (resource.RLIMIT_AS, *[_size_bytes() + MOST_MEMORY_BYTES] * 2),
        (resource.RLIMIT_CORE, 0, 0),
    ):
        _, most = resource.getrlimit(which)
        if most != resource.RLIM_INFINITY:
            soft, hard = min(soft, most), min(hard, most)
        resource.setrlimit(which, (soft, hard))


def _size_bytes() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")


def _only_reading(action: int, *_: object) -> int:
    return sqlite3.SQLITE_OK if action in _READING else sqlite3.SQLITE_DENY
