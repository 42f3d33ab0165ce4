"""Folders and plain files that were handed in, reached so that no link is followed."""

from __future__ import annotations

import contextlib
import errno
import os
import posixpath
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Protocol

from grading.grader.intake.refused import FILE_BYTES, Refused, allow, hidden, kind_of, shown

FOLDER_DEPTH = 40
WRAPPERS = 1_000  # folders looked into for the course's files
_UNWALKED = frozenset({"__pycache__", "node_modules", "venv", "site-packages"})


class Source(Protocol):
    """What was handed in, as files by path, with "/" between the parts."""

    committed_at: (
        float | None
    )  # seconds since 1970, of a clone's last commit; a file's time says nothing

    def has(self, path: str) -> bool:
        """Whether anything is there under exactly this path."""
        ...

    def folders(self) -> Iterable[str]:
        """The names of the folders at the top."""
        ...

    def names(self) -> Iterable[str]:
        """The paths of all files, some 10,000 at most."""
        ...

    def read(self, path: str) -> bytes:
        """A file's bytes. Raises Refused for what is no plain file of at most FILE_BYTES."""
        ...


class Folder:
    """A folder on disk, reached component by component so that no link is followed."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.committed_at: float | None = None

    def has(self, path: str) -> bool:
        try:
            with open_parent(self.descriptor, path) as (parent, name):
                os.stat(name, dir_fd=parent, follow_symlinks=False)
        except Refused:
            return True  # a link or no folder on the way: to be refused by name
        except FileNotFoundError:
            return False
        except OSError:
            return True  # reading it will say what is wrong
        return True

    def folders(self) -> Iterable[str]:
        with os.scandir(self.descriptor) as entries:
            found = [e.name for e in entries if e.is_dir(follow_symlinks=False)]
        return sorted(found)[:WRAPPERS]

    def names(self) -> Iterator[str]:
        walk = os.fwalk(".", dir_fd=self.descriptor, follow_symlinks=False)
        for place, folders, files, _ in walk:
            place = place.removeprefix(".").removeprefix("/")
            deep = place.count("/") >= FOLDER_DEPTH
            folders[:] = sorted(
                name for name in folders if not (deep or hidden(name) or name in _UNWALKED)
            )
            yield from (posixpath.join(place, name) for name in sorted(files))

    def read(self, path: str) -> bytes:
        try:
            with open_parent(self.descriptor, path) as (parent, name):
                return read_plain(parent, name, FILE_BYTES)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise Refused(f"it cannot be read ({error.strerror})") from None


@contextlib.contextmanager
def open_parent(folder: int, path: str) -> Iterator[tuple[int, str]]:
    """The folder that a path's last component lies in, as a descriptor, and that component."""
    *above, name = path.split("/")
    here = os.dup(folder)
    try:
        for part in above:
            try:
                inner = open_folder(part, here)
            except OSError as error:
                if error.errno in (errno.ELOOP, errno.ENOTDIR):
                    raise Refused(f"{shown(part)} is a link or no folder") from None
                raise
            os.close(here)
            here = inner
        yield here, name
    finally:
        os.close(here)


def open_folder(name: str | Path, folder: int | None = None) -> int:
    """A descriptor of a folder that is no link. Raises OSError."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(name, flags, dir_fd=folder)


def open_plain(folder: int, name: str) -> tuple[BinaryIO, os.stat_result]:
    """A regular file opened for reading, and its status; nothing else is opened, nothing blocks.

    Raises Refused for anything else, OSError.
    """
    kind = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if stat.S_ISLNK(kind.st_mode):
        raise Refused("it is a link; links are not followed")
    if not stat.S_ISREG(kind.st_mode):
        raise Refused(f"it is {kind_of(kind.st_mode)} and no plain file")
    # What was a file a moment ago may be something else by now.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    file = os.fdopen(os.open(name, flags, dir_fd=folder), "rb")
    status = os.fstat(file.fileno())
    if not stat.S_ISREG(status.st_mode):
        file.close()
        raise Refused(f"it is {kind_of(status.st_mode)} and no plain file")
    return file, status


def read_plain(folder: int, name: str, limit_bytes: int) -> bytes:
    """The bytes of a regular file. Raises Refused, OSError."""
    file, status = open_plain(folder, name)
    with file:
        allow(status.st_size, limit_bytes)
        data = file.read(limit_bytes + 1)
    allow(len(data), limit_bytes)
    return data
