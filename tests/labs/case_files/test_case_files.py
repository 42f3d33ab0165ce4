"""Checks of `case_files.py`: verdicts by hand on recordings, then the code that weighs findings.

The numbers of a verdict are measured in the recording by `grading.checks.case_evidence`. A verdict
is judged in steps, and the first one is the number it brings for its own category, so that a category
that was guessed has to be measured before it is judged.
"""

from __future__ import annotations

import dataclasses
import gzip
import json
import math
import random
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from grading.checks import task
from grading.checks.assertions import near, require, show
from grading.checks.case_evidence import COLLECTIVE, KERNEL_KEYS, Case, open_case
from profiling_lab import captures
from profiling_lab.findings import CATEGORIES, Finding, problems

TOLERANCE_RATIO = 0.1
UNIT_HINT_RATIO = 0.01
FLOOR_RATIO = 0.10
BORDERLINE_RATIO = 0.02
FIXES = [
    "balance_ranks",
    "bigger_buckets",
    "copy_stream",
    "drop_waits",
    "dynamic_shapes",
    "graph_replay",
    "keep_allocator",
    "keep_more_code",
    "loader_workers",
    "more_streams",
    "nonblocking_streams",
    "none",
    "overlap_gradients",
    "pad_shared",
    "pin_memory",
    "prepare_on_device",
    "raise_occupancy",
    "tile_in_shared",
    "vector_loads",
]
ENTRIES = ("category", "subject", "evidence", "recommendation")


# --- what is said of a recording -------------------------------------------------------------------


def share(case: Case, ns: float) -> str:
    """A time as a share of the window, in whole percent."""
    ratio = ns / case.window_ns
    return f"{ratio:.0%}" if ratio >= 0.01 or not ns else "less than 1%"


def sampled_saving(case: Case) -> float:
    """What one change to the program saves of a step, by the samples it took of itself."""
    told = captures.provenance(case.name)["reported_by_program"]
    return 1 - statistics.median(told["fixed_ns"]) / statistics.median(told["sick_ns"])


def is_the_slower(case: Case) -> bool:
    """Whether the recorded steps are nearer in length to the slower variant's than to the other's."""
    told = captures.provenance(case.name)["reported_by_program"]
    step_ns = case.window_ns / told["recorded_steps"]
    variants = sorted(statistics.median(told[key]) for key in ("sick_ns", "fixed_ns"))
    return step_ns > math.sqrt(variants[0] * variants[1])


def contradiction(case: Case, claimed: str, device: int) -> str:
    """What in a recording speaks against a category, without naming another."""
    return _of_kernel(case, claimed) if case.kernels else _of_run(case, claimed, device)


def _of_run(case: Case, claimed: str, device: int) -> str:
    claimed = CATEGORIES[claimed].parent or claimed
    swept = case.sweep(device)
    idle, longest = swept["idle_ns"], swept["longest_gap_ns"]
    hardly = idle < FLOOR_RATIO * case.window_ns
    bound = f"the device is idle for {share(case, idle)} of the window"
    if claimed == "healthy":
        return (
            "the program timed two variants of itself in turns (provenance.json): one change took "
            f"{sampled_saving(case):.0%} off a step, so there is something to be found. The recorded steps "
            f"are those of {'the slower' if is_the_slower(case) else 'the faster'} one, by their length"
        )
    if claimed in ("launch_bound", "sync_bound", "host_bound", "allocation_bound") and hardly:
        return f"{bound}: whatever the host did faster, no more than that would be saved"
    if claimed == "launch_bound":
        return (
            f"the longest pause alone is {share(case, longest)} of the window; a device that waits for "
            "each launch pauses shortly before each kernel"
        )
    if claimed == "sync_bound":
        return f"the host waited for {share(case, case.calls_ns('Synchronize'))} of the window, and {bound}"
    if claimed == "host_bound" and case.compilations_ns:
        return (
            f"the longest pause is {share(case, longest)} of the window, and the program's own code "
            "does not run in it: read which operator does"
        )
    if claimed == "host_bound":
        return (
            f"the longest pause is {share(case, longest)} of the window, while {bound}: most of its "
            "pauses are short"
        )
    if claimed == "transfer_bound":
        return (
            f"copies run without a kernel beside them for {share(case, swept['copy_alone_ns'])} of the "
            f"window, and {bound}"
        )
    if claimed == "allocation_bound":
        spent = case.measure("allocating_ns") or 0
        return f"calls that allocate or free took {share(case, spent)} of the window, and {bound}"
    if claimed == "serialized_streams":
        return _of_streams(case, swept["one_stream_ns"])
    if claimed == "communication_bound" and len(case.devices) > 1:
        spent = [share(case, case.collectives_ns(each)) for each in case.devices]
        return (
            f"collectives take {' of the window on one device and '.join(spent)} on the other, though "
            "it is the same exchange, which ends for both at the same time"
        )
    if claimed == "communication_bound":
        return "the recording holds no collective"
    if claimed == "rank_imbalance":
        return "one device was recorded, so there is no rank to compare it with"
    if claimed == "recompilation":
        return "the recording holds no compilation"
    clocks = captures.provenance(case.name)["clocks"]["after"][0]
    return f"after the run the clock stood at {clocks['sm_mhz']} of {clocks['max_sm_mhz']} MHz"


def _of_streams(case: Case, one_ns: int) -> str:
    if len(case.streams) == 1:
        return "all kernels run on one stream: there is no other that could run beside it"
    exchanging = {op.stream for op in case.operations if COLLECTIVE in op.name}
    if len(set(case.streams) - exchanging) == 1:
        return (
            "one stream computes and the other one exchanges, and for "
            f"{1 - one_ns / case.window_ns:.0%} of the window they do so at the same time or not at all"
        )
    return f"for {one_ns / case.window_ns:.0%} of the window kernels of one stream alone ran"


