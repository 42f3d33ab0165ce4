"""Recordings of the ranks of one job, a file each, as one timeline.

    >>> job = merging.ranks_of_one_job([Path("rank0.sqlite"), Path("rank1.sqlite")])
    >>> merging.merge(job, Path("ranks.sqlite"))

Files are of one job if each ran collectives of NCCL and all were recorded at the same time, by the
clock of the day that each notes at its start. The same clock puts them on one timeline. On one host it
did so to 20 µs (ten all-reduces of two sessions of Nsight Systems 2025.3: the ends of a pair differed
by 16 to 20 µs); hosts are as far apart as their clocks are.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from profiling_lab.captures import exports, nsys_schema, sqlite_tables
from profiling_lab.errors import CaptureError

EVENTS = (
    *nsys_schema.DEVICE_TABLES, nsys_schema.RUNTIME, nsys_schema.SYNCHRONIZATION,
    nsys_schema.CUDA_EVENT, "NVTX_EVENTS", "OSRT_API", "PROFILER_OVERHEAD",
    "CUDA_GPU_MEMORY_USAGE_EVENTS",
)  # fmt: skip
TIMES = ("start", "end")
STRINGS = ("shortName", "demangledName", "mangledName", "nameId", "textId")
RANK_RANGE = r"^rank \d+$"
IS_RANK = "({0} GLOB 'rank [0-9]*' AND SUBSTR({0}, 6) NOT GLOB '*[^0-9]*')"  # the same in SQL
COLLECTIVE = "shortName IN (SELECT id FROM StringIds WHERE value GLOB 'nccl*')"  # a kernel's row
PUSH_POP_RANGE = 59  # its number in ENUM_NSYS_EVENT_TYPE
GPUS = "TARGET_INFO_GPU"
CLOCK = "TARGET_INFO_SESSION_START_TIME"


@dataclass(frozen=True)
class _Recording:
    """When a file was recorded: utc_ns is its time 0 on the clock of the day."""

    file: Path
    utc_ns: int
    start_ns: int
    end_ns: int
    processes: frozenset[int]


def ranks_of_one_job(files: Sequence[Path]) -> list[Path]:
    """Those of several timelines that are of ranks of the same job as the first such one.

    Empty if fewer than two are. A file that cannot be read is of none: whoever opens it will say why.
    """
    found: list[_Recording] = []
    for file in files:
        recording = _recording(file)
        if recording and (not found or _same_time(found[0], recording)):
            if any(recording.processes & other.processes for other in found):
                continue  # the same recording twice
            found.append(recording)
    return [recording.file for recording in found] if len(found) > 1 else []


def merge(files: Sequence[Path], merged: Path) -> None:
    """Write the events of several recordings into one file, on the clock of the first.

    Devices are numbered as the machine numbers them, not as each process does. GPU metrics are the
    first file's. Where no NVTX range tells a rank ("rank 1"), ranges are added that number the
    processes in the order of the files. Raises CaptureError for files whose tables do not fit together.
    """
    first, *others = (_recording(file) for file in files)
    if first is None or None in others:
        raise CaptureError(f"{files[0]}: not a recording of a rank")
    shutil.copyfile(first.file, merged)
    merged.chmod(0o600)
    connection = sqlite3.connect(merged, uri=True)
    try:
        numbers: dict[Any, int] = {}
        _number_devices(connection, numbers)
        for other in others:
            assert other is not None
            connection.execute("ATTACH ? AS other", (sqlite_tables.uri(other.file),))
            _add(connection, other.utc_ns - first.utc_ns, numbers)
            connection.commit()
            connection.execute("DETACH other")
        _name_ranks(connection, [first, *(other for other in others if other)])
        connection.commit()
    except sqlite3.DatabaseError as error:
        named = ", ".join(file.name for file in files)
        raise CaptureError(f"{named}: do not fit together as ranks of one job ({error})") from None
    finally:
        connection.close()


def _recording(file: Path) -> _Recording | None:
    """What is needed of a recording that ran collectives; None for any other file."""
    kernel = nsys_schema.KERNEL
    try:
        connection = sqlite3.connect(sqlite_tables.uri(file), uri=True)
        try:
            row = connection.execute(
                f'SELECT MIN(start), MAX("end"), (SELECT utcEpochNs FROM {CLOCK}) FROM {kernel}'
            ).fetchone()
            collectives = connection.execute(
                f"SELECT 1 FROM {kernel} WHERE {COLLECTIVE} LIMIT 1"
            ).fetchone()
            processes = connection.execute(f"SELECT DISTINCT globalPid FROM {kernel}").fetchall()
        finally:
            connection.close()
    except (sqlite3.DatabaseError, UnicodeDecodeError):
        return None
    if collectives is None or None in row:
        return None
    start_ns, end_ns, utc_ns = row
    return _Recording(file, utc_ns, start_ns, end_ns, frozenset(pid for (pid,) in processes))


def _same_time(one: _Recording, other: _Recording) -> bool:
    shift_ns = other.utc_ns - one.utc_ns
    return one.start_ns < other.end_ns + shift_ns and other.start_ns + shift_ns < one.end_ns


def columns_of(connection: sqlite3.Connection, schema: str, table: str) -> list[str]:
    """The names of a table's columns, in order; none where a schema ("main", or as attached) lacks it."""
    return [row[1] for row in connection.execute(f'PRAGMA {schema}.table_info("{table}")')]


