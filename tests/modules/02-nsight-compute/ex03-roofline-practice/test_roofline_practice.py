"""Checks of `ncu_ex03`: counters recorded, and kernels made up from what they are to have done."""

from __future__ import annotations

import random
from typing import Any

import pytest

from grading.checks import ncu, task
from grading.checks.assertions import agree, judge, judge_kernel_finding, require, show
from grading.checks.fixtures import recordings
from profiling_lab.errors import MissingTable

KERNELS = recordings("ncu_roofline_small", "ncu_compute", holding="kernels.csv")

LEVELS, DTYPES = ("dram", "l2", "l1"), ("float32", "float64")
# Of each level: its counter, the clock of its unit.
L2_BYTES = "derived__lts__lts2xbar_bytes.sum"
L1_BYTES = "derived__l1tex__lsu_writeback_bytes_mem_lgds.sum"
BYTES = {
    "dram": ("dram__bytes.sum", "dram__cycles_elapsed.avg.per_second"),
    "l2": (L2_BYTES, "lts__cycles_elapsed.avg.per_second"),
    "l1": (L1_BYTES, "l1tex__cycles_elapsed.avg.per_second"),
}
COUNTED = {
    "float32": {"fadd": 1, "fmul": 1, "ffma": 2},
    "float64": {"dadd": 1, "dmul": 1, "dfma": 2},
}
SMSP_CLOCK = "smsp__cycles_elapsed.avg.per_second"
SM_CLOCK = "sm__cycles_elapsed.avg.per_second"
DURATION = "gpu__time_duration.sum"
COMPUTE = "sm__instruction_throughput.avg.pct_of_peak_sustained_elapsed"
MEMORY = "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"


def executed(operation: str) -> str:
    return f"smsp__sass_thread_inst_executed_op_{operation}_pred_on.sum.per_cycle_elapsed"


def most(operation: str) -> str:
    return f"sm__sass_thread_inst_executed_op_{operation}_pred_on.sum.peak_sustained"


WORK = (
    *(f"{counter}.per_second" for counter, _ in BYTES.values()),
    *(executed(one) for kinds in COUNTED.values() for one in kinds),
    SMSP_CLOCK,
    DURATION,
)
ROOFS = (
    *(f"{counter}.peak_sustained" for counter, _ in BYTES.values()),
    *(clock for _, clock in BYTES.values()),
    most("ffma"),
    most("dfma"),
    SM_CLOCK,
)
VERDICT = (*WORK, *ROOFS, COMPUTE, MEMORY)


def made(metrics: dict[str, Any], name: str = "made(float *, int)") -> dict[str, Any]:
    """A kernel with these metrics, in base units."""
    shape: dict[str, Any] = {"grid": (1024, 1, 1), "block": (256, 1, 1), "cc": "9.0"}
    return {"name": name, **shape, "metrics": metrics}


def recorded(capture: str, names: tuple[str, ...] = VERDICT) -> list[dict[str, Any]]:
    """The kernels of a recording, each with the metrics that a function needs."""
    return [
        kernel | {"metrics": {name: kernel["metrics"][name] for name in names}}
        for kernel in ncu.kernels(capture)
    ]


def drawn(chance: random.Random) -> dict[str, Any]:
    """Counters of a kernel that did some share of what a device could, drawn for each unit."""
    metrics: dict[str, Any] = {DURATION: chance.uniform(2e4, 2e6)}
    clocks = {
        "dram": chance.uniform(1e9, 4e9),
        "l2": chance.uniform(1e9, 2e9),
        "l1": chance.uniform(1e9, 2e9),
    }
    top = chance.choice((0.97, 0.7, 0.3))
    for level, (counter, clock) in BYTES.items():
        peak = float(chance.randrange(500, 20_000))
        share = chance.choice((0.0, chance.uniform(0, 0.5), chance.uniform(0, top)))
        metrics |= {
            f"{counter}.peak_sustained": peak,
            clock: clocks[level],
            f"{counter}.per_second": peak * clocks[level] * share,
        }
    metrics[SM_CLOCK] = chance.uniform(1e9, 2e9)
    # The two clocks are one, counted in different passes.
    metrics[SMSP_CLOCK] = metrics[SM_CLOCK] * chance.uniform(0.99, 1.01)
    for kinds in COUNTED.values():
        *plain, fma = kinds
        peak = float(chance.randrange(1_000, 20_000))
        metrics[most(fma)] = peak
        metrics[executed(fma)] = peak * chance.choice((0.0, chance.uniform(0, top)))
        for one in plain:
            metrics[executed(one)] = peak * chance.uniform(0, 0.02)
    return metrics | {COMPUTE: chance.uniform(1, 99), MEMORY: chance.uniform(1, 99)}


