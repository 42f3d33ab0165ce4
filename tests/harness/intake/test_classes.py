"""Taking submissions in: whole classes, whose an entry is, and a reader that ends."""

from __future__ import annotations

import errno
import hashlib
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from grading.grader.intake import reader as readers
from grading.grader.intake import submissions, taking
from grading.grader.intake.owners import canonical, identify
from grading.grader.intake.refused import StagingError
from grading.grader.intake.submissions import SubmissionsError, take_in
from tests.harness.intake.entries import CODE, CUDA, MAIN, WHOLE, put, zipped

pytestmark = [
    pytest.mark.proof,  # it is the grader's
    pytest.mark.skipif(sys.platform == "win32", reason="needs openat"),
]


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
    assert ada.error.startswith("handed in more than once: Ada.zip, ada, ada.tar")
    assert (ada.student, bob.student, bob.error) == ("Ada", "bob", "")
    assert not ada.tree.exists()


def test_several_files_of_one_hand_in_of_canvas_are_one_entry(course, tmp_path):
    """Canvas gives each uploaded file a name of its own, with the student's number in it."""
    zipped(tmp_path / "class.zip", WHOLE).parent.joinpath("class").mkdir()
    source = put(
        tmp_path / "class",
        {
            "lovelaceada_7_11_ex_1.py": CODE.encode(),
            "lovelaceada_7_12_ex_2-1.cu": WHOLE[CUDA],
            "lovelaceada_7_13_notes.pdf": b"%PDF",
            "builderbob_8_14_bob.zip": (tmp_path / "class.zip").read_bytes(),
            "builderbob_8_15_report.pdf": b"%PDF",
            "pirescleo_9_16_cleo.zip": (tmp_path / "class.zip").read_bytes(),
            "pirescleo_9_17_ex_1.py": CODE.encode(),
        },
    )
    bob, ada, cleo = take_in(source, course, tmp_path / "staging")
    assert (ada.error, bob.error) == ("", "")
    assert [name for name, state in ada.files.items() if state == "submitted"] == [MAIN, CUDA]
    assert (ada.tree / CUDA).read_bytes() == WHOLE[CUDA]
    assert (ada.extra, bob.extra) == (
        ("lovelaceada_7_13_notes.pdf",),
        ("builderbob_8_15_report.pdf",),
    )
    assert set(bob.files.values()) == {"submitted"}
    assert cleo.error.startswith("handed in more than once: ")


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

    monkeypatch.setattr(taking, "open", full, raising=False)
    taker = taking.Taker(list(WHOLE), frozenset())
    with pytest.raises(StagingError, match="No space left"):
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
    readers._heed_processor_time()
    try:
        with pytest.raises(readers._TookTooLong), readers._processor_time(0.5):
            while True:
                pass
    finally:
        signal.signal(signal.SIGXCPU, before)
    with readers._processor_time(0.5):
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
