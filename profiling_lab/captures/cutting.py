"""A part of a timeline, as a file of its own: for recordings too large to be looked at as a whole.

    >>> part = cutting.cut(Path("long_run.sqlite"), 10_000_000_000, 12_000_000_000)

Rows go from file to file, so that memory does not grow with the recording.
"""

from __future__ import annotations

import contextlib
import re
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from profiling_lab import captures
from profiling_lab.captures import Kind, Part, exports, merging, nsys_schema, sqlite_tables
from profiling_lab.errors import CaptureError, EmptyCapture, LabError

# What a verdict takes of memory, a call or device operation, where the course's functions are asked:
# benchmarks/results/large_captures.json. The engine takes 340 to 400 (1,000,000 to 10,000,000 events, 2026-11-24).
BYTES_PER_EVENT = 1_300
# Of the memory that is free, at most this share: the rest of the machine wants some, too.
MEMORY_RATIO = 0.8
LATEST_NS = NO_LIMIT = 2**62
NVTX = "NVTX_EVENTS"

_ISSUED = (
    *nsys_schema.DEVICE_TABLES, nsys_schema.SYNCHRONIZATION, nsys_schema.CUDA_EVENT,
)  # fmt: skip
# These say something of the recording as a whole, whenever they are dated.
_WHOLE = {"DIAGNOSTIC_EVENT"}


@dataclass(frozen=True)
class Seconds:
    """A stretch of a recording, in seconds as Nsight Systems counts them; None: up to its end."""

    start_s: float | None
    end_s: float | None

    @classmethod
    def parse(cls, text: str) -> Seconds:
        """From "10:12.5", "10:" or ":12.5". Raises LabError for anything else."""
        found = re.fullmatch(r"(\d+(?:\.\d*)?)?:(\d+(?:\.\d*)?)?", text.strip())
        if not found:
            raise LabError(f"--seconds {text}: write FROM:TO, like 10:12.5, 10: or :2")
        start_s, end_s = (float(number) if number else None for number in found.groups())
        if start_s is not None and end_s is not None and start_s >= end_s:
            raise LabError(f"--seconds {text}: the end has to come after the start")
        return cls(start_s, end_s)

    def window_ns(self) -> tuple[int, int] | None:
        """Start and end, both within the recording or beyond; None where it is all of it."""
        if self.start_s is None and self.end_s is None:
            return None
        end_ns = LATEST_NS if self.end_s is None else round(self.end_s * 1e9)
        return min(round((self.start_s or 0) * 1e9), LATEST_NS), min(end_ns, LATEST_NS)


def to_look_at(
    parts: Sequence[Part], seconds: str | None, free_bytes: int | None = None
) -> tuple[list[Part], list[str]]:
    """Captures, timelines among them cut to what was asked for, or else to what there is memory for.

    seconds: as `Seconds.parse` reads it; ":" is all of a recording, whatever memory it takes.
    free_bytes: what is free of the machine's memory, or of this job's share of it, if None is given. A part's name says which part it is.
    Returns the captures, and a sentence for each that was cut though nobody asked for it.
    Raises LabError for seconds of a capture that is no timeline, and what `cut` raises.
    """
    asked = None if seconds is None else Seconds.parse(seconds)
    if free_bytes is None:
        free_bytes = min(psutil.virtual_memory().available, _left_to_group())
    out, notes = [], []
    for part in parts:
        if part.kind != Kind.TIMELINE:
            if asked:
                raise LabError(
                    f"--seconds belongs to timelines; {part.name} is a capture of kind {part.kind}"
                )
            out.append(part)
            continue
        file = captures.file(part.path, captures.TIMELINE)
        if asked:
            stretch = asked.window_ns()
        else:
            stretch = fitting(file, free_bytes)
            if stretch:
                notes.append(
                    f"{part.name}: a part of it, as {free_bytes / 1e9:.1f} GB of memory are free; "
                    "choose another part with --seconds FROM:TO, all of it with --seconds :"
                )
        if stretch:
            try:
                path = cut(file, *stretch)
            except EmptyCapture as error:
                raise error if asked else EmptyCapture(f"{notes[-1]} ({error})") from None
            part = replace(part, name=f"{part.name} ({_in_words(*stretch)})", path=path)
        out.append(part)
    return out, notes


