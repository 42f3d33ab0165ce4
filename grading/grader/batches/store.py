"""Keeps the results of a batch in a folder: each on disk as it comes, none lost when the power goes.

    DIR/results.jsonl    a line of JSON a result, appended and fsynced, never rewritten
    DIR/plan.jsonl       what the last run was asked for: a line a submission, with the keys of its exercises
    DIR/batch.json       seed, options and versions of the batch
    DIR/.lock            held by the grader that writes here

A line that a power cut tore off is the last one and is dropped; its unit is graded again. Of several
results for one exercise of one student, the key (what the result depends on) tells which one counts.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import threading
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, Self

from grading.grader.batches.output_folder import StoreError, release_lock, take_lock, trouble
from grading.runner.results import Key, Result
from profiling_lab.atomic_files import replaced

RESULTS, PLAN, BATCH, WORK = "results.jsonl", "plan.jsonl", "batch.json", ".work"
FORMAT = 1

# What a result and a student's reports take on disk: of four students' two exercises of the week a
# result took 18 to 41 kB (the more checks, the more), the reports of a student 130 kB.
RESULT_BYTES = 30_000
REPORT_BYTES = 130_000
PROBE_BYTES = 1 << 20


class DiskError(StoreError):
    """Writing a result failed; all results before it are safe."""


@dataclass(frozen=True)
class Place:
    """Where a result is in the file. good: it is not for want of infrastructure."""

    digest: bytes
    offset: int
    length: int
    good: bool


class Store:
    """The results of a folder. Use as a context manager; `add` may be called from several threads.

    writing: take the folder's lock and fix a torn end; else the folder is only read, also while a grader
    writes into it. new: whether it may be a folder without a batch. Raises StoreError if the folder cannot be used, Busy if another grader holds it.
    """

    def __init__(self, out: Path, *, writing: bool = True, new: bool = True) -> None:
        self.out = out
        self.file = out / RESULTS
        self.notes: list[str] = []
        self._writing = writing
        self._mutex = threading.Lock()
        self._places: dict[tuple[str, str], list[Place]] = {}
        self._lock: IO[str] | None = None
        self._append: IO[bytes] | None = None
        self._end = 0
        self._broken: StoreError | None = None
        if not (writing and new) and not (out / BATCH).is_file():
            raise StoreError(f"{out}: holds no graded batch; name the folder given to --out")
        try:
            if writing:
                out.mkdir(parents=True, exist_ok=True)
                self._lock = take_lock(out)
            self._read()
            if writing:
                self._append = self.file.open("ab")
                self._mend()
        except BaseException as error:
            self.close()
            if isinstance(error, OSError):
                raise StoreError(
                    f"{out}: cannot be used as the output folder: {trouble(error)}; fix that or choose "
                    "another --out (nothing was graded, nothing was lost)"
                ) from None
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the files and give the lock back."""
        if self._append is not None:
            self._append.close()
            self._append = None
        if self._lock is not None:
            release_lock(self.out, self._lock)
            self._lock = None

    # -- results ----------------------------------------------------------------------------------

    def __len__(self) -> int:
        return sum(len(places) for places in self._places.values())

    def has(self, student: str, exercise: str, key: Key) -> bool:
        """Whether there is a verdict under this key; one that infrastructure prevented is none."""
        place = self._place(student, exercise, key)
        return place is not None and place.good

    def get(self, student: str, exercise: str, key: Key) -> Result | None:
        """The result under this key: the last verdict, else the last report of infrastructure."""
        place = self._place(student, exercise, key)
        return None if place is None else self._load(place)

    def add(self, *results: Result) -> None:
        """Append results; on return they are on disk, all of them. Raises DiskError otherwise."""
        lines = [_line(result) for result in results]
        with self._mutex:
            if self._broken is not None:
                raise self._broken
            if self._append is None:
                raise StoreError(f"{self.file}: is not open for writing")
            try:
                self._append.write(b"".join(lines))
                self._append.flush()
                os.fsync(self._append.fileno())
            except OSError as error:
                self._broken = self._after_failed_write(error)
                raise self._broken from None
            for result, line in zip(results, lines, strict=True):
                self._note(result, self._end, len(line))
                self._end += len(line)

    def _after_failed_write(self, error: OSError) -> DiskError:
        append, self._append = self._append, None
        assert append is not None
        try:
            # The buffer may still hold the line: closing would try to write it again.
            os.ftruncate(append.fileno(), self._end)
            append.raw.close()  # type: ignore[attr-defined]
        except OSError:
            pass  # a torn line is dropped when the folder is opened again
        return DiskError(
            f"{self.file}: a result could not be written: {trouble(error)}. The {len(self)} results "
            "before it are safe; fix that and run the same command again: it goes on from there"
        )

    def _place(self, student: str, exercise: str, key: Key) -> Place | None:
        digest = _digest(key)
        with self._mutex:
            found = [p for p in self._places.get((student, exercise), ()) if p.digest == digest]
        good = [place for place in found if place.good]
        return (good or found or [None])[-1]

    def _load(self, place: Place) -> Result:
        with self.file.open("rb") as file:
            file.seek(place.offset)
            return Result.from_dict(json.loads(file.read(place.length)))

    def _note(self, result: Result, offset: int, length: int) -> None:
        place = Place(_digest(result.key), offset, length, not result.infrastructure)
        self._places.setdefault((result.student, result.exercise), []).append(place)

    def _read(self) -> None:
        """Note where each result stands; leaves `_end` behind the last whole line."""
        try:
            file = self.file.open("rb")
        except FileNotFoundError:
            return
        damaged: list[tuple[int, bool]] = []
        last_good = offset = 0
        with file:
            for number, line in enumerate(file, 1):
                offset += len(line)
                try:
                    if not line.endswith(b"\n"):
                        raise ValueError("torn")
                    data = json.loads(line)
                    if not isinstance(data, dict):
                        raise ValueError("no result")
                except ValueError:
                    damaged.append((number, b"\0" in line or not line.endswith(b"\n")))
                    continue
                try:
                    result = Result.from_dict(data)
                except (ValueError, KeyError, TypeError) as error:
                    raise StoreError(
                        f"{self.file}, line {number}: {error or type(error).__name__}; it was written "
                        "by another version of the course: choose another --out, or go back to it"
                    ) from None
                self._note(result, offset - len(line), len(line))
                self._end, last_good = offset, number
        # A power cut leaves a line without its end, or zeros where blocks were not written any more.
        # Only that is cut off; anything else at the end was written by somebody else.
        if strange := [number for number, torn in damaged if number > last_good and not torn]:
            raise StoreError(
                f"{self.file}, {_lines(strange)}: not a result; move this file away or choose another "
                "--out"
            )
        if inside := [number for number, _ in damaged if number < last_good]:
            self.notes.append(
                f"{self.file}: {_lines(inside)} cannot be read; what stood there is graded again"
            )

    def _mend(self) -> None:
        assert self._append is not None
        size = self.file.stat().st_size
        if size > self._end:
            os.ftruncate(self._append.fileno(), self._end)
            os.fsync(self._append.fileno())
            self.notes.append(
                f"{self.file}: its end was torn off in the middle of a result (a power cut?) and was "
                f"dropped, {size - self._end} bytes; that result is graded again"
            )
        _sync_folder(self.out)

    # -- the batch --------------------------------------------------------------------------------

    def batch(self) -> dict[str, Any]:
        """The kept facts of the batch; {} for a new folder. Raises StoreError for another format."""
        return read_batch(self.out)

    def write_batch(self, facts: dict[str, Any]) -> None:
        """Keep the facts of the batch, whole or not at all."""
        text = json.dumps({"format": FORMAT, **facts}, indent=1, sort_keys=True) + "\n"
        self._write_whole(BATCH, [text])

    def write_plan(self, rows: Iterable[dict[str, Any]]) -> None:
        """Keep what was asked for, a row a submission, whole or not at all."""
        self._write_whole(PLAN, (json.dumps({"format": FORMAT, **row}) + "\n" for row in rows))

    def plan(self) -> Iterator[dict[str, Any]]:
        """The rows of the last run's plan. Raises StoreError if there is none that can be read."""
        try:
            with (self.out / PLAN).open(encoding="utf-8") as file:
                for line in file:
                    row = json.loads(line)
                    if row.pop("format", None) != FORMAT:
                        raise ValueError("it was written by another version of the course")
                    yield row
        except (OSError, ValueError) as error:
            why = trouble(error) if isinstance(error, OSError) else str(error)
            raise StoreError(
                f"{self.out / PLAN}: cannot be read ({why}); run grade with the submissions again: "
                "what is graded stays graded"
            ) from None

    def _write_whole(self, name: str, parts: Iterable[str]) -> None:
        try:
            write_whole(self.out / name, parts)
        except OSError as error:
            raise StoreError(
                f"{self.out / name}: cannot be written: {trouble(error)}; fix that and run the same "
                "command again (nothing that was graded is lost)"
            ) from None

    def make_sure_of_room(self, *, results: int, students: int) -> None:
        """Raise StoreError if this many more results and reports cannot be written here."""
        needed = results * RESULT_BYTES + students * REPORT_BYTES
        free = shutil.disk_usage(self.out).free
        if free < needed:
            raise StoreError(
                f"{self.out}: {free / 1e6:.1f} MB are free on this disk, and the batch needs about "
                f"{needed / 1e6:.1f} MB; free some or choose another --out (nothing was lost)"
            )
        try:
            with tempfile.TemporaryFile(dir=self.out) as probe:
                probe.write(bytes(min(needed, PROBE_BYTES)))
                probe.flush()
                os.fsync(probe.fileno())
        except OSError as error:
            raise StoreError(
                f"{self.out}: cannot be written: {trouble(error)}; fix that or choose another --out "
                "(nothing was graded, nothing was lost)"
            ) from None


