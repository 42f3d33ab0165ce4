"""What the figures and plots of Day 5's lesson are computed from."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from profiling_lab import captures
from profiling_lab.captures import inputs
from profiling_lab.captures.program_runs import read_runs
from profiling_lab.diagnosis import engine
from profiling_lab.mine.functions import load_file
from scripts.lesson_sources.drawing import (
    BLUE,
    GREEN,
    GREY,
    GRID,
    INK,
    ORANGE,
    PURPLE,
    ROOT,
    SKY,
    VERMILION,
    legend,
    reference,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

EAGER, GRAPH = ORANGE, BLUE
OPEN = "serving_open_loop_graph"
STALL = "stall_closed"
BATCH = r"batch \d+"
STAGES = {
    "queue": GREY,
    "tokenize": PURPLE,
    "copy_in": SKY,
    "forward": ORANGE,
    "copy_out": BLUE,
    "postprocess": GREEN,
    "other": INK,
}
# The settings among which the lesson chooses, and its promise.
BATCHES = (1, 2, 4, 8, 16, 32)
WAITS_NS = (0, 500_000, 1_000_000, 2_000_000, 4_000_000)
# What section 4 counts, with tests/week07/day5_end_to_end/probes/pipelines.py.
COUNTED = {"seed": 7, "count": 43, "best": 5}
MAX_BATCH = 10


# -- what the lesson's text uses as well ------------------------------------------------------------


def ex() -> Any:
    """The reference of this day."""
    return reference("ex_34")


def runs(capture: str, file: str = "requests.json") -> dict[str, dict]:
    """The runs of a capture's file."""
    return read_runs(capture, file)


def by_rate(capture: str, place: int) -> str:
    """The name of the open-loop run at a place when they are ordered by rate (-1: the highest)."""
    found = [
        run
        for run in runs(capture).values()
        if run["loop"] == "open" and not run["run"].startswith("stall")
    ]
    return sorted(found, key=lambda run: run["rate_per_s"])[place]["run"]


def latency(capture: str, run: str, percent: float, kind: str = "latency_ns") -> float:
    """A percentile of the latencies of a run, in ns, by nearest rank."""
    return ex().percentile(ex().latency_from_intended(capture, run)[kind], percent)


def interval(capture: str, run: str, percent: float) -> tuple[float | None, float | None]:
    """Its interval."""
    return ex().percentile_interval(ex().latency_from_intended(capture, run)["latency_ns"], percent)


def point(capture: str, run: str) -> dict:
    """The point of a run on its capture's throughput-latency curve."""
    return next(p for p in ex().throughput_latency_curve(capture) if p["run"] == run)


def batches(capture: str) -> dict[int, list[int]]:
    """Batch size → service times in ns."""
    found = runs(capture, "service.json").values()
    return {run["batch"]: run["service_ns"] for run in sorted(found, key=lambda r: r["batch"])}


def middle(capture: str, run: str) -> dict:
    """Little's law in the middle third of a run."""
    found = runs(capture)[run]
    first, last = min(found["sent_ns"]), max(found["sent_ns"])
    third = (last - first) // 3
    return ex().littles_law(capture, run, (first + third, first + 2 * third))


def token_run(capture: str, place: int = -1) -> str:
    """The name of a run of tokens.json when they are ordered by rate (-1: the highest)."""
    found = sorted(runs(capture, "tokens.json").values(), key=lambda run: run["rate_per_s"])
    return found[place]["run"]


@cache
def tokens(capture: str, place: int = -1) -> dict:
    """`token_metrics` of a run by its place."""
    return ex().token_metrics(capture, token_run(capture, place))


def goodput(capture: str, ttft_ms: float, tpot_ms: float, place: int = -1) -> dict:
    """`goodput` of a run by its place, limits in ms."""
    return ex().goodput(capture, token_run(capture, place), ttft_ms * 1e6, tpot_ms * 1e6)


