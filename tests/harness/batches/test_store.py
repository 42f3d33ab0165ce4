"""The results of a batch on disk: none is lost, none hides another."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from grading.grader.batches import store
from grading.grader.batches.output_folder import Busy, StoreError, holder
from grading.grader.batches.store import DiskError, Store
from profiling_lab.course.manifest import Course
from tests.harness.batches.small_batches import KEY, drawn

pytestmark = pytest.mark.proof  # it is the grader's


def test_what_was_added_is_there_after_opening_again(course: Course, tmp_path: Path) -> None:
    result = drawn(course, "Zoë \udcff\u2028\x00")
    with Store(tmp_path) as kept:
        kept.add(result, drawn(course))
        assert kept.get(result.student, "nsys_ex02", KEY) == result
    with Store(tmp_path) as kept:
        assert kept.get(result.student, "nsys_ex02", KEY) == result
        assert kept.has("ada", "nsys_ex02", KEY) and not kept.notes


@pytest.mark.parametrize("field", ["submission", "checks", "environment", "seed"])
def test_another_key_is_another_result(course: Course, tmp_path: Path, field: str) -> None:
    with Store(tmp_path) as kept:
        kept.add(drawn(course))
        assert not kept.has("ada", "nsys_ex02", replace(KEY, **{field: 7}))


def test_the_key_tells_which_of_several_results_counts(course: Course, tmp_path: Path) -> None:
    other = replace(KEY, submission="later")
    with Store(tmp_path) as kept:
        kept.add(drawn(course), drawn(course, key=other))
        assert kept.get("ada", "nsys_ex02", KEY) == drawn(course)


@pytest.mark.parametrize("order", ["good first", "good last"])
def test_infrastructure_never_hides_a_verdict(course: Course, tmp_path: Path, order: str) -> None:
    good, bad = drawn(course), replace(drawn(course), infrastructure="no room")
    with Store(tmp_path) as kept:
        kept.add(bad)
        assert not kept.has("ada", "nsys_ex02", KEY)
        assert kept.get("ada", "nsys_ex02", KEY) == bad
        kept.add(*([good, bad] if order == "good first" else [good]))
        assert kept.get("ada", "nsys_ex02", KEY) == good


def test_a_torn_end_is_dropped_wherever_it_tore(course: Course, tmp_path: Path) -> None:
    with Store(tmp_path) as kept:
        kept.add(drawn(course), drawn(course, "ben"))
    whole = (tmp_path / store.RESULTS).read_bytes()
    first = whole.index(b"\n") + 1
    for end in (first + 1, first + (len(whole) - first) // 2, len(whole) - 1):
        for rest in (b"", bytes(100), bytes(50) + b"\n"):
            (tmp_path / store.RESULTS).write_bytes(whole[:end] + rest)
            with Store(tmp_path) as kept:
                assert len(kept) == 1 and kept.has("ada", "nsys_ex02", KEY)
                assert "torn off" in kept.notes[0]
                kept.add(drawn(course, "ben"))
            assert (tmp_path / store.RESULTS).read_bytes() == whole


def test_damage_in_the_middle_costs_that_line_only(course: Course, tmp_path: Path) -> None:
    with Store(tmp_path) as kept:
        kept.add(drawn(course), drawn(course, "ben"), drawn(course, "eve"))
    lines = (tmp_path / store.RESULTS).read_bytes().splitlines(keepends=True)
    lines[1] = b'{"format":1,"stud\n'
    (tmp_path / store.RESULTS).write_bytes(b"".join(lines))
    with Store(tmp_path) as kept:
        assert [kept.has(name, "nsys_ex02", KEY) for name in ("ada", "ben", "eve")] == [1, 0, 1]
        assert "line 2 cannot be read" in kept.notes[0]
        assert kept.get("eve", "nsys_ex02", KEY) == drawn(course, "eve")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('{"format": 9}', "line 1: a result of format 9, not 1"),
        ('{"format": 1}', "written by another version"),
        ("name;points", "line 1: not a result"),
    ],
)
def test_what_is_not_ours_is_refused_and_kept(tmp_path: Path, line: str, says: str) -> None:
    (tmp_path / store.RESULTS).write_text(line + "\n")
    with pytest.raises(StoreError, match=says):
        Store(tmp_path)
    assert (tmp_path / store.RESULTS).read_text() == line + "\n"


def test_a_full_disk_loses_nothing(course: Course, tmp_path: Path, monkeypatch) -> None:
    class Full:
        """A file on a disk that has room for half a line more."""

        def __init__(self, file) -> None:
            self.raw, self.fileno, self.close = file, file.fileno, file.close

        def write(self, data: bytes) -> None:
            os.write(self.fileno(), data[: len(data) // 2])
            raise OSError(errno.ENOSPC, "No space left on device")

    with Store(tmp_path) as kept:
        kept.add(drawn(course))
        before = kept.file.read_bytes()
        monkeypatch.setattr(kept, "_append", Full(kept._append))
        for student in ("ben", "eve"):
            with pytest.raises(DiskError, match=r"no space is left.*1 results before it are safe"):
                kept.add(drawn(course, student))
        assert kept.file.read_bytes() == before
    with Store(tmp_path) as kept:
        assert len(kept) == 1 and not kept.notes


def test_too_little_room_is_said_before_hours_of_work(tmp_path: Path) -> None:
    with Store(tmp_path) as kept, pytest.raises(StoreError, match=r"MB are free .* needs about"):
        kept.make_sure_of_room(results=10**12, students=1)


def test_two_graders_on_one_folder(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from grading.grader.batches.store import Store\n"
        "with Store(Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
    ) as other:
        assert other.stdout.readline() == "held\n"
        with pytest.raises(Busy, match=rf"another grader .*process {other.pid} on .*, since 20"):
            Store(tmp_path)
        assert f"process {other.pid} " in holder(tmp_path)
        other.kill()
        other.wait()
    assert holder(tmp_path) == ""
    with Store(tmp_path), pytest.raises(Busy):
        Store(tmp_path)
    with Store(tmp_path):
        pass


def test_only_reading_needs_no_lock_and_changes_nothing(course: Course, tmp_path: Path) -> None:
    with Store(tmp_path) as kept:
        kept.write_batch({})
        kept.add(drawn(course))
        with kept.file.open("ab") as file:
            file.write(b'{"format":1,')  # a line that is being written
        before = kept.file.read_bytes()
        with Store(tmp_path, writing=False) as reader:
            assert len(reader) == 1
        assert kept.file.read_bytes() == before
    with pytest.raises(StoreError, match="holds no graded batch"):
        Store(tmp_path / "other", writing=False)
