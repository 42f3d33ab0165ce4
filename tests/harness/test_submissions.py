"""Taking submissions in: what is the course's is copied, all else stays outside, and nothing is run."""

from __future__ import annotations

import bz2
import contextlib
import errno
import gzip
import hashlib
import io
import lzma
import os
import shutil
import signal
import stat
import struct
import subprocess
import sys
import tarfile
import textwrap
import time
import zipfile
import zlib
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from grading.grader.intake import archives, submissions
from grading.grader.intake.parsing import parse_guarded, too_deep
from grading.grader.intake.submissions import SubmissionsError, canonical, identify, take_in
from profiling_lab.course import manifest

pytestmark = [
    pytest.mark.proof,  # it is the grader's
    pytest.mark.skipif(sys.platform == "win32", reason="needs openat"),
]

ROOT = Path(__file__).resolve().parents[2]
MAIN, SECOND, CUDA = "week07/day1/ex_1.py", "week07/day1/more.py", "week07/day2/ex_2.cu"
CODE = "def a(x):\n    return x + 1\n"
WHOLE = {MAIN: CODE.encode(), SECOND: b"def b():\n    return 2\n", CUDA: b"// kernel\n"}


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    root = tmp_path_factory.mktemp("course")
    (root / "course.toml").write_text(
        textwrap.dedent(
            """
            [course]
            title = "Small"
            [[exercises]]
            id = "ex_1"
            title = "One"
            stub = "week07/day1/ex_1.py"
            minutes = 1
            difficulty = 1
            skills = []
            tasks = [{name = "a", title = "A", points = 1},
                     {name = "b", title = "B", points = 1, stub = "more.py"}]
            [[exercises]]
            id = "ex_2"
            title = "Two"
            stub = "week07/day2/ex_2.cu"
            minutes = 1
            difficulty = 1
            skills = []
            tasks = [{name = "c", title = "C", points = 1}]
            """
        )
    )
    (root / "README.md").write_text("the course's own\n")
    return manifest.load(root)


@pytest.fixture(scope="module")
def reader(course, tmp_path_factory):
    """One reading process for the whole file, as for a whole class."""
    staging = tmp_path_factory.mktemp("staging")
    stubs = [str(stub) for exercise in course.exercises for stub in exercise.stubs]
    with submissions._Reader(stubs, course.root, staging) as reader:
        yield reader


@pytest.fixture
def take(reader, tmp_path):
    """Take one entry in, and hand back what came of it, with the bytes of what was staged."""

    def take(entry: Path) -> dict:
        tree = tmp_path / "tree"
        taken = reader.take(entry, tree)
        staged = {p.relative_to(tree).as_posix(): p for p in tree.rglob("*") if not p.is_dir()}
        assert not any(path.is_symlink() for path in staged.values())
        assert set(staged) == {p for p, state in taken["files"].items() if state == "submitted"}
        return {**taken, "staged": {name: path.read_bytes() for name, path in staged.items()}}

    return take