@cache
def parts(capture: str) -> dict[str, float]:
    """The parts of a request's time, in ns, on average over the requests of a recorded pipeline."""
    rows = ex().request_breakdown(capture)
    return {
        key.removesuffix("_ns"): float(np.mean([row[key] for row in rows]))
        for key in rows[0]
        if key not in ("request", "total_ns")
    }


def total(capture: str) -> float:
    """The mean time of a request of a recorded pipeline, in ns."""
    return sum(parts(capture).values())


def work(capture: str) -> float:
    """The same without the queue."""
    return total(capture) - parts(capture)["queue"]


def load(place: int = 2) -> tuple[list[int], dict[int, int]]:
    """Arrivals of an open-loop run by its place, and the median service time per batch size."""
    arrivals = sorted(runs(OPEN)[by_rate(OPEN, place)]["intended_ns"])
    service = {size: int(ex().percentile(samples, 50)) for size, samples in batches(OPEN).items()}
    return arrivals, service


@cache
def settings(place: int = 0) -> list[dict]:
    """Every setting of BATCHES and WAITS_NS on recorded arrivals: p99 in ns and busy share."""
    arrivals, service = load(place)
    out = []
    for max_batch in BATCHES:
        for max_wait_ns in WAITS_NS:
            done = ex().simulate_batcher(arrivals, service, max_batch, max_wait_ns)
            waited = [end - a for end, a in zip(done["end_ns"], arrivals, strict=True)]
            served = dict(zip(done["start_ns"], done["end_ns"], strict=True))
            busy = sum(end - start for start, end in served.items())
            out.append(
                {
                    "max_batch": max_batch,
                    "max_wait_ns": max_wait_ns,
                    "p99_ns": ex().percentile(waited, 99),
                    "busy_ratio": busy / (max(done["end_ns"]) - arrivals[0]),
                }
            )
    return out


def setting(max_batch: int, max_wait_ns: int, place: int = 0) -> dict:
    """One of `settings`."""
    return next(
        s
        for s in settings(place)
        if s["max_batch"] == max_batch and s["max_wait_ns"] == max_wait_ns
    )


@cache
def chosen(limit_ms: float, place: int = 0) -> dict:
    """What `choose_batcher` takes for a limit on p99, in ms, with its busy share."""
    arrivals, service = load(place)
    best = ex().choose_batcher(arrivals, service, limit_ms * 1e6, BATCHES, WAITS_NS)
    return best | setting(best["max_batch"], best["max_wait_ns"], place)


def verdict(run: str) -> dict:
    """`evidence_verdict` of a recorded change."""
    return ex().evidence_verdict("serving_evidence", run)


def best_rate(capture: str) -> float:
    """The highest throughput of the runs of a capture, without those that stall, in requests per second."""
    points = ex().throughput_latency_curve(capture)
    return max(p["throughput_per_s"] for p in points if not p["run"].startswith("stall"))


@cache
def host_ratio(name: str) -> float:
    """The time of all ranges of a name (a pattern) in the fast pipeline, over that in the slow one."""
    took = []
    for capture in ("pipeline_fast", "pipeline_slow"):
        with captures.open(capture) as recording:
            ranges = recording.nvtx_ranges.select("name", "start_ns", "end_ns").rows()
        took.append(sum(end - start for of, start, end in ranges if re.fullmatch(name, of)))
    return took[0] / took[1]


@cache
def engines_word(capture: str) -> str:
    """What the engine names as the main cause of one batch, and the share that it costs."""
    main = engine.judge(inputs.read([capture]), "batch 10").findings[0]
    return f"`{main.category}`, {main.evidence['recoverable_ratio']:.0%}".replace("%", " %")


@cache
def balance(capture: str) -> str:
    """The three largest parts of the time of one batch, by the engine."""
    found = engine.judge(inputs.read([capture]), "batch 10").to_dict()
    length = found["window"]["end_ns"] - found["window"]["start_ns"]
    parts = {key: ns for key, ns in found["balance"][0].items() if key.endswith("_ns")}
    return ", ".join(
        f"{key.removesuffix('_ns').replace('_', ' ')} {parts[key] / length:.0%}".replace("%", " %")
        for key in sorted(parts, key=parts.__getitem__, reverse=True)[:3]
    )