def _of_kernel(case: Case, claimed: str) -> str:
    value = case.measure(KERNEL_KEYS[claimed]) or 0.0
    dram, cache, sm = (case.measure(key) or 0.0 for key in ("dram_pct", "cache_pct", "sm_pct"))
    if claimed == "cache_bound" and dram > 60:
        moved = case.metric("dram__bytes_read.sum") + case.metric("dram__bytes_write.sum")
        asked = 32 * case.metric("memory_l2_theoretical_sectors_global")
        return (
            f"DRAM moves {moved / asked:.2f} times what the kernel asks for: the caches keep nothing "
            "from it, they pass on"
        )
    if claimed in ("memory_bound", "cache_bound", "compute_bound", "latency_bound"):
        return (
            f"the busiest unit is at {max(dram, cache, sm):.0f} % of its peak (DRAM {dram:.0f} %, SM "
            f"{sm:.0f} %); and before a unit that is busy is called the limit, ask whether what keeps "
            "it busy has to be done"
        )
    return {
        "uncoalesced_access": f"of the bytes in the sectors that are moved {value:.0f} % are used",
        "bank_conflicts": f"{value:.0f} conflicts in shared memory were counted",
        "low_occupancy": f"{value:.0f} % of the warps that a multiprocessor can hold fit on it",
        "small_grid": f"the grid fills the device {value:.1f} times",
        "tail_effect": f"of {value:.1f} waves a partly filled last one is no large part",
        "divergence": f"an instruction is executed by {value:.1f} of 32 threads on average",
        "atomic_contention": f"{value:.0f} atomics were counted",
        "register_spills": f"{value:.0f} instructions for spilled registers were counted",
        "tensor_cores_unused": f"the multiprocessors are at {sm:.0f} % of their peak: next to no arithmetic",
    }[claimed]


# --- the cases ---------------------------------------------------------------------------------------

MORE_THAN_CAN_BE = "the device is idle for {idle} of the window, which is all that could be saved"


@dataclass(frozen=True)
class Truth:
    """A case: what its verdict must be, and what speaks against fixes that come close.

    category: the narrowest; its parent is right as well. near: fix → a sentence, with {idle}, {waiting} and {saving} of the recording.
    """

    capture: str
    category: str
    subjects: tuple[str, ...]
    fixes: tuple[str, ...]
    near: dict[str, str]


_ONE = ("device:0",)
TRUTHS = {
    "verdict_decoder": Truth(
        "case_decoder_a",
        "launch_bound",
        _ONE,
        ("graph_replay",),
        {
            "drop_waits": "all waits together take {waiting} of the window, the pauses {idle}",
            "more_streams": "the host issues one kernel after the other on however many streams",
            "loader_workers": "the step has no input but the last token, which nobody can prepare",
        },
    ),
    "verdict_vision": Truth(
        "case_vision_a",
        "transfer_bound",
        _ONE,
        ("copy_stream",),
        {
            "pin_memory": "every copy to the device comes from pinned memory already",
            "loader_workers": "the device is idle for {idle} of the window: it does not wait for batches "
            "to be made",
            "more_streams": "kernels on more streams leave the copies where they are",
        },
    ),
    "verdict_denoiser": Truth(
        "case_denoiser_b",
        "healthy",
        _ONE,
        ("none",),
        {"drop_waits": MORE_THAN_CAN_BE, "loader_workers": MORE_THAN_CAN_BE},
    ),
    "verdict_residual": Truth(
        "case_residual_a",
        "input_bound",
        _ONE,
        ("prepare_on_device", "loader_workers"),
        {
            "pin_memory": "in its long pauses the device has nothing to copy either",
            "copy_stream": "in its long pauses the device has nothing to copy either: the next batch is "
            "not there yet",
            "drop_waits": "all waits together take {waiting} of the window, the pauses {idle}",
            "graph_replay": "in its long pauses no kernel is issued at all",
        },
    ),
    "verdict_adversarial": Truth(
        "case_adversarial_a",
        "healthy",
        _ONE,
        ("none",),
        {
            "drop_waits": "the program without these waits was timed as well (provenance.json): it saves "
            "{saving} of a step",
            "graph_replay": MORE_THAN_CAN_BE,
        },
    ),
    "verdict_ensemble": Truth(
        "case_ensemble_a",
        "serialized_streams",
        _ONE,
        ("nonblocking_streams",),
        {
            "more_streams": "there are four already, and they take turns",
            "graph_replay": "the device is idle for {idle} of the window: it does not wait for launches",
            "drop_waits": "the device is idle for {idle} of the window: it works through the waits",
        },
    ),
    "verdict_speech": Truth(
        "case_speech_a",
        "recompilation",
        _ONE,
        ("dynamic_shapes",),
        {
            "keep_more_code": "what is compiled for one length is of no use to the next, however long it "
            "is kept",
            "graph_replay": "a recorded step has fixed shapes, and here they change from step to step",
            "loader_workers": "the input is a slice of what lies on the device already",
        },
    ),
    "verdict_turn": Truth(
        "case_turn_a",
        "uncoalesced_access",
        ("kernel:turn_by_rows",),
        ("tile_in_shared",),
        {
            "pad_shared": "the kernel uses no shared memory yet",
            "vector_loads": "wider loads read the rows faster, and the columns are still written a few "
            "bytes at a time",
            "raise_occupancy": "all warps that a multiprocessor can hold fit on it already",
        },
    ),
    "verdict_scale": Truth(
        "case_scale_a",
        "memory_bound",
        ("kernel:scale",),
        ("none",),
        {
            "vector_loads": "the kernel's arguments are arrays of float4: 16 bytes a thread",
            "raise_occupancy": "all warps that a multiprocessor can hold fit on it already",
            "tile_in_shared": "no value is read twice, so there is nothing to keep",
        },
    ),
    "verdict_lengths": Truth(
        "case_lengths_a",
        "rank_imbalance",
        ("rank:1", "device:1"),
        ("balance_ranks",),
        {
            "overlap_gradients": "a collective that starts earlier waits for the other rank all the same",
            "bigger_buckets": "fewer collectives wait for the other rank all the same",
            "drop_waits": "the hosts wait for their devices; it is one device that waits for the other",
        },
    ),
}


