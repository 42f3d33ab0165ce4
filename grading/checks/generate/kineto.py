"""Kineto traces and memory snapshots with a known answer, in PyTorch's own formats.

    trace = Trace(folder)                          # drawn: every time is given, in ns
    op = trace.operator("aten::mm", 0, 40_000)
    trace.kernel(50_000, 90_000, call=(10_000, 15_000), operator=op)
    capture = trace.save()

    program = random_program(seed, folder)         # simulated: times come out of a small model
    program.capture, program.truth

Field names and spellings are those of traces that torch 2.15 wrote; `style="old"` spells them as
PyTorch 1.8 did (source: tb_plugin/torch_tb_profiler/profiler/trace.py in pytorch/kineto).
"""

# Long because it writes each kind of event of one format.

from __future__ import annotations

import gzip
import json
import pickle
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from grading.runner.disguise import disguised

# The clock of a machine that has been up for weeks: µs of this size leave a float64 no room for ns.
CLOCK_NS = 4_414_600_033_706_141
BASE_NS = 1_790_857_026_000_000_000
TOTAL_BYTES = 150_000_000_000
OLD_CATEGORIES = {
    "cpu_op": "Operator",
    "user_annotation": "Operator",
    "cuda_runtime": "Runtime",
    "kernel": "Kernel",
    "gpu_memcpy": "Memcpy",
    "gpu_memset": "Memset",
}
_COPIES = {
    "H2D": "Memcpy HtoD (Pinned -> Device)",
    "D2H": "Memcpy DtoH (Device -> Pinned)",
    "D2D": "Memcpy DtoD (Device -> Device)",
    "pageable": "Memcpy DtoH (Device -> Pageable)",
}


