"""Taking submissions in: an entry that is refused says why."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import struct
import sys
import tarfile
import zlib
from functools import partial
from pathlib import Path

import pytest

from tests.harness.intake.entries import MAIN, WHOLE, put, tarred, zipped

pytestmark = [
    pytest.mark.proof,  # it is the grader's
    pytest.mark.skipif(sys.platform == "win32", reason="needs openat"),
]


def zip_nul(at: Path) -> Path:
    path = zipped(at / "a.zip", {MAIN + "!.txt": b"x"})
    path.write_bytes(path.read_bytes().replace(b"!.txt", b"\0.txt"))
    return path


def zip_overlapping(at: Path) -> Path:
    """Ten members that share one stretch of data (https://www.bamsoftware.com/hacks/zipbomb/)."""
    path = zipped(at / "a.zip", {MAIN: b"x" * 1000})
    data = path.read_bytes()
    start = data.index(b"PK\x01\x02")
    end = data.index(b"PK\x05\x06")
    tail = bytearray(data[end:])
    tail[8:12] = struct.pack("<HH", 10, 10)
    tail[12:16] = struct.pack("<I", 10 * (end - start))
    path.write_bytes(data[:start] + data[start:end] * 10 + tail)
    return path


def zip_large_directory(at: Path) -> Path:
    """A directory of 60 MB for members that are not there; the end of it says that there is one."""
    entry = b"PK\x01\x02" + bytes(24) + struct.pack("<HHH", 10, 0, 0) + bytes(12) + b"0123456789"
    directory = entry * 1_000_000
    end = struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, 1, 1, len(directory), 0, 0)
    (at / "a.zip").write_bytes(directory + end)
    with open(at / "a.zip", "r+b") as file:
        file.write(b"PK\x03\x04")
    return at / "a.zip"


def tar_of_headers(at: Path) -> Path:
    """Each extended header is followed by one more: the module calls itself for each."""
    info = tarfile.TarInfo("x")
    info.type, info.size = tarfile.XHDTYPE, 0
    (at / "a.tar").write_bytes(info.tobuf(tarfile.USTAR_FORMAT) * 5_000)
    return at / "a.tar"


def tar_backwards(at: Path) -> Path:
    """A negative size, so that the next header is the one before (CVE-2025-8194)."""
    first = tarfile.TarInfo("x").tobuf(tarfile.USTAR_FORMAT)
    header = bytearray(first)
    header[124:136] = b"\xff" * 10 + struct.pack(">h", -512)
    header[148:156] = b"        "
    header[148:156] = b"%06o\0 " % sum(header)
    (at / "a.tar").write_bytes(first + bytes(header) * 40)
    return at / "a.tar"


def tar_claims(kind: bytes):
    """A few bytes whose header claims a terabyte."""

    def build(at: Path) -> Path:
        info = tarfile.TarInfo("x")
        info.type, info.size = kind, 1 << 40
        with gzip.open(at / "a.tar.gz", "wb") as file:
            file.write(info.tobuf(tarfile.GNU_FORMAT) + bytes(1024))
        return at / "a.tar.gz"

    return build


def tar_large_extension(at: Path) -> Path:
    info = tarfile.TarInfo("x")
    info.type, info.size = tarfile.XHDTYPE, 1 << 33
    with gzip.open(at / "a.tar.gz", "wb", 1) as file:
        file.write(info.tobuf(tarfile.GNU_FORMAT))
        for _ in range(66):
            file.write(bytes(1 << 20))
    return at / "a.tar.gz"


def compressed_bomb(opener, name):
    def build(at: Path) -> Path:
        with opener(at / name, "wb") as file:
            info = tarfile.TarInfo(MAIN)
            info.size = 66 << 20
            file.write(info.tobuf())
            for _ in range(66):
                file.write(bytes(1 << 20))
        return at / name

    return build


def large_archive(at: Path) -> Path:
    zipped(at / "a.zip", WHOLE)
    os.truncate(at / "a.zip", 65 << 20)
    return at / "a.zip"


def two_wrappers(at: Path) -> Path:
    return put(put(at / "ada/one", WHOLE).parent / "two", WHOLE).parent


def two_archives(at: Path) -> Path:
    put(at / "ada", {"one.zip": b"", "two.tgz": b""})
    return at / "ada"


def linked_entry(at: Path) -> Path:
    put(at / "real", WHOLE)
    (at / "ada").symlink_to(at / "real")
    return at / "ada"


def piped_entry(at: Path) -> Path:
    os.mkfifo(at / "ada.zip")
    return at / "ada.zip"