def _number_devices(connection: sqlite3.Connection, numbers: dict[Any, int]) -> None:
    """Number the devices of the first file as the machine does."""
    own, by_gpu = _device_numbers(connection, "main", numbers)
    expression = _renumbered(own)
    for table in EVENTS:
        if expression != "deviceId" and "deviceId" in columns_of(connection, "main", table):
            connection.execute(f"UPDATE main.{table} SET deviceId = {expression}")
    if "cuDevice" not in columns_of(connection, "main", GPUS):
        return
    for gpu, number in by_gpu.items():
        connection.execute(f"UPDATE main.{GPUS} SET cuDevice = ? WHERE id = ?", (number, gpu))


def _add(connection: sqlite3.Connection, shift_ns: int, numbers: dict[Any, int]) -> None:
    """Add the attached file's events, and the devices that are not there yet."""
    (shift_ids,) = connection.execute("SELECT MAX(id) + 1 FROM main.StringIds").fetchone()
    connection.execute(
        "INSERT INTO main.StringIds (id, value) SELECT id + ?, value FROM other.StringIds",
        (shift_ids,),
    )
    known = set(numbers.values())
    own, by_gpu = _device_numbers(connection, "other", numbers)
    changed = {column: f'"{column}" + {shift_ns}' for column in TIMES}
    changed |= {column: f'"{column}" + {shift_ids}' for column in STRINGS}
    changed["deviceId"] = _renumbered(own)
    for table in EVENTS:
        _insert(connection, table, changed)
    for gpu, number in by_gpu.items():
        if number not in known:
            known.add(number)
            _insert(connection, GPUS, {"cuDevice": str(number)}, f"WHERE id = {gpu}")


def with_ranks(timeline: Path) -> Path | None:
    """A copy of one timeline of several ranks in which NVTX ranges "rank <number>" tell them apart.

    Ranks are the processes that ran collectives of NCCL, numbered by device and then process. A range
    ends with its rank's last device operation. All begin where every rank has a recorded one: a
    recording begins later in some processes than in others, and what was launched before it is not in it,
    so that nothing tells a device that had nothing to do from one that was not recorded yet. None where
    fewer than two processes are ranks, or where such ranges are there already. (Processes that ran one
    after the other are given all that they did.)
    """
    found = _recording(timeline)
    if found is None or len(found.processes) < 2:
        return None
    connection = sqlite3.connect(sqlite_tables.uri(timeline), uri=True)
    try:
        spans = [] if _tells_ranks(connection) else _spans_of_ranks(connection)
    except (sqlite3.DatabaseError, UnicodeDecodeError):
        return None  # whoever opens it will say why
    finally:
        connection.close()
    if len(spans) < 2:
        return None
    named = exports.scratch() / timeline.name
    shutil.copyfile(timeline, named)
    named.chmod(0o600)
    connection = sqlite3.connect(named)
    try:
        _ready_for_ranges(connection)
        last_start_ns = max(start_ns for *_, start_ns, _ in spans)
        together = last_start_ns < min(end_ns for *_, end_ns in spans)
        for rank, (_, process, start_ns, end_ns) in enumerate(spans):
            begin_ns = last_start_ns if together else start_ns
            _add_rank(connection, rank, process, begin_ns, end_ns)
        connection.commit()
    finally:
        connection.close()
    return named


def _tells_ranks(connection: sqlite3.Connection) -> bool:
    """Whether there is an NVTX range "rank <number>"."""
    if not columns_of(connection, "main", "NVTX_EVENTS"):
        return False
    query = (
        "SELECT 1 FROM NVTX_EVENTS LEFT JOIN StringIds ON id = textId "
        f"WHERE {IS_RANK.format('COALESCE(text, value)')} "
        f"AND eventType IN {nsys_schema.NVTX_RANGES} LIMIT 1"
    )
    return connection.execute(query).fetchone() is not None


