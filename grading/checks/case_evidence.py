"""What a case file holds, measured for checks: the number that each verdict by hand must bring.

    >>> case = open_case("case_decoder_a")
    >>> case.measure("idle_ns", device=0)

Shares nothing with the exercise or the week's functions: one sweep over the operations of a device,
sums over the host's calls, cells of the page of Nsight Compute.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

from grading.checks import ncu
from profiling_lab import captures

# The number that a verdict of each category brings (the lesson defines them for the learner).
TIMELINE_KEYS = {
    "healthy": "idle_ns",
    "launch_bound": "launching_ns",
    "sync_bound": "waiting_ns",
    "transfer_bound": "copy_alone_ns",
    "host_bound": "longest_gap_ns",
    "input_bound": "longest_gap_ns",
    "allocation_bound": "allocating_ns",
    "serialized_streams": "one_stream_ns",
    "communication_bound": "collective_alone_ns",
    "rank_imbalance": "collective_gap_ns",
    "recompilation": "compiling_ns",
    "memory_growth": "growth_bytes",
    "throttled": "clock_ratio",
}
KERNEL_KEYS = {
    "memory_bound": "dram_pct",
    "cache_bound": "cache_pct",
    "compute_bound": "sm_pct",
    "latency_bound": "issuing_pct",
    "uncoalesced_access": "used_pct",
    "bank_conflicts": "conflicts_count",
    "low_occupancy": "occupancy_pct",
    "small_grid": "waves_ratio",
    "tail_effect": "waves_ratio",
    "divergence": "lanes_ratio",
    "atomic_contention": "atomics_count",
    "register_spills": "spills_count",
    "tensor_cores_unused": "tensor_pct",
}
COLLECTIVE = "nccl"
ALLOCATING = ("cudaMalloc", "cudaFree", "cudaHostAlloc", "cudaHostRegister", "cuMem")
COMPILATION = "entire_frame_compile"  # what torch.compile's own operator is called in a trace


class Operation(NamedTuple):
    """What ran on a device; kind is "kernel" (also a whole graph), "copy" or "memset"."""

    kind: str
    start_ns: int
    end_ns: int
    device: int
    stream: int
    name: str


class Call(NamedTuple):
    """A call of the CUDA runtime or driver on the host."""

    name: str
    start_ns: int
    end_ns: int


@dataclass
class Case:
    """A recording of devices and a host, or a page of kernels, and what can be measured in it."""

    name: str
    operations: list[Operation] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    compilations_ns: list[int] = field(default_factory=list)
    kernels: tuple[dict, ...] = ()

    @property
    def keys(self) -> dict[str, str]:
        """The categories that can be claimed of this kind of recording → the number to bring."""
        return KERNEL_KEYS if self.kernels else TIMELINE_KEYS

    @property
    def devices(self) -> list[int]:
        return sorted({op.device for op in self.operations})

    @property
    def window_ns(self) -> int:
        """From the first start to the last end of what any device did."""
        return max(op.end_ns for op in self.operations) - min(op.start_ns for op in self.operations)

    @property
    def streams(self) -> list[int]:
        """Streams with kernels, most kernels first."""
        count = Counter(op.stream for op in self.operations if op.kind == "kernel")
        return [stream for stream, _ in count.most_common()]

    def calls_ns(self, *parts: str) -> int:
        """Host time in calls whose name holds one of these words."""
        return sum(
            call.end_ns - call.start_ns
            for call in self.calls
            if any(part in call.name for part in parts)
        )

    def measure(self, key: str, device: int = 0) -> float | None:
        """The value of a number of TIMELINE_KEYS or KERNEL_KEYS; None if the recording lacks it."""
        return self._of_kernel(key) if self.kernels else self._of_timeline(key, device)

    # -- timelines and traces ---------------------------------------------------------------------

    def _of_timeline(self, key: str, device: int) -> float | None:
        if key == "launching_ns":
            return self.calls_ns("Launch")
        if key == "waiting_ns":
            return self.calls_ns("Synchronize")
        if key == "allocating_ns":
            return sum(
                call.end_ns - call.start_ns
                for call in self.calls
                if call.name.startswith(ALLOCATING) and not call.name.startswith("cuMemcpy")
            )
        if key == "compiling_ns":
            return sum(self.compilations_ns)
        if key == "collective_gap_ns":
            totals = [self.collectives_ns(each) for each in self.devices]
            return max(totals) - min(totals)
        if key == "clock_ratio":
            after = captures.provenance(self.name)["clocks"]["after"]
            return min(clock["sm_mhz"] / clock["max_sm_mhz"] for clock in after)
        if key == "growth_bytes":
            return None
        return self.sweep(device)[key]

    def collectives_ns(self, device: int) -> int:
        """The durations of a device's collectives, added up."""
        return sum(
            op.end_ns - op.start_ns
            for op in self.operations
            if op.device == device and COLLECTIVE in op.name
        )

    def sweep(self, device: int) -> dict[str, int]:
        """idle_ns, longest_gap_ns, copy_alone_ns, one_stream_ns and collective_alone_ns of a device."""
        first = min(op.start_ns for op in self.operations)
        last = first + self.window_ns
        moments: list[tuple[int, int, Operation | None]] = [(last, 1, None)]
        for op in self.operations:
            if op.device == device:
                moments += [(op.start_ns, 1, op), (op.end_ns, -1, op)]
        moments.sort(key=lambda moment: moment[:2])
        out = dict.fromkeys(
            ("idle_ns", "longest_gap_ns", "copy_alone_ns", "one_stream_ns", "collective_alone_ns"),
            0,
        )
        copies = memsets = collectives = 0
        kernels: Counter[int] = Counter()  # running kernels by stream, collectives among them
        before, gap = first, 0
        for now, step, op in moments:
            passed, before = now - before, now
            running = sum(kernels.values())
            if passed:
                gap = 0 if running or copies or memsets else gap + passed
                out["idle_ns"] += passed if gap else 0
                out["longest_gap_ns"] = max(out["longest_gap_ns"], gap)
                out["copy_alone_ns"] += passed if copies and not running else 0
                out["one_stream_ns"] += passed if sum(n > 0 for n in kernels.values()) == 1 else 0
                only = collectives and running == collectives
                out["collective_alone_ns"] += passed if only else 0
            if op is None:
                continue
            if op.kind == "kernel":
                kernels[op.stream] += step
                collectives += step if COLLECTIVE in op.name else 0
            elif op.kind == "copy":
                copies += step
            else:
                memsets += step
        return out

    # -- pages of kernels -------------------------------------------------------------------------

    def metric(self, name: str) -> float:
        """A metric of the page's one kernel, in base units."""
        (kernel,) = self.kernels
        return kernel["metrics"][name]

    def _of_kernel(self, key: str) -> float:
        peak = ".avg.pct_of_peak_sustained_elapsed"
        if key == "used_pct":
            sectors = "memory_l2_theoretical_sectors_global"
            return 100 * self.metric(f"{sectors}_ideal") / self.metric(sectors)
        if key == "cache_pct":
            return max(self.metric(f"{unit}__throughput{peak}") for unit in ("l1tex", "lts"))
        if key == "atomics_count":
            requests = "l1tex__t_requests_pipe_lsu_mem_global_op_"
            return self.metric(f"{requests}red.sum") + self.metric(f"{requests}atom.sum")
        return self.metric(
            {
                "dram_pct": f"gpu__dram_throughput{peak}",
                "sm_pct": f"sm__throughput{peak}",
                "issuing_pct": "smsp__issue_active.avg.pct_of_peak_sustained_active",
                "conflicts_count": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",
                "occupancy_pct": "sm__maximum_warps_per_active_cycle_pct",
                "waves_ratio": "launch__waves_per_multiprocessor",
                "lanes_ratio": "smsp__thread_inst_executed_per_inst_executed.ratio",
                "spills_count": "sass__inst_executed_register_spilling",
                "tensor_pct": "sm__inst_executed_pipe_tensor_op_hmma"
                ".avg.pct_of_peak_sustained_active",
            }[key]
        )


