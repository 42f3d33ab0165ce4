"""An export of Nsight Systems in columns, read with SQLite and numpy alone.

    >>> export = Export(captures.open("torch_inference_baseline"))
    >>> export.recording.operations.start

Rows come in the order of `NsysCapture`'s tables, which are what the course reads. Frames would take four times
the space installed, and a fifth of a second to import.
"""

from __future__ import annotations

import itertools
import re
import sqlite3
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from profiling_lab.analysis.columns import (
    COPY,
    GRAPH,
    KERNEL,
    MEMSET,
    NO_NUMBER,
    DeviceOperations,
    EventLinks,
    HostCalls,
    Ranges,
    Recording,
    Vocabulary,
    number_rows,
)
from profiling_lab.captures import nsys_schema
from profiling_lab.captures.sqlite_tables import VERSION_SUFFIX, connect
from profiling_lab.errors import CaptureError, EmptyCapture, MissingTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from profiling_lab.captures.nsys_export import NsysCapture

Columns = dict[str, np.ndarray]
_PAGEABLE, _UVM_H2D, _MIGRATED = 0, 11, (2, 3)  # of COPY_KINDS, MEMORY_KINDS and MIGRATION_CAUSES
_OPTIONAL = ("graphNodeId", "migrationCause", "eventSyncId")


