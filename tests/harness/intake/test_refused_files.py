"""Taking submissions in: a file that is refused is named, and all else stays outside."""

from __future__ import annotations

import os
import stat
import struct
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.harness.intake.entries import CUDA, MAIN, SECOND, WHOLE, put, tarred, zipped

pytestmark = [
    pytest.mark.proof,  # it is the grader's
    pytest.mark.skipif(sys.platform == "win32", reason="needs openat"),
]


def linked(at: Path) -> Path:
    (at / "key.py").write_text("SECRET = 1\n")
    put(at / "ada", {SECOND: WHOLE[SECOND]})
    (at / "ada" / MAIN).symlink_to(at / "key.py")
    return at / "ada"


def linked_folder(at: Path) -> Path:
    put(at / "key", WHOLE)
    put(at / "ada", {"notes": b""})
    (at / "ada/week07").symlink_to(at / "key/week07")
    return at / "ada"


def piped(at: Path) -> Path:
    (at / "ada/week07/day1").mkdir(parents=True)
    os.mkfifo(at / "ada" / MAIN)
    return at / "ada"


def sparse(at: Path) -> Path:
    put(at / "ada", {MAIN: b""})
    os.truncate(at / "ada" / MAIN, 1 << 40)
    return at / "ada"


def zip_link(at: Path) -> Path:
    with zipfile.ZipFile(at / "a.zip", "w") as archive:
        info = zipfile.ZipInfo(MAIN)
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(info, "/etc/passwd")
    return at / "a.zip"


def zip_encrypted(at: Path) -> Path:
    path = zipped(at / "a.zip", {MAIN: b"secret"})
    data = bytearray(path.read_bytes())
    data[6] |= 1  # in the member's header, then in the directory
    data[data.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(data)
    return path


def zip_twice(at: Path) -> Path:
    with (
        pytest.warns(UserWarning, match="Duplicate"),
        zipfile.ZipFile(at / "a.zip", "w") as archive,
    ):
        archive.writestr(MAIN, "one")
        archive.writestr(MAIN, "two")
    return at / "a.zip"


def tar_member(at: Path, **fields) -> Path:
    with tarfile.open(at / "a.tar", "w") as archive:
        info = tarfile.TarInfo(MAIN)
        for name, value in fields.items():
            setattr(info, name, value)
        archive.addfile(info)
    return at / "a.tar"


FILES_REFUSED = {
    "a link": (linked, "it is a link"),
    "a linked folder": (linked_folder, "week07 is a link or no folder"),
    "a pipe": (piped, "it is a pipe"),
    "a folder": (lambda at: put(at / "ada", {MAIN + "/x": b""}), "it is a folder"),
    "a huge sparse file": (sparse, "larger than 1 MiB"),
    "a large file": (
        lambda at: put(at / "ada", {MAIN: b"#" * ((1 << 20) + 1)}),
        "larger than 1 MiB",
    ),
    "zip: a link": (zip_link, "it is a link"),
    "zip: encrypted": (zip_encrypted, "without a password"),
    "zip: twice": (zip_twice, "holds it twice"),
    "zip: upwards": (lambda at: zipped(at / "a.zip", {f"../{MAIN}": b"x"}), "leads upwards"),
    "zip: upwards within": (
        lambda at: zipped(at / "a.zip", {f"x/../{MAIN}": b"x"}),
        "leads upwards",
    ),
    "zip: absolute": (lambda at: zipped(at / "a.zip", {f"/{MAIN}": b"x"}), "an absolute path"),
    "zip: drive": (lambda at: zipped(at / "a.zip", {f"C:\\{MAIN}": b"x"}), "an absolute path"),
    "zip: a bomb": (lambda at: zipped(at / "a.zip", {MAIN: bytes(30 << 20)}), "larger than 1 MiB"),
    "tar: a link": (
        lambda at: tar_member(at, type=tarfile.SYMTYPE, linkname="/etc/passwd"),
        "it is a link",
    ),
    "tar: a hard link": (
        lambda at: tar_member(at, type=tarfile.LNKTYPE, linkname="/etc/passwd"),
        "it is a link",
    ),
    "tar: a device": (lambda at: tar_member(at, type=tarfile.CHRTYPE), "no plain file"),
    "tar: a pipe": (lambda at: tar_member(at, type=tarfile.FIFOTYPE), "no plain file"),
    "tar: upwards": (lambda at: tarred(at / "a.tar", {f"../../{MAIN}": b"x"}), "leads upwards"),
    "tar: absolute": (lambda at: tarred(at / "a.tar", {f"/{MAIN}": b"x"}), "an absolute path"),
}


@pytest.mark.parametrize("case", FILES_REFUSED)
def test_a_file_is_refused_by_name_and_never_followed(take, tmp_path, case):
    build, words = FILES_REFUSED[case]
    taken = take(build(tmp_path))
    assert taken["error"] == ""
    assert taken["files"][MAIN].startswith("refused: ") and words in taken["files"][MAIN]


def zip_lying(at: Path) -> Path:
    """A member that says it is 10 bytes long and unpacks to 30 MiB."""
    path = zipped(at / "a.zip", {MAIN: bytes(30 << 20)})
    data = bytearray(path.read_bytes())
    for offset in (22, data.index(b"PK\x01\x02") + 24):
        data[offset : offset + 4] = struct.pack("<I", 10)
    path.write_bytes(data)
    return path


def zip_wrong_checksum(at: Path) -> Path:
    path = zipped(at / "a.zip", {MAIN: b"x"})
    data = bytearray(path.read_bytes())
    for offset in (14, data.index(b"PK\x01\x02") + 16):
        data[offset] ^= 1
    path.write_bytes(data)
    return path


def zip_other_name_inside(at: Path) -> Path:
    path = zipped(at / "a.zip", {MAIN: b"x"})
    data = bytearray(path.read_bytes())
    data[30] ^= 1
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("build", [zip_lying, zip_wrong_checksum, zip_other_name_inside])
def test_a_zip_that_contradicts_itself_gives_nothing(take, tmp_path, build):
    taken = take(build(tmp_path))
    assert taken["files"][MAIN].startswith("refused: it is damaged")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root reads everything")
def test_what_cannot_be_read_is_refused_and_not_missing(take, tmp_path):
    (put(tmp_path / "ada", WHOLE) / MAIN).chmod(0)
    assert "cannot be read" in take(tmp_path / "ada")["files"][MAIN]
    (tmp_path / "ada/week07/day2").chmod(0)
    assert "cannot be read" in take(tmp_path / "ada")["files"][CUDA]