def nested(at: Path) -> Path:
    inner = zipped(at / "inner.zip", WHOLE).read_bytes()
    return zipped(at / "a.zip", {"inner.zip": inner})


ENTRIES_REFUSED = {
    "empty folder": (lambda at: put(at / "ada", {".DS_Store": b""}), "none of the course's files"),
    "no file at its place": (
        lambda at: put(at / "ada", {"x/y/ex_9.py": b""}),
        "it holds x/y/ex_9.py",
    ),
    "two files of one name": (
        lambda at: put(at / "ada", {"a/ex_1.py": b"", "b/ex_1.py": b""}),
        "two files in it may be week07/day1/ex_1.py (a/ex_1.py, b/ex_1.py)",
    ),
    "two wrappers": (two_wrappers, "several folders in it"),
    "two archives": (two_archives, "handed in more than once: one.zip, two.tgz"),
    "an archive in an archive": (
        nested,
        "it holds inner.zip; an archive in an archive is not opened: unpack it once",
    ),
    "a linked entry": (linked_entry, "it is a link"),
    "a piped entry": (piped_entry, "it is a pipe"),
    "gone": (lambda at: at / "ada", "vanished"),
    "no archive": (lambda at: put(at, {"a.zip": b"hello"}) / "a.zip", "neither a zip nor a tar"),
    "a .7z": (lambda at: put(at, {"a.7z": b"7z\xbc\xaf\x27\x1c"}) / "a.7z", "`lab submit`"),
    "an empty zip": (lambda at: zipped(at / "a.zip", {}), "it is empty"),
    "zip: cut off": (
        lambda at: put(at, {"a.zip": zipped(at / "b.zip", WHOLE).read_bytes()[:-30]}) / "a.zip",
        "cannot be read as an archive",
    ),
    "zip: a NUL in a name": (zip_nul, "ex_1.py\\x00.txt"),
    "zip: overlapping": (zip_overlapping, "overlap"),
    "zip: large directory": (zip_large_directory, "directory is too large"),
    "tar: cut off": (
        lambda at: put(at, {"a.tar": tarred(at / "b.tar", WHOLE).read_bytes()[:700]}) / "a.tar",
        "cannot be read as an archive",
    ),
    "tar: headers without end": (tar_of_headers, "too much memory"),
    "tar: backwards": (tar_backwards, "cannot be read as an archive"),
    "tar: a terabyte": (tar_claims(tarfile.REGTYPE), "claim to be larger than it is"),
    "tar: a terabyte of an unknown kind": (tar_claims(b"Q"), "claim to be larger than it is"),
    "tar: a terabyte of names": (tar_claims(tarfile.GNUTYPE_LONGNAME), "an archive"),
    "tar: a terabyte of headers": (tar_claims(tarfile.XHDTYPE), "an archive"),
    "tar: a large extension": (tar_large_extension, "more than 64 MiB"),
    "tar: many members": (
        lambda at: tarred(at / "a.tar", {str(n): b"" for n in range(10_001)}),
        "more than 10,000 members",
    ),
    "tar.gz: a bomb": (compressed_bomb(gzip.open, "a.tar.gz"), "more than 64 MiB"),
    "tar.bz2: a bomb": (compressed_bomb(bz2.open, "a.tar.bz2"), "more than 64 MiB"),
    "tar.xz: a bomb": (
        compressed_bomb(partial(lzma.open, preset=0), "a.tar.xz"),
        "more than 64 MiB",
    ),
    "a large archive": (large_archive, "larger than 64 MiB"),
}


@pytest.mark.parametrize("case", ENTRIES_REFUSED)
def test_an_entry_is_refused_with_a_reason(take, tmp_path, case):
    build, words = ENTRIES_REFUSED[case]
    taken = take(build(tmp_path))
    assert words in taken["error"]
    assert set(taken["files"].values()) == {"missing"}


def test_an_xz_that_asks_for_gigabytes_is_refused(take, tmp_path):
    filters = [{"id": lzma.FILTER_LZMA2, "dict_size": 4096}]
    data = bytearray(lzma.compress(b"x" * 1000, lzma.FORMAT_XZ, filters=filters))
    at = data.index(bytes([lzma.FILTER_LZMA2, 1, 0]), 12)
    data[at + 2] = 40  # a dictionary of 4 GiB
    size = (data[12] + 1) * 4
    data[12 + size - 4 : 12 + size] = struct.pack("<I", zlib.crc32(bytes(data[12 : 12 + size - 4])))
    taken = take(put(tmp_path, {"a.tar.xz": bytes(data)}) / "a.tar.xz")
    assert "too much memory" in taken["error"] or "cannot be read" in taken["error"]
