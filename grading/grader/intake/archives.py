"""Zip and tar files that were handed in, read within limits and never unpacked to disk."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import lzma
import os
import posixpath
import re
import stat
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from grading.grader.intake.folders import WRAPPERS, open_plain
from grading.grader.intake.refused import (
    ARCHIVE_BYTES,
    DIRECTORY_BYTES,
    FILE_BYTES,
    MEMBERS,
    PACK_ANEW,
    Refused,
    allow,
    kind_of,
    shown,
)

READS_PAST_END = 8


@dataclass
class Member:
    """A file of an archive: how to read it, or why it is refused."""

    read: Callable[[], bytes] | None = None
    refused: str = ""


@dataclass
class Archive:
    """The members of an archive or a commit by their path; what lands twice on a path is refused."""

    committed_at: float | None = None
    members: dict[str, Member] = field(default_factory=dict)
    close: Callable[[], None] = lambda: None

    def add(self, name: str, member: Member) -> None:
        path, problem = _member_path(name)
        if path in self.members:
            member = Member(refused="the archive holds it twice; pack it anew")
        elif problem:
            member = Member(refused=problem)
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


def _zip_member(opened: zipfile.ZipFile, info: zipfile.ZipInfo) -> Member:
    mode = info.external_attr >> 16
    if stat.S_ISLNK(mode):
        return Member(refused="it is a link; links are not followed")
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
        return Member(refused=f"it is {kind_of(mode)} and no plain file")
    if info.flag_bits & 0x41:
        return Member(refused="it is encrypted; pack it without a password")
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        # The module unpacks the other kinds without a limit.
        return Member(refused=f"it is compressed in an unusual way; {PACK_ANEW}")
    if info.file_size > FILE_BYTES:
        return Member(refused=f"it is larger than {FILE_BYTES >> 20} MiB")

    def read() -> bytes:
        try:
            with opened.open(info) as member:
                data = member.read(FILE_BYTES + 1)
        except Exception as error:  # noqa: BLE001 (a wrong checksum, a broken stream)
            raise Refused(f"it is damaged ({shown(str(error))}); pack it anew") from None
        allow(len(data))
        return data

    return Member(read)


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


def _tar_member(opened: tarfile.TarFile, info: tarfile.TarInfo) -> Member:
    if info.issym() or info.islnk():
        return Member(refused="it is a link; links are not followed")
    if info.issparse():
        return Member(refused="it is a sparse file; pack it anew")
    if not info.isreg():
        return Member(refused="it is a pipe, a device or the like and no plain file")
    if info.size > FILE_BYTES:
        return Member(refused=f"it is larger than {FILE_BYTES >> 20} MiB")
    if not info.name.endswith((".py", ".cu", ".cuh")):
        return Member(refused="it is no source file")
    member = opened.extractfile(info)
    data = member.read() if member else b""
    return Member(lambda: data)