@cache
def open_case(name: str) -> Case:
    """The recording of a case: a timeline, a trace, or a page of one kernel. Not for changing."""
    kind = captures.kind(name)
    if kind == captures.Kind.KERNELS:
        return Case(name, kernels=ncu.kernels(name))
    if kind == captures.Kind.TIMELINE:
        return _timeline(name)
    return _trace(name)


def _timeline(name: str) -> Case:
    with captures.open(name) as capture:
        rows = capture.device_operations.select(
            "kind", "start_ns", "end_ns", "device", "stream", "name"
        ).iter_rows()
        calls = capture.api_calls.select("name", "start_ns", "end_ns").iter_rows()
        operations = (
            Operation("kernel" if kind == "graph" else kind, *rest) for kind, *rest in rows
        )
        return Case(name, list(operations), [Call(*call) for call in calls])


def _trace(name: str) -> Case:
    text = gzip.decompress(captures.file(name, "trace.json").read_bytes())
    case = Case(name)
    kinds = {"kernel": "kernel", "gpu_memcpy": "copy", "gpu_memset": "memset"}
    for event in _whole(json.loads(text)["traceEvents"]):
        category, start = event.get("cat"), round(event["ts"] * 1000)
        end = start + round(event["dur"] * 1000)
        if category in kinds:
            place = event["args"]["device"], event["args"]["stream"]
            case.operations.append(Operation(kinds[category], start, end, *place, event["name"]))
        elif category in ("cuda_runtime", "cuda_driver"):
            case.calls.append(Call(event["name"], start, end))
        elif event["name"] == COMPILATION:
            case.compilations_ns.append(end - start)
    return case


def _whole(events: Iterable[dict]) -> Iterable[dict]:
    return (event for event in events if event.get("ph") == "X")
