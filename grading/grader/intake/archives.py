"""Reads what was handed in, a folder, an archive or a clone, and takes the course's files out of it.

Nothing of it is run, imported, unpacked to disk or followed: no link, no configuration of a repository,
no archive in an archive. Only files whose path is exactly one of the manifest's are read, and only so far
as the limits below go. Archives can still make a parser slow or large, so all of this happens in a process
of its own with a limit on memory (`serve`), which `grading.grader.intake.submissions` kills when it takes too long.
"""

from __future__ import annotations

import bz2
import contextlib
import errno
import gzip
import hashlib
import json
import lzma
import math
import os
import posixpath
import re
import shutil
import signal
import stat
import subprocess
import sys
import tarfile
import tempfile
import unicodedata
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from grading.runner.printable import printable

FILE_BYTES = 1 << 20
ARCHIVE_BYTES = 64 << 20  # of an archive, packed and, where all of it must be read, unpacked
MEMBERS = 10_000
EXTRA_NAMES = 50
FOLDER_DEPTH = 40
DIRECTORY_BYTES = 8 << 20  # of a zip's directory: 10,000 members with names of 800 bytes
MEMORY_BYTES = 2 << 30  # of the process that reads
ENTRY_CPU_S = 20  # processor time for one entry; an honest one takes well under a second
READS_PAST_END = 8
WRAPPERS = 1_000  # folders looked into for the course's files

SUFFIXES = (
    *(".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tbz"),
    *(".tar.xz", ".txz", ".tar.zst", ".tzst"),
)
UNSUPPORTED = (".7z", ".rar", ".gz", ".bz2", ".xz", ".zst", ".iso", ".dmg")
HIDDEN = frozenset({"__MACOSX", "@eaDir", "Thumbs.db", "desktop.ini", "lost+found"})
_UNWALKED = frozenset({"__pycache__", "node_modules", "venv", "site-packages"})
PACK_ANEW = "hand in the zip that `lab submit` writes"

# https://peps.python.org/pep-0263/#defining-the-encoding
_CODING = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")


class Refused(Exception):
    """Something cannot be taken; the message says why and, where it helps, what to do."""


class NotThere(Refused):
    """An entry holds none of the course's files at their places."""


class StagingError(Exception):
    """The staging folder cannot be written: not the submission's doing."""


def hidden(name: str) -> bool:
    """Whether an entry is the system's own and no one's work (.git, .DS_Store, __MACOSX, …)."""
    return name.startswith(".") or name in HIDDEN


def shown(name: str, length: int = 200) -> str:
    """A name as it may be printed: composed (NFC), without what moves a cursor or turns the writing.

    Characters that control, format or encode nothing become their Python escapes; longer names are cut.
    """
    return printable(unicodedata.normalize("NFC", name), length)


def archive_stem(name: str) -> str:
    """A name without an archive's suffix."""
    for suffix in sorted((*SUFFIXES, *UNSUPPORTED, ".git"), key=len, reverse=True):
        if name.lower().endswith(suffix) and len(name) > len(suffix):
            return name[: -len(suffix)]
    return name


# -- where files come from ------------------------------------------------------------------------


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
            with _open_parent(self.descriptor, path) as (parent, name):
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
            with _open_parent(self.descriptor, path) as (parent, name):
                return read_plain(parent, name, FILE_BYTES)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise Refused(f"it cannot be read ({error.strerror})") from None


@contextlib.contextmanager
def _open_parent(folder: int, path: str) -> Iterator[tuple[int, str]]:
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
        raise Refused(f"it is {_kind(kind.st_mode)} and no plain file")
    # What was a file a moment ago may be something else by now.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    file = os.fdopen(os.open(name, flags, dir_fd=folder), "rb")
    status = os.fstat(file.fileno())
    if not stat.S_ISREG(status.st_mode):
        file.close()
        raise Refused(f"it is {_kind(status.st_mode)} and no plain file")
    return file, status