def judge_verdict(call: str, truth: Truth, got: Any) -> None:
    """Fail with what is wrong first: form, number, category, place or fix."""
    case = open_case(truth.capture)
    form = f"{call} returned {show(got)}, expected a dict of {', '.join(ENTRIES)}; see the top of the file"
    require(isinstance(got, dict) and got.keys() == set(ENTRIES), form)
    category, subject, evidence, fix = (got[entry] for entry in ENTRIES)
    require(
        isinstance(category, str) and category in case.keys,
        f"{call}: the category is {show(category)}; of {truth.capture} one of these can be said: "
        f"{', '.join(case.keys)}",
    )
    key = case.keys[category]
    require(
        isinstance(evidence, dict) and list(evidence) == [key],
        f"{call}: the evidence is {show(evidence)}; for {category} it is one number, {key}",
    )
    require(
        fix in FIXES,
        f"{call}: the recommendation is {show(fix)}, expected a key of FIXES: {', '.join(FIXES)}",
    )
    kind, _, place = subject.partition(":") if isinstance(subject, str) else ("", "", "")
    kinds = ("kernel",) if case.kernels else ("device", "rank")
    require(
        kind in kinds and bool(place),
        f"{call}: the subject is {show(subject)}; here it is of the form "
        f"{' or '.join(f'{kind}:…' for kind in kinds)}",
    )
    if not case.kernels:
        require(
            place in map(str, case.devices),
            f"{call}: the subject is {show(subject)}, and the recording holds only device "
            f"{', '.join(map(str, case.devices))}",
        )
    device = 0 if case.kernels else int(place)
    judge_number(call, case, category, key, evidence[key], device)
    require(
        category in (truth.category, CATEGORIES[truth.category].parent),
        f"{call}: the number is right, and {category!r} does not follow from it: "
        f"{contradiction(case, category, device)}",
    )
    named = any(subject == right or subject.startswith(f"{right}(") for right in truth.subjects)
    require(
        named,
        f"{call}: category and number hold, and the subject is {subject!r}. "
        + (
            f"{subject} comes first to each collective, and waits in it: look at whom it waits for"
            if len(case.devices) > 1
            else "Take the name from the recording"
        ),
    )
    if fix in truth.fixes:
        return
    words = {"saving": f"{sampled_saving(case):.0%}"}
    if not case.kernels:
        words["idle"] = share(case, case.sweep(device)["idle_ns"])
        words["waiting"] = share(case, case.calls_ns("Synchronize"))
    reason = truth.near.get(fix, "it does not touch what your verdict names").format(**words)
    if fix == "none":
        reason = (
            "the program timed two variants of itself in turns (provenance.json): one change took "
            f"{words['saving']} off a step"
        )
    require(
        False, f"{call}: category, number and subject hold. {fix!r} is not what helps: {reason}"
    )


def judge_number(call: str, case: Case, category: str, key: str, value: Any, device: int) -> None:
    """Fail unless a verdict's number is what the recording holds, whatever the category."""
    require(
        type(value) in (int, float) and abs(value) < 1e30,
        f"{call}: {key} is {show(value)}, expected a number",
    )
    want = case.measure(key, device)
    require(
        want is not None,
        f"{call}: {case.name} holds no record of {key}: {category} cannot be shown with it",
    )
    assert want is not None
    if near(value, want, rel=TOLERANCE_RATIO):
        return
    # Only what was measured is told of its unit: within a tenth, the hint would lead a search.
    others = (1e-9, 1e-6, 1e-3, 1e-2, 1e2, 1e3, 1e6, 1e9)
    unit = any(want and near(value * factor, want, rel=UNIT_HINT_RATIO) for factor in others)
    require(
        False,
        f"{call}: {key} is {show(value)}, which is not what {case.name} holds, by the definition in the "
        "lesson (within 10 %), so the verdict is not looked at yet. "
        + (f"Is it in the unit that {key} ends in?" if unit else "Measure it again."),
    )


@task("case_files.verdict_decoder")
def test_verdict_decoder(stub) -> None:
    judge_verdict("verdict_decoder()", TRUTHS["verdict_decoder"], stub.verdict_decoder())


@task("case_files.verdict_vision")
def test_verdict_vision(stub) -> None:
    judge_verdict("verdict_vision()", TRUTHS["verdict_vision"], stub.verdict_vision())


@task("case_files.verdict_denoiser")
def test_verdict_denoiser(stub) -> None:
    judge_verdict("verdict_denoiser()", TRUTHS["verdict_denoiser"], stub.verdict_denoiser())


@task("case_files.verdict_residual")
def test_verdict_residual(stub) -> None:
    judge_verdict("verdict_residual()", TRUTHS["verdict_residual"], stub.verdict_residual())


@task("case_files.verdict_adversarial")
def test_verdict_adversarial(stub) -> None:
    judge_verdict(
        "verdict_adversarial()", TRUTHS["verdict_adversarial"], stub.verdict_adversarial()
    )


@task("case_files.verdict_ensemble")
def test_verdict_ensemble(stub) -> None:
    judge_verdict("verdict_ensemble()", TRUTHS["verdict_ensemble"], stub.verdict_ensemble())