def each_missing(stub: Any, function: str, names: tuple[str, ...], seed: int, *more: Any) -> None:
    """Every metric in turn is None or not there at all."""
    chance = random.Random(seed)
    for name in names:
        metrics = {key: value for key, value in drawn(chance).items() if key in names}
        if chance.random() < 0.5:
            metrics[name] = None
        else:
            del metrics[name]
        why = f"{name} was not measured, and a missing counter is not 0"
        with stub.raises(MissingTable, name.replace(".", r"\."), why):
            getattr(stub, function)(made(metrics), *more)


# -- counted_work -------------------------------------------------------------------------------------


def work_of(m: dict[str, Any]) -> dict[str, float]:
    cycles = m[SMSP_CLOCK] * m[DURATION] / 1e9
    out = {
        f"{dtype}_flops": sum(times * m[executed(one)] for one, times in kinds.items()) * cycles
        for dtype, kinds in COUNTED.items()
    }
    return out | {
        f"{level}_bytes": m[f"{counter}.per_second"] * m[DURATION] / 1e9
        for level, (counter, _) in BYTES.items()
    }


def floats(got: Any) -> Any:
    """Whole numbers are as good as floats where a number is asked for."""
    if isinstance(got, dict):
        return {key: floats(value) for key, value in got.items()}
    if isinstance(got, list):
        return [floats(value) for value in got]
    return float(got) if type(got) is int else got


WORK_WHY = {
    "float32_flops": "A fused multiply-add is two operations, the others one; the counters are per cycle.",
    "float64_flops": "A fused multiply-add is two operations, the others one; the counters are per cycle.",
    **dict.fromkeys(
        ("dram_bytes", "l2_bytes", "l1_bytes"), "A rate per second, over the duration."
    ),
}


@task("ncu_ex03.counted_work")
@KERNELS
def test_work_of_recorded_kernels(stub, recording):
    for kernel in recorded(recording, WORK):
        call = f"counted_work({ncu.short(kernel['name'])} of {recording})"
        got = floats(stub.counted_work(kernel))
        judge(call, got, work_of(kernel["metrics"]), "operations; bytes", WORK_WHY)


@task("ncu_ex03.counted_work")
def test_work_of_made_up_kernels(stub, seed):
    chance = random.Random(seed)
    for _ in range(4):
        metrics = {name: value for name, value in drawn(chance).items() if name in WORK}
        got = floats(stub.counted_work(made(metrics)))
        judge("counted_work(drawn)", got, work_of(metrics), "operations; bytes", WORK_WHY)
    each_missing(stub, "counted_work", WORK, seed)


# -- roofs_of -----------------------------------------------------------------------------------------


def roofs_by(m: dict[str, Any]) -> dict[str, float]:
    out = {
        level: m[f"{counter}.peak_sustained"] * m[clock]
        for level, (counter, clock) in BYTES.items()
    }
    return out | {
        "float32": 2 * m[most("ffma")] * m[SM_CLOCK],
        "float64": 2 * m[most("dfma")] * m[SM_CLOCK],
    }


ROOF_WHY = {
    **dict.fromkeys(LEVELS, "Each unit has a clock of its own."),
    **dict.fromkeys(DTYPES, "The most multiply-adds of a cycle, each two operations."),
}


@task("ncu_ex03.roofs_of")
@KERNELS
def test_roofs_of_recorded_kernels(stub, recording):
    for kernel in recorded(recording, ROOFS):
        call = f"roofs_of({ncu.short(kernel['name'])} of {recording})"
        want = roofs_by(kernel["metrics"])
        judge(
            call, floats(stub.roofs_of(kernel)), want, "bytes and operations per second", ROOF_WHY
        )