def read_plain(folder: int, name: str, limit_bytes: int) -> bytes:
    """The bytes of a regular file. Raises Refused, OSError."""
    file, status = open_plain(folder, name)
    with file:
        _allow(status.st_size, limit_bytes)
        data = file.read(limit_bytes + 1)
    _allow(len(data), limit_bytes)
    return data


def _allow(size: int, limit_bytes: int = FILE_BYTES) -> None:
    if size > limit_bytes:
        raise Refused(f"it is larger than {limit_bytes / (1 << 20):g} MiB")


def _kind(mode: int) -> str:
    kinds = (
        (stat.S_ISDIR, "a folder"),
        (stat.S_ISFIFO, "a pipe"),
        (stat.S_ISSOCK, "a socket"),
        (stat.S_ISCHR, "a device"),
        (stat.S_ISBLK, "a device"),
    )
    return next((words for test, words in kinds if test(mode)), "something else")


@dataclass
class _Member:
    """A file of an archive: how to read it, or why it is refused."""

    read: Callable[[], bytes] | None = None
    refused: str = ""


@dataclass
class Archive:
    """The members of an archive or a commit by their path; what lands twice on a path is refused."""

    committed_at: float | None = None
    members: dict[str, _Member] = field(default_factory=dict)
    close: Callable[[], None] = lambda: None

    def add(self, name: str, member: _Member) -> None:
        path, problem = _member_path(name)
        if path in self.members:
            member = _Member(refused="the archive holds it twice; pack it anew")
        elif problem:
            member = _Member(refused=problem)
        self.members[path] = member

    def has(self, path: str) -> bool:
        return path in self.members

    def folders(self) -> list[str]:
        return sorted({path.split("/")[0] for path in self.members if "/" in path})[:WRAPPERS]

    def names(self) -> list[str]:
        return sorted(self.members)

    def read(self, path: str) -> bytes:
        member = self.members[path]
        if member.read is None:
            raise Refused(member.refused)
        return member.read()


def _member_path(name: str) -> tuple[str, str]:
    """Where a member's name leads, and why it is refused.

    Names that leave the archive are followed on paper only, so that the file can be named.
    """
    path = name.replace("\\", "/")  # as some packers on Windows write them
    parts = [part for part in path.split("/") if part not in ("", ".")]
    problem = ""
    if path.startswith("/") or re.match(r"[A-Za-z]:", path):
        problem = "its name in the archive is an absolute path; pack it anew"
        parts = parts[1:] if parts and parts[0].endswith(":") else parts
    if ".." in parts:
        problem = "its name in the archive leads upwards with '..'; pack it anew"
        normal = posixpath.normpath("/" + "/".join(parts))
        parts = [part for part in normal.split("/") if part]
    return "/".join(parts), problem


def open_archive(folder: int, name: str, close: contextlib.ExitStack) -> Archive:
    """The archive of this name in a folder; `close` closes it. Raises Refused, OSError."""
    file, status = open_plain(folder, name)
    close.enter_context(file)
    if status.st_size > ARCHIVE_BYTES:
        raise Refused(
            f"the archive is larger than {ARCHIVE_BYTES >> 20} MiB ({status.st_size:,} bytes); "
            + PACK_ANEW
        )
    start = file.read(512)
    file.seek(0)
    archive = Archive()
    try:
        if start.startswith((b"PK\x03\x04", b"PK\x05\x06")):
            _read_zip(file, archive, close)
        else:
            _read_tar(_unpacked(file, start, close), archive)
    except Refused:
        raise
    except (MemoryError, RecursionError):
        raise Refused(f"it takes too much memory to read; {PACK_ANEW}") from None
    except OSError as error:
        if error.errno is not None:
            raise
        raise Refused(_damaged(error)) from None
    except Exception as error:  # noqa: BLE001 (parsers of archives fail in many ways)
        raise Refused(_damaged(error)) from None
    return archive