class Export:
    """The tables of one export; what is read once is kept."""

    def __init__(self, capture: NsysCapture) -> None:
        self.capture = capture
        self.file = capture.file

    # -- reading --------------------------------------------------------------------------------

    def rows(self, query: str, *parameters: str) -> Iterator[tuple]:
        """What a query gives. Raises CaptureError for a file that is damaged."""
        try:
            connection = connect(self.file)
            try:
                yield from connection.execute(query, parameters)
            finally:
                connection.close()
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            raise CaptureError(f"{self.file}: damaged or truncated ({error})") from None

    def numbers(
        self, table: str, expressions: dict[str, str], order: tuple[str, ...] = (), where: str = ""
    ) -> Columns:
        """Columns of whole numbers; empty where nothing was recorded there, NO_NUMBER for null.

        expressions: name → SQL over the table. order: names to sort by, "-" for descending. Raises MissingTable
        naming absent columns, CaptureError for times that are missing.
        """
        if not self.capture.has(table):
            return {name: np.zeros(0, dtype=np.int64) for name in expressions}
        self.capture.select_of(table, expressions, _OPTIONAL)  # raises for what is not there
        lacks = [c for c in _OPTIONAL if not self.capture.has(table, c)]
        select = ", ".join(
            f"COALESCE({NO_NUMBER if e in lacks else _quoted(e)}, {NO_NUMBER})"
            for e in expressions.values()
        )
        rows = self.rows(f"SELECT {select} FROM {table}" + (f" WHERE {where}" if where else ""))
        try:
            flat = np.fromiter(itertools.chain.from_iterable(rows), dtype=np.int64)
        except (TypeError, ValueError, OverflowError):
            raise CaptureError(f"{self.file}: damaged: text among the numbers of {table}") from None
        # A copy each, so that columns lie in one piece.
        found = dict(zip(expressions, flat.reshape(-1, len(expressions)).T.copy(), strict=True))
        for name in ("start", "end"):
            if name in found and (found[name] == NO_NUMBER).any():
                raise CaptureError(f"{self.file}: damaged: a row of {table} has no {name}")
        if order:
            keys = [-found[name[1:]] if name[0] == "-" else found[name] for name in order]
            by = np.lexsort(keys[::-1])
            found = _in_order(found, by)
        return found

    @cached_property
    def _strings(self) -> dict[int, str]:
        if not self.capture.has("StringIds"):
            raise MissingTable(f"{self.file}: has no table StringIds, so names cannot be resolved")
        return dict(self.rows("SELECT id, value FROM StringIds"))

    def _codes(
        self, words: Vocabulary, ids: np.ndarray, suffix: re.Pattern | None = None
    ) -> np.ndarray:
        """The codes of names that are numbers of strings."""
        if not len(ids):
            return np.zeros(0, dtype=np.int32)
        unique, first, place = np.unique(ids, return_index=True, return_inverse=True)
        codes = np.zeros(len(unique), dtype=np.int32)
        for row in np.argsort(first).tolist():
            text = self._strings.get(int(unique[row])) or ""
            codes[row] = words.code(suffix.sub("", text) if suffix else text)
        return codes[place]

    # -- tables ---------------------------------------------------------------------------------

    @cached_property
    def recording(self) -> Recording:
        """All tables in columns. Raises EmptyCapture if nothing ran on a device."""
        words = Vocabulary()
        work = self._work()
        calls = self.numbers(
            nsys_schema.RUNTIME,
            _INTERVAL
            | nsys_schema.CALLER
            | {"name": "nameId", "correlation": "correlationId", "returned": "returnValue"},
            ("start", "-end", "process", "thread"),
            f"eventClass <> {nsys_schema.CUDA_BACKTRACE}"
            if self.capture.has(nsys_schema.RUNTIME, "eventClass")
            else "",
        )
        known = np.unique(np.concatenate([work["process"], calls["process"]]))
        processes = known[known != NO_NUMBER]
        numbers: dict[tuple[int, int], int] = {}

        def process_of(table: Columns) -> np.ndarray:
            return np.searchsorted(processes, table["process"]).astype(np.int32)

        def links(table: Columns) -> EventLinks:
            own = np.isin(table["process"], processes)
            table = {name: column[own] for name, column in table.items()}
            none = table["event"] == nsys_schema.NONE
            return EventLinks(
                process_of(table),
                table["correlation"],
                table["device"],
                table["stream"],
                np.where(none, NO_NUMBER, table["event"]),
            )

        def ranges(table: Columns, names: np.ndarray) -> Ranges:
            place, rows = number_rows(table["process"], table["thread"])
            own = {process: number for number, process in enumerate(processes.tolist())}
            threads = [
                numbers.setdefault((own.get(process, NO_NUMBER), thread), len(numbers))
                for process, thread in rows
            ]
            thread = np.array(threads, dtype=np.int32)[place]
            return Ranges(table["start"], table["end"], names, thread)

        operations, streams = self._operations(work, words, process_of)
        self._row = work["row"]
        del work
        thread, threads = number_rows(process_of(calls), calls["thread"])
        numbers.update({(row[0], row[1]): place for place, row in enumerate(threads)})
        host = HostCalls(
            start=calls["start"],
            end=calls["end"],
            name=self._codes(words, calls["name"], re.compile(VERSION_SUFFIX)),
            thread=thread,
            process=process_of(calls),
            correlation=calls["correlation"],
            returned=np.where(calls["returned"] == NO_NUMBER, 0, calls["returned"]),
        )
        syncs = self.numbers(
            nsys_schema.SYNCHRONIZATION,
            _INTERVAL | _PLACE | {"event": "eventSyncId"},
            ("start", "end", "correlation"),
        )
        syncs["stream"] = np.where(syncs["stream"] == nsys_schema.NONE, NO_NUMBER, syncs["stream"])
        records = self.numbers(
            nsys_schema.CUDA_EVENT, _PLACE | {"event": "eventSyncId"}, ("correlation", "process")
        )
        os_calls = self.numbers(
            "OSRT_API",
            _INTERVAL | nsys_schema.CALLER | {"name": "nameId"},
            ("start", "-end", "process", "thread"),
        )
        return Recording(
            file=str(self.file),
            source="nsys",
            processes=processes.tolist(),
            streams=streams,
            operations=operations,
            calls=host,
            syncs=links(syncs),
            event_records=links(records),
            ranges=ranges(*self._nvtx(words)),
            operators=Ranges(*(np.zeros(0, dtype=np.int64) for _ in range(4))),
            os_calls=ranges(os_calls, self._codes(words, os_calls["name"])),
            names=words.names,
            threads=sorted(numbers, key=lambda row: numbers[row]),
            device_names=self._device_names,
            stream_types=self._stream_types(processes.tolist(), streams),
        )

    @property
    def _device_names(self) -> dict[int, str]:
        if not self.capture.has("TARGET_INFO_GPU", "name"):
            return {}
        rows = self.rows("SELECT COALESCE(cuDevice, id), name FROM TARGET_INFO_GPU")
        return {number: str(name) for number, name in rows if name}

    def _stream_types(
        self, processes: list[int], streams: list[tuple[int, int, int]]
    ) -> dict[int, int]:
        """By place in streams its type; a number that is of two types in two contexts of a process has none."""
        table = "TARGET_INFO_CUDA_STREAM"
        if not self.capture.has(table):
            return {}
        process = "(hwId << 56) | (vmId << 48) | (processId << 24)"
        told: dict[tuple[int, int], set[int]] = {}
        for pid, stream, flag in self.rows(f"SELECT {process}, streamId, flag FROM {table}"):
            told.setdefault((pid, stream), set()).add(flag)
        out = {}
        for place, (own, _, stream) in enumerate(streams):
            flags = told.get((processes[own], stream), set())
            if len(flags) == 1:
                out[place] = flags.pop()
        return out

    def _work(self) -> Columns:
        """What ran on devices: the four tables as one, ordered by start."""
        own: dict[str, dict[str, str]] = {
            nsys_schema.KERNEL: {"name": "shortName", "node": "graphNodeId", "row": "rowid"},
            nsys_schema.GRAPH: {},
            nsys_schema.MEMCPY: {
                "name": "copyKind",
                "bytes": "bytes",
                "source": "srcKind",
                "destination": "dstKind",
                "cause": "migrationCause",
            },
            nsys_schema.MEMSET: {"bytes": "bytes"},
        }
        parts = []
        for kind, table in enumerate(nsys_schema.DEVICE_TABLES):
            part = self.numbers(table, _INTERVAL | _PLACE | own[table])
            length = len(part["start"])
            part["kind"] = np.full(length, kind)
            for name in ("name", "bytes", "node", "row", "source", "destination", "cause"):
                part.setdefault(name, np.full(length, NO_NUMBER))
            parts.append(part)
        work = {name: np.concatenate([part.pop(name) for part in parts]) for name in list(parts[0])}
        if not len(work["start"]):
            raise EmptyCapture(f"{self.file}: no kernel, graph, copy or memset was recorded")
        keys = ("correlation", "stream", "device", "end", "start")
        by = np.lexsort([work[name] for name in keys])
        return _in_order(work, by)

    def _operations(
        self, work: Columns, words: Vocabulary, process_of: Callable[[Columns], np.ndarray]
    ) -> tuple[DeviceOperations, list]:
        kind = work["kind"]
        process = process_of(work)
        names = np.zeros(len(kind), dtype=np.int32)
        for code in (KERNEL, GRAPH, COPY, MEMSET):
            own = np.flatnonzero(kind == code)
            if not len(own):
                continue
            if code == KERNEL:
                names[own] = self._codes(words, work["name"][own])
            elif code == COPY:
                spelled, place = np.unique(work["name"][own], return_inverse=True)
                known = [nsys_schema.COPY_KINDS.get(k, f"kind {k}") for k in spelled.tolist()]
                names[own] = np.array([words.code(name) for name in known])[place]
            else:
                names[own] = words.code("CUDA graph" if code == GRAPH else "memset")
        stream, streams = number_rows(process, work["device"], work["stream"])
        copies = kind == COPY
        pageable = (work["source"] == _PAGEABLE) | (work["destination"] == _PAGEABLE)
        moved = np.isin(work["cause"], _MIGRATED) & (work["name"] == _UVM_H2D)
        operations = DeviceOperations(
            start=work["start"],
            end=work["end"],
            kind=kind.astype(np.int8),
            name=names,
            device=work["device"].astype(np.int32),
            stream=stream,
            process=process,
            correlation=work["correlation"],
            bytes=work["bytes"],
            pageable=copies & pageable,
            node=(kind == KERNEL) & (work["node"] != NO_NUMBER),
            migration=copies & moved,
        )
        return operations, streams

    def _nvtx(self, words: Vocabulary) -> tuple[Columns, np.ndarray]:
        """NVTX ranges, and the codes of their names."""
        table = "NVTX_EVENTS"
        ranges = f"eventType IN {nsys_schema.NVTX_RANGES}"
        last = self.capture.last_ns if self.capture.has(table) else 0
        found = self.numbers(
            table,
            {"start": "start", "end": f'COALESCE("end", {last})', "row": "rowid", "name": "textId"}
            | nsys_schema.CALLER,
            ("start", "-end", "process", "thread"),
            ranges,
        )
        if not len(found["start"]):
            return found, np.zeros(0, dtype=np.int32)
        own = f"SELECT rowid, text FROM {table} WHERE text IS NOT NULL AND {ranges}"
        written = dict(self.rows(own))
        known = self._strings if (found["name"] != NO_NUMBER).any() else {}
        codes = [
            words.code(str(written.get(row) or known.get(name) or ""))
            for row, name in zip(found["row"].tolist(), found["name"].tolist(), strict=True)
        ]
        return found, np.array(codes, dtype=np.int32)

    # -- asked for by a few rules ------------------------------------------------------------------

    @cached_property
    def launches(self) -> Columns:
        """Of each device operation that is a kernel: its shape, what it holds, the number of its name; else 0.

        grid_x … block_z, registers, static_shared, dynamic_shared, name.
        """
        asked = {
            "row": "rowid",
            "name": "demangledName",
            **{f"{of}_{axis}": f"{of}{axis.upper()}" for of in ("grid", "block") for axis in "xyz"},
            "registers": "registersPerThread",
            "static_shared": "staticSharedMemory",
            "dynamic_shared": "dynamicSharedMemory",
        }
        found = self.numbers(nsys_schema.KERNEL, asked, ("row",))
        operations = self.recording.operations  # with them come the numbers of their rows
        own = self._row != NO_NUMBER
        place = np.searchsorted(found.pop("row"), self._row[own])
        out = {}
        for name, column in found.items():
            out[name] = np.zeros(len(operations), dtype=np.int64)
            out[name][own] = np.maximum(column[place], 0)
        return out

    def sm_count(self, device: int) -> int:
        """The multiprocessors of a device; 1 where it is not recorded."""
        known = self.numbers(
            "TARGET_INFO_GPU", {"device": "COALESCE(cuDevice, id)", "sms": "smCount"}
        )
        own = known["sms"][known["device"] == device]
        return max(1, int(own[0])) if len(own) else 1

    def metric(self, name: str) -> Columns:
        """The samples of a metric: time, device, value, ordered by time. Empty where it was not sampled."""
        names = "TARGET_INFO_GPU_METRICS"
        if not self.capture.has(names, "metricName"):
            return {key: np.zeros(0, dtype=np.int64) for key in ("time", "device", "value")}
        text = name.replace("'", "''")
        return self.numbers(
            "GPU_METRICS",
            # The low byte of typeId is the device's number in the sampling source.
            {"time": "timestamp", "device": "typeId & 255", "value": "CAST(value AS INTEGER)"},
            ("time", "device"),
            f"(typeId, metricId) IN (SELECT typeId, metricId FROM {names} WHERE metricName = '{text}')",
        )

    def said(self) -> list[str]:
        """What the profiler itself had to say, in order of time."""
        if not self.capture.has("DIAGNOSTIC_EVENT", "text"):
            return []
        rows = self.rows("SELECT text FROM DIAGNOSTIC_EVENT ORDER BY timestamp, text")
        return [str(text) for (text,) in rows if text]


def _in_order(table: Columns, by: np.ndarray) -> Columns:
    """The columns in another order; each is let go when its successor is there."""
    return {name: table.pop(name)[by] for name in list(table)}


_INTERVAL = {"start": "start", "end": "end"}
_PLACE = nsys_schema.PLACE


def _quoted(expression: str) -> str:
    """A bare column's name in quotes ("end" is a word of SQL); other expressions as they are."""
    return f'"{expression}"' if re.fullmatch(r"\w+", expression) else expression
