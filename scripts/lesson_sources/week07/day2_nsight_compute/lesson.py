"""What the figures and plots of Day 2's lesson are computed from."""

from __future__ import annotations

import csv
import json
import re
import statistics
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from profiling_lab import captures, devices, kernel_counters
from profiling_lab.captures.kernels import PIPES
from profiling_lab.findings import Finding
from profiling_lab.mine.functions import Functions, functions_for
from profiling_lab.mine.kernels import BORDERLINE_RATIO, finding_of
from scripts.lesson_sources.drawing import (
    BLUE,
    GREEN,
    GREY,
    GRID,
    INK,
    LIGHT,
    ORANGE,
    PURPLE,
    ROOT,
    SKY,
    VERMILION,
    YELLOW,
    legend,
    reference,
    told,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CAPTURES = ("ncu_memory", "ncu_shared", "ncu_compute", "ncu_parallelism", "ncu_atomics")
STATE = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
UNITS = {
    "dram": ("DRAM", BLUE),
    "l2": ("L2", SKY),
    "l1": ("L1 and shared memory", GREEN),
    "issue": ("issue slots", GREY),
    "pipe": ("busiest arithmetic pipe", ORANGE),
}
# Faulty kernel, its cause, the twin that was fixed.
TWINS = (
    ("row_sums_by_thread", "uncoalesced_access", "row_sums_by_warp"),
    ("drift_structs", "uncoalesced_access", "drift_arrays"),
    ("gather_shuffled", "uncoalesced_access", "gather_ascending"),
    ("transpose_direct", "uncoalesced_access", "transpose_tile33"),
    ("transpose_tile32", "bank_conflicts", "transpose_tile33"),
    ("relax_pitch32", "bank_conflicts", "relax_pitch33"),
    ("stream_large_tile", "low_occupancy", "stream_small_tile"),
    ("windows_128", "low_occupancy", "windows_16"),
    ("blend_32_registers", "register_spills", "blend"),
    ("gemm_half2", "tensor_cores_unused", "gemm_fragments"),
    ("gemm_half_float", "tensor_cores_unused", "gemm_fragments"),
    ("normalise_32_blocks", "small_grid", "normalise_1056_blocks"),
    ("evolve_140_blocks", "tail_effect", "evolve_1120_blocks"),
    ("shade_mixed", "divergence", "shade_sorted"),
    ("histogram_direct", "atomic_contention", "histogram_private"),
    ("total_by_thread", "atomic_contention", "total_by_block"),
)


# -- what the lesson's text uses -------------------------------------------------------------------


@cache
def _kernels(capture: str) -> dict[str, dict[str, Any]]:
    return {short(kernel["name"]): kernel for kernel in reference("ex_31").read_metrics(capture)}


def short(name: str) -> str:
    """A function's name without its arguments."""
    return name.split("(")[0]


def home(name: str) -> str:
    """The capture that holds a kernel."""
    return next(capture for capture in CAPTURES if name in _kernels(capture))


def kernel(name: str, capture: str | None = None) -> dict[str, Any]:
    """A recorded kernel, as read_metrics gives it."""
    return _kernels(capture or home(name))[name]


def metric(name: str, counter: str, capture: str | None = None) -> float:
    """A counter of a recorded kernel, in base units."""
    return kernel(name, capture)["metrics"][counter]


def reported(name: str, key: str) -> float:
    """What the program itself said of a kernel: duration_ns, useful_bytes, flops, launch_count."""
    return told(home(name), "kernels")[name][key]


def alone(name: str) -> float:
    """The duration of a kernel in its program, without a profiler, in ns."""
    return reported(name, "duration_ns")


def profiled(name: str, capture: str | None = None) -> float:
    """The duration of a kernel as the profiler measured it, in ns."""
    return metric(name, "gpu__time_duration.sum", capture)


def use(name: str, unit: str, capture: str | None = None) -> float:
    """How busy a unit was; "pipe": the busiest arithmetic pipe."""
    shares = reference("ex_31").unit_use(kernel(name, capture))
    return max(shares[one] for one in PIPES) if unit == "pipe" else shares[unit]


def highest(unit: str) -> float:
    """The highest use of a unit by any recorded kernel."""
    return max(use(name, unit, capture) for capture in CAPTURES for name in _kernels(capture))


def left(name: str, cause: str, unit: str) -> float:
    """What would be left of a unit's work, or of the waiting, without a cause."""
    return (reference("ex_31").left_without(kernel(name), cause) or {})[unit]


def gain(name: str, cause: str) -> float:
    """What the reference expects of a fix."""
    return reference("ex_31").estimate_gain(kernel(name), cause)


def borderline() -> float:
    """The margin up to which `lab diagnose --mine` calls a verdict borderline."""
    return BORDERLINE_RATIO


def asked(name: str, counter: str) -> float:
    """What a kernel answers to `choose_counters`."""
    return kernel_counters.value(kernel(name)["metrics"], counter)


def chosen(name: str) -> str:
    """What `choose_counters` says of a kernel."""
    module = reference("ex_31")
    return module.choose_counters(module.ask_of(kernel(name)))["cause"]


def shared_atomics(pattern: str) -> float:
    """Median ns of atomics in shared memory: "one_word", "one_bank", "padded" or "side_by_side"."""
    file = ROOT / "benchmarks/results/shared_atomics.json"
    return statistics.median(json.loads(file.read_text("utf-8"))["patterns"][pattern]["ns"])


def device(key: str) -> float:
    """A fact of the H200, from the course's table of devices."""
    return getattr(devices.get("H200"), key)


def warps(name: str) -> float:
    """Warps that a scheduler had, on average, while its SM had work."""
    return metric(name, "smsp__warps_active.avg.per_cycle_active")


def life(name: str) -> float:
    """Cycles from one instruction of a warp to its next: all its states, the issue included."""
    reasons = sum(
        row["cycles_per_instruction"] for row in reference("ex_31").rank_stalls(kernel(name))
    )
    return reasons + metric(name, STATE.format("selected"))


def opcode(name: str) -> str:
    """The hottest instruction of the hottest line, without operands."""
    return reference("ex_31")._opcode(hottest(name)["instruction"])


def matrix_signs(name: str) -> tuple[float, float, float]:
    """Multiply-adds among the instructions, 16-bit ones among them, loads against the busiest pipe."""
    metrics = kernel(name)["metrics"]
    halves, floats, sums = (
        metrics[f"smsp__sass_thread_inst_executed_op_{op}_pred_on.sum.per_cycle_elapsed"]
        for op in ("hfma", "ffma", "hadd")
    )
    work = halves + floats + sums
    everything = 32 * metrics["smsp__inst_executed.sum"] / metrics["gpc__cycles_elapsed.max"]
    loads = metrics["sm__inst_executed_pipe_lsu.avg.pct_of_peak_sustained_elapsed"] / 100
    return work / everything, (halves + sums) / work, loads / use(name, "pipe")


def scatter(key: str) -> float:
    """How far two recordings of the same kernels are apart, at most, in a number of the verdict's evidence."""
    return max(
        abs(
            verdict(name, "ncu_memory").evidence[key]
            - verdict(name, "ncu_memory_warm").evidence[key]
        )
        for name in _kernels("ncu_memory")
    )


def apart(capture: str) -> float:
    """How far durations of another capture of the same kernels are from ncu_memory's, at most, as a ratio."""
    names = _kernels("ncu_memory")
    return max(abs(profiled(name, capture) / profiled(name) - 1) for name in names)


@cache
def _reference() -> Functions:
    return functions_for("ex_31", "solutions")


def verdict(name: str, capture: str | None = None) -> Finding:
    """What the reference says of a kernel."""
    module = reference("ex_31")
    one = kernel(name, capture)
    return finding_of(_reference(), one, module.classify_kernel(one))


def stall(name: str, reason: str) -> float:
    """The share of a stall reason in a warp's life."""
    rows = reference("ex_31").rank_stalls(kernel(name))
    return next(row["share_ratio"] for row in rows if row["reason"] == reason)


def request_wait(name: str) -> float:
    """Cycles that a request to global memory waited."""
    metrics = kernel(name)["metrics"]
    stalls = {
        row["reason"]: row["share_ratio"] for row in reference("ex_31").rank_stalls(kernel(name))
    }
    reasons = ["long_scoreboard", "lg_throttle", "drain"]
    if not metrics["memory_l1_wavefronts_shared"]:
        reasons += ["short_scoreboard", "mio_throttle"]
    requests = sum(
        metrics[f"l1tex__t_requests_pipe_lsu_mem_global_op_{op}.sum"]
        for op in ("ld", "st", "red", "atom")
    )
    warps = metrics["sm__warps_active.avg.per_cycle_active"]
    memory = sum(stalls.get(reason, 0.0) for reason in reasons)
    return memory * warps * metrics["sm__cycles_active.sum"] / requests


def gap(name: str) -> dict[str, float]:
    """duration_gap of a kernel of ncu_memory against the same with warm caches."""
    clock_hz = told("ncu_memory", "sm_clock_hz")
    return reference("ex_31").duration_gap(
        kernel(name), kernel(name, "ncu_memory_warm"), alone(name), clock_hz
    )


def hottest(name: str) -> dict[str, Any]:
    """hottest_line of a kernel."""
    module = reference("ex_31")
    return module.hottest_line(module.read_source(home(name), name))


def mix(name: str) -> dict[str, float]:
    """instruction_mix of a kernel."""
    module = reference("ex_31")
    return module.instruction_mix(module.read_source(home(name), name))


def passes(capture: str, name: str) -> int:
    """How many passes the profiler ran a kernel for (its log)."""
    for line in captures.text(capture, "ncu.log").splitlines():
        if f'"{name}"' in line and "passes" in line:
            return int(line.split()[-2])
    raise LookupError(f"{capture}: no passes of {name}")


def cell(capture: str, name: str, column: str) -> str:
    """A cell of a raw page as it is written, without its unit."""
    header, _, *rows = csv.reader(captures.text(capture, "kernels.csv").splitlines())
    at = header.index("Kernel Name")
    return next(row for row in rows if short(row[at]) == name)[header.index(column)]


def detail(capture: str, name: str, label: str) -> str:
    """A value of the details page as it is written, without its unit."""
    for row in csv.DictReader(captures.text(capture, "details.csv").splitlines()):
        if short(row["Kernel Name"]) == name and row["Metric Name"] == label:
            return row["Metric Value"]
    raise LookupError(f"{capture}: no {label} of {name}")


def columns(capture: str) -> int:
    """Columns of a raw page."""
    return len(next(csv.reader(captures.text(capture, "kernels.csv").splitlines())))


def advice(name: str, rule: str) -> float:
    """The speed-up in per cent that a rule of the tool promises for a kernel."""
    for row in csv.DictReader(captures.text(home(name), "details.csv").splitlines()):
        asked = short(row["Kernel Name"]) == name and row["Rule Name"] == rule
        if asked and row["Estimated Speedup"]:
            return float(row["Estimated Speedup"])
    raise LookupError(f"no advice of {rule} for {name}")


def occupancy(capability: str, threads: int, registers: int = 32, shared: int = 0) -> float:
    """Theoretical occupancy as a ratio."""
    found = reference("ex_31").theoretical_occupancy(capability, threads, registers, shared)
    return found["occupancy_ratio"]


def rule_line(name: str) -> str:
    """The share of the peak at which the tool's rule on ceilings draws a line, as it says of a kernel."""
    for row in csv.DictReader(captures.text(home(name), "details.csv").splitlines()):
        if short(row["Kernel Name"]) == name and row["Rule Name"] == "SOLBottleneck":
            share = re.search(r"(?:below|greater than) ([\d.]+)%", row["Rule Description"])
            if share:
                return f"{float(share[1]):.0f} %"
    raise LookupError(f"no line drawn for {name}")


def shared_limit(capability: str, config_bytes: int) -> int:
    """Blocks without shared memory of their own for which the SM has shared memory set aside."""
    module = reference("ex_31")
    found = module.theoretical_occupancy(capability, 256, 22, shared_config_bytes=config_bytes)
    return found["limits"]["shared"]


def register_limit(capability: str, threads: int, registers: int) -> int:
    """Blocks for which an SM has registers."""
    found = reference("ex_31").theoretical_occupancy(capability, threads, registers)
    return found["limits"]["registers"]


def limit(name: str, resource: str) -> int:
    """Blocks per SM that a resource allows a recorded kernel, as the profiler says."""
    return round(metric(name, f"launch__occupancy_limit_{resource}"))


def ranking(capture: str) -> list[dict[str, Any]]:
    """rank_kernels of a capture, with the launches of one step of its program."""
    module = reference("ex_31")
    launches = {name: row["launch_count"] for name, row in told(capture, "kernels").items()}
    findings = [verdict(name, capture) for name in _kernels(capture)]
    return module.rank_kernels(findings, launches)


def number(value: float, digits: int = 1) -> str:
    """A number without a unit."""
    return f"{value:,.{digits}f}"


# -- plots -----------------------------------------------------------------------------------------


def _plain(axes: Axes, along: Literal["x", "y", "both"]) -> None:
    axes.grid(axis=along, color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)


def same_result() -> Figure:
    """Three transposes of one matrix: how busy each unit was. How long each took is the lesson's question."""
    from matplotlib.figure import Figure

    names = ("transpose_direct", "transpose_tile32", "transpose_tile33")
    figure = Figure(figsize=(8.6, 3.1))
    panels = figure.subplots(1, 3, sharex=True)
    for axes, name in zip(panels, names, strict=True):
        units = list(UNITS)[::-1]
        axes.barh(
            [UNITS[unit][0] for unit in units],
            [100 * use(name, unit) for unit in units],
            color=[UNITS[unit][1] for unit in units],
            height=0.7,
        )
        axes.set_title(name)
        axes.set_xlim(0, 100)
        axes.set_xticks([0, 25, 50, 75])
        axes.set_xlabel("use, % of peak")
        axes.axvline(90, color=INK, linewidth=0.8, linestyle=(0, (3, 3)))
        _plain(axes, "x")
        if axes is not panels[0]:
            axes.set_yticklabels([])
    figure.subplots_adjust(left=0.2, right=0.98, top=0.88, bottom=0.17, wspace=0.1)
    return figure


def block_sizes() -> Figure:
    """Theoretical occupancy over block sizes, for four compute capabilities."""
    from matplotlib.figure import Figure

    threads = [32 * warps for warps in range(1, 33)]
    figure = Figure(figsize=(8.6, 3.3))
    panels = figure.subplots(1, 2, sharey=True)
    # (colour, width): where lines cover each other the wider one shows at both sides.
    shown = {"7.5": (PURPLE, 1.6), "9.0": (GREEN, 1.6), "8.6": (ORANGE, 4.0), "12.0": (BLUE, 1.4)}
    for axes, registers in zip(panels, (32, 64), strict=True):
        for capability, (colour, width) in shown.items():
            axes.plot(
                threads,
                [100 * occupancy(capability, count, registers) for count in threads],
                color=colour,
                linewidth=width,
                drawstyle="steps-mid",
            )
        axes.set_title(f"{registers} registers a thread")
        axes.set_xlabel("threads a block")
        axes.set_xticks([32, 256, 512, 768, 1024])
        axes.set_ylim(0, 104)
        _plain(axes, "both")
    panels[0].set_ylabel("theoretical occupancy, %")
    legend(figure, {f"cc {name}": colour for name, (colour, _) in shown.items()}, 4)
    figure.subplots_adjust(left=0.08, right=0.98, top=0.91, bottom=0.28, wspace=0.06)
    return figure


def where_warps_wait() -> Figure:
    """What a warp's life goes into, for eight kernels."""
    from matplotlib.figure import Figure

    names = (
        "scale",
        "row_sums_by_thread",
        "transpose_tile32",
        "iterate",
        "oscillate",
        "shade_mixed",
        "follow_one",
        "total_by_thread",
    )
    groups = {
        "long_scoreboard": ("long scoreboard", BLUE),
        "lg_throttle": ("LG throttle", SKY),
        "drain": ("drain", PURPLE),
        "short_scoreboard": ("short scoreboard", GREEN),
        "mio_throttle": ("MIO throttle", YELLOW),
        "barrier": ("barrier", VERMILION),
        "not_selected": ("not selected", GREY),
        "wait": ("wait", ORANGE),
        "other": ("other, issued", LIGHT),
    }
    figure = Figure(figsize=(8.6, 3.6))
    axes = figure.subplots()
    left = dict.fromkeys(names, 0.0)
    for reason, (_, colour) in groups.items():
        shares = []
        for name in names:
            rows = {
                r["reason"]: r["share_ratio"] for r in reference("ex_31").rank_stalls(kernel(name))
            }
            shares.append(100 - left[name] if reason == "other" else 100 * rows.get(reason, 0.0))
        axes.barh(names, shares, left=list(left.values()), color=colour, height=0.72)
        for name, share in zip(names, shares, strict=True):
            left[name] += share
    axes.invert_yaxis()
    axes.set_xlim(0, 100)
    axes.set_xlabel("share of a warp's life, %")
    legend(figure, dict(groups.values()), 5)
    figure.subplots_adjust(left=0.2, right=0.97, top=0.97, bottom=0.29)
    return figure


def expected_and_gained() -> Figure:
    """What the counters of a faulty kernel promised, and what its fixed twin gained."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.6, 4.8))
    axes = figure.subplots()
    rows = [
        (faulty, cause, gain(faulty, cause), alone(faulty) / alone(twin))
        for faulty, cause, twin in TWINS
    ]
    rows.sort(key=lambda row: row[3])
    for place, (_, _, expected, gained) in enumerate(rows):
        axes.plot([expected, gained], [place, place], color=GREY, linewidth=2, zorder=1)
    axes.scatter([row[2] for row in rows], range(len(rows)), color=SKY, s=42, zorder=2)
    axes.scatter([row[3] for row in rows], range(len(rows)), color=GREEN, s=42, zorder=3)
    axes.set_yticks(range(len(rows)), [f"{row[0]}  ({row[1].replace('_', ' ')})" for row in rows])
    axes.set_xscale("log")
    ticks = [1, 2, 5, 10, 20, 50, 100, 1000]
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.minorticks_off()
    axes.set_xlabel("times as fast")
    _plain(axes, "x")
    legend(
        figure,
        {"expected from the faulty kernel's counters": SKY, "gained by the fixed twin": GREEN},
        2,
    )
    figure.subplots_adjust(left=0.38, right=0.97, top=0.98, bottom=0.2)
    return figure


FIGURES: dict[str, Callable[[], Figure]] = {
    "same_result": same_result,
    "block_sizes": block_sizes,
    "where_warps_wait": where_warps_wait,
    "expected_and_gained": expected_and_gained,
}
