"""A timeline drawn by hand, as a Nsight Systems export: for cases that pencil and paper suffice for."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path
from typing import Any

from grading.checks.generate import schema

_COPY_KINDS = {"H2D": 1, "D2H": 2, "D2D": 8, "H2H": 9, "UVM H2D": 11}
_HARDWARE = 1 << 48
_NO_STREAM = 4294967295


class Timeline:
    """A capture drawn by hand: every time is given, in ns.

    A device operation gets a launching call if `call=(start, end)` is given. Threads, processes and
    streams are small numbers. All methods return the correlation id of what they add.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self._rows: dict[str, list[dict[str, Any]]] = {}
        self._strings: dict[str, int] = {}
        self._correlations = 0
        self._metrics: dict[str, int] = {}

    # -- device ---------------------------------------------------------------------------------

    def kernel(self, start: int, end: int, *, name: str = "kernel", **more: Any) -> int:
        """A kernel; `graph_node` makes it the node of a graph."""
        node = more.pop("graph_node", None)
        return self._operation(
            "CUPTI_ACTIVITY_KIND_KERNEL",
            start,
            end,
            "cudaLaunchKernel_v7000",
            more,
            shortName=self._string(name),
            demangledName=self._string(f"void {name}<float>(float *)"),
            graphNodeId=node,
            **dict.fromkeys(("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ"), 1),
        )

    def graph(self, start: int, end: int, **more: Any) -> int:
        """A whole CUDA graph."""
        table, api = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", "cudaGraphLaunch_v10000"
        return self._operation(table, start, end, api, more, graphId=1, graphExecId=2)

    def copy(
        self,
        start: int,
        end: int,
        kind: str = "H2D",
        *,
        bytes: int = 1_000,
        pinned: bool = True,
        api: str = "cudaMemcpyAsync_v3020",
        migration: int | None = None,
        **more: Any,
    ) -> int:
        """A copy; its host side is pinned or pageable memory. migration: why managed memory moved."""
        host = int(pinned)
        return self._operation(
            "CUPTI_ACTIVITY_KIND_MEMCPY",
            start,
            end,
            api,
            more,
            bytes=bytes,
            copyKind=_COPY_KINDS[kind],
            srcKind=host if kind == "H2D" else 2,
            dstKind=host if kind == "D2H" else 2,
            migrationCause=migration,
        )

    def memset(self, start: int, end: int, **more: Any) -> int:
        """A memset."""
        table, api = "CUPTI_ACTIVITY_KIND_MEMSET", "cudaMemsetAsync_v3020"
        return self._operation(table, start, end, api, more, bytes=1_000, memKind=2)

    # -- host -----------------------------------------------------------------------------------

    def api(
        self,
        name: str,
        start: int,
        end: int,
        *,
        thread: int = 1,
        process: int = 1,
        correlation: int | None = None,
        waits_for_stream: int | None = None,
        device: int = 0,
        returns: int = 0,
    ) -> int:
        """A CUDA call, named as recorded ("cudaMalloc_v3020").

        `waits_for_stream` adds the record that tells which stream a synchronising call waits for.
        """
        correlation = self._correlation(correlation)
        self._add(
            "CUPTI_ACTIVITY_KIND_RUNTIME",
            start=start,
            end=end,
            globalTid=_process(process) + thread,
            correlationId=correlation,
            nameId=self._string(name),
            returnValue=returns,
        )
        if waits_for_stream is not None:
            self._add(
                "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
                start=start,
                end=end,
                deviceId=device,
                streamId=waits_for_stream,
                syncType=3,
                correlationId=correlation,
                globalPid=_process(process),
                eventId=_NO_STREAM,
                eventSyncId=_NO_STREAM,
            )
        return correlation

    def nvtx(
        self,
        name: str,
        start: int,
        end: int | None,
        *,
        kind: str = "push_pop",
        thread: int = 1,
        process: int = 1,
        registered: bool = False,
    ) -> None:
        """An NVTX range (kind "push_pop" or "start_end") or "mark"; end None: never closed."""
        self._add(
            "NVTX_EVENTS",
            start=start,
            end=end,
            eventType={"push_pop": 59, "start_end": 60, "mark": 34}[kind],
            text=None if registered else name,
            textId=self._string(name) if registered else None,
            globalTid=_process(process) + thread,
        )

    def stream_type(self, stream: int, flag: int, *, process: int = 1) -> None:
        """Say what a stream is: 1 blocking, 2 non-blocking, 3 the legacy default stream."""
        pid = (_process(process) - _HARDWARE) >> 24
        self._add(
            "TARGET_INFO_CUDA_STREAM",
            streamId=stream, hwId=_HARDWARE >> 56, vmId=_HARDWARE >> 48 & 0xFF, processId=pid,
            contextId=1, priority=0, flag=flag,
        )  # fmt: skip

    def os_call(self, name: str, start: int, end: int, *, thread: int = 1) -> None:
        """A call of the operating system."""
        number = self._string(name)
        tid = _process(1) + thread
        self._add("OSRT_API", start=start, end=end, globalTid=tid, nameId=number, returnValue=0)

    def overhead(self, start: int, end: int, *, thread: int = 1) -> None:
        """Time that the profiler took."""
        name = self._string("CUPTI Buffer flush")
        tid = _process(1) + thread
        self._add("PROFILER_OVERHEAD", start=start, end=end, globalTid=tid, nameId=name)

    def sample(self, timestamp: int, values: dict[str, int], *, device: int = 0) -> None:
        """A sample of GPU metrics: metric → percentage."""
        for metric, value in values.items():
            if metric not in self._metrics:
                self._metrics[metric] = len(self._metrics) + 3
            number = self._metrics[metric]
            source = {"typeId": _HARDWARE + device, "metricId": number}
            self._add("GPU_METRICS", timestamp=timestamp, value=value, **source)
            info = {"metricName": metric, "typeName": "", **source}
            if info not in self._rows.setdefault("TARGET_INFO_GPU_METRICS", []):
                self._rows["TARGET_INFO_GPU_METRICS"].append(info)

    # -- file -----------------------------------------------------------------------------------

    def save(self) -> str:
        """Write the file and return its path."""
        self._rows["StringIds"] = [{"id": i, "value": text} for text, i in self._strings.items()]
        connection = sqlite3.connect(":memory:")
        try:
            for table, rows in self._rows.items():
                connection.execute(schema.create_statement(table))
                names = schema.columns(table)
                needed = set(re.findall(r'"?(\w+)"? \w+ NOT NULL', schema.TABLES[table]))
                blank = {name: 0 if name in needed else None for name in names}
                marks = ", ".join("?" * len(names))
                connection.executemany(
                    f"INSERT INTO {table} VALUES ({marks})",
                    [tuple((blank | row)[name] for name in names) for row in reversed(rows)],
                )
            connection.commit()
            self.file.unlink(missing_ok=True)
            self.file.write_bytes(connection.serialize())
        finally:
            connection.close()
        return str(self.file)

    # -- internals ------------------------------------------------------------------------------

    def _operation(
        self, table: str, start: int, end: int, api: str, where: dict[str, Any], **row: Any
    ) -> int:
        usual: dict[str, Any] = {"device": 0, "stream": 7, "process": 1, "thread": 1, "call": None}
        where = usual | where
        correlation = self._correlation(where.pop("correlation", None))
        self._add(
            table,
            start=start,
            end=end,
            deviceId=where["device"],
            streamId=where["stream"],
            correlationId=correlation,
            globalPid=_process(where["process"]),
            **row,
        )
        if where["call"]:
            self.api(
                api,
                *where["call"],
                thread=where["thread"],
                process=where["process"],
                correlation=correlation,
            )
        return correlation

    def _correlation(self, given: int | None) -> int:
        if given is None:
            self._correlations += 1
            return self._correlations
        self._correlations = max(self._correlations, given)
        return given

    def _string(self, text: str) -> int:
        return self._strings.setdefault(text, len(self._strings) + 1)

    def _add(self, table: str, **row: Any) -> None:
        self._rows.setdefault(table, []).append(row)


def _process(number: int) -> int:
    return _HARDWARE + ((1_000 + number) << 24)
