"""Words that fit the recording: what to do about a category here, and what a verdict rests on."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

import numpy as np

from profiling_lab.analysis import host_time, spent
from profiling_lab.analysis.columns import GRAPH
from profiling_lab.captures import Kind
from profiling_lab.diagnosis import contributors, ranking
from profiling_lab.findings import CATEGORIES, Finding, base_name
from profiling_lab.units import format_ns

if TYPE_CHECKING:
    from profiling_lab.analysis.ranks import Job
    from profiling_lab.captures import Part
    from profiling_lab.diagnosis.engine import Seen

KERNELS_NAMED = 3
NAME_CHARACTERS = 40  # of a kernel's name: enough to tell it from others

SETUP_RATIO = 0.01  # of the window: less set-up is not worth a sentence
_REMEDIES = (
    ("hidden", "hide them behind kernels, in a separate stream"),
    ("pinned", "pin host memory"),
    ("moved_less", "move less, or leave data where it is"),
)


def of(category: str, seen: Seen, evidence: Mapping[str, float]) -> str:
    """What to do about a category in a recording."""
    usual = CATEGORIES[category].remedy
    if category == "transfer_bound":
        given = [
            f"{words} (saves up to {format_ns(int(ns))})"
            for name, words in _REMEDIES
            if (ns := seen.saved.remedies.get(name, 0))
        ]
        return "; or ".join(given) or usual
    if category == "sync_bound" and seen.time.order.launches_block:
        return "each launching call lasts until its kernel has ended, as with CUDA_LAUNCH_BLOCKING=1: unset it"
    if category == "sync_bound" and seen.saved.readback_count:
        count = seen.saved.readback_count
        return f"{usual} ({count:,} cop{'y' if count == 1 else 'ies'} of a few bytes read results back)"
    if category == "launch_bound" and _replays_graphs(seen):
        return "issue less: put more into each CUDA graph that is replayed, fuse operations, or use larger batches"
    if category == "serialized_streams" and evidence.get("by_default_stream_ratio", 1) < 0.5:
        return (
            "the legacy default stream does not order them, and no event that was recorded does: look at what was "
            "queued first, and at CUDA_DEVICE_MAX_CONNECTIONS"
        )
    if category == "input_bound" and seen.time.names:
        name = max(seen.time.names, key=lambda key: seen.time.names[key])
        return f"{usual} (it waits in {name!r})"
    if category == "unexplained" and seen.trace is not None:
        return (
            "record more: ProfilerActivity.CPU as well as CUDA, with_stack=True, and record_function around the "
            "program's parts"
        )
    if category == "rank_imbalance":
        own = "more work on its device" if evidence.get("late_work_ns", 0) else "what its host does"
        return f"{usual}: it is late because of {own}"
    return usual


def _replays_graphs(seen: Seen) -> bool:
    """Whether most of the device's operations, by their time, were launched in CUDA graphs already."""
    work = seen.recording.operations
    lengths = work.end - work.start
    return bool(2 * lengths[(work.kind == GRAPH) | work.node].sum() > lengths.sum())


def ncu_command(kernels: list[str], program: str = "PROGRAM") -> str:
    """The command that records these kernels' counters."""
    names = "|".join(dict.fromkeys(name[:NAME_CHARACTERS] for name in kernels))
    return f"ncu --set full -k {shlex.quote(f'regex:^({names})')} -c {KERNELS_NAMED * 3} -o kernels {program}"