def _damaged(error: Exception) -> str:
    words = shown(str(error)) or type(error).__name__
    return f"it cannot be read as an archive ({words}); {PACK_ANEW}"


class _Directory:
    """A zip file whose directory may not be read in one piece larger than the limit."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.seekable, self.tell, self.seek = file.seekable, file.tell, file.seek

    def read(self, size: int = -1) -> bytes:
        if size < 0:
            size = os.fstat(self.file.fileno()).st_size - self.file.tell()
        if size > DIRECTORY_BYTES:
            raise Refused(f"the zip's directory is too large; {PACK_ANEW}")
        return self.file.read(size)


def _read_zip(file: BinaryIO, archive: Archive, close: contextlib.ExitStack) -> None:
    directory: Any = _Directory(file)
    opened = close.enter_context(zipfile.ZipFile(directory))
    infos = opened.infolist()
    if len(infos) > MEMBERS:
        raise Refused(f"it holds {len(infos):,} members, more than {MEMBERS:,}; {PACK_ANEW}")
    end = 0
    for info in sorted(infos, key=lambda info: info.header_offset):
        if info.header_offset < end:
            raise Refused(f"its members overlap, as in a zip bomb; {PACK_ANEW}")
        # At least: a local header is 30 bytes and the name long, and may have more fields.
        end = info.header_offset + 30 + len(info.orig_filename) + info.compress_size
    for info in infos:
        if not info.orig_filename.endswith(("/", "\\")):
            archive.add(info.orig_filename, _zip_member(opened, info))


def _zip_member(opened: zipfile.ZipFile, info: zipfile.ZipInfo) -> _Member:
    mode = info.external_attr >> 16
    if stat.S_ISLNK(mode):
        return _Member(refused="it is a link; links are not followed")
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
        return _Member(refused=f"it is {_kind(mode)} and no plain file")
    if info.flag_bits & 0x41:
        return _Member(refused="it is encrypted; pack it without a password")
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        # The module unpacks the other kinds without a limit.
        return _Member(refused=f"it is compressed in an unusual way; {PACK_ANEW}")
    if info.file_size > FILE_BYTES:
        return _Member(refused=f"it is larger than {FILE_BYTES >> 20} MiB")

    def read() -> bytes:
        try:
            with opened.open(info) as member:
                data = member.read(FILE_BYTES + 1)
        except Exception as error:  # noqa: BLE001 (a wrong checksum, a broken stream)
            raise Refused(f"it is damaged ({shown(str(error))}); pack it anew") from None
        _allow(len(data))
        return data

    return _Member(read)


class _Capped:
    """A stream that ends with Refused once it has given so much, or is asked again and again past its end.

    tarfile skips a member of a claimed terabyte in steps of 10 kB, and looks at none of them.
    """

    def __init__(self, stream: Any, limit_bytes: int) -> None:
        self.stream = stream
        self.left = limit_bytes
        self.asked_past_end = 0

    def read(self, size: int) -> bytes:
        data = self.stream.read(min(size, self.left + 1))
        self.left -= len(data)
        self.asked_past_end += not data
        if self.asked_past_end > READS_PAST_END:
            raise Refused(f"its members claim to be larger than it is; {PACK_ANEW}")
        if self.left < 0:
            raise Refused(f"it unpacks to more than {ARCHIVE_BYTES >> 20} MiB; {PACK_ANEW}")
        return data


def _unpacked(file: BinaryIO, start: bytes, close: contextlib.ExitStack) -> _Capped:
    """The stream of a tar file, recognised by how it begins and not by its name."""
    stream: Any = file
    if start.startswith(b"\x1f\x8b"):
        stream = close.enter_context(gzip.GzipFile(fileobj=file))
    elif start.startswith(b"BZh"):
        stream = close.enter_context(bz2.BZ2File(file))
    elif start.startswith(b"\xfd7zXZ\0"):
        stream = close.enter_context(lzma.LZMAFile(file))  # noqa: SIM115
    elif start.startswith(b"\x28\xb5\x2f\xfd"):
        try:
            from compression import zstd  # pyrefly: ignore  # from Python 3.14 on
        except ImportError:
            raise Refused(f"it is a .zst, which needs Python 3.14; {PACK_ANEW}") from None
        stream = close.enter_context(zstd.ZstdFile(file))
    elif start[257:262] != b"ustar" and not _old_tar(start):
        raise Refused(f"it is neither a zip nor a tar file; {PACK_ANEW}")
    return _Capped(stream, ARCHIVE_BYTES)


def _old_tar(start: bytes) -> bool:
    """Whether this is the header of a tar file from before 1988, which has no magic number."""
    try:
        tarfile.TarInfo.frombuf(start, "utf-8", "surrogateescape")
    except tarfile.TarError:
        return False
    return True


def _read_tar(stream: Any, archive: Archive) -> None:
    """All members of a tar file; those that may be the course's are kept, the others named.

    A stream knows no way back: a header that points backwards is an error and no endless loop.
    """
    with tarfile.open(
        fileobj=stream,
        mode="r|",
        encoding="utf-8",
        errors="surrogateescape",
    ) as opened:
        for number, info in enumerate(opened, 1):
            if number > MEMBERS:
                raise Refused(f"it holds more than {MEMBERS:,} members; {PACK_ANEW}")
            if not info.isdir():
                archive.add(info.name, _tar_member(opened, info))


def _tar_member(opened: tarfile.TarFile, info: tarfile.TarInfo) -> _Member:
    if info.issym() or info.islnk():
        return _Member(refused="it is a link; links are not followed")
    if info.issparse():
        return _Member(refused="it is a sparse file; pack it anew")
    if not info.isreg():
        return _Member(refused="it is a pipe, a device or the like and no plain file")
    if info.size > FILE_BYTES:
        return _Member(refused=f"it is larger than {FILE_BYTES >> 20} MiB")
    if not info.name.endswith((".py", ".cu", ".cuh")):
        return _Member(refused="it is no source file")
    member = opened.extractfile(info)
    data = member.read() if member else b""
    return _Member(lambda: data)


# -- git ------------------------------------------------------------------------------------------


def is_bare(folder: int) -> bool:
    """Whether a folder is a bare git repository."""
    try:
        kinds = [
            os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
            for name in ("HEAD", "objects", "refs")
        ]
    except OSError:
        return False
    return stat.S_ISREG(kinds[0]) and all(map(stat.S_ISDIR, kinds[1:]))


class Repository:
    """The commit that HEAD of a repository names, read by git through a folder of our own.

    git never sees the repository's own configuration, hooks or references, only its objects: what
    the configuration could start (filters, a monitor, a pager, a transport) is not there.
    """

    def __init__(self, path: Path, folder: int, close: contextlib.ExitStack) -> None:
        self.own = Path(close.enter_context(tempfile.TemporaryDirectory(prefix="grade-git-")))
        (self.own / "refs").mkdir()
        (self.own / "objects").mkdir()
        (self.own / "HEAD").write_text("ref: refs/heads/none\n", encoding="ascii")
        (self.own / "config").write_text(
            "[core]\n\trepositoryformatversion = 0\n\tbare = true\n\tpackedGitWindowSize = 32m\n"
            "\tpackedGitLimit = 256m\n",
            encoding="ascii",
        )
        self.folder = folder
        self.environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "LC_ALL": "C",
            "HOME": str(self.own),
            "GIT_DIR": str(self.own),
            "GIT_OBJECT_DIRECTORY": str(path / "objects"),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_ALLOW_PROTOCOL": "none",
        }

    def git(self, *arguments: str, limit_bytes: int = 1 << 20) -> bytes:
        """What a git command prints. Raises Refused if it fails or prints more."""
        try:
            process = subprocess.Popen(
                ["git", "--no-pager", *arguments],
                env=self.environment,
                cwd=self.own,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        except FileNotFoundError:
            raise Refused("it is a git repository, and git is not installed here") from None
        with process:
            assert process.stdout
            out = process.stdout.read(limit_bytes + 1)
            if len(out) > limit_bytes:
                process.kill()
                raise Refused(f"its commit is too large to read; {PACK_ANEW}")
        if process.returncode:
            raise Refused("git cannot read its commit: is the clone complete?")
        return out

    def head(self) -> str:
        """The commit's hash. Raises Refused."""
        try:
            name = self._text("HEAD").strip()
            if name.startswith("ref: "):
                name = self._resolve(name.removeprefix("ref: ").strip())
        except OSError:
            raise Refused("its HEAD cannot be read: is the clone complete?") from None
        if not re.fullmatch(r"[0-9a-f]{40}", name):
            raise Refused("its HEAD names no commit: is the repository empty?")
        return name

    def _text(self, path: str) -> str:
        with _open_parent(self.folder, path) as (parent, name):
            return read_plain(parent, name, 4 << 20).decode("utf-8", "replace")

    def _resolve(self, reference: str) -> str:
        if not reference.startswith("refs/") or ".." in reference:
            return ""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            return self._text(reference).strip()
        with contextlib.suppress(FileNotFoundError):
            for line in self._text("packed-refs").splitlines():
                commit, _, name = line.partition(" ")
                if name == reference:
                    return commit
        return ""

    def committed_at(self) -> float | None:
        """When the commit was made, as it says; None if that cannot be read."""
        try:
            commit = self.git("cat-file", "commit", self.head())
        except Refused:
            return None
        found = re.search(rb"^committer .*> (\d{1,12}) [-+]\d{4}$", commit, re.MULTILINE)
        return float(found[1]) if found else None

    def read(self) -> Archive:
        """The commit's files. Raises Refused."""
        self._stays_inside()
        commit = self.head()
        archive = Archive(self.committed_at())
        listing = self.git(
            *("ls-tree", "-r", "-l", "-z", "--full-tree", commit), limit_bytes=DIRECTORY_BYTES
        )
        for line in listing.split(b"\0")[:-1]:
            about, _, name = line.partition(b"\t")
            mode, _, blob, size = about.split()
            path = name.decode("utf-8", "surrogateescape")
            if mode not in (b"100644", b"100755"):
                member = _Member(refused="it is a link; links are not followed")
            elif int(size) > FILE_BYTES:
                member = _Member(refused=f"it is larger than {FILE_BYTES >> 20} MiB")
            else:
                member = _Member(self._reader(blob.decode("ascii")))
            archive.members[path] = member
        return archive

    def _reader(self, blob: str) -> Callable[[], bytes]:
        return lambda: self.git("cat-file", "blob", blob, limit_bytes=FILE_BYTES)

    def _stays_inside(self) -> None:
        """Its objects must be its own: a link or an alternate would show another repository's."""
        try:
            objects = open_folder("objects", self.folder)
        except OSError:
            raise Refused("its objects cannot be read: is the clone complete?") from None
        try:
            for _, folders, files, here in os.fwalk(".", dir_fd=objects, follow_symlinks=False):
                for name in (*folders, *files):
                    kind = os.stat(name, dir_fd=here, follow_symlinks=False).st_mode
                    if not (stat.S_ISDIR(kind) or stat.S_ISREG(kind)):
                        raise Refused("its objects hold a link; clone it anew")
                    if name in ("alternates", "http-alternates"):
                        raise Refused("it borrows objects of another repository; clone it anew")
        finally:
            os.close(objects)


