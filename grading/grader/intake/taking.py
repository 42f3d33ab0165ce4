"""Reads what was handed in, a folder, an archive or a clone, and takes the course's files out of it.

Nothing of it is run, imported, unpacked to disk or followed: no link, no configuration of a repository,
no archive in an archive. Only files whose path is exactly one of the manifest's are read, and only so far
as the limits of `grading.grader.intake.refused` go. Archives can still make a parser slow or large, so all of
this happens in a process of its own with a limit on memory (`grading.grader.intake.reader`), which
`grading.grader.intake.submissions` kills when it takes too long.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import shutil
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grading.grader.intake.archives import Archive, Member, open_archive
from grading.grader.intake.folders import Folder, Source, open_folder, read_plain
from grading.grader.intake.refused import (
    FILE_BYTES,
    MEMBERS,
    SUFFIXES,
    TWICE,
    UNSUPPORTED,
    NotThere,
    Refused,
    StagingError,
    hidden,
    shown,
    stub_of,
)
from grading.grader.intake.repositories import Repository, is_bare

EXTRA_NAMES = 50

# https://peps.python.org/pep-0263/#defining-the-encoding
_CODING = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")


@dataclass
class Taken:
    """What came of one entry; see grading.grader.intake.submissions.Submission."""

    files: dict[str, str]
    sha256: str = ""
    extra: list[str] = field(default_factory=list)
    extra_count: int = 0
    error: str = ""
    submitted_at: float | None = None


class Taker:
    """Takes the files of a manifest out of entries.

    stubs: their paths. given: the paths of the course's own files, which are no extras.
    """

    def __init__(self, stubs: list[str], given: frozenset[str]) -> None:
        self.stubs = stubs
        self.given = given | frozenset(stubs)

    def take(self, path: Path, tree: Path, beside: Sequence[str] = ()) -> Taken:
        """Copy the course's files out of an entry into the folder `tree`, which is made anew.

        beside: names of files in the same folder that are the same student's, as Canvas gives a hand-in of several.
        Raises StagingError if `tree` cannot be written.
        """
        _clear(tree)
        taken = Taken(dict.fromkeys(self.stubs, "missing"))
        total = hashlib.sha256()
        try:
            with contextlib.ExitStack() as close:
                source = self._open(path, close, beside)
                prefix, places = self._places(source)
                for stub in self.stubs:
                    path_of = places.get(stub, "")
                    taken.files[stub] = self._copy(source, path_of, tree / stub, stub, total)
                self._extras(source, prefix, frozenset(places.values()), taken)
                taken.submitted_at = source.committed_at
        except Refused as error:
            taken.error = str(error)
        except FileNotFoundError:
            taken.error = "it vanished while it was read; put it back and grade again"
        except OSError as error:
            taken.error = f"it cannot be read ({error.strerror}); fix that and grade again"
        if taken.error:
            _clear(tree)
            return Taken(dict.fromkeys(self.stubs, "missing"), error=taken.error)
        taken.sha256 = total.hexdigest()
        return taken

    def _open(self, path: Path, close: contextlib.ExitStack, beside: Sequence[str]) -> Source:
        """The entry as a source of files. Raises Refused, OSError."""
        parent = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        close.callback(os.close, parent)
        kind = os.stat(path.name, dir_fd=parent, follow_symlinks=False).st_mode
        if not stat.S_ISDIR(kind):
            if stub_of(path.name, self.stubs):
                alone = Archive()
                for name in (path.name, *beside):
                    read = functools.partial(read_plain, parent, name, FILE_BYTES)
                    alone.add(name, Member(read))
                return alone
            return open_archive(parent, path.name, close)
        descriptor = open_folder(path.name, parent)
        close.callback(os.close, descriptor)
        if is_bare(descriptor):
            return Repository(path, descriptor, close).read()
        folder = Folder(descriptor)
        there = any(map(folder.has, self.stubs))
        with contextlib.suppress(OSError):
            git = open_folder(".git", descriptor)
            close.callback(os.close, git)
            repository = Repository(path / ".git", git, close)
            if not there and not _work_in(folder):
                return repository.read()  # cloned without a work tree
            folder.committed_at = repository.committed_at()
        if not there and (name := _only_archive(descriptor)):
            return open_archive(descriptor, name, close)  # as Moodle hands them out
        return folder

    def _places(self, source: Source) -> tuple[str, dict[str, str]]:
        """The folder that all lies in, and where each stub lies; by their names if none is at its place.

        Raises Refused.
        """
        try:
            prefix = self._wrapper(source)
        except NotThere:
            found: dict[str, str] = {}
            for _, path in zip(range(MEMBERS), source.names(), strict=False):
                stub = stub_of(path.rpartition("/")[2], self.stubs)
                if stub in found:
                    raise Refused(
                        f"two files in it may be {shown(stub)} ({shown(found[stub])}, {shown(path)}); leave one"
                    ) from None
                if stub:
                    found[stub] = path
            if not found:
                raise
            return "", found
        return prefix, {stub: prefix + stub for stub in self.stubs}

    def _wrapper(self, source: Source) -> str:
        """The folder that all lies in, with a "/", or "". Raises Refused."""
        if any(map(source.has, self.stubs)):
            return ""
        folders = [name for name in source.folders() if not hidden(name)]
        found = [
            name for name in folders if any(source.has(f"{name}/{stub}") for stub in self.stubs)
        ]
        if len(found) > 1:  # a clone holds the references as well
            found = [name for name in found if name != "solutions"]
        if len(found) > 1:
            names = ", ".join(map(shown, found[:5]))
            raise Refused(f"several folders in it hold the course's files ({names}); leave one")
        if found:
            return found[0] + "/"
        names = [shown(name, 60) for _, name in zip(range(6), source.names(), strict=False)]
        if not names:
            raise Refused("it is empty")
        packed = any(name.lower().endswith((*SUFFIXES, *UNSUPPORTED)) for name in names)
        raise NotThere(
            f"it holds none of the course's files at their places ({self.stubs[0]}, …); "
            f"it holds {', '.join(names[:5])}{', …' if len(names) > 5 else ''}"
            f"{'; an archive in an archive is not opened: unpack it once' if packed else ''}"
        )

    def _copy(self, source: Source, path: str, target: Path, stub: str, total: Any) -> str:
        """Copy one file and hash it; its state."""
        if not path or not source.has(path):
            return "missing"
        try:
            data = as_text(source.read(path), stub)
        except FileNotFoundError:
            return "missing"
        except Refused as error:
            return f"refused: {error}"
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with open(target, "xb") as file:
                file.write(data)
        except OSError as error:
            raise StagingError(error.strerror or str(error)) from None
        total.update(f"{stub}\0{len(data)}\0".encode())
        total.update(data)
        return "submitted"

    def _extras(self, source: Source, prefix: str, places: frozenset[str], taken: Taken) -> None:
        """Name what is there and neither taken nor the course's own."""
        for number, name in enumerate(source.names()):
            if number >= MEMBERS:
                break
            inside = name.removeprefix(prefix)
            if name in places:
                continue
            if (inside not in self.given) if name.startswith(prefix) else not hidden(name):
                taken.extra_count += 1
                if len(taken.extra) < EXTRA_NAMES:
                    taken.extra.append(shown(inside))


