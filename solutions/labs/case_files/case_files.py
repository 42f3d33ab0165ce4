"""Case files: verdicts by hand, and the code that compares the findings of several tools.

The lesson is `README.md` in this folder, hints are in `hints.md`.

The first ten functions take no arguments and return your verdict on one recording, a dict of four entries:

    "category"        what is wrong, a key of EVIDENCE that fits the recording; "healthy" if nothing is wrong
    "subject"         where: "device:0", "rank:1" (the process that drives device 1), "kernel:<name>"
    "evidence"        one measured number under the key that EVIDENCE names for the category, as
                      {"idle_ns": 1234}; within 10 % of the value in the recording
    "recommendation"  a key of FIXES: the change that removes the cause; "none" if nothing can be gained

The lesson defines these numbers exactly ("What each verdict needs").
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from profiling_lab.findings import CATEGORIES, Finding

# The number that a verdict of each category needs: timelines and traces, then pages of kernels.
EVIDENCE = {
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
FIXES = {
    "balance_ranks": "give every rank as much work as the others",
    "bigger_buckets": "exchange more bytes in fewer collectives",
    "copy_stream": "copy the next batch on a stream of its own while kernels run",
    "drop_waits": "take out what makes the host wait (item, cpu, synchronize), or move it to the end",
    "dynamic_shapes": "compile for shapes that vary, or fill inputs up to one shape",
    "graph_replay": "record the step once as a CUDA graph, and replay it",
    "keep_allocator": "leave memory with the caching allocator",
    "keep_more_code": "raise the limit on compiled variants that are kept",
    "loader_workers": "prepare the next batches in processes or threads of their own",
    "more_streams": "spread the work over more streams",
    "nonblocking_streams": "create the streams so that they do not wait for the default stream",
    "none": "nothing: no change is worth its trouble here",
    "overlap_gradients": "start a collective as soon as its gradients are there",
    "pad_shared": "pad the rows of the array in shared memory",
    "pin_memory": "copy from pinned instead of pageable memory",
    "prepare_on_device": "send raw bytes, and prepare them on the device",
    "raise_occupancy": "make room for more warps on a multiprocessor",
    "tile_in_shared": "read and write whole rows of tiles, and turn the tiles in shared memory",
    "vector_loads": "load and store 16 bytes a thread at a time",
}

# A saving below this share of the window is not worth a change.
FLOOR_RATIO = 0.10

# A finding this close to another verdict, on either side, is borderline.
BORDERLINE_RATIO = 0.02


def verdict_decoder() -> dict[str, Any]:
    """Your verdict on `case_decoder_a`: a language model that generates token by token (a timeline)."""
    return {
        "category": "launch_bound",
        "subject": "device:0",
        "evidence": {"launching_ns": 5_680_052},
        "recommendation": "graph_replay",
    }


def verdict_vision() -> dict[str, Any]:
    """Your verdict on `case_vision_a`: a transformer that classifies pictures (a timeline)."""
    return {
        "category": "transfer_bound",
        "subject": "device:0",
        "evidence": {"copy_alone_ns": 27_851_486},
        "recommendation": "copy_stream",
    }


def verdict_denoiser() -> dict[str, Any]:
    """Your verdict on `case_denoiser_b`: a U-Net, with a host that compresses previews (a timeline)."""
    return {
        "category": "healthy",
        "subject": "device:0",
        "evidence": {"idle_ns": 2_321_542},
        "recommendation": "none",
    }


def verdict_residual() -> dict[str, Any]:
    """Your verdict on `case_residual_a`: a residual network trains on pictures (a timeline)."""
    return {
        "category": "host_bound",
        "subject": "device:0",
        "evidence": {"longest_gap_ns": 34_239_598},
        "recommendation": "prepare_on_device",
    }


def verdict_adversarial() -> dict[str, Any]:
    """Your verdict on `case_adversarial_a`: two networks train against each other (a timeline)."""
    return {
        "category": "healthy",
        "subject": "device:0",
        "evidence": {"idle_ns": 8_690_572},
        "recommendation": "none",
    }


def verdict_ensemble() -> dict[str, Any]:
    """Your verdict on `case_ensemble_a`: four small models run on four streams (a timeline)."""
    return {
        "category": "serialized_streams",
        "subject": "device:0",
        "evidence": {"one_stream_ns": 35_229_628},
        "recommendation": "nonblocking_streams",
    }


def verdict_speech() -> dict[str, Any]:
    """Your verdict on `case_speech_a`: a compiled model processes speech recordings (a trace)."""
    return {
        "category": "recompilation",
        "subject": "device:0",
        "evidence": {"compiling_ns": 983_209_273},
        "recommendation": "dynamic_shapes",
    }


def verdict_turn() -> dict[str, Any]:
    """Your verdict on `case_turn_a`: a kernel turns a picture (a page of Nsight Compute)."""
    return {
        "category": "uncoalesced_access",
        "subject": "kernel:turn_by_rows",
        "evidence": {"used_pct": 22.2},
        "recommendation": "tile_in_shared",
    }


def verdict_scale() -> dict[str, Any]:
    """Your verdict on `case_scale_a`: a kernel scales a series (a page of Nsight Compute)."""
    return {
        "category": "memory_bound",
        "subject": "kernel:scale",
        "evidence": {"dram_pct": 81.4},
        "recommendation": "none",
    }


def verdict_lengths() -> dict[str, Any]:
    """Your verdict on `case_lengths_a`: two ranks train on texts, on two GPUs (a timeline)."""
    return {
        "category": "rank_imbalance",
        "subject": "rank:1",
        "evidence": {"collective_gap_ns": 70_915_298},
        "recommendation": "balance_ranks",
    }


def saving_ratio(finding: Finding) -> float | None:
    """The share of the time that would be saved without the cause that a finding names.

    The share is recoverable_ns over window_ns, or over duration_ns if the finding is about a single
    kernel and has no window. It is None if the evidence has no recoverable_ns, or neither of the
    two lengths. Such a finding is not about time (for example memory that grows).
    """
    evidence = finding.evidence
    whole = evidence.get("window_ns", evidence.get("duration_ns"))
    if whole is None or "recoverable_ns" not in evidence:
        return None
    return evidence["recoverable_ns"] / whole


def borderline(finding: Finding) -> bool:
    """Whether a verdict would change if its evidence changed a little.

    True if the evidence's margin_ratio is at most BORDERLINE_RATIO away from 0, on either side. Without
    margin_ratio, the margin is the saving's distance from FLOOR_RATIO. A finding that is not about time
    (see saving_ratio) and has no margin_ratio is not borderline.
    """
    margin = finding.evidence.get("margin_ratio")
    if margin is None:
        saving = saving_ratio(finding)
        if saving is None:
            return False
        margin = saving - FLOOR_RATIO
    return abs(margin) <= BORDERLINE_RATIO


def together(
    kernels: list[Finding], kernel_time_ns: dict[str, int], window_ns: int
) -> list[Finding]:
    """What findings on kernels would save in the run that the kernels are part of.

    kernels: as from classify_kernel (Day 2): subject "kernel:<name>", evidence with duration_ns and
    recoverable_ns, of the kernel alone and under the profiler. kernel_time_ns: by kernel name, the time
    in the run's window in which only this kernel ran. window_ns: the window's length.

    In the run a kernel saves the same share of its time as alone. That share is the sum of recoverable_ns
    over the sum of duration_ns, of all findings on that kernel. Multiply the share by the kernel's
    kernel_time_ns.

    Returns one finding for each kernel, in the order of the first finding on each. Leave out kernels without
    time in kernel_time_ns. Category and subject are those of the kernel's finding with the largest
    recoverable_ns (the first of equal ones). Keep the evidence of that finding, but with recoverable_ns for
    the run, and add "window_ns", "recoverable_ratio" (of the window), "margin_ratio" (recoverable_ratio minus
    FLOOR_RATIO) and "kernel_time_ratio" (the kernel's time over the window's).
    recommendation: the finding's own without its "borderline …: ", which was about the kernel alone. If
    the new margin_ratio is within BORDERLINE_RATIO of 0, the recommendation begins with "borderline: ".
    """
    groups: dict[str, list[Finding]] = {}
    for finding in kernels:
        groups.setdefault(finding.subject.removeprefix("kernel:"), []).append(finding)
    out = []
    for name, group in groups.items():
        time_ns = kernel_time_ns.get(name, 0)
        if not time_ns:
            continue
        worst = max(group, key=lambda finding: finding.evidence["recoverable_ns"])
        saved = sum(finding.evidence["recoverable_ns"] for finding in group)
        alone = sum(finding.evidence["duration_ns"] for finding in group)
        ratio = saved / alone * time_ns / window_ns
        evidence = {
            **worst.evidence,
            "recoverable_ns": ratio * window_ns,
            "window_ns": window_ns,
            "recoverable_ratio": ratio,
            "margin_ratio": ratio - FLOOR_RATIO,
            "kernel_time_ratio": time_ns / window_ns,
        }
        advice = worst.recommendation
        if advice.startswith("borderline"):
            advice = advice.partition(": ")[2]
        if abs(ratio - FLOOR_RATIO) <= BORDERLINE_RATIO:
            advice = f"borderline: {advice}"
        out.append(replace(worst, evidence=evidence, recommendation=advice))
    return out


def rank_findings(findings: list[Finding]) -> list[Finding]:
    """The findings of several functions on one run, in the order in which to fix them.

    First come findings that are not about time (saving_ratio is None), because memory that grows ends the
    program. Then come those that save at least FLOOR_RATIO, the largest recoverable_ns first. If several are equal, the
    category with the lower precedence number in `profiling_lab.findings.CATEGORIES` comes first. Of findings with the
    same category and the same subject, keep only the one with the largest recoverable_ns (the first of equal ones).
    Leave out "healthy", and findings that save less than FLOOR_RATIO.

    If nothing is left, return one finding: the healthy one with the largest recoverable_ns, or, if none is
    healthy, the finding with the largest. If several are equal, use the order above, then take the first. Returns [] if
    there are no findings.
    """
    timeless = [f for f in findings if saving_ratio(f) is None and f.category != "healthy"]
    timed = sorted(
        (f for f in findings if saving_ratio(f) is not None),
        key=lambda f: (-f.evidence["recoverable_ns"], CATEGORIES[f.category].precedence),
    )
    kept: dict[tuple[str, str], Finding] = {}
    for finding in timeless + timed:
        saving = saving_ratio(finding)
        if finding.category != "healthy" and (saving is None or saving >= FLOOR_RATIO):
            kept.setdefault((finding.category, finding.subject), finding)
    healthy = [finding for finding in timed if finding.category == "healthy"]
    return list(kept.values()) or (healthy or timed)[:1]


def diagnose_run(
    said: list[Finding],
    kernels: list[Finding],
    kernel_time_ns: dict[str, int],
    window_ns: int | None,
) -> list[Finding]:
    """One verdict on a run from everything that is known about it, the main finding first.

    said: the findings of your functions of the week on the run's timelines and traces. kernels: the
    findings of classify_kernel on the run's pages of kernels. kernel_time_ns, window_ns: as for
    `together`; window_ns is None if there are only pages.

    With a window, return rank_findings of said and of the kernels' findings by `together`.
    Without one, return said, ranked, followed by all findings on kernels (also limiters and small savings),
    the largest recoverable_ns first (equal ones in their given order).
    """
    if window_ns is not None:
        return rank_findings([*said, *together(kernels, kernel_time_ns, window_ns)])
    alone = sorted(kernels, key=lambda finding: -finding.evidence["recoverable_ns"])
    return rank_findings(said) + alone
