"""Checks of `ncu_ex01`: addresses drawn at random, counters recorded and made up, printed reports."""

from __future__ import annotations

import math
import random
import statistics
from fractions import Fraction
from typing import Any

import pytest

from grading.checks import ncu, task
from grading.checks.assertions import judge, judge_kernel_finding, near, require, show
from grading.checks.fixtures import recordings
from profiling_lab import captures
from profiling_lab.errors import MissingTable

KERNELS = recordings("ncu_bandwidth_small", "ncu_memory", holding="kernels.csv")

LOADS = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"
STORES = "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"
LOAD_USE = "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio"
STORE_USE = "smsp__sass_average_data_bytes_per_sector_mem_global_op_st.ratio"
FROM_L2 = "l1tex__m_xbar2l1tex_read_bytes.sum"
TO_L2 = "l1tex__m_l1tex2xbar_write_bytes.sum"
FROM_DRAM, TO_DRAM = "dram__bytes_read.sum", "dram__bytes_write.sum"
FLOW = (LOADS, STORES, LOAD_USE, STORE_USE, FROM_L2, TO_L2, FROM_DRAM, TO_DRAM)
DURATION = "gpu__time_duration.sum"
SECTORS, IDEAL = (
    "memory_l2_theoretical_sectors_global",
    "memory_l2_theoretical_sectors_global_ideal",
)
LOCAL = "memory_l2_theoretical_sectors_local"
DRAM = "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"
L2 = (
    "lts__t_sectors.avg.pct_of_peak_sustained_elapsed",
    "lts__t_tag_requests.avg.pct_of_peak_sustained_elapsed",
    "lts__lts2xbar_cycles_active.avg.pct_of_peak_sustained_elapsed",
    "lts__xbar2lts_cycles_active.avg.pct_of_peak_sustained_elapsed",
)
L1 = "l1tex__throughput.avg.pct_of_peak_sustained_elapsed"
SM = "sm__instruction_throughput.avg.pct_of_peak_sustained_elapsed"
VERDICT = (*FLOW, DURATION, SECTORS, IDEAL, LOCAL, DRAM, *L2, L1, SM)


def made(metrics: dict[str, Any], name: str = "made(float *, int)") -> dict[str, Any]:
    """A kernel with these metrics, in base units."""
    return {
        "name": name,
        "grid": (1024, 1, 1),
        "block": (256, 1, 1),
        "cc": "9.0",
        "metrics": metrics,
    }


def recorded(capture: str, names: tuple[str, ...]) -> list[dict[str, Any]]:
    """The kernels of a recording, each with the metrics that a function needs."""
    return [
        kernel | {"metrics": {name: kernel["metrics"][name] for name in names}}
        for kernel in ncu.kernels(capture)
    ]


# -- warp_sectors -------------------------------------------------------------------------------------

PATTERNS = {
    "neighbours": lambda lane, size, chance: lane * size,
    "stride of 2": lambda lane, size, chance: 2 * lane * size,
    "stride of 3": lambda lane, size, chance: 3 * lane * size,
    "a row each": lambda lane, size, chance: lane * 4096,
    "the same address": lambda lane, size, chance: 0,
    "pairs": lambda lane, size, chance: lane // 2 * size,
    "anywhere": lambda lane, size, chance: size * chance.randrange(200),
}