def as_text(data: bytes, path: str) -> bytes:
    """Source as it is staged: UTF-8 without a byte order mark. Raises Refused."""
    data = data.removeprefix(b"\xef\xbb\xbf")
    if b"\0" in data:
        raise Refused("it holds NUL bytes and is no text; save it as UTF-8")
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise Refused(f"line {line} is not UTF-8; save it as UTF-8") from None
    if path.endswith(".py"):
        for line in re.split(rb"\r\n?|\n", data, maxsplit=2)[:2]:
            found = _CODING.match(line)
            if found and found[1].lower().replace(b"_", b"-") not in (b"utf-8", b"utf8"):
                # Python would read other code than people and the grader do.
                name = shown(found[1].decode("ascii", "replace"), 40)
                raise Refused(f"it declares the encoding {name}; save it as UTF-8")
    return data


def _work_in(folder: Folder) -> bool:
    """Whether a folder holds anything but hidden entries."""
    with os.scandir(folder.descriptor) as entries:
        return any(not hidden(entry.name) for entry in entries)


def _only_archive(folder: int) -> str:
    """The name of a folder's archive if that is all it holds, else "". Raises Refused for several."""
    with os.scandir(folder) as entries:
        visible = [entry for entry in entries if not hidden(entry.name)]
        archives = sorted(
            entry.name
            for entry in visible
            if entry.is_file(follow_symlinks=False)
            and entry.name.lower().endswith((*SUFFIXES, *UNSUPPORTED))
        )
    if len(archives) > 1:
        raise Refused(f"{TWICE}: {', '.join(map(shown, archives))}")
    return archives[0] if len(archives) == len(visible) == 1 else ""


def _clear(tree: Path) -> None:
    try:
        if tree.is_symlink() or tree.is_file():
            tree.unlink()
        elif tree.exists():
            shutil.rmtree(tree)
        tree.mkdir(parents=True)
    except OSError as error:
        raise StagingError(error.strerror or str(error)) from None