class Trace:
    """A trace drawn by hand; the folder becomes the capture."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock_ns = CLOCK_NS
        self.events: list[dict[str, Any]] = []
        self.header: dict[str, Any] = {
            "schemaVersion": 1,
            "deviceProperties": [
                {"id": 0, "name": "Drawn GPU", "totalGlobalMem": TOTAL_BYTES, "numSms": 132}
            ],
            "displayTimeUnit": "ms",
            "baseTimeNanoseconds": BASE_NS,
        }
        self._ids = 0

    @property
    def epoch_ns(self) -> int:
        """ns since 1970 of drawn time 0."""
        return BASE_NS + self.clock_ns

    # -- host -----------------------------------------------------------------------------------

    def operator(
        self, name: str, start: int, end: int, *, thread: int = 1, shapes: Any = None
    ) -> int:
        """An operator; returns its external id."""
        args: dict[str, Any] = {"External id": self._next(), "Record function id": 0}
        if shapes is not None:
            args["Input Dims"] = shapes
        self._add("cpu_op", name, start, end, thread, args)
        return args["External id"]

    def range(self, name: str, start: int, end: int, *, thread: int = 1) -> int:
        """A range of record_function."""
        args = {"External id": self._next(), "Record function id": 0}
        self._add("user_annotation", name, start, end, thread, args)
        return args["External id"]

    def step(self, number: int, start: int, end: int, **more: Any) -> int:
        """A step of the profiler."""
        return self.range(f"ProfilerStep#{number}", start, end, **more)

    def call(
        self, name: str, start: int, end: int, *, thread: int = 1, operator: int | None = None
    ) -> int:
        """A CUDA call; returns its correlation id."""
        correlation = self._next()
        args: dict[str, Any] = {"cbid": 211, "correlation": correlation}
        if operator is not None:
            args["External id"] = operator
        self._add("cuda_runtime", name, start, end, thread, args)
        return correlation

    def python(
        self,
        name: str,
        start: int,
        end: int,
        *,
        called_from: str | None = None,
        thread: int = 1,
    ) -> None:
        """A Python function, "file(line): function", or a built-in one."""
        args: dict[str, Any] = {"Python id": self._next()}
        if called_from is not None:
            args["CallFrom"] = called_from
        self._add("python_function", name, start, end, thread, args)

    # -- device ---------------------------------------------------------------------------------

    def kernel(
        self, start: int, end: int, *, name: str = "void kernel(float*)", **more: Any
    ) -> int:
        """A kernel; `call=(start, end)` adds the launch; returns the correlation id."""
        return self._device("kernel", name, start, end, "cudaLaunchKernel", more)

    def copy(self, start: int, end: int, kind: str = "H2D", **more: Any) -> int:
        """A copy."""
        return self._device("gpu_memcpy", _COPIES[kind], start, end, "cudaMemcpyAsync", more)

    def memset(self, start: int, end: int, **more: Any) -> int:
        """A memset."""
        return self._device("gpu_memset", "Memset (Device)", start, end, "cudaMemsetAsync", more)

    def memory(
        self,
        time: int,
        size: int,
        allocated: int | None,
        *,
        device: int | None = 0,
        address: int | None = 140_000_000_000_000,
    ) -> None:
        """A memory event; device None is the host, address None an event that does not tell it."""
        args: dict[str, Any] = {
            "Device Type": 0 if device is None else 1,
            "Device Id": -1 if device is None else device,
            "Bytes": size,
        }
        if address is not None:
            args["Addr"] = address
        if allocated is not None:
            args |= {"Total Allocated": allocated, "Total Reserved": allocated + 2_000_000}
        self.events.append(
            {"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 100,
             "tid": 1, "ts": time, "args": args}
        )  # fmt: skip

    def noise(self, time: int) -> None:
        """What a real trace also holds and no function asks for."""
        self.events += [
            {"ph": "M", "name": "process_name", "ts": time, "pid": 100, "tid": 0, "args": {}},
            {"ph": "s", "id": 7, "pid": 100, "tid": 1, "ts": time, "cat": "ac2g", "name": "ac2g"},
            {"ph": "f", "id": 7, "pid": 0, "tid": 7, "ts": time, "cat": "ac2g", "name": "ac2g",
             "bp": "e"},
            {"ph": "X", "cat": "gpu_user_annotation", "name": "ProfilerStep#1", "pid": 0, "tid": 7,
             "ts": time, "dur": 50_000, "args": {"External id": 1}},
            {"ph": "X", "cat": "overhead", "name": "Activity Buffer Request", "pid": -1, "tid": 0,
             "ts": time - 900_000, "dur": 2_000, "args": {}},
            {"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Spans",
             "tid": "PyTorch Profiler", "ts": time - 800_000, "dur": 2_000_000,
             "args": {"Op count": 0}},
            {"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": time},
        ]  # fmt: skip

    # -- file -----------------------------------------------------------------------------------

    def text(self, style: str = "new") -> str:
        """The file's text; times are decimals, as Kineto writes them. style "old": whole µs."""
        rows = []
        for event in self.events:
            row = dict(event)
            row["ts"] = _decimal(event["ts"] + self.clock_ns, style)
            if "dur" in event:
                row["dur"] = _decimal(event["dur"], style)
            if style == "old":
                row = _old(row)
            rows.append(row)
        random.Random(len(rows)).shuffle(rows)  # order in the file means nothing
        header = self.header
        if style == "old":
            header = {"schemaVersion": 1}
        text = json.dumps({**header, "traceEvents": rows})
        return re.sub(r'"@(-?[\d.]+)@"', r"\1", text)

    def save(self, style: str = "new", packed: bool = True) -> str:
        """Write trace.json.gz (or trace.json); returns the folder."""
        self.folder.mkdir(parents=True, exist_ok=True)
        data = self.text(style).encode()
        if packed:
            (self.folder / "trace.json.gz").write_bytes(gzip.compress(data, 1, mtime=0))
        else:
            (self.folder / "trace.json").write_bytes(data)
        return str(self.folder)

    # -- internals ------------------------------------------------------------------------------

    def _device(
        self, category: str, name: str, start: int, end: int, api: str, more: dict[str, Any]
    ) -> int:
        usual: dict[str, Any] = {
            "device": 0, "stream": 7, "call": None, "operator": None, "thread": 1,
            "correlation": None,
        }  # fmt: skip
        where = usual | more
        correlation = where["correlation"]
        if where["call"] is not None:
            correlation = self.call(
                api, *where["call"], thread=where["thread"], operator=where["operator"]
            )
        elif correlation is None:
            correlation = self._next()
        args = {
            "device": where["device"],
            "context": 1,
            "stream": where["stream"],
            "correlation": correlation,
        }
        if where["operator"] is not None:
            args["External id"] = where["operator"]
        self._add(category, name, start, end, where["stream"], args, process=where["device"])
        return correlation

    def _add(
        self,
        category: str,
        name: str,
        start: int,
        end: int,
        thread: Any,
        args: dict[str, Any],
        process: Any = 100,
    ) -> None:
        self.events.append(
            {"ph": "X", "cat": category, "name": name, "pid": process, "tid": thread, "ts": start,
             "dur": end - start, "args": args}
        )  # fmt: skip

    def _next(self) -> int:
        self._ids += 1
        return self._ids