def touched(addresses: list[int | None], size: int) -> dict[str, Any]:
    """The same by marking single bytes."""
    used = {a + k for a in addresses if a is not None for k in range(size)}
    sectors = {byte // 32 for byte in used}
    share = float(Fraction(len(used), 32 * len(sectors))) if sectors else 0.0
    return {
        "sectors_count": len(sectors),
        "ideal_count": math.ceil(len(used) / 32),
        "used_ratio": share,
    }


@task("ncu_ex01.warp_sectors")
@pytest.mark.parametrize("pattern", PATTERNS)
def test_sectors_of_a_pattern(stub, seed, pattern):
    chance = random.Random(f"{pattern} {seed}")
    for size in (1, 2, 4, 8, 16):
        start = size * chance.randrange(1, 64)
        addresses = [start + PATTERNS[pattern](lane, size, chance) for lane in range(32)]
        judge(
            f"warp_sectors({show(addresses)}, {size}), {pattern}",
            stub.warp_sectors(addresses, size),
            touched(addresses, size),
            "sectors of 32 bytes",
            {
                "sectors_count": "A sector begins at a multiple of 32 bytes, and each one that any "
                "lane touches is looked up once.",
                "ideal_count": "As many different bytes, side by side from a sector's start.",
                "used_ratio": "A byte that several lanes name is one byte.",
            },
        )


@task("ncu_ex01.warp_sectors")
def test_lanes_that_take_no_part(stub, seed):
    chance = random.Random(seed)
    addresses = [4 * lane if chance.random() < 0.5 else None for lane in range(32)]
    cases: list[list[int | None]] = [addresses, [0, None, 8], [None] * 32, [64]]
    for some in cases:
        judge(
            f"warp_sectors({show(some)}, 4)",
            stub.warp_sectors(some, 4),
            touched(some, 4),
            "sectors of 32 bytes",
            dict.fromkeys(
                ("sectors_count", "ideal_count", "used_ratio"),
                "A lane without an address (None) takes no part; without any lane there is no request.",
            ),
        )


@task("ncu_ex01.warp_sectors")
def test_what_the_device_refuses(stub):
    for addresses, size, word in (
        ([0, 6], 4, "6"),
        ([8], 16, "8"),
        ([-4], 4, "-4"),
        ([-1], 1, "-1"),
        ([0], 12, "12"),
        ([0], 32, "32"),
        ([], 4, ""),
        ([0] * 33, 4, "33"),
    ):
        with stub.raises(ValueError, word, "no device makes such an access"):
            stub.warp_sectors(addresses, size)


# -- byte_flow ----------------------------------------------------------------------------------------


def flow_of(metrics: dict[str, Any]) -> dict[str, dict[str, float]]:
    return {
        "read": {
            "asked_bytes": metrics[LOADS] * metrics[LOAD_USE],
            "l1_bytes": 32 * metrics[LOADS],
            "l2_bytes": metrics[FROM_L2],
            "dram_bytes": metrics[FROM_DRAM],
        },
        "write": {
            "asked_bytes": metrics[STORES] * metrics[STORE_USE],
            "l1_bytes": 32 * metrics[STORES],
            "l2_bytes": metrics[TO_L2],
            "dram_bytes": metrics[TO_DRAM],
        },
    }


def judge_flow(call: str, got: Any, want: dict[str, dict[str, float]]) -> None:
    require(
        isinstance(got, dict) and got.keys() == want.keys(),
        f"{call} returned {show(got)}, expected a dict of: read, write",
    )
    for way in want:
        for key, value in want[way].items():
            found = got[way].get(key) if isinstance(got[way], dict) else None
            require(
                near(found, float(value), rel=1e-9),
                f"{call}: {way}, {key} is {show(found)}, expected {show(float(value))} bytes. The "
                "contract names the counter of each level; a sector is 32 bytes, used or not.",
            )


def drawn(chance: random.Random) -> dict[str, Any]:
    """Counters of a kernel that reads and writes, with caches that keep a part."""
    out: dict[str, Any] = {}
    for sectors, use, between, dram in (
        (LOADS, LOAD_USE, FROM_L2, FROM_DRAM),
        (STORES, STORE_USE, TO_L2, TO_DRAM),
    ):
        count = chance.randrange(10_000, 10_000_000)
        passed = 32 * int(count * chance.uniform(0.1, 1))
        out |= {
            sectors: count,
            use: chance.choice((4.0, 16.0, 32.0, chance.uniform(1, 32))),
            between: passed,
            dram: int(passed * chance.choice((chance.uniform(0.05, 1), chance.uniform(1, 2.2)))),
        }
    return out


@task("ncu_ex01.byte_flow")
@KERNELS
def test_flow_of_recorded_kernels(stub, recording):
    for kernel in recorded(recording, FLOW):
        call = f"byte_flow({ncu.short(kernel['name'])} of {recording})"
        judge_flow(call, stub.byte_flow(kernel), flow_of(kernel["metrics"]))


@task("ncu_ex01.byte_flow")
def test_flow_of_made_up_kernels(stub, seed):
    chance = random.Random(seed)
    for _ in range(3):
        metrics = drawn(chance)
        judge_flow(f"byte_flow({show(metrics)})", stub.byte_flow(made(metrics)), flow_of(metrics))
    nothing = made(dict.fromkeys(FLOW, 0))
    judge_flow("byte_flow(only zeros)", stub.byte_flow(nothing), flow_of(nothing["metrics"]))


@task("ncu_ex01.byte_flow")
def test_flow_that_was_not_recorded(stub, seed):
    chance = random.Random(seed)
    for name in FLOW:
        metrics = drawn(chance)
        if chance.random() < 0.5:
            metrics[name] = None
        else:
            del metrics[name]
        why = f"{name} was not measured, and a missing counter is not 0"
        with stub.raises(MissingTable, name.replace(".", r"\."), why):
            stub.byte_flow(made(metrics))
    (kernel, *_) = ncu.kernels("ncu_memory_basic")
    with stub.raises(MissingTable, "__", "the set `basic` has no tables of memory"):
        stub.byte_flow(kernel)


# -- served_by ----------------------------------------------------------------------------------------


def shares_of(metrics: dict[str, Any]) -> dict[str, float] | None:
    asked = Fraction(metrics[LOADS]) * 32
    if not asked:
        return None
    from_l2 = min(Fraction(metrics[FROM_L2]), asked)
    dram = min(Fraction(metrics[FROM_DRAM]), from_l2)
    more = Fraction(metrics[FROM_DRAM]) - Fraction(metrics[FROM_L2])
    over = max(Fraction(0), more) / Fraction(metrics[FROM_L2]) if metrics[FROM_L2] else Fraction(0)
    return {
        "l1_ratio": float(1 - from_l2 / asked),
        "l2_ratio": float((from_l2 - dram) / asked),
        "dram_ratio": float(dram / asked),
        "overfetch_ratio": float(over),
    }


def judge_shares(call: str, got: Any, want: dict[str, float] | None) -> None:
    if want is None:
        require(got is None, f"{call} returned {show(got)}, expected None: it has no loads")
        return
    judge(
        call,
        got,
        want,
        "share of the bytes that loads looked up in L1",
        {
            "l1_ratio": "L1 had the bytes that it did not request from L2.",
            "l2_ratio": "L2 had the bytes that it did not request from DRAM.",
            "dram_ratio": "DRAM delivered at most what L2 sent on.",
            "overfetch_ratio": "Delivered by DRAM beyond what L2 sent to L1.",
        },
    )


@task("ncu_ex01.served_by")
@KERNELS
def test_recorded_loads_and_who_answered(stub, recording):
    for kernel in recorded(recording, FLOW):
        call = f"served_by({ncu.short(kernel['name'])} of {recording})"
        judge_shares(call, stub.served_by(kernel), shares_of(kernel["metrics"]))


@task("ncu_ex01.served_by")
def test_made_up_loads_and_who_answered(stub, seed):
    chance = random.Random(seed)
    base = drawn(chance)
    asked = base[LOADS] * 32
    cases = {
        "all from L1": {FROM_L2: 0, FROM_DRAM: 640},
        "all from L2": {FROM_L2: asked, FROM_DRAM: 0},
        "twice from DRAM": {FROM_L2: asked, FROM_DRAM: 2 * asked},
        "a little more from L2 than was looked up": {FROM_L2: asked + 3200, FROM_DRAM: asked // 3},
        "drawn": {},
        "no loads": {LOADS: 0, FROM_L2: 0},
    }
    for name, changed in cases.items():
        metrics = base | changed
        judge_shares(f"served_by({name})", stub.served_by(made(metrics)), shares_of(metrics))


@task("ncu_ex01.served_by")
def test_loads_that_were_not_recorded(stub, seed):
    with stub.raises(MissingTable, "dram__bytes_read"):
        stub.served_by(made(drawn(random.Random(seed)) | {FROM_DRAM: None}))


# -- share_of_copy ------------------------------------------------------------------------------------


def shares_in(report: dict[str, Any]) -> dict[str, dict[str, float]]:
    copy = report["kernels"]["device_copy"]
    rates = [copy["useful_bytes"] / sample for sample in copy["samples_ns"]]
    out = {}
    for name, kernel in report["kernels"].items():
        if name != "device_copy":
            own = [kernel["useful_bytes"] / sample for sample in kernel["samples_ns"]]
            turns = [one / other for one, other in zip(own, rates, strict=True)]
            median = statistics.median(kernel["samples_ns"])
            out[name] = {
                "bytes_per_s": kernel["useful_bytes"] / median * 1e9,
                "share_ratio": statistics.median(turns),
                "lowest_ratio": min(turns),
            }
    return out


def drawn_report(seed: int) -> dict[str, Any]:
    """Kernels that slow down together from turn to turn, as a device does that changes its clocks."""
    chance = random.Random(seed)
    turns = chance.choice((5, 8, 11))
    clock = [chance.uniform(0.6, 1.4) for _ in range(turns)]
    kernels = {}
    for name in ("one", "two", "device_copy", "three"):
        base, size = chance.uniform(1e4, 1e6), chance.randrange(10**6, 10**9)
        samples = [round(base * c * chance.uniform(0.9, 1.1)) for c in clock]
        kernels[name] = {"samples_ns": samples, "useful_bytes": size, "flops": 0}
    return {"mib": 64, "kernels": kernels}


def judge_report(stub: Any, call: str, report: dict[str, Any]) -> None:
    got, want = stub.share_of_copy(report), shares_in(report)
    require(
        isinstance(got, dict) and list(got) == list(want),
        f"{call} returned {show(got)}, expected the kernels {', '.join(want)} in this order, "
        "without the copy itself",
    )
    for name, row in want.items():
        judge(
            f"{call}: {name}",
            got[name],
            row,
            "bytes per second, and shares of the copy of the same turn",
            {"share_ratio": "Both meet the same clocks only within one turn."},
        )


@task("ncu_ex01.share_of_copy")
@pytest.mark.parametrize("capture", ["ncu_bandwidth", "ncu_bandwidth_small"])
def test_recorded_report(stub, capture):
    report = captures.provenance(capture)["reported_by_program"]
    judge_report(stub, f"share_of_copy(what {capture} reported)", report)


@task("ncu_ex01.share_of_copy")
def test_drawn_report(stub, seed):
    for number in range(3):
        judge_report(stub, f"share_of_copy(drawn {number})", drawn_report(seed + number))


@task("ncu_ex01.share_of_copy")
def test_report_of_the_smallest(stub):
    least = {"samples_ns": [1, 2, 1], "useful_bytes": 1}
    report = {"kernels": {"one": least, "device_copy": least | {"samples_ns": [2, 2, 3]}}}
    judge_report(stub, f"share_of_copy({show(report)})", report)


@task("ncu_ex01.share_of_copy")
def test_report_that_cannot_be_compared(stub, seed):
    report = drawn_report(seed)
    without = {name: k for name, k in report["kernels"].items() if name != "device_copy"}
    with stub.raises(ValueError, "device_copy", "there is nothing to compare with"):
        stub.share_of_copy({"kernels": without})
    for changed in (
        {"samples_ns": report["kernels"]["two"]["samples_ns"][1:]},
        {"samples_ns": []},
        {"samples_ns": [0, *report["kernels"]["two"]["samples_ns"][1:]]},
        {"useful_bytes": 0},
    ):
        kernels = report["kernels"] | {"two": report["kernels"]["two"] | changed}
        with stub.raises(ValueError, "two", f"a kernel with {show(changed)}"):
            stub.share_of_copy({"kernels": kernels})


# -- memory_verdict -----------------------------------------------------------------------------------

LIMITERS = {"dram": "memory_bound", "l2": "cache_bound", "l1": "cache_bound", "sm": "compute_bound"}


def verdict_of(kernel: dict[str, Any]) -> tuple[str, dict[str, float]]:
    """Category and evidence."""
    m = kernel["metrics"]
    use = {"dram": m[DRAM], "l2": max(m[name] for name in L2), "l1": m[L1], "sm": m[SM]}
    level = sorted(use, key=lambda one: -use[one])[0]
    flow = flow_of(m)
    moved = 0 if level == "sm" else sum(flow[way][f"{level}_bytes"] for way in flow)
    ideal = 32 * m[IDEAL]
    share = use[level] / 100
    wasted = share * max(0, moved - ideal) / moved if moved else 0.0
    margins = [abs(wasted - 0.10)]
    if wasted >= 0.10:
        category = "register_spills" if m[LOCAL] > m[SECTORS] - m[IDEAL] else "uncoalesced_access"
    else:
        category = LIMITERS[level] if share >= 0.6 else "latency_bound"
        margins.append(abs(share - 0.6))
    evidence = {
        "duration_ns": m[DURATION],
        "use_ratio": share,
        "moved_bytes": moved,
        "ideal_bytes": ideal,
        "wasted_ratio": wasted,
        "margin_ratio": min(margins),
    }
    return category, evidence


def judge_verdict(call: str, got: Any, kernel: dict[str, Any]) -> None:
    category, evidence = verdict_of(kernel)
    facts = (
        f"the busiest level is used {evidence['use_ratio']:.1%} of the duration and moved "
        f"{evidence['moved_bytes']:,.0f} bytes where {evidence['ideal_bytes']:,.0f} are needed"
    )
    judge_kernel_finding(
        call,
        got,
        kernel["name"],
        category,
        evidence,
        facts,
        nothing_to_do=category in LIMITERS.values(),
        besides=f", and wastes {evidence['wasted_ratio']:.1%} of the duration",
    )


@task("ncu_ex01.memory_verdict")
@KERNELS
def test_verdicts_on_recorded_kernels(stub, recording):
    for kernel in recorded(recording, VERDICT):
        call = f"memory_verdict({ncu.short(kernel['name'])} of {recording})"
        judge_verdict(call, stub.memory_verdict(kernel), kernel)


@task("ncu_ex01.memory_verdict")
@pytest.mark.parametrize("kernel", ["blend_32_registers", "blend", "iterate"])
def test_verdicts_on_kernels_that_calculate(stub, kernel):
    (one,) = (k for k in recorded("ncu_compute", VERDICT) if ncu.short(k["name"]) == kernel)
    judge_verdict(f"memory_verdict({kernel} of ncu_compute)", stub.memory_verdict(one), one)


def drawn_kernel(chance: random.Random) -> dict[str, Any]:
    """A kernel whose limiting level, waste and use are drawn."""
    metrics = drawn(chance) | dict.fromkeys((DRAM, L1, SM, *L2), 0.0)
    for name in (DRAM, L1, SM, *L2):
        metrics[name] = chance.uniform(1, 55)
    metrics[chance.choice((DRAM, L1, SM, *L2))] = chance.choice(
        (57.5, 62.0, chance.uniform(40, 99))
    )
    bytes_moved = 32 * (metrics[LOADS] + metrics[STORES])
    ideal = int(bytes_moved / 32 * chance.choice((1.0, 0.8, chance.uniform(0.1, 1))))
    sectors = ideal + chance.randrange(10_000)
    spilled = chance.choice((0, chance.randrange(20_000)))
    return made(
        metrics
        | {IDEAL: ideal, SECTORS: sectors, LOCAL: spilled, DURATION: chance.uniform(1e4, 1e6)},
        f"drawn_{chance.randrange(100)}(float *)",
    )


@task("ncu_ex01.memory_verdict")
def test_verdicts_on_drawn_kernels(stub, seed):
    chance = random.Random(seed)
    for number in range(40):
        kernel = drawn_kernel(chance)
        call = f"memory_verdict(drawn {number})"
        judge_verdict(call, stub.memory_verdict(kernel), kernel)


@task("ncu_ex01.memory_verdict")
def test_verdicts_at_their_lines(stub):
    base = dict.fromkeys(VERDICT, 0.0) | {DURATION: 1e5, LOADS: 1000, LOAD_USE: 32.0}
    # DRAM is busy for 80 % of the time and moved 1,024 of 8,192 bytes for nobody: exactly 10 %.
    at = {DRAM: 80.0, FROM_DRAM: 8192, IDEAL: 224, SECTORS: 300}
    cases = {
        "waste at its line": at,
        "waste at its line, as much spilled as scattered": at | {LOCAL: 76},
        "waste at its line, more spilled": at | {LOCAL: 77},
        "use at its line": {L1: 60.0, IDEAL: 1000},
        "use below its line": {L1: 59.0, IDEAL: 1000},
        "equal use": {DRAM: 70.0, L2[0]: 70.0, L1: 70.0, SM: 70.0, FROM_DRAM: 10, IDEAL: 900},
        "nothing moved": {DRAM: 65.0},
        "another metric of L2": {L2[2]: 90.0, FROM_L2: 32_000, IDEAL: 1000},
    }
    for name, changed in cases.items():
        kernel = made(base | changed)
        judge_verdict(f"memory_verdict({name})", stub.memory_verdict(kernel), kernel)


@task("ncu_ex01.memory_verdict")
def test_verdict_without_its_evidence(stub, seed):
    chance = random.Random(seed)
    for name in VERDICT:
        # Half of what a busy DRAM moved is waste, so the answer rests on every one of them.
        metrics = drawn_kernel(chance)["metrics"] | {DRAM: 99.5, FROM_DRAM: 10**9, IDEAL: 10**7}
        kernel = made(metrics | {name: None})
        why = f"{name} was not measured, and the verdict rests on it"
        with stub.raises(MissingTable, name.replace(".", r"\."), why):
            stub.memory_verdict(kernel)
