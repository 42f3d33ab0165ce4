"""The optimization loop: profile, change, profile again.

You write the functions of such a loop. They compute how much work a kernel has for each unit, and how much
a change can save at most. They write a log that keeps the changes that helped and reverts the others, and
give a verdict that says when to stop. The steps themselves are CUDA, in `optimization_loop_student.cu`. The
lesson is `README.md` in this folder, hints are in `hints.md`, and

    uv run lab check ncu_ex04

checks your solution.
"""

from __future__ import annotations

import contextlib
import csv
import statistics
from collections.abc import Sequence  # reference only
from typing import Any

from profiling_lab import captures
from profiling_lab.errors import CaptureError
from profiling_lab.findings import Finding

# What one multiprocessor does in a cycle, at the most (compute capability 9.0).
FMA_LANES = (
    128  # fp32 multiply-adds of a thread (CUDA C++ Programming Guide, arithmetic throughput)
)
ISSUE_SLOTS = 4  # warp instructions, one of each scheduler (the same guide, compute capability 9.0)
L1_WAVEFRONTS = (
    1  # of the pipe that serves shared memory and L1 (Nsight Compute, Kernel Profiling Guide)
)
DRAM_BYTES_PER_S = 4.8e12  # of an H200, the whole device (its datasheet)

UNITS = ("fma", "issue", "l1", "dram")
CATEGORY_OF_UNIT = {
    "fma": "compute_bound",
    "issue": "compute_bound",
    "l1": "cache_bound",
    "dram": "memory_bound",
}

NOISE_FLOOR_RATIO = 0.01  # a smaller gain is not worth keeping a change
BUSY_RATIO = 0.6  # below this share of its duration no unit explains a kernel
CEILING_RATIO = 0.8  # from this share on, the unit limits the kernel
PATIENCE_COUNT = 2  # the loop ends after this many changes in a row without a win

