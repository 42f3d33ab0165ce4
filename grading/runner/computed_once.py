"""What checks compute alike for every submission, computed once.

    @kept
    def kernels(capture): ...       # of plain arguments, the same result each time

In an ordinary run this is a cache. In a session that stands ready (`grading.runner.collected_session`) each fork tells what it
had to compute, and the session computes it as well, before its next fork: from then on every job finds it
there. A job has a copy of its own, as it is a process of its own.

A kept function starts no thread: a session that has one cannot be forked any more. So it asks nothing of polars.
"""

from __future__ import annotations

import contextlib
import functools
import os
import select
import struct
from collections.abc import Callable, Iterator
from typing import Any, ParamSpec, TypeVar

from grading.runner import wire

MOST = 500  # results that a session keeps
# What forks tell goes through a pipe: a datagram socket holds ten messages (net.unix.max_dgram_qlen), a pipe 64 KiB,
# and messages of several forks do not mix as long as each is written at once (pipe(7), PIPE_BUF).
_LENGTH = struct.Struct("=H")

P = ParamSpec("P")
R = TypeVar("R")

_functions: dict[str, Callable[..., Any]] = {}
_results: dict[tuple[Any, ...], Any] = {}
_pipe: tuple[int, int] | None = None  # what is told is read from the first end
_told = bytearray()  # read, and not yet looked at


def kept(function: Callable[P, R]) -> Callable[P, R]:
    """Keep the results of a function by its arguments, which are plain values."""
    name = f"{function.__module__}.{function.__qualname__}"
    _functions[name] = function

    @functools.wraps(function)
    def ask(*args: P.args, **kwargs: P.kwargs) -> R:
        key = (name, _hashable(args), _hashable(kwargs))
        if key not in _results:
            _results[key] = function(*args, **kwargs)
            _tell(name, args, kwargs)
        return _results[key]

    return ask


def kept_of_recordings(function: Callable[P, R]) -> Callable[P, R]:
    """Keep the results of a function of a capture for the course's own, which are asked for by their names.

    What lies at a path is of one job: a submission may have changed it.
    """
    of_a_name = kept(function)

    @functools.wraps(function)
    def ask(*args: P.args, **kwargs: P.kwargs) -> R:
        capture = str(args[0])
        is_path = os.sep in capture or "/" in capture
        return function(*args, **kwargs) if is_path else of_a_name(*args, **kwargs)

    return ask


def learn_from_forks() -> None:
    """From here on forks of this process tell it what they compute."""
    global _pipe
    if hasattr(os, "fork"):
        _pipe = os.pipe()
        for end in _pipe:
            os.set_blocking(end, False)


def compute_what_was_asked_for() -> None:
    """Compute what forks have told, so that the next one finds it."""
    for name, args, kwargs in _messages():
        key = (name, _hashable(args), _hashable(kwargs))
        if key not in _results and len(_results) < MOST:
            with contextlib.suppress(Exception):  # then each job meets the error itself
                _results[key] = _functions[name](*_tuples(args), **_tuples(kwargs))


def _messages() -> Iterator[Any]:
    """What forks have told since they were last asked."""
    if _pipe is not None:
        with contextlib.suppress(BlockingIOError):
            while part := os.read(_pipe[0], 65_536):
                _told.extend(part)
    while len(_told) >= _LENGTH.size:
        end = _LENGTH.size + _LENGTH.unpack_from(_told)[0]
        if len(_told) < end:
            return
        message = bytes(_told[_LENGTH.size : end])
        del _told[:end]
        yield wire.unpack(message)


def _tell(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    if _pipe is not None:
        # A message that finds no room is lost: the result is computed once more.
        with contextlib.suppress(OSError, wire.WireError, TypeError):
            message = wire.pack([name, list(args), kwargs])
            if _LENGTH.size + len(message) <= select.PIPE_BUF:
                os.write(_pipe[1], _LENGTH.pack(len(message)) + message)


def _hashable(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple(map(_hashable, value))
    if isinstance(value, dict):
        return tuple(sorted((key, _hashable(item)) for key, item in value.items()))
    return value


def _tuples(value: Any) -> Any:
    """A value that crossed, with tuples for lists: kept functions read their arguments only."""
    if isinstance(value, list):
        return tuple(map(_tuples, value))
    return {key: _tuples(item) for key, item in value.items()} if isinstance(value, dict) else value