# -- one entry ------------------------------------------------------------------------------------


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

    def take(self, path: Path, tree: Path) -> Taken:
        """Copy the course's files out of an entry into the folder `tree`, which is made anew.

        Raises StagingError if `tree` cannot be written.
        """
        _clear(tree)
        taken = Taken(dict.fromkeys(self.stubs, "missing"))
        total = hashlib.sha256()
        try:
            with contextlib.ExitStack() as close:
                source = self._open(path, close)
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

    def _open(self, path: Path, close: contextlib.ExitStack) -> Source:
        """The entry as a source of files. Raises Refused, OSError."""
        parent = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        close.callback(os.close, parent)
        kind = os.stat(path.name, dir_fd=parent, follow_symlinks=False).st_mode
        if not stat.S_ISDIR(kind):
            if self._stub_of(path.name):
                alone = Archive()
                alone.add(path.name, _Member(lambda: read_plain(parent, path.name, FILE_BYTES)))
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
                stub = self._stub_of(path.rpartition("/")[2])
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

    def _stub_of(self, name: str) -> str:
        """The stub that a file is by its name alone, as a class system may have changed it; "" if none or several.

        Canvas: NAME_number_number_FILE, and FILE-1 for one that is handed in again.
        """
        found = [
            stub
            for stub in self.stubs
            for stem, dot, suffix in [stub.rpartition("/")[2].rpartition(".")]
            if re.fullmatch(
                rf"(?:[^_]+_(?:LATE_)?\d+_\d+_)?{re.escape(stem)}(?:-\d+)?\{dot}{suffix}", name
            )
        ]
        return found[0] if len(found) == 1 else ""

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
        raise NotThere(
            f"it holds none of the course's files at their places ({self.stubs[0]}, …); "
            f"it holds {', '.join(names[:5])}{', …' if len(names) > 5 else ''}"
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
        raise Refused(f"it holds {len(archives)} archives ({shown(archives[0])}, …); leave one")
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


# -- the process that reads -----------------------------------------------------------------------


def serve() -> None:
    """Take entries as asked for on stdin, a line of JSON each, and answer on stdout likewise.

    First line: {"stubs": […], "root": the course's folder}. Then {"path", "tree"} each.
    """
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_AS)
        limit = MEMORY_BYTES if most == resource.RLIM_INFINITY else min(MEMORY_BYTES, most)
        resource.setrlimit(resource.RLIMIT_AS, (limit, most))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    setup = json.loads(sys.stdin.readline())
    _heed_processor_time()
    taker = Taker(setup["stubs"], frozenset(_own_files(Path(setup["root"]))))
    _answer({"ready": True})
    for line in sys.stdin:
        request = json.loads(line)
        try:
            with _processor_time(ENTRY_CPU_S):
                answer = vars(taker.take(Path(request["path"]), Path(request["tree"])))
        except _TookTooLong:
            answer = {"failed": f"reading it took more than {ENTRY_CPU_S:g} s of processor time"}
        except StagingError as error:
            answer = {"staging": str(error)}
        except (MemoryError, RecursionError):
            answer = {"failed": "it takes too much memory to read"}
        except Exception as error:  # noqa: BLE001 (whatever a hostile entry brought about)
            answer = {"failed": f"it cannot be read ({type(error).__name__}: {shown(str(error))})"}
        _answer(answer)


class _TookTooLong(BaseException):
    """More processor time than an entry may take; no handler of exceptions on the way takes it for its own."""


def _heed_processor_time() -> None:
    def stop(*_: object) -> None:
        raise _TookTooLong

    if hasattr(signal, "SIGXCPU"):
        signal.signal(signal.SIGXCPU, stop)


@contextlib.contextmanager
def _processor_time(seconds: float) -> Iterator[None]:
    """Raise _TookTooLong once this process has computed for so long; to wait costs nothing."""
    try:
        import resource
    except ImportError:  # not on Windows
        yield
        return
    _, most = resource.getrlimit(resource.RLIMIT_CPU)
    used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(used + seconds), most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_CPU, (most, most))


def _answer(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def _own_files(root: Path) -> Iterator[str]:
    """The paths of the course's own files, which every clone holds."""
    try:
        descriptor = open_folder(root.resolve())
    except OSError:
        return
    try:
        yield from (
            name for _, name in zip(range(50_000), Folder(descriptor).names(), strict=False)
        )
    finally:
        os.close(descriptor)