@task("ncu_ex03.roofs_of")
def test_roofs_of_made_up_kernels(stub, seed):
    chance = random.Random(seed)
    for _ in range(3):
        metrics = {name: value for name, value in drawn(chance).items() if name in ROOFS}
        got = floats(stub.roofs_of(made(metrics)))
        judge(
            "roofs_of(drawn)", got, roofs_by(metrics), "bytes and operations per second", ROOF_WHY
        )
    each_missing(stub, "roofs_of", ROOFS, seed)


# -- ridge_points -------------------------------------------------------------------------------------


@task("ncu_ex03.ridge_points")
def test_ridges_of_devices(stub, seed):
    chance = random.Random(seed)
    for unit in (1.0, 1.0, 1e-12, 1e-15):  # in some other unit a ridge is the same
        roofs = {name: unit * chance.uniform(1e11, 1e14) for name in (*LEVELS, *DTYPES)}
        want = {d: {level: roofs[d] / roofs[level] for level in LEVELS} for d in DTYPES}
        judge(
            f"ridge_points({show(roofs)})",
            stub.ridge_points(roofs),
            want,
            "operations per byte",
            dict.fromkeys(
                DTYPES, "At the ridge the level feeds as many operations as the type can do."
            ),
        )


@task("ncu_ex03.ridge_points")
def test_roofs_that_are_none(stub):
    roofs = dict.fromkeys((*LEVELS, *DTYPES), 1e12)
    for name in roofs:
        for changed in ({name: 0.0}, {name: -1.0}):
            with stub.raises(ValueError, name, "a roof of nothing meets no other"):
                stub.ridge_points(roofs | changed)
        with stub.raises(ValueError, name, "a roof that is missing"):
            stub.ridge_points({key: value for key, value in roofs.items() if key != name})


# -- under_the_roofs ----------------------------------------------------------------------------------


def point_of(m: dict[str, Any]) -> dict[str, Any]:
    work, roofs = work_of(m), roofs_by(m)
    dtype = "float64" if work["float64_flops"] > work["float32_flops"] else "float32"
    flops, seconds = work[f"{dtype}_flops"], m[DURATION] / 1e9
    intensity = {
        level: flops / work[f"{level}_bytes"] if work[f"{level}_bytes"] else None
        for level in LEVELS
    }
    attainable = {
        level: roofs[dtype] if value is None else min(roofs[dtype], value * roofs[level])
        for level, value in intensity.items()
    }
    shares = [work[f"{level}_bytes"] / seconds / roofs[level] for level in LEVELS]
    shares.append(flops / seconds / roofs[dtype])
    best = max(shares)
    return {
        "dtype": dtype,
        "flops_per_s": flops / seconds,
        "intensity": intensity,
        "attainable_flops_per_s": attainable,
        "roof": (*LEVELS, dtype)[shares.index(best)],
        "reached_ratio": best,
    }


POINT_WHY = {
    "dtype": "The one with more operations.",
    "flops_per_s": "Operations of this type over the duration.",
    "intensity": "Each level has its own bytes; without any there is no intensity.",
    "attainable_flops_per_s": "The lower of the level's slanted roof and the flat one of the type.",
    "roof": "The roof of which the kernel used the largest share is the lowest one above its point.",
    "reached_ratio": "The share of that roof.",
}


@task("ncu_ex03.under_the_roofs")
@KERNELS
def test_points_of_recorded_kernels(stub, recording):
    for kernel in recorded(recording, (*WORK, *ROOFS)):
        call = f"under_the_roofs({ncu.short(kernel['name'])} of {recording})"
        got, want = floats(stub.under_the_roofs(kernel)), point_of(kernel["metrics"])
        judge(call, got, want, "operations, bytes, seconds; shares from 0 to 1", POINT_WHY)


CASES: dict[str, dict[str, float]] = {
    "as drawn": {},
    "a copy": {executed(one): 0.0 for kinds in COUNTED.values() for one in kinds},
    "no bytes at any level": {f"{counter}.per_second": 0.0 for counter, _ in BYTES.values()},
}


