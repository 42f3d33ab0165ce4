"""Scratch folders that do not outlive their run for long: what a killed run left is removed by the next one.

A folder holds a locked file as long as its run lives. The lock is POSIX, of the process: it ends with it,
however that ends, and no child keeps it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from typing import IO

LOCK = ".alive"
_held: dict[Path, IO[str]] = {}


def new_folder(prefix: str, where: Path | None = None) -> Path:
    """A new private folder; removes those with this prefix beside it whose run has ended."""
    parent = Path(where or tempfile.gettempdir())
    remove_dead(prefix, parent)
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    stream = (folder / LOCK).open("w")
    fcntl.lockf(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    _held[folder] = stream
    return folder


def remove(folder: Path) -> None:
    """Remove a folder of this process, whatever is in it."""
    shutil.rmtree(folder, ignore_errors=True)
    if stream := _held.pop(folder, None):
        stream.close()


def remove_dead(prefix: str, parent: Path) -> None:
    """Remove this user's folders of runs that have ended; one without a lock file may be just being made."""
    for folder in parent.glob(f"{prefix}*"):
        # Opening a file of our own and closing it again would give its lock back.
        if folder in _held or folder.is_symlink():
            continue
        try:
            if folder.stat().st_uid != os.geteuid():
                continue
            with (folder / LOCK).open("r+") as stream:
                fcntl.lockf(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            continue