def _decimal(value_ns: int, style: str) -> Any:
    if style == "old":
        return value_ns // 1000
    sign = "-" if value_ns < 0 else ""
    value_ns = abs(value_ns)
    return f"@{sign}{value_ns // 1000}.{value_ns % 1000:03d}@"


def _old(row: dict[str, Any]) -> dict[str, Any]:
    args = dict(row.get("args", {}))
    for new, old in (("External id", "external id"), ("Input Dims", "Input dims")):
        if new in args:
            args[old] = args.pop(new)
    args.pop("CallFrom", None)
    out = row | {"cat": OLD_CATEGORIES.get(row.get("cat", ""), row.get("cat")), "args": args}
    if out["ph"] == "X" and row["cat"] in ("cpu_op", "user_annotation", "cuda_runtime"):
        out["tid"] = f"thread {row['tid']}"
    return {key: value for key, value in out.items() if value is not None}


# == a simulated program ==========================================================================


@dataclass(frozen=True)
class Cost:
    """What a simulated program spends its time on, in ns; without(cause) takes one away."""

    launch_ns: int = 5_000
    dispatch_ns: int = 9_000
    kernel_ns: int = 20_000
    kernels: int = 30
    sync_every: int = 0  # a wait after so many kernels; 0: none
    host_ns: int = 0  # own code of each step, once, in its middle
    compile_ns: int = 0  # compilation in each step, once, at its beginning
    waits: bool = True

    def without(self, cause: str) -> Cost:
        """The same program with one cause taken away."""
        changed: dict[str, dict[str, Any]] = {
            "waits": {"waits": False},
            "launch_cost": {"launch_ns": 0, "dispatch_ns": 0},
            "host_code": {"host_ns": 0},
            "compilation": {"compile_ns": 0},
        }
        return replace(self, **changed[cause])


@dataclass
class Program:
    """A simulated program: its capture, and what is true of it."""

    capture: str
    seed: int
    cost: Cost
    truth: dict[str, Any] = field(default_factory=dict)


LAUNCH_LAG_NS = 2_000  # from the end of a launching call to the earliest start of its kernel
ORDER_LAG_NS = 700  # between two kernels of a stream


def simulate(cost: Cost, steps: int, draw: Callable[[], Trace] | None = None) -> dict[str, Any]:
    """Play a program; into a trace, if one is to be drawn. Returns what happened."""
    trace = draw() if draw else None
    now, device_end = 10_000, 0
    waits: list[tuple[int, int]] = []
    out: dict[str, Any] = {"steps": [], "kernels": [], "waits": waits}
    for number in range(3, 3 + steps):
        step_start = now
        forward = now
        if cost.compile_ns:
            now += 20_000
            if trace:
                compiled = (now, now + cost.compile_ns)
                trace.operator("_compile.compile_inner (dynamo_timed)", *compiled)
                trace.operator("TorchDynamo Cache Lookup", now - 15_000, now - 1_000)
            now += cost.compile_ns + 20_000
        region = now
        for place in range(cost.kernels):
            operator_start = now
            now += cost.dispatch_ns
            call = (now, now + cost.launch_ns)
            now = call[1]
            start = max(call[1] + LAUNCH_LAG_NS, device_end + ORDER_LAG_NS)
            device_end = start + cost.kernel_ns
            out["kernels"].append((start, device_end, call))
            if trace:
                operator = trace.operator("aten::mm", operator_start, now, shapes=[[8, 8], [8, 8]])
                trace.kernel(start, device_end, call=call, operator=operator)
            if cost.sync_every and cost.waits and place % cost.sync_every == cost.sync_every - 1:
                began, ended = now, max(now, device_end) + 3_000
                waits.append((began, ended))
                if trace:
                    trace.call("cudaStreamSynchronize", began, ended)
                    trace.python(
                        "<built-in method item of Tensor object at 0x7f0000000000>",
                        began - 500,
                        ended + 100,
                        called_from="train.py:47",
                    )
                now = ended
            if place == cost.kernels // 2:
                now += cost.host_ns
        if trace:
            if cost.compile_ns:
                trace.operator(f"Torch-Compiled Region: 0/{number}", region - 5_000, now)
            trace.python(
                "train.py(40): train_step", forward + 100, now + 100, called_from="train.py:80"
            )
        now += 4_000
        out["steps"].append((number, step_start, now))
        if trace:
            trace.step(number, step_start, now)
        now += 1_000
    out["end_ns"] = device_end
    return out