def read_batch(out: Path) -> dict[str, Any]:
    """The kept facts of the batch in a folder; {} if there are none."""
    try:
        facts = json.loads((out / BATCH).read_text(encoding="utf-8"))
        if facts.pop("format", None) != FORMAT:
            raise ValueError("it was written by another version of the course")
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, AttributeError) as error:
        why = trouble(error) if isinstance(error, OSError) else str(error)
        raise StoreError(f"{out / BATCH}: cannot be read ({why}); choose another --out") from None
    return facts


def write_whole(file: Path, parts: Iterable[str]) -> None:
    """Write a text file whole or not at all, also when the power goes."""
    with replaced(file) as draft, draft.open("w", encoding="utf-8", newline="\n") as stream:
        for part in parts:
            stream.write(part)
        stream.flush()
        os.fsync(stream.fileno())
    _sync_folder(file.parent)


def read_lines(file: Path, start: int = 0) -> tuple[list[Result], int]:
    """Results in a file that another process appends to, from byte `start` on, and where to go on.

    A line that is not whole yet is left for the next call; one that is no result is left out.
    """
    out: list[Result] = []
    try:
        stream = file.open("rb")
    except FileNotFoundError:
        return out, start
    with stream:
        stream.seek(start)
        for line in stream:
            if not line.endswith(b"\n"):
                break
            start += len(line)
            try:
                out.append(Result.from_dict(json.loads(line)))
            except (ValueError, KeyError, TypeError, AttributeError):
                continue
    return out, start


def append_line(stream: IO[bytes], result: Result) -> None:
    """Append a result to a file of a job's own; it is on disk when this returns."""
    stream.write(_line(result))
    stream.flush()
    os.fsync(stream.fileno())


def _line(result: Result) -> bytes:
    # ASCII only: a lone surrogate in a file's name cannot stop a batch.
    return json.dumps(result.to_dict(), separators=(",", ":")).encode("ascii") + b"\n"


def _digest(key: Key) -> bytes:
    return hashlib.sha256("\0".join(map(str, asdict(key).values())).encode()).digest()[:16]


def _lines(numbers: list[int]) -> str:
    shown = ", ".join(map(str, numbers[:5])) + (" …" if len(numbers) > 5 else "")
    return f"line{'s' if len(numbers) > 1 else ''} {shown}"


def _sync_folder(folder: Path) -> None:
    """A new file's name survives a power cut only if its folder is on disk too."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    except OSError:
        pass  # not every file system syncs folders
    finally:
        os.close(descriptor)