@task("case_files.verdict_speech")
def test_verdict_speech(stub) -> None:
    judge_verdict("verdict_speech()", TRUTHS["verdict_speech"], stub.verdict_speech())


@task("case_files.verdict_turn")
def test_verdict_turn(stub) -> None:
    judge_verdict("verdict_turn()", TRUTHS["verdict_turn"], stub.verdict_turn())


@task("case_files.verdict_scale")
def test_verdict_scale(stub) -> None:
    judge_verdict("verdict_scale()", TRUTHS["verdict_scale"], stub.verdict_scale())


@task("case_files.verdict_lengths")
def test_verdict_lengths(stub) -> None:
    judge_verdict("verdict_lengths()", TRUTHS["verdict_lengths"], stub.verdict_lengths())


# --- findings, made up -------------------------------------------------------------------------------


def found(
    category: str, subject: str = "device:0", advice: str = "mend it", **evidence: float
) -> Finding:
    return Finding(category, subject, evidence, advice)


def timed(
    category: str, saved: float, window: float = 1_000_000, subject: str = "device:0"
) -> Finding:
    """A finding of a timeline, as the week's functions make it."""
    ratio = saved / window
    return found(
        category,
        subject,
        recoverable_ns=saved,
        window_ns=window,
        recoverable_ratio=ratio,
        margin_ratio=ratio - FLOOR_RATIO,
    )


def on_kernel(name: str, category: str, saved: float, duration: float, advice: str) -> Finding:
    """A finding on a kernel alone, as `lab diagnose` makes it of classify_kernel."""
    return found(
        category,
        f"kernel:{name}",
        advice,
        duration_ns=duration,
        recoverable_ns=saved,
        recoverable_ratio=saved / duration,
        ceiling_ratio=0.5,
        margin_ratio=0.25,
        unjudged_count=0,
    )


GROWTH = found("memory_growth", growth_bytes=4096, step_end_bytes=1 << 20)


def brief(finding: Finding) -> str:
    """A finding in a few words."""
    saved = finding.evidence.get("recoverable_ns")
    return f"{finding.category} of {finding.subject}" + (
        f" ({saved:,.0f} ns)" if type(saved) in (int, float) else ""
    )


def judge_findings(call: str, got: Any, want: list[Finding], why: str) -> None:
    """Fail unless got are these findings in this order; evidence as numbers near each other."""
    require(
        isinstance(got, list) and all(isinstance(each, Finding) for each in got),
        f"{call} returned {show(got)}, expected a list of Finding",
    )
    names = [brief(finding) for finding in got]
    require(
        [(f.category, f.subject) for f in got] == [(f.category, f.subject) for f in want],
        f"{call} returned, in this order, {names or 'nothing'}; expected {len(want)} finding(s). {why}",
    )
    for place, (one, other) in enumerate(zip(got, want, strict=True)):
        require(not problems(one), f"{call}: finding {place}: {'; '.join(problems(one))}")
        require(
            one.evidence.keys() == other.evidence.keys(),
            f"{call}: the evidence of {brief(one)} has the keys {sorted(one.evidence)}, expected "
            f"{sorted(other.evidence)}",
        )
        for key, value in other.evidence.items():
            require(
                near(one.evidence[key], value, rel=1e-9, absolute=1e-6),
                f"{call}: {key} of {one.category} of {one.subject} is {show(one.evidence[key])}, "
                f"expected {show(value)}. {why}",
            )
        require(
            one.recommendation == other.recommendation,
            f"{call}: the recommendation of {brief(one)} is {one.recommendation!r}, expected "
            f"{other.recommendation!r}. {why}",
        )


@pytest.fixture
def chance(seed: int, request: pytest.FixtureRequest) -> random.Random:
    """Random numbers of this check and session."""
    return random.Random(f"{seed} {request.node.name}")


# --- the code ----------------------------------------------------------------------------------------


@task("case_files.saving_ratio")
def test_saving_ratio(stub, chance: random.Random) -> None:
    saved, window, duration = (chance.randrange(1, 10**10) for _ in range(3))
    cases = [
        (found("host_bound", recoverable_ns=saved, window_ns=window), saved / window),
        (
            found("divergence", "kernel:k", recoverable_ns=saved, duration_ns=duration),
            saved / duration,
        ),
        (
            found(
                "divergence",
                "kernel:k",
                recoverable_ns=saved,
                duration_ns=duration,
                window_ns=window,
            ),
            saved / window,
        ),
        (found("healthy", recoverable_ns=0, window_ns=window), 0.0),
        (found("host_bound", recoverable_ns=0, window_ns=window), 0.0),
        (
            found("sync_bound", "rank:1", recoverable_ns=saved, duration_ns=duration),
            saved / duration,
        ),
        (found("throttled", recoverable_ns=saved, window_ns=window), saved / window),
        (
            found(
                "divergence", "kernel:k", recoverable_ratio=2.0, recoverable_ns=1, window_ns=window
            ),
            1 / window,
        ),
        (GROWTH, None),
        (found("memory_growth", growth_bytes=1, window_ns=window), None),
        (found("throttled", clock_ratio=0.7, recoverable_ns=saved), None),
    ]
    for finding, want in cases:
        got = stub.saving_ratio(finding)
        right = got is None if want is None else near(got, want)
        require(
            right,
            f"saving_ratio({finding}) returned {show(got)}, expected {show(want)}: recoverable_ns over "
            "window_ns, else over duration_ns, and None where the evidence holds no such pair",
        )