def random_program(kind: str, seed: int, folder: Path, steps: int = 4) -> Program:
    """A program of one kind ("sync", "launch", "host", "compile", "healthy") with seeded figures."""
    rng = random.Random(f"{kind} {seed}")
    usual: dict[str, Any] = {
        "launch_ns": rng.randrange(3_000, 6_000),
        "dispatch_ns": rng.randrange(6_000, 12_000),
        "kernels": rng.randrange(24, 40),
        "kernel_ns": rng.randrange(30_000, 50_000),
    }
    special: dict[str, dict[str, Any]] = {
        "sync": {"sync_every": rng.randrange(1, 3)},
        "launch": {"kernel_ns": rng.randrange(1_500, 4_000)},
        "host": {"host_ns": rng.randrange(3_000_000, 6_000_000)},
        "compile": {"compile_ns": rng.randrange(4_000_000, 9_000_000)},
        "healthy": {},
    }
    cost = Cost(**(usual | special[kind]))
    trace = Trace(folder / disguised(f"{kind}_{seed}"))
    happened = simulate(cost, steps, lambda: trace)
    trace.noise(30_000)
    saved = {
        cause: max(0, happened["end_ns"] - simulate(cost.without(cause), steps)["end_ns"])
        for cause in ("waits", "launch_cost", "host_code", "compilation")
    }
    window = happened["steps"][0][1], happened["steps"][-1][2]
    return Program(
        trace.save(),
        seed,
        cost,
        {**happened, "recoverable_ns": saved, "window_ns": window[1] - window[0]},
    )


# == memory =======================================================================================


