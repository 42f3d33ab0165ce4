"""Taking submissions in: what is the course's is copied, in every shape."""

from __future__ import annotations

import contextlib
import os
import sys
import zipfile
from pathlib import Path

import pytest

from tests.harness.intake.entries import (
    CODE,
    CUDA,
    MAIN,
    SECOND,
    WHOLE,
    git,
    needs_git,
    put,
    repository,
    tarred,
    zipped,
)

pytestmark = [
    pytest.mark.proof,  # it is the grader's
    pytest.mark.skipif(sys.platform == "win32", reason="needs openat"),
]


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


def test_nothing_is_left_in_the_temporary_folder(take, tmp_path, monkeypatch):
    with contextlib.suppress(FileNotFoundError):
        before = set(Path(os.environ.get("TMPDIR", "/tmp")).glob("grade-git-*"))
        take(put(tmp_path / "ada", {"HEAD": b"x", "objects/x": b"", "refs/x": b""}))
        assert set(Path(os.environ.get("TMPDIR", "/tmp")).glob("grade-git-*")) <= before


def test_the_time_of_a_file_or_an_archive_is_no_hand_in_time(take, tmp_path):
    assert take(put(tmp_path / "ada", WHOLE))["submitted_at"] is None
    assert take(zipped(tmp_path / "ada.zip", WHOLE))["submitted_at"] is None