@task("case_files.borderline")
def test_borderline(stub, chance: random.Random) -> None:
    inside, outside = chance.uniform(0, 0.0199), chance.uniform(0.0201, 0.5)
    cases: list[tuple[Finding, bool, str]] = []
    for margin in (inside, -inside, 0.0, 0.02, -0.02, outside, -outside, 0.02001, -0.02001):
        for category, subject in (("host_bound", "device:0"), ("divergence", "kernel:k")):
            finding = found(
                category, subject, recoverable_ns=500, window_ns=1000, margin_ratio=margin
            )
            close = abs(margin) <= BORDERLINE_RATIO
            cases.append((finding, close, f"its margin_ratio is {margin:.5f}"))
    for saved in (119, 81, 100, 121, 79, 900, 0):
        cases.append(
            (
                found("sync_bound", recoverable_ns=saved, window_ns=1000),
                abs(saved - 100) <= 20,
                f"it has no margin_ratio, and saves {saved / 1000:.1%} of the window",
            )
        )
        cases.append(
            (
                found(
                    "divergence",
                    "kernel:k",
                    recoverable_ns=saved,
                    duration_ns=1000,
                    recoverable_ratio=0.1,
                ),
                abs(saved - 100) <= 20,
                f"it has no margin_ratio, and saves {saved / 1000:.1%} of the kernel",
            )
        )
    cases.append((GROWTH, False, "it is not about time, and has no margin_ratio"))
    cases.append(
        (
            found("memory_growth", growth_bytes=1, margin_ratio=0.01),
            True,
            "its margin_ratio is 0.01",
        )
    )
    cases.append(
        (
            found("memory_growth", growth_bytes=1, margin_ratio=0.3),
            False,
            "its margin_ratio is 0.3",
        )
    )
    for finding, want, reason in cases:
        got = stub.borderline(finding)
        require(
            got is want,
            f"borderline({finding}) returned {show(got)}, expected {want}: {reason}, and up to "
            f"{BORDERLINE_RATIO} on either side of another verdict is borderline",
        )


WEIGHED = (
    "A kernel saves a share of its time in the run. Its share is recoverable_ns over duration_ns, added up over "
    "its findings"
)


def weighed(kernels: list[Finding], time_ns: dict[str, int], window: int) -> list[Finding]:
    """`together`, in another way: kernel by kernel."""
    out = []
    for name in dict.fromkeys(finding.subject.split(":", 1)[1] for finding in kernels):
        if time_ns.get(name, 0) <= 0:
            continue
        own = [f for f in kernels if f.subject == f"kernel:{name}"]
        top = sorted(own, key=lambda f: f.evidence["recoverable_ns"])[-1]
        top = next(f for f in own if f.evidence["recoverable_ns"] == top.evidence["recoverable_ns"])
        saved, length = (
            sum(f.evidence[key] for f in own) for key in ("recoverable_ns", "duration_ns")
        )
        saved = time_ns[name] * saved / length
        margin = saved / window - FLOOR_RATIO
        advice = top.recommendation
        if advice.startswith("borderline"):
            advice = advice[advice.index(": ") + 2 :]
        if -BORDERLINE_RATIO <= margin <= BORDERLINE_RATIO:
            advice = f"borderline: {advice}"
        evidence = top.evidence | {
            "recoverable_ns": saved,
            "window_ns": window,
            "recoverable_ratio": saved / window,
            "margin_ratio": margin,
            "kernel_time_ratio": time_ns[name] / window,
        }
        out.append(dataclasses.replace(top, evidence=evidence, recommendation=advice))
    return out


@task("case_files.together")
def test_together_one_kernel(stub) -> None:
    kernels = [on_kernel("add_up", "small_grid", 900.0, 1000.0, "more blocks")]
    got = stub.together(kernels, {"add_up": 400_000}, 1_000_000)
    want = weighed(kernels, {"add_up": 400_000}, 1_000_000)
    judge_findings("together of one kernel with 40 % of the window", got, want, WEIGHED)


@task("case_files.together")
def test_together_a_kernel_that_hardly_counts(stub) -> None:
    kernels = [
        on_kernel("rare", "bank_conflicts", 990.0, 1000.0, "pad"),
        on_kernel("frequent", "divergence", 300.0, 1000.0, "sort: by length"),
    ]
    times = {"rare": 2_000, "frequent": 700_000, "other": 290_000}
    got = stub.together(kernels, times, 1_000_000)
    judge_findings(
        "together of a bad, rare kernel and a better, frequent one",
        got,
        weighed(kernels, times, 1_000_000),
        WEIGHED,
    )


@task("case_files.together")
def test_together_what_does_not_run_is_left_out(stub) -> None:
    kernels = [
        on_kernel("gone", "divergence", 500.0, 1000.0, "sort"),
        on_kernel("no_time", "divergence", 500.0, 1000.0, "sort"),
        on_kernel("held", "divergence", 500.0, 1000.0, "sort"),
    ]
    times = {"no_time": 0, "other": 1000, "held": 5000}
    got = stub.together(kernels, times, 10_000)
    judge_findings(
        "together of kernels that the run does not hold, or for 0 ns",
        got,
        weighed(kernels, times, 10_000),
        "The run holds only the last of these kernels: the others save nothing in it",
    )
    judge_findings(
        "together of no kernels", stub.together([], {"other": 10}, 100), [], "There is none"
    )