def _left_to_group(
    own: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")
) -> int:
    """Bytes that the control groups of this process (a container, a job of Slurm) leave it.

    NO_LIMIT, which is more than any machine has, where there is none. What files keep in memory
    is given back when it is needed (source: Linux, Documentation/admin-guide/cgroup-v2.rst).
    """
    left = NO_LIMIT
    try:
        name = next(line[3:] for line in own.read_text().splitlines() if line.startswith("0::"))
    except (OSError, StopIteration):
        return left
    place = root / name.strip().lstrip("/")
    for group in (place, *place.parents):
        with contextlib.suppress(OSError, ValueError, StopIteration):
            most = int((group / "memory.max").read_text())  # "max" is no limit
            held = int((group / "memory.current").read_text())
            kept = (group / "memory.stat").read_text().splitlines()
            files = next(int(line.split()[1]) for line in kept if line.startswith("inactive_file "))
            left = min(left, max(0, most - held + files))
        if group == root:
            break
    return left


def fitting(timeline: Path, memory_bytes: int) -> tuple[int, int] | None:
    """The stretch around the middle, in ns, that a verdict has memory for; None if for all of it.

    memory_bytes: what is free. The stretch holds so many of the calls, as many before the middle one
    as behind it.
    """
    runtime = nsys_schema.RUNTIME
    connection = sqlite3.connect(sqlite_tables.uri(timeline), uri=True)
    try:
        held = {
            table: connection.execute(f'SELECT COUNT(*) FROM "{table}"').fetchone()[0]
            for table in (runtime, *nsys_schema.DEVICE_TABLES)
            if merging.columns_of(connection, "main", table)
        }
        total, calls = sum(held.values()), held.get(runtime, 0)
        room = int(memory_bytes * MEMORY_RATIO / BYTES_PER_EVENT)
        if total <= room or not calls:
            return None
        kept = max(1, calls * room // total)
        first = (calls - kept) // 2
        start_ns, end_ns = (
            connection.execute(
                f"SELECT start FROM {runtime} ORDER BY start LIMIT 1 OFFSET ?", (place,)
            ).fetchone()[0]
            for place in (first, min(first + kept, calls - 1))
        )
    except sqlite3.DatabaseError as error:
        raise CaptureError(f"{timeline}: damaged or truncated ({error})") from None
    finally:
        connection.close()
    return start_ns, end_ns


def cut(timeline: Path, start_ns: int, end_ns: int) -> Path:
    """A file, removed when the process ends, that holds what a timeline has within [start_ns, end_ns).

    Calls that start there, and what they issued, whenever it ran; work without a call, samples and other
    events of that time; of NVTX ranges those that lie inside whole, and as far as they reach into it those that tell
    ranks and those that reach over all that is recorded of it.
    Raises EmptyCapture where no device work was issued there, and CaptureError for a damaged file.
    """
    part = exports.scratch() / timeline.name
    connection = sqlite3.connect(part, uri=True)
    try:
        connection.execute("PRAGMA journal_mode = OFF")
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("PRAGMA temp_store = FILE")
        connection.execute("ATTACH ? AS whole", (sqlite_tables.uri(timeline),))
        tables = connection.execute(
            "SELECT name, sql FROM whole.sqlite_master WHERE type = 'table' AND name NOT GLOB 'sqlite_*'"
        ).fetchall()
        for _, sql in tables:
            connection.execute(sql)
        ends = {"start": start_ns, "end": end_ns} | _ends(connection)
        # Calls come first: they decide which device work belongs to the part.
        for name, _ in sorted(tables, key=lambda table: table[0] != nsys_schema.RUNTIME):
            connection.execute(
                f'INSERT INTO main."{name}" SELECT * FROM whole."{name}" '
                f"WHERE {_condition(connection, name)}",
                ends,
            )
        if merging.columns_of(connection, "main", NVTX):
            connection.execute(
                f'UPDATE main.{NVTX} SET start = MAX(start, :start), "end" = MIN("end", :end) '
                f"WHERE eventType IN {nsys_schema.NVTX_RANGES}",
                ends,
            )
        connection.commit()
        if not any(_any_row(connection, "main", table) for table in nsys_schema.DEVICE_TABLES):
            raise EmptyCapture(f"{timeline}: {_nothing(connection, start_ns, end_ns)}")
    except sqlite3.DatabaseError as error:
        raise CaptureError(f"{timeline}: damaged or truncated ({error})") from None
    finally:
        connection.close()
    return part


def _condition(connection: sqlite3.Connection, table: str) -> str:
    """Which rows of a table belong to the part."""
    columns = merging.columns_of(connection, "whole", table)
    inside = "start >= :start AND start < :end"
    if table in _WHOLE:
        return "1"
    if table == nsys_schema.RUNTIME:
        return inside
    if table in _ISSUED and {"correlationId", "globalPid"} <= set(columns):
        if not merging.columns_of(connection, "whole", nsys_schema.RUNTIME):
            return inside
        calls = f"SELECT correlationId, globalTid & {nsys_schema.PROCESS_MASK} FROM"
        issued = f"(correlationId, globalPid) IN ({calls} main.{nsys_schema.RUNTIME})"
        if "start" not in columns:
            return issued
        # Pages of managed memory move without a call, and a call may lie before the recording.
        alone = f"(correlationId, globalPid) NOT IN ({calls} whole.{nsys_schema.RUNTIME})"
        return f"{issued} OR {inside} AND (COALESCE(correlationId, 0) = 0 OR {alone})"
    if table == NVTX:
        open_or_whole = f'start < :end AND "end" IS NULL OR {inside} AND "end" <= :end'
        over = 'start <= MAX(:start, :first) AND "end" >= MIN(:end, :last)'
        rank = merging.IS_RANK.format("value")
        of_rank = (
            f'start < :end AND "end" > :start AND ({merging.IS_RANK.format("text")} '
            f"OR textId IN (SELECT id FROM whole.StringIds WHERE {rank}))"
        )
        return f"{open_or_whole} OR {over} OR {of_rank}"
    if {"start", "end"} <= set(columns):
        return 'start < :end AND COALESCE("end", start) >= :start'
    if "start" in columns:
        return inside
    if "timestamp" in columns:
        return "timestamp >= :start AND timestamp < :end"
    return "1"


def _ends(connection: sqlite3.Connection) -> dict[str, int]:
    """The "first" start and the "last" end of all calls and device operations of the recording."""
    first, last = _span(connection, (nsys_schema.RUNTIME, *nsys_schema.DEVICE_TABLES)) or (
        0,
        LATEST_NS,
    )
    return {"first": first, "last": last}


def _nothing(connection: sqlite3.Connection, start_ns: int, end_ns: int) -> str:
    """Why a part is empty: where device work is."""
    span = _span(connection, nsys_schema.DEVICE_TABLES)
    there = (
        f"it is between {span[0] / 1e9:.3f} and {span[1] / 1e9:.3f} s"
        if span
        else "there is none at all"
    )
    return f"no device work was issued from {_in_words(start_ns, end_ns)}; {there}"


def _span(connection: sqlite3.Connection, tables: Sequence[str]) -> tuple[int, int] | None:
    """The first start and the last end in some tables of the recording; None if all are empty."""
    spans = [
        connection.execute(f'SELECT MIN(start), MAX("end") FROM whole.{table}').fetchone()
        for table in tables
        if _any_row(connection, "whole", table)
    ]
    return (min(s for s, _ in spans), max(e for _, e in spans)) if spans else None


def _in_words(start_ns: int, end_ns: int) -> str:
    end = "the end" if end_ns >= LATEST_NS else f"{end_ns / 1e9:.3f} s"
    return f"{start_ns / 1e9:.3f} to {end}"


def _any_row(connection: sqlite3.Connection, schema: str, table: str) -> bool:
    if not merging.columns_of(connection, schema, table):
        return False
    return connection.execute(f"SELECT 1 FROM {schema}.{table} LIMIT 1").fetchone() is not None
