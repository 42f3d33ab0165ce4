"""What captures cannot show, each a sentence that says what it would take to see it: of recordings, not of verdicts."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from profiling_lab import captures
from profiling_lab.captures import MAIN_FILES, Kind, Part, inputs, merging
from profiling_lab.mine.kernels_alone import times_alone
from profiling_lab.units import format_ns

if TYPE_CHECKING:
    from profiling_lab.captures.nsys_export import NsysCapture

# What a raw page holds only if its section was recorded: a part of a metric's name, then the words.
_SECTIONS = (
    ("_issue_stalled_", "why warps wait (ncu --section WarpStateStats)"),
    ("dram__bytes", "memory traffic (ncu --section MemoryWorkloadAnalysis)"),
    ("sm__inst_executed_pipe", "which pipes work (ncu --section ComputeWorkloadAnalysis)"),
    ("launch__occupancy_limit", "what limits occupancy (ncu --section Occupancy)"),
)
# torch.profiler, steps of both kinds with and without it: captures profiler_overhead_narrow and _wide.
_SLOWED = "which slows down hosts, and devices hardly"


def of_run(run: Sequence[Part]) -> list[str]:
    """The sentences for all captures of a run."""
    out = []
    for part in run:
        if part.kind == Kind.TIMELINE:
            recording = captures.open(part.path)
            out += [*of_timeline(recording), *_of_ranks(part, recording)]
        elif part.kind == Kind.KERNELS:
            out += _of_kernels(part, alone=len(run) == 1)
        else:
            out += _of_trace(part)
    if run[0].kind != Kind.KERNELS and len(run) == 1:
        out.append("what limits a single kernel (add the kernel's page: ncu --page raw --csv)")
    return list(dict.fromkeys(out))


def of_timeline(recording: NsysCapture) -> list[str]:
    """The sentences for a timeline, whatever ran in it."""
    out = []
    if not recording.gpu_metrics.height:
        out.append(
            "how many SMs work while the device is busy: no GPU metrics "
            "(record with --gpu-metrics-devices=all)"
        )
    if recording.graph_launches.height:
        out.append("the kernels inside CUDA graphs (record with --cuda-graph-trace=node)")
    if not recording.nvtx_ranges.height:
        out.append("which part of the program work belongs to: no NVTX ranges")
    if any(kind.startswith("UVM") for kind in recording.copies["kind"].unique()):
        out.append(
            "which code made managed memory move, and waited for it: no call issues those copies "
            "(record with --cuda-um-cpu-page-faults=true --cuda-um-gpu-page-faults=true)"
        )
    if not recording.memory_events.height:
        out.append("what holds device memory (record with --cuda-memory-usage=true)")
    if not recording.os_calls.height:
        out.append(
            "whether the host worked between its CUDA calls or waited there, for another thread, a lock or a "
            "queue: that is no CUDA call (record with --trace=cuda,nvtx,osrt)"
        )
    if not recording.api_calls.height:
        out.append("what the host did: no CUDA calls (record with --trace=cuda)")
    return out


def _of_ranks(part: Part, recording: NsysCapture) -> list[str]:
    if recording.collectives["process"].n_unique() != 1:
        return _before_all_ranks(recording)
    return [
        f"whom this rank waits for in its collectives{_alone(part)}: no other rank is in the "
        "recording (one session around the launcher: nsys profile … torchrun …)"
    ]


def _before_all_ranks(recording: NsysCapture) -> list[str]:
    """What lies before the ranges that `merging.with_ranks` drew: they all begin at the same ns."""
    ranges = recording.nvtx_ranges
    told = ranges.filter(ranges["name"].str.contains(merging.RANK_RANGE))
    if told.height < 2 or told["start_ns"].n_unique() > 1:
        return []
    operations = recording.device_operations
    own = operations.filter(operations["process"].is_in(told["process"].to_list()))
    before_ns = told["start_ns"][0] - min(own["start_ns"].to_list(), default=told["start_ns"][0])
    if before_ns <= 0:
        return []
    return [
        f"whether ranks waited for each other in the first {format_ns(before_ns)}: not all of them were "
        "recorded yet"
    ]


def _alone(part: Part) -> str:
    """For how long collectives of the one rank of a capture ran with no other kernel beside them."""
    times = times_alone(part).items()
    alone_ns = sum(time_ns for name, time_ns in times if name.startswith("nccl"))
    return f", which run alone for {format_ns(alone_ns)}" if alone_ns else ""


def _of_kernels(part: Part, *, alone: bool) -> list[str]:
    file = captures.file(part.path, MAIN_FILES[Kind.KERNELS])
    text = captures.text(file, file.name)
    header = next((line for line in text.splitlines() if re.match(r'"?ID"?,', line)), "")
    out = [words for metric, words in _SECTIONS if metric not in header]
    if alone:
        out.append(
            "how much of the program these kernels are (add a timeline of it: nsys profile; and name "
            "both files)"
        )
    out.append(
        "how long they take in the program: Nsight Compute fixes clocks and empties caches before a "
        "kernel unless told otherwise"
    )
    return out


def _without_profiler(part: Part) -> list[str]:
    """What the profiler itself may have made of ranks that wait; with the length of a step as recorded."""
    file = min(captures.rank_traces(part.path).items())[1]
    text = captures.text(file, file.name)
    if inputs.ADDED_STEP in text:
        return []
    steps = [
        (float(event["ts"]), float(event["ts"]) + float(event["dur"]))
        for event in json.loads(text)["traceEvents"]
        if event.get("cat") == "user_annotation"
        and str(event.get("name")).startswith("ProfilerStep#")
        and "dur" in event
    ]
    if not steps:
        return []
    length_us = (max(end for _, end in steps) - min(start for start, _ in steps)) / len(steps)
    return [
        f"how long a step takes without the profiler, {_SLOWED}: here "
        f"{format_ns(round(1000 * length_us))}. Time some steps unprofiled: where they are much shorter, the "
        "profiler made hosts late, and ranks wait for them"
    ]


def _of_trace(part: Part) -> list[str]:
    if part.kind == Kind.TRACES:
        clock = (
            "when one rank did something by the clock of another: instants of two traces agree as well as"
            " their hosts' clocks (on one host to about 20 µs)"
        )
        missing, size = inputs.missing_ranks(part)
        others = f"the other {len(missing)} of {size} ranks of the job (name the traces of all)"
        return [clock, *([others] if missing else []), *_without_profiler(part)]
    file = captures.file(part.path, MAIN_FILES[Kind.TRACE])
    text = captures.text(file, file.name)
    out = []
    if inputs.ADDED_STEP in text:
        out.append("where a step ends, and what grows from step to step (call profiler.step())")
    world = re.search(r'"world_size":\s*(\d+)', text[: captures.HEAD_BYTES])
    if world and int(world[1]) > 1:
        count = int(world[1]) - 1
        ranks = f"{count} ranks" if count > 1 else "rank"
        others = f"the other {ranks} of the job (name the traces of all)"
        alone = _alone(part)
        waiting = f", and what they have to do with this one's collectives{alone}" if alone else ""
        out.append(others + waiting)
    if '"[memory]"' not in text:
        out.append("what holds device memory (record with profile_memory=True)")
    if not re.search(r'"python_function"', text):
        out.append("which line of Python called (record with with_stack=True)")
    out.append("what orders streams, and for which stream a call waits (Nsight Systems records it)")
    return out