@task("case_files.together")
def test_together_borderline_is_about_the_run(stub) -> None:
    kernels = [
        on_kernel("a", "divergence", 500.0, 1000.0, "borderline (by 1.0% of the duration): sort"),
        on_kernel("b", "low_occupancy", 500.0, 1000.0, "use less: shared memory"),
        on_kernel("c", "memory_bound", 10.0, 1000.0, "borderline (by 2.9% of the duration): none"),
        on_kernel(
            "d", "divergence", 500.0, 1000.0, "borderline (by 1.0%): use less: shared memory"
        ),
        on_kernel("e", "divergence", 500.0, 1000.0, "where it is borderline: measure"),
        on_kernel("f", "divergence", 990.0, 1000.0, "borderline: sort"),
        on_kernel("g", "divergence", 500.0, 1000.0, "sort"),
    ]
    times = {"a": 800_000, "b": 210_000, "c": 100_000, "d": 180_000, "e": 4_000, "f": 990_000}
    times["g"] = 161_000
    got = stub.together(kernels, times, 1_000_000)
    judge_findings(
        "together",
        got,
        weighed(kernels, times, 1_000_000),
        "Whether a finding is borderline is decided again for the run: by the margin there, not the one "
        "of the kernel alone",
    )


@task("case_files.together")
def test_together_names_are_whole(stub) -> None:
    """Names that others begin with, or hold; and evidence of another kind of finding."""
    names = ("sum", "at::native::sum", "sum_rows", "kernel:sum")
    kernels = [
        found(
            "bank_conflicts",
            f"kernel:{name}",
            "pad",
            duration_ns=1000.0,
            recoverable_ns=300.0 + place,
            conflicts_count=7 + place,
            margin_ratio=0.25,
        )
        for place, name in enumerate(names)
    ]
    every = {name: 100_000 * (place + 1) for place, name in enumerate(names)}
    for times in (every, {"sum_rows": 900_000, "a_sum": 50_000}, {"at::native::sum": 500_000}):
        judge_findings(
            f"together of kernels {', '.join(names)} in a run of {', '.join(times)}",
            stub.together(kernels, times, 1_000_000),
            weighed(kernels, times, 1_000_000),
            "A kernel's time is the one under its own, whole name, and its finding keeps its evidence",
        )


@task("case_files.together")
def test_together_several_findings_on_a_kernel(stub, chance: random.Random) -> None:
    for _ in range(5):
        kernels, times = [], {}
        for name in ("a", "b", "c"):
            times[name] = chance.randrange(1_000, 300_000)
            for _ in range(chance.randrange(1, 4)):
                duration = chance.randrange(1_000, 90_000)
                saved = duration * chance.random() * 0.9
                category = chance.choice(["divergence", "low_occupancy", "cache_bound"])
                kernels.append(on_kernel(name, category, saved, duration, f"mend {category}"))
        chance.shuffle(kernels)
        got = stub.together(kernels, times, 900_000)
        judge_findings(
            f"together of {len(kernels)} findings on three kernels",
            got,
            weighed(kernels, times, 900_000),
            WEIGHED
            + "; one finding a kernel, named after its worst, in the order in which kernels come",
        )
    twice = [
        on_kernel("a", "divergence", 500.0, 1000.0, "sort"),
        on_kernel("a", "low_occupancy", 500.0, 2000.0, "room"),
    ]
    judge_findings(
        "together of two findings with the same saving",
        stub.together(twice, {"a": 1000}, 2000),
        weighed(twice, {"a": 1000}, 2000),
        "Of equal ones the first gives category and recommendation",
    )


ORDER = (
    "Findings that are not about time come first, then the finding that saves the most. Findings that are healthy or "
    f"save less than {FLOOR_RATIO:.0%} of their window count only if no other finding is left"
)


def ranked(findings: list[Finding]) -> list[Finding]:
    """`rank_findings`, in another way: take out the best of what is left, again and again."""
    timeless = [
        f for f in findings if f.category != "healthy" and "recoverable_ns" not in f.evidence
    ]
    worth = [
        f
        for f in findings
        if f.category != "healthy"
        and "recoverable_ns" in f.evidence
        and f.evidence["recoverable_ns"] / _whole(f) >= FLOOR_RATIO
    ]
    out: list[Finding] = []
    for pool in (timeless, worth):
        pool = list(pool)
        while pool:
            best = pool[0]
            for one in pool[1:]:
                more, most = (f.evidence.get("recoverable_ns", 0) for f in (one, best))
                sooner = CATEGORIES[one.category].precedence < CATEGORIES[best.category].precedence
                if pool is not timeless and (more > most or (more == most and sooner)):
                    best = one if "recoverable_ns" in one.evidence else best
            pool.remove(best)
            if not any((f.category, f.subject) == (best.category, best.subject) for f in out):
                out.append(best)
    if out or not findings:
        return out
    rest = [f for f in findings if f.category == "healthy"] or list(findings)
    most = max(f.evidence["recoverable_ns"] for f in rest)
    equal = [f for f in rest if f.evidence["recoverable_ns"] == most]
    least = min(CATEGORIES[f.category].precedence for f in equal)
    return [next(f for f in equal if CATEGORIES[f.category].precedence == least)]


def _whole(finding: Finding) -> float:
    return finding.evidence.get("window_ns") or finding.evidence["duration_ns"]


@task("case_files.rank_findings")
def test_rank_by_what_is_saved(stub) -> None:
    findings = [
        timed("transfer_bound", 200_000),
        timed("launch_bound", 400_000),
        timed("sync_bound", 20_000),
        timed("rank_imbalance", 300_000, subject="rank:1"),
    ]
    judge_findings("rank_findings", stub.rank_findings(findings), ranked(findings), ORDER)


@task("case_files.rank_findings")
def test_rank_the_largest_saving_not_the_largest_share(stub) -> None:
    findings = [
        timed("host_bound", 90_000, window=100_000, subject="rank:1"),
        timed("communication_bound", 400_000, window=1_000_000, subject="rank:0"),
    ]
    judge_findings(
        "rank_findings of findings with windows of different length",
        stub.rank_findings(findings),
        ranked(findings),
        "90,000 ns of a short window are less than 400,000 ns of a long one",
    )