@task("ncu_ex03.under_the_roofs")
@pytest.mark.parametrize("case", CASES)
def test_points_of_made_up_kernels(stub, seed, case):
    chance = random.Random(f"{seed} {case}")
    for _ in range(5):
        metrics = drawn(chance) | CASES[case]
        got, want = floats(stub.under_the_roofs(made(metrics))), point_of(metrics)
        judge(
            f"under_the_roofs({case})",
            got,
            want,
            "operations, bytes, seconds; shares from 0 to 1",
            POINT_WHY,
        )


@task("ncu_ex03.under_the_roofs")
def test_point_without_its_evidence(stub, seed):
    each_missing(stub, "under_the_roofs", (*WORK, *ROOFS), seed)


# -- forecast -----------------------------------------------------------------------------------------


def forecast_of(m: dict[str, Any], extra: list[float]) -> dict[str, Any]:
    work, dtype = work_of(m), point_of(m)["dtype"]
    flops, roof = work[f"{dtype}_flops"], roofs_by(m)[dtype]
    possible = roof * m[DURATION] / 1e9
    free = possible - flops if possible > flops else 0.0
    times = [(flops + more) / roof * 1e9 for more in extra]
    return {
        "free_flops": free,
        "durations_ns": [time if time > m[DURATION] else m[DURATION] for time in times],
        "turn_intensity": (flops + free) / work["dram_bytes"] if work["dram_bytes"] else None,
    }


FORECAST_WHY = {
    "free_flops": "What the flat roof allows in the present duration, less what is done already.",
    "durations_ns": "Free operations cost nothing; beyond them the flat roof gives the duration.",
    "turn_intensity": "All operations of then, over the bytes of now.",
}


@task("ncu_ex03.forecast")
@KERNELS
def test_forecast_for_recorded_kernels(stub, recording):
    for kernel in recorded(recording, (*WORK, *ROOFS)):
        flops = max(work_of(kernel["metrics"])[f"{d}_flops"] for d in DTYPES)
        extra = [0.0, flops, 100 * flops]
        call = f"forecast({ncu.short(kernel['name'])} of {recording}, {show(extra)})"
        got, want = floats(stub.forecast(kernel, extra)), forecast_of(kernel["metrics"], extra)
        judge(call, got, want, "operations, ns", FORECAST_WHY)


@task("ncu_ex03.forecast")
def test_forecast_for_made_up_kernels(stub, seed):
    chance = random.Random(seed)
    for name, changed in CASES.items():
        metrics = drawn(chance) | changed
        roof = roofs_by(metrics)[point_of(metrics)["dtype"]] * metrics[DURATION] / 1e9
        extra = [roof * share for share in (0.0, chance.uniform(0, 0.4), chance.uniform(1, 5))]
        got, want = floats(stub.forecast(made(metrics), extra)), forecast_of(metrics, extra)
        judge(f"forecast({name}, {show(extra)})", got, want, "operations, ns", FORECAST_WHY)
    full = drawn(chance) | {executed("ffma"): 0.0}
    # Counters of different passes: a little more than the roof allows.
    full[executed("ffma")] = full[most("ffma")] * 1.02
    full |= {executed("fadd"): 0.0, executed("fmul"): 0.0, executed("dfma"): 0.0}
    got, want = floats(stub.forecast(made(full), [0.0])), forecast_of(full, [0.0])
    judge("forecast(a kernel at its flat roof, [0])", got, want, "operations, ns", FORECAST_WHY)
    for extra in ([-1.0], [5.0, -2e9]):
        with stub.raises(ValueError, "-", "operations cannot be taken away"):
            stub.forecast(made(drawn(chance)), extra)
    require(
        agree(stub.forecast(made(full), [])["durations_ns"], []),
        "forecast(kernel, []): durations_ns should be an empty list, one entry a case",
    )
    each_missing(stub, "forecast", (*WORK, *ROOFS), seed, [1.0])


# -- roofline_verdict ---------------------------------------------------------------------------------

LIMITERS = {
    "dram": "memory_bound",
    "l2": "cache_bound",
    "l1": "cache_bound",
    "float32": "compute_bound",
    "float64": "compute_bound",
}


