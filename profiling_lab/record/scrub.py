"""Take out of a recording what tells of the machine, and what the course does not read.

An exported SQLite is changed in place; give it a copy. Afterwards every string that nothing refers to
is gone and the pages are written anew, so that nothing stays behind in free space. Texts and pickles
lose the folders of the machine's Python, ids and names.
"""

from __future__ import annotations

import io
import pickle
import re
import sqlite3
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from profiling_lab.record.errors import RecordError
from profiling_lab.record.leaks import ID, ZERO_UUID

# The environment, the files of the program's output, the configuration of the sampler, leftovers of
# event sources that were not traced.
DROPPED_TABLES = (
    "TARGET_INFO_SYSTEM_ENV",
    "ProcessStreams",
    "ANALYSIS_FILE",
    "GENERIC_EVENT_SOURCES",
    "GENERIC_EVENT_TYPES",
    "GENERIC_EVENT_TYPE_FIELDS",
    "GENERIC_EVENTS",
    "GENERIC_EVENT_DATA",
    "TARGET_INFO_NIC_INFO",
    "NIC_ID_MAP",
    "TARGET_INFO_PROCESS",
)
# Enumerations of event sources that are never kept.
DROPPED_ENUMERATIONS = re.compile(r"ENUM_(NSYS_GENERIC|SCHEDULING|SAMPLING|STACK_UNWIND)_.*")
FRAME_STRING = re.compile(r'"(?:Function|File)":(\d+)')
CALLCHAIN_TABLES = ("OSRT_CALLCHAINS", "CUDA_CALLCHAINS", "SAMPLING_CALLCHAINS")
BACKTRACE_TABLES = ("PYTHON_CALLSTACKS", "PYTHON_BACKTRACES", "PYTHON_SAMPLES")

KEPT_CAPTURE_ROWS = re.compile(
    r"CAPTURE_EVENT_TYPE|OS_RUNTIME_OPTIONS:.*|GPU_METRICS_OPTIONS:.*|RUN_DURATION_MS"
    r"|PROCESS_\d+:(COLLECT_.*|CUDA_.*)|NVTX_OPTIONS:.*|COLLECT_.*"
)
KEPT_EXPORT_ROWS = re.compile(
    r"EXPORT_PRODUCT_.*|EXPORT_SCHEMA_.*|EXPORT_PLATFORM|EXPORT_ARCH"
    r"|EXPORT_PARAM_(LAZY|TIME_NORMALIZE|TIME_SHIFT)|EXPORT_CONFIG_TIME_SHIFT"
)
KEPT_METRICS = (
    "GPC Clock Frequency [MHz]",
    "GR Active [Throughput %]",
    "SMs Active [Throughput %]",
    "SM Issue [Throughput %]",
    "Tensor Active [Throughput %]",
    "Compute Warps in Flight [Throughput %]",
    "DRAM Read Bandwidth [Throughput %]",
    "DRAM Write Bandwidth [Throughput %]",
    "PCIe RX Throughput [Throughput %]",
    "PCIe TX Throughput [Throughput %]",
)
# Columns that refer to StringIds (Nsight Systems exports declare no foreign keys).
STRING_COLUMNS = frozenset(
    ("demangledName", "shortName", "mangledName", "nameId", "textId", "jsonTextId", "symbol")
    + ("module", "filenameId", "contentId", "fileNameId", "originalFile")
)
GLOBAL_PROCESS_MASK = ~0xFFFFFF
PAGE_BYTES = 1024  # thirty small enumeration tables take a page each


def scrub(file: Path, *, callchains: bool = False) -> None:
    """Scrub the exported SQLite `file` in place.

    `callchains` keeps call stacks and samples, with modules cut to their file names and without
    addresses; else they are taken out.
    """
    connection = sqlite3.connect(file)
    connection.text_factory = lambda value: value.decode("utf-8", "surrogateescape")
    try:
        connection.execute("PRAGMA secure_delete = ON")
        _scrub(connection, callchains)
        _strip_schema(connection)
        connection.commit()
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        connection.execute("VACUUM")
    finally:
        connection.close()


def _strip_schema(connection: sqlite3.Connection) -> None:
    """Take the comments out of the tables' definitions: 40 kB that every file repeats.

    The recorder keeps them once, in `tool_help/nsys_schema.sql`.
    """
    connection.execute("PRAGMA writable_schema = ON")
    rows = connection.execute("SELECT rowid, sql FROM sqlite_master WHERE type = 'table'")
    for rowid, sql in rows.fetchall():
        plain = re.sub(r" {2,}", " ", re.sub(r"\s*--[^\n]*", "", sql or ""))
        connection.execute("UPDATE sqlite_master SET sql = ? WHERE rowid = ?", (plain, rowid))
    connection.execute("PRAGMA writable_schema = OFF")