def rests_on(
    part: Part, seen: Seen, job: Job | None, main: Finding, judged: Collection[str] = ()
) -> list[str]:
    """What the verdict rests on, and what the recording lacks: a sentence each.

    judged: the short names of kernels whose counters were given as well.
    """
    out = []
    top = [
        kernel
        for kernel in contributors.kernels(seen.recording, seen.window_ns)
        if base_name(kernel["name"]) not in judged
    ][:KERNELS_NAMED]
    if top:
        shares = ", ".join(
            f"{base_name(k['name'])[:NAME_CHARACTERS]} {k['window_ratio']:.0%}" for k in top
        )
        if any(k["window_ratio"] > 1 for k in top):
            shares += "; overlapping kernels each count in full"
        kept = "kept busy; " if main.category == "healthy" else ""
        amd = seen.trace is not None and any("AMD" in n for n in seen.trace.device_names.values())
        command = "rocprof-compute" if amd else ncu_command([base_name(k["name"]) for k in top])
        out.append(
            f"{kept}kernels not judged (most time: {shares}); record their counters: {command}"
        )
    if seen.setup_ns > SETUP_RATIO * seen.spent[0].length_ns:
        out.append(
            f"{format_ns(seen.setup_ns)} of the window were set-up (contexts, modules, first launches, what "
            f"happened once{_longest_once(seen)}): the verdict is on the rest"
        )
    if seen.saved.recorder_ns > SETUP_RATIO * seen.spent[0].length_ns:
        out.append(
            f"the recorder itself cost about {format_ns(seen.saved.recorder_ns)} of the window: the verdict is on the rest"
        )
    if seen.time.single_step:
        out.append("whether what happened once happens in each step: one step was recorded")
    outside = contributors.outside_ns(seen.recording, seen.window_ns)
    if outside > seen.spent[0].length_ns:
        out.append(f"{format_ns(outside)} are outside the window and are not judged")
    if job is not None and job.once and job.imbalance_ns:
        out.append(
            f"rank {job.late} kept the others waiting once, for most of {format_ns(job.imbalance_ns)}"
        )
    if job is not None and job.left_out_count:
        out.append(f"{job.left_out_count:,} collectives that not all ranks were recorded in")
    code = host_time.PURPOSES[host_time.OWN_CODE]
    if part.kind == Kind.TIMELINE:
        if seen.export is not None:
            told = seen.export.said()
            lost = [t for t in told if "dropped" in t.lower() or "lost" in t.lower()]
            out += [f"the profiler says: {text}" for text in dict.fromkeys(lost)]
            if damaged := sum(text.startswith("Error when processing events") for text in told):
                out.append(
                    f"what the profiler could not process ({damaged:,} errors in its own diagnostics): the "
                    "recording may hold a small part of what ran; record again"
                )
        if not len(seen.recording.calls):
            out.append("what the host did: no CUDA calls (record with --trace=cuda)")
        if not len(seen.recording.os_calls) and max(s.classes[code] for s in seen.spent):
            out.append(
                "whether the host worked between its CUDA calls or waited there: no calls of the operating "
                "system (record with --trace=cuda,nvtx,osrt)"
            )
        streams = len({stream for _, _, stream in seen.recording.streams})
        if not len(seen.recording.event_records) and streams > 1:
            out.append(
                "which stream waited for which event: none recorded (record with --cuda-event-trace=true)"
            )
    if seen.trace is not None and main.category in ("launch_bound", "host_bound"):
        out += _profilers_cost(seen)
    if part.kind == Kind.TRACE and seen.trace is not None and seen.trace.ranks > 1:
        out.append(
            f"the other ranks of the job, {seen.trace.ranks} in all (name the traces of all)"
        )
    unexplained = min(one.classes[spent.UNEXPLAINED] for one in seen.spent)
    if unexplained >= 0.01 * seen.judged_ns:
        out.append(f"{format_ns(unexplained)} of idle time that nothing recorded explains")
    return out


def _profilers_cost(seen: Seen) -> list[str]:
    """From which length of a step on a host is not worth a tenth: PyTorch's profiler slows hosts, and devices hardly."""
    steps = len(seen.trace.steps_ns) if seen.trace is not None else 0
    busiest = max(seen.spent, key=lambda one: one.length_ns - one.idle_ns)
    if not steps:
        return []
    length, busy = busiest.length_ns / steps, (busiest.length_ns - busiest.idle_ns) / steps
    return [
        f"how long a step takes without the profiler, which slows hosts: here {format_ns(round(length))}, of which "
        f"device {busiest.device} works {format_ns(round(busy))}. Time it unprofiled: if it takes less than "
        f"{format_ns(round(busy / (1 - ranking.FLOOR_RATIO)))}, the host costs less than {ranking.FLOOR_RATIO:.0%} of it"
    ]


def _longest_once(seen: Seen) -> str:
    """What took longest of that, if it is a call or leads to one."""
    time, made = seen.time, seen.time.order
    low, high = seen.window_ns
    known = (made.row >= 0) & (made.thread >= 0) & (made.start > low) & (made.start < high)
    rows = np.flatnonzero(known & (time.own_setup + time.lead_setup > 0))
    if not len(rows):
        return ""
    own, lead = time.own_setup[rows], time.lead_setup[rows]
    at = int(np.argmax(np.maximum(own, lead)))
    name = seen.recording.names[int(seen.recording.calls.name[made.row[rows[at]]])]
    where = "in" if own[at] >= lead[at] else "of host code before"
    return f"; the longest is {format_ns(int(max(own[at], lead[at])))} {where} {name}"


def table(seen: Seen) -> list[tuple[str, list[tuple[str, int]]]]:
    """Where the time went: per device its classes, largest first, those above 0 only."""
    return [
        (
            f"device {one.device}",
            sorted(((n, ns) for n, ns in one.classes.items() if ns), key=lambda row: -row[1]),
        )
        for one in seen.spent
    ]


def saved_rows(seen: Seen) -> list[tuple[str, int]]:
    """What would be saved, cause by cause, largest first, those above 0 only."""
    words = {c.cause: c.words for c in CATEGORIES.values() if c.cause}
    rows = [(words[cause], ns) for cause, ns in seen.saved.causes.items() if ns]
    return sorted(rows, key=lambda row: -row[1])