def verdict_of(m: dict[str, Any]) -> tuple[str, dict[str, float]]:
    point, roofs = point_of(m), roofs_by(m)
    reached, compute, memory = point["reached_ratio"], m[COMPUTE] / 100, m[MEMORY] / 100
    unseen = max(compute, memory)
    margins = [abs(reached - 0.6)]
    if reached >= 0.6:
        category = LIMITERS[point["roof"]]
    elif unseen < 0.6:
        category = "latency_bound"
        margins.append(abs(unseen - 0.6))
    else:
        category = "cache_bound" if memory > compute else "compute_bound"
        margins += [abs(unseen - 0.6), abs(compute - memory)]
    intensity = point["intensity"]["dram"]
    return category, {
        "duration_ns": m[DURATION],
        "reached_ratio": reached,
        "unseen_ratio": unseen,
        "dram_intensity_ratio": 0.0 if intensity is None else intensity,
        "dram_ridge_ratio": roofs[point["dtype"]] / roofs["dram"],
        "free_count": forecast_of(m, [])["free_flops"],
        "margin_ratio": min(margins),
    }


def judge_verdict(call: str, got: Any, kernel: dict[str, Any]) -> None:
    category, evidence = verdict_of(kernel["metrics"])
    facts = (
        f"it reached {evidence['reached_ratio']:.1%} of its lowest roof, and beside the roofs "
        f"instructions took {kernel['metrics'][COMPUTE]:.1f} % and memory accesses "
        f"{kernel['metrics'][MEMORY]:.1f} % of the duration"
    )
    judge_kernel_finding(
        call,
        got,
        kernel["name"],
        category,
        evidence,
        facts,
        nothing_to_do=category == "compute_bound",
    )


@task("ncu_ex03.roofline_verdict")
@KERNELS
def test_verdicts_on_recorded_kernels(stub, recording):
    for kernel in recorded(recording):
        call = f"roofline_verdict({ncu.short(kernel['name'])} of {recording})"
        judge_verdict(call, stub.roofline_verdict(kernel), kernel)


@task("ncu_ex03.roofline_verdict")
def test_verdicts_on_drawn_kernels(stub, seed):
    chance = random.Random(seed)
    for number in range(40):
        changed = CASES[chance.choice((*CASES, "as drawn", "as drawn"))]
        if number % 2:  # nothing near a roof, and perhaps something that no roof sees
            low = {name: value * 0.2 for name, value in drawn(chance).items() if "per_" in name}
            changed = changed | {key: low[key] for key in low if key in WORK and key != SMSP_CLOCK}
        kernel = made(drawn(chance) | changed, f"drawn_{number}(float *)")
        judge_verdict(f"roofline_verdict(drawn {number})", stub.roofline_verdict(kernel), kernel)


@task("ncu_ex03.roofline_verdict")
def test_verdicts_at_their_lines(stub, seed):
    base = drawn(random.Random(seed)) | {COMPUTE: 10.0, MEMORY: 20.0}
    base |= {executed(one): 0.0 for kinds in COUNTED.values() for one in kinds}
    for counter, clock in BYTES.values():
        base |= {f"{counter}.peak_sustained": 1000.0, clock: 1e9, f"{counter}.per_second": 1e11}
    cases: dict[str, dict[str, float]] = {
        "a roof above the line": {"dram__bytes.sum.per_second": 6.001e11},
        "a roof below it": {"dram__bytes.sum.per_second": 5.999e11},
        "two roofs alike": {"dram__bytes.sum.per_second": 8e11, f"{L2_BYTES}.per_second": 8e11},
        "L2 above DRAM": {"dram__bytes.sum.per_second": 7e11, f"{L2_BYTES}.per_second": 8e11},
        "only instructions": {COMPUTE: 60.0},
        "instructions nearly": {COMPUTE: 59.0},
        "only accesses": {MEMORY: 60.0},
        "both unseen, alike": {COMPUTE: 70.0, MEMORY: 70.0},
        "both unseen, accesses more": {COMPUTE: 70.0, MEMORY: 72.0},
    }
    for name, changed in cases.items():
        kernel = made(base | changed)
        judge_verdict(f"roofline_verdict({name})", stub.roofline_verdict(kernel), kernel)


@task("ncu_ex03.roofline_verdict")
def test_verdict_without_its_evidence(stub, seed):
    each_missing(stub, "roofline_verdict", VERDICT, seed)