@task("case_files.rank_findings")
def test_rank_memory_that_grows_first(stub) -> None:
    findings = [timed("launch_bound", 900_000), timed("healthy", 1_000), GROWTH]
    judge_findings("rank_findings", stub.rank_findings(findings), ranked(findings), ORDER)


@task("case_files.rank_findings")
def test_rank_ties_by_precedence(stub) -> None:
    findings = [
        timed("host_bound", 300_000),
        timed("transfer_bound", 300_000),
        timed("allocation_bound", 300_000),
    ]
    judge_findings(
        "rank_findings of findings that save the same",
        stub.rank_findings(findings),
        ranked(findings),
        "Of equal savings the category with the lower precedence number comes first",
    )


@task("case_files.rank_findings")
def test_rank_nothing_worth_it(stub) -> None:
    healthy = [
        timed("healthy", 20_000),
        timed("sync_bound", 70_000),
        timed("healthy", 60_000, subject="rank:1"),
        timed("healthy", 60_000, subject="rank:2"),
    ]
    judge_findings(
        "rank_findings where nothing reaches the floor",
        stub.rank_findings(healthy),
        ranked(healthy),
        "One finding says so: the healthy one that comes closest",
    )
    small = [timed("sync_bound", 70_000), timed("host_bound", 80_000)]
    judge_findings(
        "rank_findings of small findings alone",
        stub.rank_findings(small),
        ranked(small),
        "Without a healthy one, return the one that saves most",
    )
    judge_findings("rank_findings([])", stub.rank_findings([]), [], "Nothing was found")


@task("case_files.rank_findings")
def test_rank_the_floor_belongs_to_what_counts(stub) -> None:
    findings = [
        timed("sync_bound", 100_000),
        timed("host_bound", 99_999),
        timed("healthy", 500_000),
    ]
    judge_findings(
        f"rank_findings with a saving of exactly {FLOOR_RATIO:.0%}",
        stub.rank_findings(findings),
        ranked(findings),
        ORDER,
    )


@task("case_files.rank_findings")
def test_rank_a_hair_below_the_floor(stub) -> None:
    findings = [
        found("sync_bound", recoverable_ns=99_999_999, window_ns=10**9),
        found("host_bound", recoverable_ns=10**8, window_ns=10**9),
        found("divergence", "kernel:k", recoverable_ns=500, duration_ns=1_000),
        found("low_occupancy", "kernel:l", recoverable_ns=50, duration_ns=1_000),
    ]
    judge_findings(
        "rank_findings of findings that carry no margin_ratio, two of them on kernels alone",
        stub.rank_findings(findings),
        ranked(findings),
        f"What counts is saving_ratio, and whether it reaches {FLOOR_RATIO:.0%}",
    )


@task("case_files.rank_findings")
def test_rank_all_that_is_not_about_time(stub) -> None:
    findings = [
        timed("host_bound", 300_000),
        GROWTH,
        dataclasses.replace(GROWTH, subject="device:1"),
        found("throttled", clock_ratio=0.7),
    ]
    judge_findings("rank_findings", stub.rank_findings(findings), ranked(findings), ORDER)


@task("case_files.rank_findings")
@pytest.mark.parametrize("category", ["healthy", "sync_bound"])
def test_rank_nothing_worth_it_in_windows_of_different_length(stub, category: str) -> None:
    findings = [
        timed(category, 9_000, window=100_000),
        timed(category, 20_000, window=1_000_000, subject="rank:1"),
        timed("host_bound", 10_000, window=1_000_000),
    ]
    judge_findings(
        "rank_findings of small findings in windows of different length",
        stub.rank_findings(findings),
        ranked(findings),
        "If nothing is worth it, return the largest recoverable_ns, not the largest share",
    )


@task("case_files.rank_findings")
def test_rank_each_thing_once(stub) -> None:
    findings = [
        timed("transfer_bound", 200_000),
        timed("transfer_bound", 350_000),
        timed("transfer_bound", 300_000, subject="device:1"),
        timed("transfer_bound", 250_000, subject="rank:0"),
        GROWTH,
        GROWTH,
    ]
    judge_findings(
        "rank_findings of two tools that found the same",
        stub.rank_findings(findings),
        ranked(findings),
        "Of one category and subject only the finding with the largest saving stays",
    )


CHOICES = (
    "sync_bound",
    "launch_bound",
    "host_bound",
    "transfer_bound",
    "healthy",
    "rank_imbalance",
)


def drawn(chance: random.Random) -> list[Finding]:
    """Random findings on two devices, some of them equal, some of them about memory."""
    findings = [
        timed(
            chance.choice(CHOICES),
            chance.choice([0, 50_000, 99_000, 120_000, 120_000, chance.randrange(1_000_000)]),
            chance.choice([1_000_000, 1_000_000, 600_000]),
            chance.choice(["device:0", "device:1"]),
        )
        for _ in range(chance.randrange(1, 9))
    ]
    if chance.random() < 0.3:
        findings.append(GROWTH)
    chance.shuffle(findings)
    return findings


@task("case_files.rank_findings")
def test_rank_drawn(stub, chance: random.Random) -> None:
    for _ in range(20):
        findings = drawn(chance)
        given = [brief(finding) for finding in findings]
        judge_findings(
            f"rank_findings of {given}", stub.rank_findings(findings), ranked(findings), ORDER
        )


@task("case_files.diagnose_run")
def test_run_of_timelines_alone(stub, chance: random.Random) -> None:
    for _ in range(10):
        said = drawn(chance)
        given = [brief(finding) for finding in said]
        for window in (1_000_000, None):
            got = stub.diagnose_run(said, [], {}, window)
            judge_findings(f"diagnose_run of {given}, no kernels", got, ranked(said), ORDER)