def _spans_of_ranks(connection: sqlite3.Connection) -> list[tuple[int, int, int, int]]:
    """(highest device, process, first start, last end of its device work) of each process that ran
    collectives, in that order. By SQL: recordings may be larger than the memory.
    """
    work = " UNION ALL ".join(
        f'SELECT deviceId, globalPid, start, "end" FROM {table}'
        for table in nsys_schema.DEVICE_TABLES
        if columns_of(connection, "main", table)
    )
    query = (
        f'SELECT MAX(deviceId), globalPid, MIN(start), MAX("end") FROM ({work}) WHERE globalPid IN '
        f"(SELECT globalPid FROM {nsys_schema.KERNEL} WHERE {COLLECTIVE}) GROUP BY globalPid"
    )
    return sorted(connection.execute(query).fetchall())


def _ready_for_ranges(connection: sqlite3.Connection) -> None:
    if not columns_of(connection, "main", "NVTX_EVENTS"):
        connection.execute(
            'CREATE TABLE NVTX_EVENTS (start INTEGER, "end" INTEGER, eventType INTEGER, text TEXT, '
            "textId INTEGER, globalTid INTEGER, domainId INTEGER)"
        )


def _add_rank(
    connection: sqlite3.Connection, rank: int, process: int, start_ns: int, end_ns: int
) -> None:
    connection.execute(
        'INSERT INTO NVTX_EVENTS (start, "end", eventType, text, globalTid) '
        f"VALUES (?, ?, {PUSH_POP_RANGE}, ?, ?)",
        (start_ns, end_ns, f"rank {rank}", process),
    )


def _name_ranks(connection: sqlite3.Connection, recordings: Sequence[_Recording]) -> None:
    """Add a range "rank <number>" for each process, unless there are such or a file has several."""
    _ready_for_ranges(connection)
    if _tells_ranks(connection) or any(len(recording.processes) > 1 for recording in recordings):
        return
    for rank, recording in enumerate(recordings):
        (process,) = recording.processes
        shift_ns = recording.utc_ns - recordings[0].utc_ns
        start_ns, end_ns = recording.start_ns + shift_ns, recording.end_ns + shift_ns
        _add_rank(connection, rank, process, start_ns, end_ns)


def _insert(
    connection: sqlite3.Connection, table: str, changed: dict[str, str], where: str = ""
) -> None:
    """Copy a table's rows from the attached file, some columns through expressions."""
    columns = columns_of(connection, "other", table)
    if not columns:
        return
    if not columns_of(connection, "main", table):
        query = "SELECT sql FROM other.sqlite_master WHERE type = 'table' AND name = ?"
        connection.execute(connection.execute(query, (table,)).fetchone()[0])
    names = ", ".join(f'"{column}"' for column in columns)
    values = ", ".join(changed.get(column, f'"{column}"') for column in columns)
    connection.execute(
        f"INSERT INTO main.{table} ({names}) SELECT {values} FROM other.{table} {where}"
    )


def _device_numbers(
    connection: sqlite3.Connection, schema: str, numbers: dict[Any, int]
) -> tuple[dict[tuple[int, int], int], dict[int, int]]:
    """The numbers in the merged file: of each (process id, device as it counts), and of each GPU's id.

    numbers: those given so far, by what identifies a GPU; new ones are added.
    """
    if not columns_of(connection, schema, "TARGET_INFO_CUDA_DEVICE"):
        return {}, {}
    uuids: dict[int, str] = {}
    if {"id", "uuid"} <= set(columns_of(connection, schema, GPUS)):
        uuids = dict(connection.execute(f"SELECT id, uuid FROM {schema}.{GPUS}").fetchall())
    rows = connection.execute(
        f"SELECT pid, cudaId, COALESCE(gpuId, cudaId) FROM {schema}.TARGET_INFO_CUDA_DEVICE"
    ).fetchall()
    own, by_gpu = {}, {}
    for pid, device, gpu in sorted(rows):
        key = uuids.get(gpu) or gpu  # without a uuid only its host tells it apart
        if key not in numbers:
            taken = set(numbers.values())
            numbers[key] = next(n for n in (gpu, *range(len(taken) + 1)) if n not in taken)
        own[pid, device] = by_gpu[gpu] = numbers[key]
    return own, by_gpu


def _renumbered(own: dict[tuple[int, int], int]) -> str:
    """The expression that gives a row's device its number in the merged file."""
    cases = " ".join(
        f"WHEN (globalPid >> 24) & 16777215 = {process} AND deviceId = {device} THEN {number}"
        for (process, device), number in own.items()
        if device != number
    )
    return f"CASE {cases} ELSE deviceId END" if cases else "deviceId"
