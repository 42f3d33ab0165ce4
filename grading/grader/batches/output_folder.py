"""The folder of a batch: its lock, and what is wrong with it in words."""

from __future__ import annotations

import datetime
import errno
import json
import os
import socket
from pathlib import Path
from typing import IO

from profiling_lab.errors import LabError

LOCK = ".lock"
_TROUBLE = {
    errno.ENOSPC: "no space is left on the disk",
    errno.EDQUOT: "your disk quota is used up",
    errno.EROFS: "the disk is mounted read-only",
    errno.EACCES: "you may not write there",
    errno.EPERM: "you may not write there",
    errno.EIO: "the disk reports an error",
}


class StoreError(LabError):
    """The output folder cannot be used; the message says why and what to do."""


class Busy(StoreError):
    """Another grader writes into the folder; the message says who."""


def trouble(error: OSError) -> str:
    """What an error of the file system means, in words."""
    return _TROUBLE.get(error.errno or 0, error.strerror or str(error))


# A POSIX lock belongs to the process, so that children forked from it cannot keep it after its death;
# for the same reason it does not keep two threads of one process apart, which this set does.
_held: set[str] = set()


def take_lock(out: Path) -> IO[str]:
    try:
        import fcntl
    except ImportError:
        raise StoreError("grading needs Linux (file locks, sandbox); use WSL on Windows") from None
    name = os.path.realpath(out)
    if name in _held:
        raise Busy(f"{out}: is already being written to by this process")
    stream = (out / LOCK).open("a+", encoding="utf-8")
    try:
        fcntl.lockf(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        stream.seek(0)
        holder = _holder(stream.read())
        stream.close()
        if error.errno not in (errno.EACCES, errno.EAGAIN):
            raise
        raise Busy(
            f"{out}: another grader is at work there ({holder}); wait for it, or choose another --out"
        ) from None
    stream.seek(0)
    stream.truncate()
    since = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    json.dump({"pid": os.getpid(), "host": socket.gethostname(), "since": since}, stream)
    stream.flush()
    _held.add(name)
    return stream


def release_lock(out: Path, stream: IO[str]) -> None:
    # The file stays: removing it would let a third grader lock another file of this name.
    try:
        stream.seek(0)
        stream.truncate()
    except OSError:
        pass
    stream.close()
    _held.discard(os.path.realpath(out))


def holder(out: Path) -> str:
    """Who writes into a folder now, in words; "" if nobody does."""
    if os.path.realpath(out) in _held:
        return f"process {os.getpid()}, this one"
    try:
        import fcntl

        with (out / LOCK).open("r+", encoding="utf-8") as stream:
            try:
                fcntl.lockf(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                return _holder(stream.read())
    except (OSError, ImportError):
        pass
    return ""


def _holder(text: str) -> str:
    try:
        facts = json.loads(text)
        return f"process {facts['pid']} on {facts['host']}, since {facts['since']}"
    except (ValueError, KeyError, TypeError):
        return "it does not say which"