@task("case_files.diagnose_run")
def test_run_of_a_kernel_that_fills_it(stub) -> None:
    said = [timed("healthy", 3_000)]
    kernels = [on_kernel("add_up", "small_grid", 950.0, 1000.0, "more blocks")]
    times = {"add_up": 980_000}
    want = weighed(kernels, times, 1_000_000)
    got = stub.diagnose_run(said, kernels, times, 1_000_000)
    judge_findings(
        "diagnose_run of a timeline that says healthy, and a kernel that fills it",
        got,
        want,
        "The timeline cannot see into the kernel, and the kernel takes 98 % of the window",
    )


@task("case_files.diagnose_run")
def test_run_of_a_kernel_that_hardly_counts(stub) -> None:
    said = [timed("launch_bound", 400_000)]
    kernels = [on_kernel("rare", "bank_conflicts", 9_900.0, 10_000.0, "pad")]
    got = stub.diagnose_run(said, kernels, {"rare": 20_000}, 1_000_000)
    judge_findings(
        "diagnose_run of a timeline, and a bad kernel that takes 2 % of it",
        got,
        said,
        "The kernel saves 99 % of itself, and 2 % of the run",
    )
    both = [*kernels, on_kernel("main", "divergence", 800.0, 1_000.0, "sort")]
    times = {"rare": 20_000, "main": 600_000}
    want = [weighed(both, times, 1_000_000)[1], *said]
    judge_findings(
        "diagnose_run of a timeline and two kernels",
        stub.diagnose_run(said, both, times, 1_000_000),
        want,
        ORDER,
    )


@task("case_files.diagnose_run")
def test_run_of_pages_alone(stub) -> None:
    kernels = [
        on_kernel("scale", "memory_bound", 30.0, 1_000.0, "none"),
        on_kernel("turn", "uncoalesced_access", 800.0, 1_000.0, "neighbours"),
        on_kernel("forces", "compute_bound", 30.0, 9_000.0, "none"),
    ]
    want = [kernels[1], kernels[0], kernels[2]]
    judge_findings(
        "diagnose_run of pages of kernels without a timeline",
        stub.diagnose_run([], kernels, {}, None),
        want,
        "Nothing says how much of the run a kernel takes, so each stays as it is: also one at its ceiling",
    )
    said = [
        timed("healthy", 1_000),
        timed("sync_bound", 200_000),
        timed("host_bound", 300_000),
        timed("launch_bound", 20_000),
    ]
    kernels = [
        on_kernel("sum", "tail_effect", 500.0, 900_000.0, "more blocks"),
        on_kernel("turn", "uncoalesced_access", 800_000.0, 900_000.0, "neighbours"),
        on_kernel("turn", "uncoalesced_access", 700_000.0, 900_000.0, "neighbours"),
        on_kernel("sort", "memory_bound", 500.0, 900_000.0, "none"),
    ]
    judge_findings(
        "diagnose_run of what was said of a trace, and pages of kernels without a timeline",
        stub.diagnose_run(said, kernels, {}, None),
        [said[2], said[1], kernels[1], kernels[2], kernels[0], kernels[3]],
        "What was said comes first, ranked; behind it all findings on kernels, the largest "
        "recoverable_ns first and equal ones as they came",
    )
    judge_findings("diagnose_run of nothing", stub.diagnose_run([], [], {}, None), [], "")


@task("case_files.diagnose_run")
def test_run_ranks_all_that_counts(stub) -> None:
    said = [timed("launch_bound", 150_000), timed("host_bound", 120_000), GROWTH]
    kernels = [
        on_kernel(name, "divergence", saved, 1_000.0, "sort")
        for name, saved in (("a", 500.0), ("b", 700.0), ("c", 900.0))
    ]
    times = {"a": 260_000, "b": 250_000, "c": 240_000}
    run = weighed(kernels, times, 1_000_000)
    judge_findings(
        "diagnose_run of a timeline and three kernels",
        stub.diagnose_run(said, kernels, times, 1_000_000),
        [GROWTH, run[2], run[1], said[0], run[0], said[1]],
        ORDER,
    )
    judge_findings(
        "diagnose_run of a timeline that holds none of the kernels",
        stub.diagnose_run(said, kernels, {}, 1_000_000),
        [GROWTH, *said[:2]],
        "The run holds none of these kernels, so nothing is saved there",
    )


@pytest.fixture(scope="module")
def cases() -> dict[str, dict[str, Any]]:
    """What the references of the week said about each case, and what was planted in it."""
    text = gzip.decompress(Path(__file__).with_name("cases.json.gz").read_bytes())
    return json.loads(text)


def as_findings(rows: list[dict[str, Any]]) -> list[Finding]:
    return [Finding(**row) for row in rows]


@task("case_files.diagnose_run")
def test_run_of_every_case(stub, cases: dict[str, dict[str, Any]]) -> None:
    wrong = []
    for name, case in cases.items():
        said, kernels = as_findings(case["said"]), as_findings(case["kernels"])
        got = stub.diagnose_run(said, kernels, case["kernel_time_ns"], case["window_ns"])
        require(
            isinstance(got, list) and bool(got) and isinstance(got[0], Finding),
            f"diagnose_run on {name} returned {show(got)}, expected a list of Finding",
        )
        main = got[0].category
        if main != case["expect"] or main in case["must_not"]:
            given = ", ".join(brief(finding) for finding in said + kernels)
            wrong.append(f"{name}: you name {brief(got[0])} first; said was: {given}")
    right = len(cases) - len(wrong)
    require(
        not wrong,
        f"diagnose_run is right on {right} of {len(cases)} case files. Ask of each what would be saved in "
        "the run: " + "; ".join(wrong[:3]),
    )