def put(folder: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


def zipped(path: Path, files: dict[str, bytes], wrapper: str = "") -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(wrapper + name, data)
    return path


def tarred(path: Path, files: dict[str, bytes], wrapper: str = "", mode: Any = "w") -> Path:
    with tarfile.open(path, mode) as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(wrapper + name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


def git(folder: Path, *arguments: str) -> str:
    who = ["-c", "user.name=A", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"]
    environment = {
        **{k: v for k, v in os.environ.items() if not k.startswith("GIT_")},
        "GIT_COMMITTER_DATE": "1700000000 +0100",
        "GIT_CONFIG_GLOBAL": os.devnull,
    }
    return subprocess.run(
        ["git", *who, *arguments],
        cwd=folder,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    ).stdout


def repository(folder: Path, files: dict[str, bytes]) -> Path:
    folder.mkdir(exist_ok=True)
    git(folder, "init", "-q")
    put(folder, files)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "work")
    return folder


needs_git = pytest.mark.skipif(not shutil.which("git"), reason="needs git")


# -- what is taken --------------------------------------------------------------------------------

WAYS = {
    "folder": lambda at: put(at / "ada", WHOLE),
    "wrapped folder": lambda at: put(at / "ada/my work", WHOLE).parent,
    "zip": lambda at: zipped(at / "ada.zip", WHOLE),
    "wrapped zip": lambda at: zipped(at / "ada.zip", WHOLE, "übung-main/"),
    "zip with backslashes": lambda at: zipped(
        at / "ada.zip", {name.replace("/", "\\"): data for name, data in WHOLE.items()}
    ),
    "tar": lambda at: tarred(at / "ada.tar", WHOLE),
    "tar with ./": lambda at: tarred(at / "ada.tar", WHOLE, "./"),
    "tar.gz": lambda at: tarred(at / "ada.tar.gz", WHOLE, "w/", "w:gz"),
    "tgz that says zip": lambda at: tarred(at / "ada.zip", WHOLE, "", "w:gz"),
    "tar.bz2": lambda at: tarred(at / "ada.tar.bz2", WHOLE, "w/", "w:bz2"),
    "tar.xz": lambda at: tarred(at / "ada.tar.xz", WHOLE, "w/", "w:xz"),
    "Moodle's folder": lambda at: (
        zipped(
            put(at / "Ada L_12_assignsubmission_file_", {".DS_Store": b""}) / "hw.zip", WHOLE, "hw/"
        ).parent
    ),
    "a clone of the course": lambda at: put(
        put(at / "ada", WHOLE), {f"solutions/{name}": b"" for name in WHOLE}
    ),
    "a clone, partly wrapped": lambda at: put(
        put(at / "ada/repo", WHOLE).parent, {f"solutions/{name}": b"" for name in WHOLE}
    ),
    "a clone, wrapped": lambda at: (
        put(put(at / "ada/repo", WHOLE), {f"solutions/{name}": b"" for name in WHOLE}).parent
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_the_same_files_come_out_of_every_shape(take, tmp_path, way):
    taken = take(WAYS[way](tmp_path))
    assert taken["error"] == ""
    assert taken["staged"] == WHOLE
    assert taken["sha256"] == take(put(tmp_path / "plain", WHOLE))["sha256"]


@needs_git
@pytest.mark.parametrize("way", ["work tree", "no checkout", "bare", "packed"])
def test_the_same_files_come_out_of_a_clone(take, tmp_path, way):
    clone = repository(tmp_path / "ada", WHOLE)
    if way == "packed":
        git(clone, "gc", "-q")
        assert not (clone / ".git/refs/heads/main").exists()
    if way in ("bare", "packed"):
        git(tmp_path, "clone", "-q", "--bare", "ada", "ada.git")
        clone = tmp_path / "ada.git"
    if way == "no checkout":
        git(tmp_path, "clone", "-q", "--no-checkout", "--no-local", "ada", "eve")
        clone = tmp_path / "eve"
    taken = take(clone)
    assert taken["error"] == ""
    assert taken["staged"] == WHOLE
    assert taken["submitted_at"] == 1700000000


def test_what_is_missing_and_what_is_extra_is_named(take, tmp_path):
    files = {MAIN: b"", "conftest.py": b"", "README.md": b"", ".pytest.ini": b"", "x\x1b[31m": b""}
    taken = take(put(tmp_path / "ada", files))
    assert taken["files"] == {MAIN: "submitted", SECOND: "missing", CUDA: "missing"}
    assert sorted(taken["extra"]) == [".pytest.ini", "conftest.py", "x\\x1b[31m"]
    assert taken["extra_count"] == 3, "the course's own README is no extra"


def test_ten_thousand_files_are_counted_and_fifty_named(take, tmp_path):
    path = zipped(tmp_path / "ada.zip", {**WHOLE, **{f"junk/{n}": b"" for n in range(5_000)}})
    taken = take(path)
    assert (taken["staged"], taken["extra_count"], len(taken["extra"])) == (WHOLE, 5_000, 50)
    with zipfile.ZipFile(path, "a") as archive:
        for number in range(5_000):
            archive.writestr(f"more/{number}", b"")
    assert "10,003 members" in take(path)["error"]


def test_case_twins_are_not_mixed_up(take, tmp_path):
    taken = take(zipped(tmp_path / "a.zip", {MAIN.upper(): b"upper", MAIN: CODE.encode()}))
    assert taken["staged"] == {MAIN: CODE.encode()}
    assert taken["extra"] == [MAIN.upper()]


def test_text_is_utf_8(take, tmp_path):
    taken = take(
        put(tmp_path / "a", {MAIN: b"\xef\xbb\xbf" + CODE.encode(), SECOND: b"a = 1\n# \xe9"})
    )
    assert taken["staged"] == {MAIN: CODE.encode()}
    assert taken["files"][SECOND] == "refused: line 2 is not UTF-8; save it as UTF-8"
    for data in (b"a\0b", b"#!/x\n# -*- coding: utf-7 -*-\n", b"# vim: fileencoding=latin-1\n"):
        assert "save it as UTF-8" in take(put(tmp_path / "a", {MAIN: data}))["files"][MAIN]
    assert take(put(tmp_path / "a", {MAIN: b"# coding: utf-8\n"}))["files"][MAIN] == "submitted"


# -- what is refused ------------------------------------------------------------------------------


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
    "two archives": (two_archives, "it holds 2 archives"),
    "an archive in an archive": (nested, "it holds inner.zip"),
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


BY_NAME = {
    "alone": ("ex_1.py", MAIN),
    "of Canvas": ("lovelaceada_77_1234_ex_1.py", MAIN),
    "of Canvas, late and again": ("lovelaceada_LATE_77_1234_ex_1-2.py", MAIN),
    "CUDA": ("lovelaceada_77_1234_ex_2.cu", CUDA),
}


@pytest.mark.parametrize("case", BY_NAME)
@pytest.mark.parametrize("where", ["itself", "folder", "zip", "deep"])
def test_a_file_that_is_handed_in_without_its_folders_is_known_by_its_name(
    take, tmp_path, case, where
):
    name, stub = BY_NAME[case]
    data = {name: CODE.encode(), "notes.txt": b""}
    if where == "itself":
        entry = put(tmp_path, data) / name
    elif where == "zip":
        entry = zipped(tmp_path / "ada.zip", data)
    else:
        entry = put(tmp_path / "ada", {f"{'x/y/' * (where == 'deep')}{k}": data[k] for k in data})
    taken = take(entry)
    assert not taken["error"] and taken["staged"] == {stub: CODE.encode()}
    assert name not in " ".join(taken["extra"])


def test_a_file_at_its_place_is_never_taken_by_its_name(take, tmp_path):
    entry = put(tmp_path / "ada", {MAIN: b"# placed\n", "old/more.py": b"# named\n"})
    assert take(entry)["staged"] == {MAIN: b"# placed\n"}


def test_another_file_alone_is_no_submission(take, tmp_path):
    for name in ("ex_9.py", "my_ex_1.py", "ex_1.txt", "ex_1.py.exe"):
        assert (
            "neither a zip nor a tar" in take(put(tmp_path, {name: CODE.encode()}) / name)["error"]
        )


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


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root reads everything")
def test_what_cannot_be_read_is_refused_and_not_missing(take, tmp_path):
    (put(tmp_path / "ada", WHOLE) / MAIN).chmod(0)
    assert "cannot be read" in take(tmp_path / "ada")["files"][MAIN]
    (tmp_path / "ada/week07/day2").chmod(0)
    assert "cannot be read" in take(tmp_path / "ada")["files"][CUDA]


# -- hostile repositories -------------------------------------------------------------------------

HOSTILE = """\
[core]
    repositoryformatversion = 0
    bare = true
    fsmonitor = touch {mark}
    pager = touch {mark}
    hooksPath = {hooks}
    sshCommand = touch {mark}
[filter "x"]
    smudge = touch {mark}
[protocol "ext"]
    allow = always
[remote "origin"]
    url = ext::touch {mark}
    promisor = true
[extensions]
    partialClone = origin
"""


@needs_git
@pytest.mark.parametrize("way", ["bare", "no checkout", "work tree"])
def test_what_a_repository_configures_is_not_started(take, tmp_path, way):
    clone = repository(tmp_path / "ada", {**WHOLE, ".gitattributes": b"* filter=x\n"})
    if way == "bare":
        git(tmp_path, "clone", "-q", "--bare", "ada", "ada.git")
        clone = tmp_path / "ada.git"
    if way == "no checkout":
        shutil.rmtree(clone / "week07")
        (clone / ".gitattributes").unlink()
    mark = tmp_path / "started"
    inner = clone if way == "bare" else clone / ".git"
    (inner / "config").write_text(HOSTILE.format(mark=mark, hooks=tmp_path))
    assert take(clone)["staged"] == WHOLE
    for pack in (inner / "objects").glob("[0-9a-f][0-9a-f]/*"):
        pack.unlink()  # now git would have to fetch them
    take(clone)
    assert not mark.exists()


@needs_git
def test_a_repository_cannot_borrow_anothers_objects(take, tmp_path):
    private = repository(tmp_path / "key", WHOLE)
    commit = git(private, "rev-parse", "HEAD").strip()
    for way in ("alternates", "linked pack", "linked objects"):
        bare = tmp_path / way
        git(tmp_path, "init", "-q", "--bare", str(bare))
        (bare / "HEAD").write_text(commit + "\n")
        if way == "alternates":
            put(bare, {"objects/info/alternates": f"{private}/.git/objects\n".encode()})
        elif way == "linked pack":
            shutil.rmtree(bare / "objects")
            (bare / "objects").mkdir()
            for folder in (private / ".git/objects").iterdir():
                (bare / "objects" / folder.name).symlink_to(folder)
        else:
            shutil.rmtree(bare / "objects")
            (bare / "objects").symlink_to(private / ".git/objects")
        taken = take(bare)
        assert taken["error"] and not taken["staged"], way


@needs_git
def test_links_and_large_files_of_a_commit_are_refused(take, tmp_path):
    (tmp_path / "ada/week07/day1").mkdir(parents=True)
    (tmp_path / "ada" / MAIN).symlink_to("/etc/passwd")
    clone = repository(tmp_path / "ada", {SECOND: b"#" * ((1 << 20) + 1), CUDA: b""})
    git(tmp_path, "clone", "-q", "--bare", "ada", "ada.git")
    files = take(tmp_path / "ada.git")["files"]
    assert "a link" in files[MAIN] and "1 MiB" in files[SECOND] and files[CUDA] == "submitted"
    (clone / ".git/HEAD").write_text("ref: refs/../../../../etc/passwd\n")
    shutil.rmtree(clone / "week07")
    assert "names no commit" in take(clone)["error"]


# -- whole classes --------------------------------------------------------------------------------


def test_a_class_is_taken_in_and_one_bad_entry_stops_nothing(course, tmp_path):
    source = put(tmp_path / "class", {"roster.csv": b"name\n", ".DS_Store": b"", "bad.zip": b"no"})
    put(source / "zoe", WHOLE)
    zipped(source / "Ada.zip", WHOLE, "Ada/")
    put(source / "__MACOSX", WHOLE)
    put(source / "b\u202eob\udcff\n", WHOLE)
    notices, steps = [], []
    taken = take_in(
        source,
        course,
        source / "out/.work",
        notice=notices.append,
        progress=lambda done, total: steps.append((done, total)),
    )
    assert [one.student for one in taken] == ["Ada", "b\\u202eob\\xff\\n", "bad", "zoe"]
    assert [bool(one.error) for one in taken] == [False, False, True, False]
    assert len({one.tree for one in taken}) == 4
    assert all(one.tree.parent == source / "out/.work" for one in taken)
    assert steps[-1] == (4, 4)
    assert len(notices) == 1 and notices[0].endswith("not read as submissions: roster.csv")
    again = take_in(source, course, source / "out/.work", notice=notices.append)
    assert again == taken
    assert notices[1].endswith(": out, roster.csv"), "the output is no submission"


def test_who_hands_in_twice_is_refused_by_name(course, tmp_path):
    source = put(tmp_path / "class", {})
    source.mkdir()
    for name in ("Ada.zip", "ada.tar"):
        put(source, {name: b""})
    put(source / "ada", WHOLE)
    put(source / "bob", WHOLE)
    ada, bob = take_in(source, course, tmp_path / "staging")
    assert ada.error.startswith("Ada handed in 3 times: Ada.zip, ada, ada.tar; keep the one")
    assert (ada.student, bob.student, bob.error) == ("Ada", "bob", "")
    assert not ada.tree.exists()


def test_one_submission_may_be_named(course, tmp_path, monkeypatch):
    mine = put(tmp_path / "my_week", WHOLE)
    assert [one.student for one in take_in(mine, course, tmp_path / "s")] == ["my_week"]
    archive = zipped(tmp_path / "ada.zip", WHOLE)
    assert [one.student for one in take_in(archive, course, tmp_path / "s")] == ["ada"]
    monkeypatch.chdir(mine)
    assert [one.student for one in take_in(Path("."), course, tmp_path / "s")] == ["my_week"]
    put(mine / "eve", WHOLE)
    with pytest.raises(SubmissionsError, match=r"one submission or a folder of them.*eve"):
        take_in(mine, course, tmp_path / "s")
    assert len(take_in(mine, course, tmp_path / "s", single=True)) == 1


@pytest.mark.parametrize(
    ("name", "who", "roster"),
    [
        ("ada_lovelace.zip", ("ada_lovelace", "", False), "Ada_Lovelace"),
        ("lovelaceada_LATE_12_345_work.zip", ("lovelaceada", "12", True), "LovelaceAda"),
        ("lovelaceada_12_345_my_work-1.zip", ("lovelaceada", "12", False), "lovelaceada"),
        ("Ada Lovelace_77_assignsubmission_file_", ("Ada Lovelace", "77", False), "ada  lovelace"),
        ("A_B_77_assignsubmission_file_w.zip", ("A_B", "77", False), "a_b"),
        ("eve_1_2_Ada_77_assignsubmission_onlinetext_w.zip", ("eve", "1", False), "eve"),
        (
            "Eve_1_assignsubmission_file_Ada_77_assignsubmission_onlinetext_w.zip",
            ("Eve", "1", False),
            "eve",
        ),
        ("week07-ada", ("week07-ada", "", False), "WEEK07-ada"),
        ("Zoe\u0308.tar.gz", ("Zoe\u0308", "", False), "zo\u00eb"),
    ],
)
def test_whose_an_entry_is(name, who, roster):
    found = identify(name)
    assert (found.name, found.number, found.late) == who
    assert canonical(name) == canonical(roster)


def test_what_moodle_adds_besides_files_is_left_out(course, tmp_path):
    source = tmp_path / "class"
    put(source / "Ada_7_assignsubmission_file_", WHOLE)
    put(source / "Ada_7_assignsubmission_onlinetext_", {"onlinetext.html": b""})
    put(source / "Ada_8_assignsubmission_file_", WHOLE)  # another Ada
    assert [one.error for one in take_in(source, course, tmp_path / "s")] == ["", ""]


def test_no_submissions_at_all(course, tmp_path):
    with pytest.raises(SubmissionsError, match="there is nothing here"):
        take_in(tmp_path / "nowhere", course, tmp_path / "s")
    put(tmp_path / "empty", {".hidden": b"", "grades.csv": b""})
    with pytest.raises(SubmissionsError, match="holds no submissions; a submission is a folder"):
        take_in(tmp_path / "empty", course, tmp_path / "s")
    put(tmp_path / "class/ada", WHOLE)
    put(tmp_path, {"file": b""})
    with pytest.raises(SubmissionsError, match="cannot be copied here"):
        take_in(tmp_path / "class", course, tmp_path / "file")


def test_a_full_disk_is_no_fault_of_the_submission(tmp_path, monkeypatch):
    put(tmp_path / "ada", WHOLE)

    def full(path, mode="r", **options):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(archives, "open", full, raising=False)
    taker = archives.Taker(list(WHOLE), frozenset())
    with pytest.raises(archives.StagingError, match="No space left"):
        taker.take(tmp_path / "ada", tmp_path / "tree")


def test_a_full_disk_stops_the_intake_and_says_so(course, tmp_path, monkeypatch):
    put(tmp_path / "class/ada", WHOLE)
    answer = {"staging": "No space left on device"}
    monkeypatch.setattr(submissions._Reader, "_ask", lambda self, request: answer)
    with pytest.raises(SubmissionsError, match="cannot be copied here .No space left"):
        take_in(tmp_path / "class", course, tmp_path / "s")


def test_a_reader_that_was_ended_once_is_started_again(course, tmp_path):
    put(tmp_path / "ada", WHOLE)
    with submissions._Reader(list(WHOLE), course.root, tmp_path / "s") as reader:
        reader._start().kill()
        assert reader.take(tmp_path / "ada", tmp_path / "s/1")["error"] == ""


def test_an_entry_that_takes_too_long_or_kills_its_reader_stops_nothing(
    course, tmp_path, monkeypatch
):
    put(tmp_path / "ada", WHOLE)
    stubs = list(WHOLE)
    broken = "import sys\nsys.stdin.readline()\n"
    sleeping = broken + "import time\ntime.sleep(600)\n"
    with submissions._Reader(stubs, course.root, tmp_path / "s") as reader:
        good = reader.take(tmp_path / "ada", tmp_path / "s/1")
        start = reader._start
        for program, words in ((broken, "broke the reader"), (sleeping, "took more than 0.2 s")):
            reader._end()
            monkeypatch.setattr(submissions, "ENTRY_TIMEOUT_S", 0.2 if words[0] == "t" else 60)

            def bad(program=program):
                reader._pending = b""
                reader._process = subprocess.Popen(
                    [sys.executable, "-S", "-c", program],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    start_new_session=True,
                )
                return reader._process

            monkeypatch.setattr(reader, "_start", bad)
            assert words in reader.take(tmp_path / "ada", tmp_path / "s/1")["error"]
        monkeypatch.setattr(submissions, "ENTRY_TIMEOUT_S", 60)
        monkeypatch.setattr(reader, "_start", start)
        assert reader.take(tmp_path / "ada", tmp_path / "s/1") == good


def test_reading_is_ended_by_processor_time_and_the_next_entry_is_read():
    before = signal.getsignal(signal.SIGXCPU)
    archives._heed_processor_time()
    try:
        with pytest.raises(archives._TookTooLong), archives._processor_time(0.5):
            while True:
                pass
    finally:
        signal.signal(signal.SIGXCPU, before)
    with archives._processor_time(0.5):
        time.sleep(0.7)  # to wait costs nothing


def test_an_archive_that_broke_its_reader_is_known_by_its_hash(course, tmp_path, monkeypatch):
    (tmp_path / "class").mkdir()
    bad = zipped(tmp_path / "class/ada.zip", WHOLE)
    zipped(tmp_path / "class/bob.zip", {MAIN: b"x = 1"})
    known = {hashlib.sha256(bad.read_bytes()).hexdigest(): "reading it took too long"}
    ada, bob = take_in(tmp_path / "class", course, tmp_path / "s", broke_reader=known)
    assert ada.error == "reading it took too long"
    assert bob.error == ""
    monkeypatch.setattr(submissions._Reader, "_ask", lambda *_: {"failed": "it broke the reader"})
    ada, bob = take_in(tmp_path / "class", course, tmp_path / "s", broke_reader=known)
    assert (ada.error, bob.error) == ("reading it took too long", "it broke the reader")
    assert len(known) == 2


# -- source that must not be parsed -----------------------------------------------------------------

N = 20_000  # so that length alone stops none but one
TOO_DEEP = {
    "brackets": "(" * N,
    "minus": "x = " + "-" * N + "1",
    "not": "x = " + "not " * N + "1",
    "plus": "x = 1" + "+1" * N,
    "attributes": "a" + ".b" * N,
    "calls": "f" + "()" * N,
    "items": "f" + "[0]" * N,
    "lambda": "lambda:" * N + "1",
    "lambda with commas": "lambda a,:" * N + "1",
    "conditions": "x = " + "1 if 1 else " * N + "1",
    "elif": "if 1:\n pass\n" + "elif 1:\n pass\n" * N,
    "powers": "x = 1" + "**1" * N,
    "f-string": 'f"{' + "-" * N + '1}"',
    "f-string in f-string": "f'{" + 'f"{' + "-" * N + '1}"' + "}'",
    "behind a carriage return": "# hello\r" + "-" * N + "1",
    "continued lines": "x=\\\n" + "-\\\n" * N + "1",
    "await": "async def f():\n return " + "await " * N + "1",
    "length": "x = 1\n" * 100_000,
}


@pytest.mark.parametrize("case", TOO_DEEP)
def test_source_that_nests_too_deeply_is_not_parsed(monkeypatch, case):
    def parse(text):
        raise AssertionError("the parser was called")

    monkeypatch.setattr("grading.grader.intake.parsing.ast", SimpleNamespace(parse=parse))
    assert ("characters" in too_deep(TOO_DEEP[case])) == (case == "length")
    assert too_deep(TOO_DEEP[case])
    assert parse_guarded(TOO_DEEP[case]) is None


@pytest.mark.parametrize(
    "text", ["def f(:", "x = 'abc", "\0", "(]", "x = 1\n  y = 2", "\ud800 = 1"]
)
def test_what_is_no_python_has_no_tree_and_is_not_too_deep(text):
    assert too_deep(text) == ""
    assert parse_guarded(text) is None


def test_people_write_nothing_too_deep(recwarn):
    references = sorted((ROOT / "solutions").rglob("*.py"))
    assert len(references) > 40
    for file in references:
        assert parse_guarded(file.read_text(encoding="utf-8")) is not None, file
    assert parse_guarded("\ufeffx = 1\n") is not None
    assert parse_guarded("x = '\\d'\n") is not None
    assert parse_guarded("table = [" + "-1, " * 5_000 + "]") is not None
    assert (
        parse_guarded("x = [\n" + "  {'a': (1 + 2), 'b': f'{x!r}: {{'},\n" * 1_000 + "]")
        is not None
    )
    assert not recwarn.list


def test_nothing_is_left_in_the_temporary_folder(take, tmp_path, monkeypatch):
    with contextlib.suppress(FileNotFoundError):
        before = set(Path(os.environ.get("TMPDIR", "/tmp")).glob("grade-git-*"))
        take(put(tmp_path / "ada", {"HEAD": b"x", "objects/x": b"", "refs/x": b""}))
        assert set(Path(os.environ.get("TMPDIR", "/tmp")).glob("grade-git-*")) <= before


def test_the_time_of_a_file_or_an_archive_is_no_hand_in_time(take, tmp_path):
    assert take(put(tmp_path / "ada", WHOLE))["submitted_at"] is None
    assert take(zipped(tmp_path / "ada.zip", WHOLE))["submitted_at"] is None