def change(run: str, fact: str) -> Any:
    """A fact about a recorded change."""
    return runs("serving_evidence", "evidence.json")[run][fact]


def of_medians(run: str) -> float:
    """The median of all times after a recorded change, over that of all before."""
    found = runs("serving_evidence", "evidence.json")[run]
    return float(np.median(found["after_ns"]) / np.median(found["before_ns"]))


def best_round(run: str) -> float:
    """The most flattering single round of a recorded change: after / before."""
    found = runs("serving_evidence", "evidence.json")[run]
    return min(b / a for a, b in zip(found["before_ns"], found["after_ns"], strict=True))


def needed_samples(percent: float, confidence: float = 0.95) -> int:
    """How many samples it takes until a percentile has an upper bound."""
    return math.ceil(math.log((1 - confidence) / 2) / math.log(percent / 100))


@cache
def counted() -> dict[str, Any]:
    """Both pipelines on the stand-in device: what they asked for."""
    probe = load_file(ROOT / "tests" / "week07" / "day5_end_to_end" / "probes" / "pipelines.py")
    folder = ROOT / "solutions" / "week07" / "day5_end_to_end"
    optimized = load_file(folder / "pipeline_optimized.py")
    return {
        "slow": probe.run_pipeline_slow(optimized, **COUNTED),
        "fast": probe.run_pipeline_optimized(optimized, **COUNTED, max_batch=MAX_BATCH),
    }


def asked(which: str, what: str) -> int:
    """How often "slow" or "fast" asked for something, or how much of it."""
    found = counted()[which]
    if what == "calls":
        return len(found["calls"])
    if what == "places":
        return sum(texts * length for texts, length, _ in found["calls"])
    return found["searches"] if what == "searches" else found["counts"][what]


# -- drawing ----------------------------------------------------------------------------------------


