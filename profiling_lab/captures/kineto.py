"""The recorded order of dependencies of a Kineto trace, as `profiling_lab.captures.dependencies` gives it.

    >>> from profiling_lab.captures import kineto, torch_trace
    >>> operations = kineto.operations(torch_trace.read_trace("torch_train_sync")["events"], window)

`read_trace` is that of `torch_trace`. What the order is made of, and its limits, stand in
`profiling_lab.captures.dependencies`. A trace tells less than an Nsight Systems recording: nothing of events
between streams, and not which stream a wait is for, so a wait counts as one for all work issued before.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from profiling_lab.captures import dependencies
from profiling_lab.captures.dependencies import Operation
from profiling_lab.errors import EmptyCapture

if TYPE_CHECKING:
    import polars as pl

# What `read_trace` calls the operations of a device.
DEVICE_KINDS = ("kernel", "copy", "memset")
# The range that `profiler.step()` opens.
STEP_RANGE = re.compile(r"ProfilerStep#(\d+)")
_COPY_NAME = re.compile(r"Memcpy (\w+)(?: \((\w+) -> (\w+)\))?")
_DIRECTIONS = {"HtoD": "H2D", "DtoH": "D2H", "DtoD": "D2D", "PtoP": "P2P", "HtoH": "H2H"}
# Calls of AMD's HIP by the names of the CUDA calls that do the same. hipMemcpyWithStream also waits: it
# is "akin to hipMemcpyAsync + hipStreamSynchronize" (hipFORT API reference).
_HIP_NAMES = {
    "hipMemcpyWithStream": "cudaMemcpy",
    "hipHostMalloc": "cudaHostAlloc",
    "hipHostFree": "cudaFreeHost",
    "hipHostRegister": "cudaHostRegister",
    "hipHostUnregister": "cudaHostUnregister",
}
_HIP = re.compile(r"^hip(?:Ext)?(?:Module)?(?=[A-Z])")
_PROCESS = 0  # a trace is of one process; its device operations bear the device's number instead


def copy_direction(name: str) -> str:
    """The direction of a copy by its name in a trace: "H2D", "D2H", "D2D" …; "" if that does not tell."""
    found = _COPY_NAME.match(name)
    return _DIRECTIONS.get(found[1], "") if found else ""


def cuda_name(call: str) -> str:
    """The name of the CUDA call that does what a call of HIP does; all other names as they are."""
    return _HIP_NAMES.get(call) or _HIP.sub("cuda", call, count=1)


def operations(
    events: Iterable[Mapping[str, Any]], window_ns: tuple[int, int] | None = None
) -> list[Operation]:
    """The operations of a trace, ordered so that each depends on earlier ones only.

    events: as `read_trace` gives them: dicts with "kind", "name", "start_ns", "end_ns", "thread",
    "device", "stream" and "correlation"; only calls and device operations matter.
    window_ns: keep the CUDA calls that start inside [start, end) and the device operations that these
    issued; without it, all but the calls before the first one that issued device work.
    A range or operator that starts where the window does counts as a call that does nothing, so that
    host code before the first CUDA call is seen as well.
    Raises EmptyCapture if no device operation is left.
    """
    events = list(events)
    if not any(event["kind"] in DEVICE_KINDS for event in events):
        raise EmptyCapture("the trace holds no device operation")
    return dependencies.read(_Trace(events, window_ns), window_ns)


class _Trace:
    """A trace as a `dependencies.Recording`."""

    def __init__(
        self, events: Iterable[Mapping[str, Any]], window_ns: tuple[int, int] | None
    ) -> None:
        import polars as pl

        self.file = "the trace"
        self.derived: dict[Any, Any] = {}
        calls, device, copies = [], [], []
        for event in events:
            kind, start, end = event["kind"], event["start_ns"], event["end_ns"]
            if kind in ("range", "operator") and window_ns and start == window_ns[0]:
                kind, end = "call", start
            if kind not in ("call", *DEVICE_KINDS):
                continue
            row = {
                "name": event["name"],
                "start_ns": start,
                "end_ns": end,
                "duration_ns": end - start,
                "process": _PROCESS,
                "correlation": event["correlation"],
            }
            if kind == "call":
                calls.append(row | {"name": cuda_name(row["name"]), "thread": event["thread"]})
                continue
            if kind == "copy" and (found := _COPY_NAME.match(event["name"])) and found[2]:
                row["name"] = _DIRECTIONS.get(found[1], found[1])
                places = {"source": found[2].lower(), "destination": found[3].lower()}
                copies.append(row | places)
            device.append(
                row | {"kind": kind, "device": event["device"], "stream": event["stream"]}
            )
        interval = {
            "name": pl.String,
            "start_ns": pl.Int64,
            "end_ns": pl.Int64,
            "duration_ns": pl.Int64,
            "process": pl.Int64,
            "correlation": pl.Int64,
        }
        self.api_calls = _frame(calls, {**interval, "thread": pl.Int64})
        self.device_operations = _frame(
            device, {**interval, "kind": pl.String, "device": pl.Int64, "stream": pl.Int64}
        )
        self.copies = _frame(copies, {**interval, "source": pl.String, "destination": pl.String})
        self.synchronizations = pl.DataFrame(
            schema=dict.fromkeys(
                ("process", "correlation", "device", "stream", "event_sync"), pl.Int64
            )
        )
        self.event_records = self.synchronizations


def _frame(rows: list[dict[str, Any]], schema: Mapping[str, Any]) -> pl.DataFrame:
    import polars as pl

    # Threads are told apart only: a name of one (older traces) becomes a number.
    numbers: dict[Any, int] = {}
    for row in rows:
        if "thread" in row and not isinstance(row["thread"], int):
            row["thread"] = numbers.setdefault(row["thread"], -1 - len(numbers))
    frame = pl.DataFrame(rows, schema=schema)
    return frame.sort("start_ns", maintain_order=True)