def _tables(connection: sqlite3.Connection) -> dict[str, list[str]]:
    rows = connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    ).fetchall()
    return {
        name: [row[1] for row in connection.execute(f'PRAGMA table_info("{name}")')]
        for (name,) in rows
    }


def _is_required(connection: sqlite3.Connection, table: str, column: str) -> bool:
    rows = connection.execute(f'PRAGMA table_info("{table}")')
    return any(row[1] == column and row[3] for row in rows)


def _scrub(connection: sqlite3.Connection, callchains: bool) -> None:
    tables = _tables(connection)
    dropped = list(DROPPED_TABLES)
    if not callchains:
        dropped += [*BACKTRACE_TABLES, *CALLCHAIN_TABLES]
        dropped += [table for table in tables if DROPPED_ENUMERATIONS.fullmatch(table)]
    for table in dropped:
        if table in tables:
            connection.execute(f'DROP TABLE "{table}"')
            del tables[table]
    if not callchains:
        for table, columns in tables.items():
            if "callchainId" in columns:
                # The exporter writes 0 or NULL for "no call stack", as the column allows.
                nothing = "0" if _is_required(connection, table, "callchainId") else "NULL"
                connection.execute(f'UPDATE "{table}" SET callchainId = {nothing}')
    else:
        # Addresses say nothing without the machine's libraries, and are the largest column.
        for table in CALLCHAIN_TABLES:
            if "originalIP" in tables.get(table, ()):
                nothing = "0" if _is_required(connection, table, "originalIP") else "NULL"
                connection.execute(f'UPDATE "{table}" SET originalIP = {nothing}')

    for table, kept in (
        ("META_DATA_CAPTURE", KEPT_CAPTURE_ROWS),
        ("META_DATA_EXPORT", KEPT_EXPORT_ROWS),
    ):
        if table in tables:
            for rowid, name, value in connection.execute(
                f"SELECT rowid, name, value FROM {table}"
            ).fetchall():
                if not kept.fullmatch(name) or len(str(value)) > 200 or "/" in str(value):
                    connection.execute(f"DELETE FROM {table} WHERE rowid = ?", (rowid,))

    _keep_profiled_processes(connection, tables)
    _keep_metrics(connection, tables)

    if "uuid" in tables.get("TARGET_INFO_GPU", ()):
        connection.execute("UPDATE TARGET_INFO_GPU SET uuid = ''")
    if "DIAGNOSTIC_EVENT" in tables:
        # What the sampler left out, counter by counter, says nothing that the metrics do not.
        connection.execute("DELETE FROM DIAGNOSTIC_EVENT WHERE text LIKE '%Skipping metric%'")
        _shorten_paths(connection, "DIAGNOSTIC_EVENT", "text")
    if "StringIds" in tables:
        _drop_strings(connection, tables)
        _shorten_paths(connection, "StringIds", "value")


def _keep_profiled_processes(connection: sqlite3.Connection, tables: dict[str, list[str]]) -> None:
    """Leave only the processes and threads that called CUDA or NVTX, or ran on the device."""
    processes: set[int] = set()
    threads: set[int] = set()
    others = ("PROCESSES", "ThreadNames", "DIAGNOSTIC_EVENT")
    for table, columns in tables.items():
        if table in others:
            continue
        if "globalTid" in columns:
            rows = connection.execute(f'SELECT DISTINCT globalTid FROM "{table}"').fetchall()
            threads |= {tid for (tid,) in rows if tid is not None}
        if "globalPid" in columns:
            rows = connection.execute(f'SELECT DISTINCT globalPid FROM "{table}"').fetchall()
            processes |= {pid for (pid,) in rows if pid is not None}
    processes |= {tid & GLOBAL_PROCESS_MASK for tid in threads}
    for table, column, kept in (
        ("PROCESSES", "globalPid", processes),
        ("ThreadNames", "globalTid", threads),
    ):
        if table in tables:
            rows = connection.execute(f"SELECT rowid, {column} FROM {table}").fetchall()
            gone = [(rowid,) for rowid, identity in rows if identity not in kept]
            connection.executemany(f"DELETE FROM {table} WHERE rowid = ?", gone)