def _panel(axes: Axes, x: str, y: str, title: str = "") -> None:
    axes.grid(color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.set_title(title)


def _ticks(axes: Axes, x: np.ndarray, y: np.ndarray, half: float, colour: str) -> None:
    """Short upright strokes, all in one path: a file a tenth as long as with a dot each."""
    gaps = np.full(len(x), np.nan)
    axes.plot(
        np.stack([x, x, gaps], axis=1).ravel(),
        np.stack([y - half, y + half, gaps], axis=1).ravel(),
        color=colour,
        linewidth=1.2,
        solid_capstyle="butt",
    )


def omission() -> Figure:
    """A server that stands still once: what its client measured, and what users waited."""
    import matplotlib.pyplot as plt

    found = ex().latency_from_intended(OPEN, STALL)
    moments = np.array(runs(OPEN)[STALL]["intended_ns"]) / 1e9
    figure, panels = plt.subplots(1, 2, figsize=(8, 3.2), width_ratios=(3, 2))
    figure.subplots_adjust(left=0.08, right=0.98, top=0.9, bottom=0.26, wspace=0.3)
    for kind, colour, width in (("latency_ns", VERMILION, 2.4), ("measured_ns", BLUE, 1.2)):
        values = np.array(found[kind]) / 1e6
        panels[0].plot(moments, values, color=colour, linewidth=width)
        ordered = np.sort(values)
        share = np.arange(1, len(ordered) + 1) / len(ordered) * 100
        panels[1].step(ordered, share, where="post", color=colour, linewidth=1.6)
    _panel(panels[0], "when the request was due (s)", "ms", "each request")
    _panel(panels[1], "time up to (ms)", "% of requests", "how many took at most …")
    panels[1].set_xscale("log")
    panels[1].set_ylim(0, 101)
    legend(figure, {"from when it was due": VERMILION, "as its client measured": BLUE}, 2)
    return figure


def interval_width() -> Figure:
    """p99 of the first n requests of a run, with its interval."""
    import matplotlib.pyplot as plt

    capture = "serving_open_loop_eager"
    run = by_rate(capture, 0)
    samples = ex().latency_from_intended(capture, run)["latency_ns"]
    # In an order that has nothing to do with time: neighbours wait in the same queue.
    samples = [samples[i] for i in np.random.default_rng(5).permutation(len(samples))]
    first = needed_samples(99)
    sizes = np.unique([*np.geomspace(20, len(samples), 60).astype(int), first])
    figure, axes = plt.subplots(figsize=(8, 3.1))
    figure.subplots_adjust(left=0.08, right=0.98, top=0.89, bottom=0.17)
    middles = [ex().percentile(samples[:n], 99) / 1e6 for n in sizes]
    bounds = [ex().percentile_interval(samples[:n], 99) for n in sizes]
    top, floor = max(samples) / 1e6 * 1.05, ex().percentile(samples, 50) / 1e6
    low = [floor if a is None else a / 1e6 for a, _ in bounds]
    high = [top if b is None else b / 1e6 for _, b in bounds]
    axes.fill_between(sizes, low, high, color=SKY, alpha=0.45, linewidth=0, step="post")
    axes.step(sizes, middles, where="post", color=BLUE, linewidth=1.6)
    axes.axvline(first, color=VERMILION, linewidth=1)
    text = f"from {first} samples on\np99 has an upper bound"
    axes.text(first * 1.04, floor + 0.02 * (top - floor), text, va="bottom")
    axes.set_xscale("log")
    axes.set_xlim(sizes[0], sizes[-1])
    axes.set_ylim(floor, top)
    _panel(axes, "samples", "ms", f"p99 latency of {run} ({capture}), 95 % interval")
    ticks = [20, 50, 100, 200, 500, 1000]
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    axes.minorticks_off()
    return figure


def in_system() -> Figure:
    """How many requests are in the system, under a load that is kept up with and one that is not."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 3))
    figure.subplots_adjust(left=0.08, right=0.98, top=0.89, bottom=0.17)
    for place, colour in ((1, GREEN), (2, BLUE), (-1, VERMILION)):
        name = by_rate(OPEN, place)
        run = runs(OPEN)[name]
        moments = np.concatenate([run["sent_ns"], run["end_ns"]])
        changes = np.repeat([1, -1], len(run["sent_ns"]))
        order = np.lexsort((changes, moments))
        seconds = moments[order] / 1e9
        grid = np.linspace(0, seconds[-1], 400)
        inside = np.concatenate([[0], np.cumsum(changes[order])])
        level = inside[np.searchsorted(seconds, grid, side="right")]
        axes.plot(grid, level, color=colour, linewidth=1.3)
        at = int(np.argmax(level)) if place == -1 else int(len(grid) * 0.97)
        near = level[max(0, at - 25) : at + 25].max()
        axes.text(grid[at], near + 8, name, color=colour, ha="center")
    _panel(axes, "s since the run began", "requests", "requests in the system")
    axes.margins(y=0.12)
    axes.set_ylim(bottom=0)
    return figure


def curve() -> Figure:
    """Throughput against p99 latency, of both servers, closed and open loop."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 2, figsize=(8, 3.6), sharey=True)
    figure.subplots_adjust(left=0.08, right=0.97, top=0.9, bottom=0.24, wspace=0.1)
    for axes, kind, title in (
        (panels[0], "serving_sweep", "closed loop: clients that wait"),
        (panels[1], "serving_open_loop", "open loop: users who come anyway"),
    ):
        for variant, colour in (("eager", EAGER), ("graph", GRAPH)):
            found = [
                p
                for p in ex().throughput_latency_curve(f"{kind}_{variant}")
                if not p["run"].startswith("stall")
            ]
            found.sort(key=lambda p: float(p["run"].split("_")[1]))
            x = [p["throughput_per_s"] for p in found]
            y = [p["p99_ns"] / 1e6 for p in found]
            axes.plot(x, y, color=colour, marker="o", markersize=4, linewidth=1.4)
            if variant == "graph":
                for p, a, b in zip(found, x, y, strict=True):
                    name = p["run"].split("_")[1]
                    axes.annotate(name, (a, b), (4, -11), textcoords="offset points", fontsize=7.5)
        axes.set_yscale("log")
        axes.set_xlim(0, 8_000)
        axes.set_xticks(range(0, 8_000, 1_000), [f"{tick:,}" for tick in range(0, 8_000, 1_000)])
        _panel(axes, "requests served a second", "", title)
        ticks = [2, 5, 10, 20, 50, 100]
        axes.set_yticks(ticks, [str(tick) for tick in ticks])
        axes.minorticks_off()
    panels[0].set_ylabel("p99 latency (ms)")
    legend(figure, {"eager": EAGER, "CUDA graph (numbers: clients, rate)": GRAPH}, 2)
    return figure


def batch_sizes() -> Figure:
    """Service time and throughput over the batch size."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 2, figsize=(8, 3.2))
    figure.subplots_adjust(left=0.08, right=0.98, top=0.9, bottom=0.27, wspace=0.25)
    for variant, colour in (("eager", EAGER), ("graph", GRAPH)):
        found = batches(f"serving_sweep_{variant}")
        sizes = list(found)
        middles = [ex().percentile(found[size], 50) / 1e6 for size in sizes]
        late = [ex().percentile(found[size], 99) / 1e6 for size in sizes]
        panels[0].fill_between(sizes, middles, late, color=colour, alpha=0.25, linewidth=0)
        panels[0].plot(sizes, middles, color=colour, marker="o", markersize=4, linewidth=1.4)
        rates = [size / np.mean(found[size]) * 1e9 for size in sizes]
        panels[1].plot(sizes, rates, color=colour, marker="o", markersize=4, linewidth=1.4)
    for axes, unit, title in (
        (panels[0], "ms", "time of one batch, p50 to p99"),
        (panels[1], "requests per second", "one batch after the other"),
    ):
        axes.set_xscale("log", base=2)
        axes.set_xticks(sizes, [str(size) for size in sizes])
        axes.minorticks_off()
        _panel(axes, "batch size", unit, title)
    panels[0].set_yscale("log")
    panels[0].set_yticks([2, 5, 10, 20], ["2", "5", "10", "20"])
    panels[0].minorticks_off()
    panels[1].set_ylim(bottom=0)
    legend(figure, {"eager": EAGER, "CUDA graph": GRAPH}, 2)
    return figure


def token_streams() -> Figure:
    """Requests of two decoding runs: the wait for the first token, and every token."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(2, 1, figsize=(8, 4.8))
    figure.subplots_adjust(left=0.08, right=0.98, top=0.94, bottom=0.19, hspace=0.6)
    for axes, capture in zip(panels, ("llm_decode_chat", "llm_decode_documents"), strict=True):
        name = token_run(capture)
        run = runs(capture, "tokens.json")[name]
        rows = sorted(zip(run["sent_ns"], run["token_ns"], strict=True))[10:30]
        origin = rows[0][0]
        for lane, (sent, times) in enumerate(rows):
            axes.plot(
                [(sent - origin) / 1e6, (times[0] - origin) / 1e6],
                [lane, lane],
                color=GREY,
                linewidth=2.2,
                solid_capstyle="butt",
            )
            _ticks(axes, (np.array(times) - origin) / 1e6, np.full(len(times), lane), 0.3, ORANGE)
        axes.set_ylim(len(rows), -1)
        axes.set_yticks([])
        _panel(axes, "ms", "requests", f"{capture}, {name}: 20 requests")
    legend(figure, {"waits for its first token": GREY, "a token": ORANGE}, 2)
    return figure


def breakdown() -> Figure:
    """Where the time of each request went, in both pipelines."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 2, figsize=(8, 3.6), sharey=True)
    figure.subplots_adjust(left=0.08, right=0.98, top=0.91, bottom=0.3, wspace=0.06)
    for axes, capture in zip(panels, ("pipeline_slow", "pipeline_fast"), strict=True):
        rows = ex().request_breakdown(capture)
        numbers = np.array([row["request"] for row in rows])
        floor = np.zeros(len(rows))
        for stage, colour in STAGES.items():
            height = np.array([row[f"{stage}_ns"] for row in rows]) / 1e6
            axes.fill_between(numbers, floor, floor + height, color=colour, step="mid", linewidth=0)
            floor = floor + height
        _panel(axes, "request", "", f"{capture}: mean {total(capture) / 1e6:.1f} ms")
        axes.grid(axis="x", visible=False)
    panels[0].set_ylabel("ms from arrival to answer")
    legend(figure, STAGES, 4)
    return figure


def batcher_settings() -> Figure:
    """Every setting of a batcher on recorded arrivals: how late, and how busy."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 2, figsize=(8, 3.5), sharey=True)
    figure.subplots_adjust(left=0.1, right=0.98, top=0.9, bottom=0.27, wspace=0.08)
    colours = dict(zip(BATCHES, (GREY, PURPLE, SKY, GREEN, BLUE, ORANGE), strict=True))
    for axes, place in zip(panels, (0, 1), strict=True):
        for max_batch, colour in colours.items():
            found = [s for s in settings(place) if s["max_batch"] == max_batch]
            axes.plot(
                [100 * s["busy_ratio"] for s in found],
                [s["p99_ns"] / 1e6 for s in found],
                color=colour,
                marker="o",
                markersize=4,
                linewidth=1.2,
            )
        rate = runs(OPEN)[by_rate(OPEN, place)]["rate_per_s"]
        axes.set_yscale("log")
        _panel(axes, "server busy (%)", "", f"{rate:,.0f} requests per second")
        axes.set_xlim(0, 104)
    ticks = [2, 5, 10, 50, 100, 500, 1000]
    panels[0].set_yticks(ticks, [f"{tick:,}" for tick in ticks])
    panels[0].set_ylabel("p99 latency (ms)")
    for axes in panels:
        axes.minorticks_off()
    names = {f"at most {size}": colour for size, colour in colours.items()}
    legend(figure, names, 6)
    return figure


def evidence() -> Figure:
    """The recorded changes: every round, the interval of the median, and the noise of the old."""
    import matplotlib.pyplot as plt

    found = runs("serving_evidence", "evidence.json")
    figure, axes = plt.subplots(figsize=(8, 3.9))
    figure.subplots_adjust(left=0.13, right=0.98, top=0.91, bottom=0.23)
    rng = np.random.default_rng(5)
    for lane, (name, run) in enumerate(found.items()):
        before = np.array(run["before_ns"])
        for offset, column, colour in ((-0.16, "after_ns", BLUE), (0.2, "again_ns", GREY)):
            ratios = np.array(run[column]) / before
            jitter = rng.uniform(-0.08, 0.08, len(ratios))
            _ticks(axes, ratios, lane + offset + jitter, 0.05, colour)
        said = verdict(name)
        if said["noise_ratio"] is not None:
            noise = said["noise_ratio"]
            axes.plot([1 - noise, 1 + noise], [lane + 0.36] * 2, color=INK, linewidth=2)
        if said["low_ratio"] is not None and said["high_ratio"] is not None:
            axes.plot(
                [said["low_ratio"], said["high_ratio"]],
                [lane - 0.34] * 2,
                color=VERMILION,
                linewidth=3,
            )
    axes.axvline(1, color=INK, linewidth=0.8)
    axes.set_yticks(range(len(found)), list(found))
    axes.set_ylim(len(found) - 0.5, -0.5)
    _panel(axes, "time, as a ratio to the old program in the same round", "", "serving_evidence")
    axes.grid(axis="y", visible=False)
    for edge in range(1, len(found)):
        axes.axhline(edge - 0.5, color=GREY, linewidth=0.8)
    legend(
        figure,
        {
            "after / before, a round": BLUE,
            "interval of its median": VERMILION,
            "again / before, a round": GREY,
            "noise": INK,
        },
        4,
    )
    return figure


FIGURES: dict[str, Callable[[], Figure]] = {
    "omission": omission,
    "interval_width": interval_width,
    "in_system": in_system,
    "curve": curve,
    "batch_sizes": batch_sizes,
    "token_streams": token_streams,
    "breakdown": breakdown,
    "batcher_settings": batcher_settings,
    "evidence": evidence,
}