class Memory:
    """An allocator's history drawn by hand: blocks come and go, a snapshot tells of it.

    Times are in µs since 1970. Entries before `begin_history()` leave no trace but what they hold.
    """

    def __init__(self, folder: Path, device: int = 0) -> None:
        self.folder = folder
        self.device = device
        self.entries: list[dict[str, Any]] = []
        self.recording = False
        self.live: dict[int, dict[str, Any]] = {}
        self.segments: dict[int, dict[str, Any]] = {}
        self.held: list[int] = []  # bytes in use after each moment, the beginning first
        self.reserved: list[int] = []
        self._address = 140_000_000_000_000

    def begin_history(self) -> None:
        """From here on everything is recorded."""
        self.recording = True
        self._note()

    def segment(self, size: int, time_us: int = 0) -> int:
        """A piece of memory from cudaMalloc; returns its address."""
        address = self._address
        self._address += size + 2_000_000
        self.segments[address] = {"address": address, "size": size, "used": 0}
        self._entry("segment_alloc", address, size, time_us, [])
        return address

    def release_segment(self, address: int, time_us: int = 0) -> None:
        """Give a segment back."""
        size = self.segments.pop(address)["size"]
        self._entry("segment_free", address, size, time_us, [])

    def alloc(
        self,
        segment: int,
        size: int,
        frames: list[tuple[str, int, str]] = (),  # type: ignore[assignment]
        time_us: int = 0,
    ) -> int:
        """A block of `size` requested bytes; frames are (file, line, function), innermost first."""
        held = self.segments[segment]
        address = segment + held["used"]
        held["used"] += -(-size // 512) * 512
        assert held["used"] <= held["size"], "the segment is full"
        self.live[address] = {"segment": segment, "size": size, "frames": _frames(frames)}
        self._entry("alloc", address, size, time_us, _frames(frames))
        return address

    def free(self, address: int, time_us: int = 0, complete: bool = True) -> None:
        """Release a block; complete=False: another stream still uses it."""
        size = self.live[address]["size"]
        self._entry("free_requested", address, size, time_us, [])
        if complete:
            self.complete(address, time_us)
        else:
            self.live[address]["awaiting"] = True

    def complete(self, address: int, time_us: int = 0) -> None:
        """The release of a block comes into effect."""
        size = self.live.pop(address)["size"]
        self._entry("free_completed", address, size, time_us, [])

    def snapshot(self, devices: int = 1) -> dict[str, Any]:
        """The snapshot as torch.cuda.memory._snapshot gives it."""
        segments = []
        for address, segment in self.segments.items():
            blocks = []
            mine = sorted(a for a, block in self.live.items() if block["segment"] == address)
            place = address
            for start in mine:
                block = self.live[start]
                if start > place:
                    blocks.append(_block(place, start - place, 0, "inactive", []))
                rounded = -(-block["size"] // 512) * 512
                state = "active_pending_free" if block.get("awaiting") else "active_allocated"
                blocks.append(_block(start, rounded, block["size"], state, block["frames"]))
                place = start + rounded
            if place < address + segment["size"]:
                rest = address + segment["size"] - place
                blocks.append(_block(place, rest, 0, "inactive", []))
            segments.append(
                {
                    "device": self.device,
                    "address": address,
                    "total_size": segment["size"],
                    "allocated_size": sum(b["size"] for b in blocks if "allocated" in b["state"]),
                    "stream": 0,
                    "segment_type": "large",
                    "segment_pool_id": (0, 0),
                    "blocks": blocks,
                }
            )
        traces: list[list[dict[str, Any]]] = [[] for _ in range(devices)]
        traces[self.device] = list(self.entries)
        return {
            "segments": segments,
            "device_traces": traces,
            "allocator_settings": {"expandable_segments": False},
        }

    def save(
        self, devices: int = 1, packed: bool = True, beside: dict[str, Any] | None = None
    ) -> str:
        """Write the snapshot, with what another one tells of the other devices; returns the folder."""
        snapshot = self.snapshot(devices)
        if beside is not None:
            snapshot["segments"] = beside["segments"] + snapshot["segments"]
            traces = zip(beside["device_traces"], snapshot["device_traces"], strict=True)
            snapshot["device_traces"] = [other or own for other, own in traces]
        return save_pickle(self.folder, pickle.dumps(snapshot, 4), packed)

    def _entry(
        self, action: str, address: int, size: int, time_us: int, frames: list[dict[str, Any]]
    ) -> None:
        if not self.recording:
            return
        self.entries.append(
            {"action": action, "addr": address, "size": size, "stream": 0, "time_us": time_us,
             "frames": frames}
        )  # fmt: skip
        self._note()

    def _note(self) -> None:
        self.held.append(sum(block["size"] for block in self.live.values()))
        self.reserved.append(sum(segment["size"] for segment in self.segments.values()))


def save_pickle(folder: Path, data: bytes, packed: bool = True) -> str:
    """Write bytes as a snapshot file; returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    if packed:
        (folder / "snapshot.pickle.gz").write_bytes(gzip.compress(data, 1, mtime=0))
    else:
        (folder / "snapshot.pickle").write_bytes(data)
    return str(folder)


def _frames(frames: Any) -> list[dict[str, Any]]:
    return [{"filename": file, "line": line, "name": name} for file, line, name in frames]


def _block(
    address: int, size: int, requested: int, state: str, frames: list[dict[str, Any]]
) -> dict[str, Any]:
    return {
        "address": address,
        "size": size,
        "requested_size": requested,
        "state": state,
        "frames": frames,
    }