# The tool's units in ns, Hz and bytes. Values in other units stay as they are.
FACTORS = {"ms": 1e6, "us": 1e3, "Khz": 1e3, "Mhz": 1e6, "Ghz": 1e9}
FACTORS |= {"Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9, "Tbyte": 1e12}


def unit_needs(metrics: dict[str, float]) -> dict[str, float]:
    """The shortest time in which each unit can do the work that a kernel has for it, in ns.

    metrics: counters of one launch, in base units. It has these keys, and may have more:
        smsp__sass_thread_inst_executed_op_ffma_pred_on.sum:  multiply-adds, counted by thread.
        smsp__inst_executed.sum:                              instructions, counted by warp.
        l1tex__data_pipe_lsu_wavefronts.sum:                  wavefronts of shared memory and L1.
        dram__bytes.sum:                                      bytes read from and written to DRAM.
        launch__sm_count:                                     number of multiprocessors.
        sm__cycles_elapsed.avg.per_second:                    their clock, in Hz.

    Returns {"fma", "issue", "l1", "dram"}: the work divided by the highest rate of the whole device. The
    constants at the top of this file give the rates (rates of a multiprocessor are per cycle).

    Raises CaptureError if metrics are missing or None; its message names them. Raises ValueError if
    the clock or the number of multiprocessors is not above 0.
    """
    names = (
        "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum",
        "smsp__inst_executed.sum",
        "l1tex__data_pipe_lsu_wavefronts.sum",
        "dram__bytes.sum",
        "launch__sm_count",
        "sm__cycles_elapsed.avg.per_second",
    )
    missing = [name for name in names if metrics.get(name) is None]
    if missing:
        raise CaptureError(f"record these metrics as well (ncu --metrics): {', '.join(missing)}")
    ffma, instructions, wavefronts, dram_bytes, sms, clock_hz = (metrics[name] for name in names)
    if not sms > 0 or not clock_hz > 0:
        raise ValueError(f"{sms} multiprocessors at {clock_hz} Hz")
    cycle_ns = 1e9 / clock_hz / sms
    return {
        "fma": ffma / FMA_LANES * cycle_ns,
        "issue": instructions / ISSUE_SLOTS * cycle_ns,
        "l1": wavefronts / L1_WAVEFRONTS * cycle_ns,
        "dram": dram_bytes / DRAM_BYTES_PER_S * 1e9,
    }


def expected_gain(
    needs_ns: dict[str, float], duration_ns: float, factors: dict[str, float]
) -> dict[str, Any]:
    """How much a planned change can save, from how it changes the work of each unit.

    needs_ns: as returned by `unit_needs`.
    duration_ns: duration of the same launch.
    factors: for each unit, work after the change divided by work before it (0.25: a quarter is left). A
        unit that is not in factors keeps its work.

    Returns
        "limiter":     the unit that needs the longest time after the change (if equal, the first in UNITS).
        "bound_ns":    the time that this unit needs: no kernel that does this work is faster.
        "expected_ns": bound_ns / (longest need *before the change* / duration_ns). This assumes that the new
                       kernel comes as close to its bound as the present one.
        "gain_ratio":  duration_ns / expected_ns.

    Raises ValueError for a factor below 0 or of an unknown unit, with the unit in its message. Also raises it
    for a duration that is not above 0, and if no unit has any work before or after the change.
    """
    wrong = [unit for unit, factor in factors.items() if unit not in UNITS or factor < 0]
    if wrong:
        raise ValueError(f"no factor, or of no known unit: {', '.join(wrong)}")
    after = {unit: needs_ns[unit] * factors.get(unit, 1.0) for unit in UNITS}
    limiter = max(UNITS, key=lambda unit: after[unit])
    bound, before = after[limiter], max(needs_ns.values())
    if not (duration_ns > 0 and bound > 0):
        raise ValueError(f"duration {duration_ns} ns, longest need {bound} ns: nothing to compare")
    expected = bound * duration_ns / before
    return {
        "limiter": limiter,
        "bound_ns": bound,
        "expected_ns": expected,
        "gain_ratio": duration_ns / expected,
    }


def loop_log(steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The log of an optimization loop: the purpose and effect of each change, and whether it is kept.

    steps: in the order in which they were tried. The first step is the start of the loop. A step is
        {"name": str, "samples_ns": [its times, two or more], "metric": the counter that the change is
         meant to move, "wanted": "lower" or "higher", "values": {counter: value}}
    ("metric" and "wanted" of the first step have no meaning and may be missing).

    Returns a row for each step except the first:
        "name",
        "against":     the step it is compared with: the last step that was kept, or the first step if no
                       change has been kept yet.
        "metric", "before", "after":  the counter, its value in `against`, its value in this step.
        "moved":       whether the counter changed in the wanted direction.
        "gain_ratio":  median time of `against` / median time of this step.
        "noise_ratio": the largest of the spreads of both steps and NOISE_FLOOR_RATIO. A spread is (third
                       quartile - first quartile) / median (statistics.quantiles, "inclusive").
        "kept":        whether gain_ratio is above 1 + noise_ratio, whatever the counter did.

    Raises ValueError for fewer than two steps. Raises it with the step's name in its message
    - for fewer than two samples, or a sample that is not above 0;
    - if "wanted" is neither of the two words;
    - if the counter is missing or None in one of the two steps.
    """
    if len(steps) < 2:
        raise ValueError(f"{len(steps)} steps: a loop needs a start and a change")
    for step in steps:
        if len(step["samples_ns"]) < 2 or not min(step["samples_ns"]) > 0:
            raise ValueError(f"{step['name']}: times {step['samples_ns']}")
    best, rows = steps[0], []
    for step in steps[1:]:
        metric, wanted = step["metric"], step["wanted"]
        if wanted not in ("lower", "higher"):
            raise ValueError(f"{step['name']}: wanted is {wanted!r}, neither lower nor higher")
        for one in (best, step):
            if one["values"].get(metric) is None:
                raise ValueError(f"{one['name']} has no {metric}")
        before, after = best["values"][metric], step["values"][metric]
        gain, noise = _gain(best["samples_ns"], step["samples_ns"])
        kept = gain > 1 + noise
        rows.append(
            {
                "name": step["name"],
                "against": best["name"],
                "metric": metric,
                "before": before,
                "after": after,
                "moved": after < before if wanted == "lower" else after > before,
                "gain_ratio": gain,
                "noise_ratio": noise,
                "kept": kept,
            }
        )
        if kept:
            best = step
    return rows


def _gain(before: Sequence[float], after: Sequence[float]) -> tuple[float, float]:
    noise = max(_spread(before), _spread(after), NOISE_FLOOR_RATIO)
    return statistics.median(before) / statistics.median(after), noise


def _spread(samples: Sequence[float]) -> float:
    low, middle, high = statistics.quantiles(samples, n=4, method="inclusive")
    return (high - low) / middle


def read_kernels(capture: str) -> list[dict[str, Any]]:
    """The launches of a capture (given): [{"name": function name, "metrics": {metric: base units}}].

    Reads `kernels.csv`, which `ncu --page raw --csv` wrote. A cell that is not a number is None.
    Raises CaptureError for a file without a header, units, or kernels.
    """
    lines = captures.text(capture, "kernels.csv").splitlines()
    while lines and not lines[0].startswith(('"ID"', "ID,")):
        lines.pop(0)
    units, *rows = list(csv.DictReader(lines)) or [{}]
    if not rows:
        raise CaptureError(f"{capture}: kernels.csv holds no kernel; is it ncu --page raw --csv?")
    out = []
    for row in rows:
        metrics: dict[str, float | None] = dict.fromkeys(row)
        for name in metrics:
            factor = FACTORS.get(units[name].partition("/")[0], 1.0)
            with contextlib.suppress(ValueError):
                metrics[name] = float(row[name].replace(",", "")) * factor
        name = row["Kernel Name"].partition("(")[0].partition("<")[0].split(" ")[-1]
        out.append({"name": name, "metrics": metrics})
    return out


def read_samples(capture: str) -> dict[str, list[int]]:
    """The times in ns of each step, by name and in the order of the loop (given).

    They are in the capture's `provenance.json`, as the program printed them when it ran without the profiler.
    Raises CaptureError if that file has no steps.
    """
    reported = captures.provenance(capture).get("reported_by_program")
    steps = reported.get("steps") if isinstance(reported, dict) else None
    if not isinstance(steps, dict):
        raise CaptureError(f"{capture}: its program reported no steps")
    return {name: step["own_ns"] for name, step in steps.items()}


def next_move(capture: str) -> Finding:
    """What limits the last kept kernel of an optimization loop, and whether to go on.

    capture: a recording of a loop. `read_samples` gives the steps in order with their times. `read_kernels`
    gives their launches in the same order, one per step. Decide as in `loop_log` which steps are kept (from the
    times only).

    Returns a Finding about the step that was kept last:
        subject:       "kernel:" and its function name, as `read_kernels` gives it.
        category:      The share of a unit is its need (`unit_needs`) divided by the duration of the same
                       profiled launch (gpu__time_duration.sum). The limiter is the unit with the largest
                       share (if equal, the first in UNITS). The category is CATEGORY_OF_UNIT of the limiter,
                       or "latency_bound" if its share is below BUSY_RATIO.
        evidence:      "duration_ns": median of its samples;
                       "ceiling_ratio": the largest share;
                       "recoverable_ns": duration_ns × (CEILING_RATIO - ceiling_ratio) / CEILING_RATIO, at
                       least 0;
                       "gain_ratio": the first step's median / the median of the step kept last;
                       "kept_count", "reverted_count": numbers of changes; the first step is not a change.
        recommendation: "none" if ceiling_ratio is at least CEILING_RATIO, or if the last PATIENCE_COUNT
                       changes were all reverted; else one sentence that names the limiting unit (as in UNITS).

    Raises CaptureError, with both counts in its message, if the numbers of launches and steps differ. Raises
    the errors of the functions above.
    """
    samples, kernels = read_samples(capture), read_kernels(capture)
    if len(samples) != len(kernels):
        raise CaptureError(f"{capture}: {len(samples)} steps but {len(kernels)} launches")
    times = list(samples.values())
    best, kept = 0, []
    for number in range(1, len(times)):
        gain, noise = _gain(times[best], times[number])
        kept.append(gain > 1 + noise)
        if kept[-1]:
            best = number
    metrics = kernels[best]["metrics"]
    needs = unit_needs(metrics)
    unit = max(UNITS, key=lambda name: needs[name])
    share = needs[unit] / metrics["gpu__time_duration.sum"]
    first, own = (statistics.median(times[i]) for i in (0, best))
    idle = len(kept) >= PATIENCE_COUNT and not any(kept[-PATIENCE_COUNT:])
    return Finding(
        CATEGORY_OF_UNIT[unit] if share >= BUSY_RATIO else "latency_bound",
        f"kernel:{kernels[best]['name']}",
        {
            "duration_ns": own,
            "ceiling_ratio": share,
            "recoverable_ns": own * max(0.0, 1 - share / CEILING_RATIO),
            "gain_ratio": first / own,
            "kept_count": sum(kept),
            "reverted_count": len(kept) - sum(kept),
        },
        "none" if idle or share >= CEILING_RATIO else _ADVICE[unit],
    )


_ADVICE = {
    "fma": "the fma pipe: keep it fed, it does what the product needs anyway",
    "issue": "the issue slots: fewer instructions beside the multiply-adds",
    "l1": "the l1 pipe: use each value from shared memory more often, and wider reads",
    "dram": "dram: use each value from memory more often, with larger tiles",
}