def _keep_metrics(connection: sqlite3.Connection, tables: dict[str, list[str]]) -> None:
    if "GPU_METRICS" not in tables or "TARGET_INFO_GPU_METRICS" not in tables:
        return
    marks = ", ".join("?" * len(KEPT_METRICS))
    connection.execute(
        f"DELETE FROM TARGET_INFO_GPU_METRICS WHERE metricName NOT IN ({marks})", KEPT_METRICS
    )
    connection.execute(
        "DELETE FROM GPU_METRICS WHERE metricId NOT IN"
        " (SELECT metricId FROM TARGET_INFO_GPU_METRICS)"
    )
    if "rawTimestamp" in tables["GPU_METRICS"]:
        nothing = "0" if _is_required(connection, "GPU_METRICS", "rawTimestamp") else "NULL"
        connection.execute(f"UPDATE GPU_METRICS SET rawTimestamp = {nothing}")


def _drop_strings(connection: sqlite3.Connection, tables: dict[str, list[str]]) -> None:
    used: set[int] = set()
    for table, columns in tables.items():
        if table == "StringIds":
            continue
        for column in columns:
            if column in STRING_COLUMNS:
                rows = connection.execute(f'SELECT DISTINCT "{column}" FROM "{table}"')
                used |= {value for (value,) in rows if isinstance(value, int)}
    if "jsonText" in tables.get("NVTX_EVENTS", ()):
        # Frames of Python stand in payloads, functions and files as numbers of strings.
        query = "SELECT jsonText FROM NVTX_EVENTS WHERE jsonText IS NOT NULL"
        for (text,) in connection.execute(query):
            used |= {int(number) for number in FRAME_STRING.findall(text)}
    rows = connection.execute("SELECT id, CAST(value AS BLOB) FROM StringIds").fetchall()
    gone = [(number,) for number, value in rows if number not in used or b"\0" in (value or b"")]
    connection.executemany("DELETE FROM StringIds WHERE id = ?", gone)


def _shorten_paths(connection: sqlite3.Connection, table: str, column: str) -> None:
    """Cut the folders off every path in a text: /usr/lib/libc.so.6 becomes libc.so.6."""
    rows = connection.execute(f"SELECT rowid, {column} FROM {table} WHERE {column} LIKE '%/%'")
    for rowid, text in rows.fetchall():
        short = re.sub(r"(?<![\w.)>])/(?:[\w.+-]+/)+", "", text)
        if short != text:
            connection.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (short, rowid))


# -- texts and pickles ------------------------------------------------------------------------------

# Whatever stands before these folders says where somebody installed Python, nothing of the recording.
PYTHON_FOLDERS = (
    (re.compile(rb"/[^\s\"':;,()\\]*/(?:site|dist)-packages/"), b"site-packages/"),
    (re.compile(rb"/[^\s\"':;,()\\]*/lib(?:64)?/(python3\.\d+)/"), rb"\1/"),
)


def neutral_text(data: bytes, work: Path, names: Iterable[bytes] = ()) -> bytes:
    """A text without the folders of the working place and of Python, without ids and `names`."""
    own = {str(work), str(work.resolve())}
    for folder in sorted(own, key=len, reverse=True):
        data = data.replace(f"{folder}/".encode(), b"").replace(folder.encode(), b".")
    for pattern, replacement in PYTHON_FOLDERS:
        data = pattern.sub(replacement, data)
    data = data.replace(f"{sys.prefix}/".encode(), b"python/") if sys.prefix != "/usr" else data
    data = ID.sub(ZERO_UUID, data)
    for name in names:
        if len(name) >= 4:
            data = data.replace(name, b"recorder")
    return data


class _PlainValues(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        raise RecordError(f"a pickle of the program asks for {module}.{name}: plain values only")


def neutral_pickle(data: bytes, work: Path, names: Iterable[bytes] = ()) -> bytes:
    """A pickle of plain values (dict, list, tuple, str, numbers), its texts as in `neutral_text`.

    Raises RecordError for a pickle that would run something, or cannot be read.
    """
    try:
        value = _PlainValues(io.BytesIO(data)).load()
    except (pickle.UnpicklingError, EOFError, ValueError, IndexError, AttributeError) as error:
        raise RecordError(f"a pickle of the program cannot be read: {error}") from None
    names = list(names)
    texts: dict[str, str] = {}  # the same few file names stand in thousands of stack frames

    def neutral(part: Any) -> Any:
        if isinstance(part, str):
            if part not in texts:
                texts[part] = neutral_text(
                    part.encode("utf-8", "surrogateescape"), work, names
                ).decode("utf-8", "surrogateescape")
            return texts[part]
        if isinstance(part, dict):
            return {neutral(key): neutral(entry) for key, entry in part.items()}
        if isinstance(part, list | tuple):
            return type(part)(neutral(entry) for entry in part)
        return part

    return pickle.dumps(neutral(value), protocol=4)
