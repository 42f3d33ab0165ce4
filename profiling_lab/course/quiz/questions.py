"""The questions of `lab quiz`.

What is asked of a timeline is a SQL query: the one that computes the answer is the one that the
explanation shows. What is asked of a page of Nsight Compute, a trace or a measurement is computed from
the file that the text names. None of them is what a task of the course asks for.
"""

# Long because it is a list of questions.

from __future__ import annotations

import csv
import io
import itertools
import json
import statistics
from functools import cache
from typing import Any

from profiling_lab import captures, devices, units
from profiling_lab.analysis.measures import DURATION
from profiling_lab.captures import sqlite_tables
from profiling_lab.captures.program_runs import read_runs
from profiling_lab.course.quiz import Asked, Question

DAY1 = "week07/day1_nsight_systems/README.md"
DAY2 = "week07/day2_nsight_compute/README.md"
DAY3 = "week07/day3_pytorch_profiler/README.md"
DAY4 = "week07/day4_bottleneck_analysis/README.md"
DAY5 = "week07/day5_end_to_end/README.md"

# More than 400 lines: a question's words, in QUESTIONS, are read beside what computes its answer.

SM = "sm__throughput.avg.pct_of_peak_sustained_elapsed"
DRAM = "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"
OCCUPANCY = "sm__warps_active.avg.pct_of_peak_sustained_active"
SM_ACTIVE = "sm__cycles_active.avg"
SM_ELAPSED = "sm__cycles_elapsed.max"
SCALES = {"ns": 1.0, "us": 1e3, "ms": 1e6, "byte": 1.0, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9}
SECTORS_HIT = "l1tex__t_sector_hit_rate.pct"

KERNEL_NAMES = """
FROM CUPTI_ACTIVITY_KIND_KERNEL AS k JOIN StringIds AS s ON s.id = k.shortName"""


# -- reading -------------------------------------------------------------------------------------


def query(capture: str, sql: str) -> list[tuple[Any, ...]]:
    """The rows of a query on a timeline, which is opened read-only."""
    connection = sqlite_tables.connect(captures.path(capture))
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()


@cache
def page(capture: str) -> tuple[dict[str, str], list[dict[str, str]]]:
    """A page "raw" of Nsight Compute: the units of its columns, and a row a kernel."""
    units_row, *rows = csv.DictReader(io.StringIO(captures.text(capture, "kernels.csv")))
    return units_row, rows


def column(capture: str, metric: str) -> dict[str, float]:
    """A metric by the kernel's short name, in the page's unit."""
    return {
        row["Kernel Name"].partition("(")[0]: float(row[metric].replace(",", ""))
        for row in page(capture)[1]
    }


def _sql(capture: str, sql: str) -> str:
    return f"captures/{capture}/timeline.sqlite: {' '.join(sql.split())}"


def _scaled(capture: str, metric: str) -> dict[str, float]:
    """A metric of time or size by the kernel's short name, in ns or bytes."""
    scale = SCALES[page(capture)[0][metric]]
    return {name: value * scale for name, value in column(capture, metric).items()}


# -- where to begin ------------------------------------------------------------------------------


def filled_by_kernels(capture: str) -> Asked:
    """What share of the time do kernels fill?"""
    sql = (
        'SELECT SUM("end" - start) * 100.0 / (MAX("end") - MIN(start)) '
        "FROM CUPTI_ACTIVITY_KIND_KERNEL"
    )
    share = query(capture, sql)[0][0]
    return Asked(
        f"In {capture} kernels run one after the other. From the first kernel's start to the last "
        "one's end: what share of the time do kernels fill?",
        share,
        f"{share:.0f} %. First look in the timeline whether the device had work at all. Faster kernels "
        f"cannot give back the other {100 - share:.0f} %.",
        _sql(capture, sql),
        unit="pct",
    )


def not_in_the_capture(capture: str) -> Asked:
    """Which of four things was not recorded?"""
    tables = {row[0] for row in query(capture, "SELECT name FROM sqlite_master")}
    shows = {
        "how many bytes each copy moved": "CUPTI_ACTIVITY_KIND_MEMCPY",
        "how long each CUDA call held the host": "CUPTI_ACTIVITY_KIND_RUNTIME",
        "how many threads each kernel was launched with": "CUPTI_ACTIVITY_KIND_KERNEL",
        "how many of the multiprocessors were at work": "GPU_METRICS",
    }
    (missing,) = (what for what, table in shows.items() if table not in tables)
    return Asked(
        f"Which of these can {capture} not tell you?",
        missing,
        f"The file has no table {shows[missing]}. You see only what you traced, and tracing more "
        "costs more. Begin with --trace=cuda,nvtx, and add what the first look does not show "
        "(here: --gpu-metrics-devices=all).",
        _sql(capture, "SELECT name FROM sqlite_master"),
        choices=tuple(shows),
    )


def without_waiting(capture: str) -> Asked:
    """How wrong is a time that was taken without waiting for the device?"""
    rows = json.loads(captures.text(capture, "pitfalls.json"))["pitfalls"]
    row = next(row for row in rows if row["name"] == "no_sync")
    lie, honest = (statistics.median(row[key]) for key in ("lie_ns", "honest_ns"))
    return Asked(
        f"In {capture}, the same call ({row['work']}) was timed with and without waiting for the "
        "device. How many times too short is the median without?",
        honest / lie,
        f"{units.format_ns(lie)} instead of {units.format_ns(honest)}: a launch returns before its "
        "kernel has run, so the clock measured the launching. Before you profile, you need a time that you "
        "can trust.",
        f"captures/{capture}/pitfalls.json, no_sync: medians of honest_ns and lie_ns",
        unit="ratio",
    )


# -- which tool ----------------------------------------------------------------------------------


def only_in_the_page(capture: str) -> Asked:
    """Which of four numbers can a timeline not tell?"""
    hits = column(capture, SECTORS_HIT)
    kernel, rate = max(hits.items(), key=lambda item: item[1])
    row = next(row for row in page(capture)[1] if row["Kernel Name"].startswith(f"{kernel}("))
    took_ns = _scaled(capture, DURATION)[kernel]
    right = f"{rate:.0f} % of its sectors were found in L1"
    return Asked(
        f"The kernel {kernel} of {capture}: which of these can a timeline of Nsight Systems not "
        "tell you?",
        right,
        "Duration, grid and registers are in every row of CUPTI_ACTIVITY_KIND_KERNEL. To see what "
        "happened inside the kernel you need hardware counters, of one kernel at a time. First use the "
        "timeline to find the kernel that matters, then Nsight Compute for that one.",
        f"captures/{capture}/kernels.csv, {SECTORS_HIT}; the tables of any timeline",
        choices=(
            f"it ran for {units.format_ns(took_ns)}",
            f"its grid has {row['Grid Size']} blocks",
            right,
            f"each of its threads has {float(row['launch__registers_per_thread']):.0f} registers",
        ),
    )


def replayed(capture: str) -> Asked:
    """How many times was a kernel run to fill its page?"""
    line = next(
        line
        for line in captures.text(capture, "ncu.log").splitlines()
        if line.startswith("Profiling") and line.endswith("passes")
    )
    passes = int(line.split()[-2])
    kernel = line.split('"')[1].partition("(")[0]
    return Asked(
        f"How many times was {kernel} of {capture} run to fill its page?",
        passes,
        f"{passes} times, with caches flushed and memory restored in between: the device has fewer "
        "counters than the page has columns. So a whole program under Nsight Compute is many times "
        "slower, and what the host did between kernels is lost. That is what timelines are for.",
        f"captures/{capture}/ncu.log",
        unit="count",
        tolerance=0.0,
    )


def kernel_to_open(capture: str) -> Asked:
    """Which kernel do you open in Nsight Compute first?"""
    sql = f'SELECT s.value, SUM(k."end" - k.start) AS ns, COUNT(*), MAX(k."end" - k.start)\
{KERNEL_NAMES} GROUP BY s.value ORDER BY ns DESC LIMIT 4'
    rows = query(capture, sql)
    name, total, count, _ = rows[0]
    return Asked(
        f"Which kernel of {capture} would you open in Nsight Compute first?",
        name,
        f"{name}: {units.format_ns(total)} in {count} launches, more than any other in total. One "
        "launch alone does not show how much it matters, so sort a profile by sums.",
        _sql(capture, sql),
        choices=tuple(sorted(row[0] for row in rows)),
    )


# -- compute or memory ---------------------------------------------------------------------------


def which_limit(capture: str) -> Asked:
    """What limits this kernel?"""
    sm, dram = column(capture, SM), column(capture, DRAM)
    kernel = {
        "ncu_bandwidth": "triad_float4",
        "ncu_compute": "iterate",
        "ncu_parallelism": "normalise_32_blocks",
    }[capture]
    near = {"arithmetic": sm[kernel], "device memory": dram[kernel]}
    best, highest = max(near.items(), key=lambda item: item[1])
    neither = "neither of them"
    # A clear case by a wide margin: 80 % and more is near the ceiling, 20 % and less is not.
    right = best if highest > 80 else neither
    assert highest > 80 or highest < 20
    return Asked(
        f"{kernel} of {capture}: SM throughput {sm[kernel]:.0f} % of its peak, DRAM throughput "
        f"{dram[kernel]:.0f} % of its peak. What limits it?",
        right,
        (
            f"{highest:.0f} % of a peak is near the limit: only less of that work, or another way "
            "to do it, makes the kernel faster."
            if right != neither
            else "Both units idle most of the time. Not every slow kernel is one or the other: "
            "look at how many blocks there are, how many warps fit, and what they wait for."
        ),
        f"captures/{capture}/kernels.csv, {SM} and {DRAM}",
        choices=("arithmetic", "device memory", neither),
    )


def ridge(capture: str) -> Asked:
    """How many operations for each byte separate the two roofs?"""
    device = devices.get(captures.provenance(capture)["gpu"][0]["name"])
    peak = device.peak("float32")
    bandwidth = device.memory_bandwidth_bytes_per_s
    return Asked(
        f"{capture} was recorded on an {device.name}: {peak / 1e12:.0f} TFLOP/s in float32 and "
        f"{bandwidth / 1e12:.1f} TB/s by its maker's documents. From how many operations for each "
        "byte on can arithmetic be the limit?",
        peak / bandwidth,
        f"{peak / bandwidth:.1f}. Below this ridge device memory is the roof. A sum of two "
        "float32 arrays does one operation for 12 bytes, far below it.",
        "profiling_lab/devices.toml: peak_flops_per_s.float32 ÷ memory_bandwidth_bytes_per_s",
        unit="ratio",
    )


def bytes_per_second(capture: str) -> Asked:
    """Which rate of device memory does a copy reach?"""
    kernel = "copy_float4"
    read = _scaled(capture, "dram__bytes_read.sum")[kernel]
    written = _scaled(capture, "dram__bytes_write.sum")[kernel]
    took_ns = _scaled(capture, DURATION)[kernel]
    rate = (read + written) / took_ns * 1e9
    device = devices.get(captures.provenance(capture)["gpu"][0]["name"])
    share = rate / device.memory_bandwidth_bytes_per_s
    return Asked(
        f"{kernel} of {capture} read {units.format_bytes(read)} from device memory and wrote "
        f"{units.format_bytes(written)} in {units.format_ns(took_ns)}. At which rate?",
        rate,
        f"{units.format_bytes_per_s(rate)}, {100 * share:.0f} % of the {device.name}'s documented "
        "bandwidth: memory-bound, and near what a copy can reach.",
        f"captures/{capture}/kernels.csv: (dram__bytes_read.sum + dram__bytes_write.sum) ÷ {DURATION}",
        unit="bytes_per_s",
    )


# -- what to optimize ----------------------------------------------------------------------------


def at_best(capture: str) -> Asked:
    """How much can the best work on one kernel give?"""
    sql = f"""SELECT s.value, SUM(k."end" - k.start) * 1.0 /
(SELECT MAX("end") - MIN(start) FROM CUPTI_ACTIVITY_KIND_KERNEL) AS share
{KERNEL_NAMES} GROUP BY s.value ORDER BY share DESC LIMIT 1"""
    name, share = query(capture, sql)[0]
    return Asked(
        f"In {capture} kernels run one after the other. From the first kernel's start to the last "
        f"one's end, the heaviest kernel, {name}, takes {100 * share:.1f} %. If it took no time at all and "
        "nothing else changed: by which factor would the whole be faster?",
        1 / (1 - share),
        f"1 ÷ (1 - {share:.3f}) = {1 / (1 - share):.2f}. No work on this kernel can give more "
        "(Amdahl). Compute this bound for each thing that you might do, before you begin.",
        _sql(capture, sql),
        unit="ratio",
    )


def step_that_paid(capture: str) -> Asked:
    """Which of several changes paid?"""
    took = _scaled(capture, DURATION)
    names = list(took)
    saved = {b: took[a] - took[b] for a, b in itertools.pairwise(names)}
    best = max(saved, key=lambda name: saved[name])
    first, last = took[names[0]], took[names[-1]]
    rows = ", ".join(f"{name} {units.format_ns(ns)}" for name, ns in took.items())
    return Asked(
        f"{capture} holds one matrix product, changed step by step: {rows}. Which step saved most "
        "time against the one before?",
        best,
        f"{best} saved {units.format_ns(saved[best])} of the {units.format_ns(first - last)} "
        "that all steps together did. What counts is time saved, not the factor: a factor of two in "
        "a short remaining time may save little.",
        f"captures/{capture}/kernels.csv, {DURATION}",
        choices=tuple(names[1:]),
    )


def rate_of_copies(capture: str) -> Asked:
    """At which rate do batches travel to the device?"""
    sql = (
        'SELECT SUM(bytes) * 1e9 / SUM("end" - start) FROM CUPTI_ACTIVITY_KIND_MEMCPY '
        "WHERE copyKind = 1"
    )
    rate = query(capture, sql)[0][0]
    memory = query(
        capture,
        "SELECT srcKind FROM CUPTI_ACTIVITY_KIND_MEMCPY WHERE copyKind = 1 "
        "GROUP BY srcKind ORDER BY SUM(bytes) DESC LIMIT 1",
    )[0][0]
    kind = {0: "pageable", 1: "pinned"}[memory]
    return Asked(
        f"At which rate do copies from host to device run in {capture} (while they run)?",
        rate,
        f"{units.format_bytes_per_s(rate)}, from {kind} memory. Compare copy_pageable and "
        "copy_serial. The kind of memory decides the rate, and whether a copy can run beside kernels. "
        "Look at its size only after that.",
        _sql(capture, sql),
        unit="bytes_per_s",
    )


# -- throughput against latency ------------------------------------------------------------------


def price_of_a_batch(capture: str) -> Asked:
    """What does a large batch buy?"""
    served = {
        run["batch"]: statistics.median(run["service_ns"])
        for run in read_runs(capture, "service.json").values()
    }
    large = max(served)
    factor = large * served[1] / served[large]
    return Asked(
        f"In {capture} a batch of 1 takes {units.format_ns(served[1])}, one of {large} "
        f"{units.format_ns(served[large])} (medians). How many times as many requests per second does "
        "the large batch serve?",
        factor,
        f"{factor:.1f} times, while each request takes {served[large] / served[1]:.1f} times as "
        "long, and also waits until its batch is full. Neither number alone says which batch is "
        "best. You also need the latency that your users were promised.",
        f"captures/{capture}/service.json: batch ÷ median of service_ns",
        unit="ratio",
    )


def in_flight(capture: str) -> Asked:
    """How many requests are in flight?"""
    runs = [run for run in read_runs(capture, "requests.json").values() if run["loop"] == "closed"]
    run = max(runs, key=lambda run: run["concurrency"])
    count = len(run["end_ns"])
    first, last = min(run["sent_ns"]), max(run["end_ns"])
    per_s = count * 1e9 / (last - first)
    latency = sum(e - s for s, e in zip(run["sent_ns"], run["end_ns"], strict=True)) / count
    return Asked(
        f"The run {run['run']} of {capture}: {count} requests in {units.format_ns(last - first)}, "
        f"each answered after {units.format_ns(latency)} on average. How many requests were in "
        "flight on average?",
        per_s * latency / 1e9,
        f"{per_s:.0f} a second × {units.format_ns(latency)} = {per_s * latency / 1e9:.1f} (Little's "
        f"law; there were {run['concurrency']} clients, and fewer at the end, when some have had their "
        "last answer). With a fixed number of clients, latency falls only if throughput rises.",
        f"captures/{capture}/requests.json, {run['run']}: sum of (end_ns - sent_ns) ÷ the time in all",
        unit="ratio",
    )


def what_suffers(capture: str) -> Asked:
    """Which latency suffers from load?"""
    runs = [run for run in read_runs(capture, "tokens.json").values() if run["rate_per_s"]]
    light, heavy = (f(runs, key=lambda run: run["rate_per_s"]) for f in (min, max))
    grew = {
        what: latency(heavy) / latency(light)
        for what, latency in {
            "the wait for the first word": _first_word_ns,
            "the time from one word to the next": _next_word_ns,
        }.items()
    }
    first, following = grew.values()
    both = "both about as much"
    right = (
        both if max(grew.values()) < 1.1 * min(grew.values()) else max(grew, key=grew.__getitem__)
    )
    return Asked(
        f"In {capture}, requests come at {light['rate_per_s']:g} a second in {light['run']}, and at "
        f"{heavy['rate_per_s']:g} in {heavy['run']}. Which median grows more?",
        right,
        f"The first word comes after {units.format_ns(_first_word_ns(heavy))} instead of "
        f"{units.format_ns(_first_word_ns(light))} ({first:.2f} times), the next one after "
        f"{units.format_ns(_next_word_ns(heavy))} instead of {units.format_ns(_next_word_ns(light))} "
        f"({following:.2f} times). The two latencies differ, so say which one you promise.",
        f"captures/{capture}/tokens.json: token_ns[0] - sent_ns, and differences of neighbours in token_ns",
        choices=(*grew, both),
    )


def _first_word_ns(run: dict[str, Any]) -> float:
    words = (stream[0] for stream in run["token_ns"])
    return statistics.median(w - sent for w, sent in zip(words, run["sent_ns"], strict=True))


def _next_word_ns(run: dict[str, Any]) -> float:
    return statistics.median(
        later - sooner for stream in run["token_ns"] for sooner, later in itertools.pairwise(stream)
    )


# -- metrics, and what they do not say -----------------------------------------------------------


def occupancy_misleads(capture: str) -> Asked:
    """Which of two kernels keeps the multiprocessors busier?"""
    occupancy, sm = column(capture, OCCUPANCY), column(capture, SM)
    few, many, why = {
        "ncu_waiting": (
            "few_warps_many_chains",
            "many_warps_one_load",
            "Where each warp has independent work, few are enough; where all of them wait for memory, "
            "many are not.",
        ),
        "ncu_parallelism": (
            "follow_four",
            "follow_one",
            "Both hold nearly all warps that fit; in follow_four each has four independent loads on "
            "their way, in follow_one a single one.",
        ),
    }[capture]
    right = max((few, many), key=lambda name: sm[name])
    return Asked(
        f"In {capture}, {many} has an achieved occupancy of {occupancy[many]:.0f} %, {few} of "
        f"{occupancy[few]:.0f} %. Which of them keeps the multiprocessors busier?",
        right,
        f"SM throughput: {few} {sm[few]:.0f} %, {many} {sm[many]:.0f} %. Occupancy counts warps that "
        f"are there, not warps that can go on. {why}",
        f"captures/{capture}/kernels.csv, {SM} beside {OCCUPANCY}",
        choices=(many, few),
    )


def idle_in_a_busy_kernel(capture: str) -> Asked:
    """How much of a "utilized" device works?"""
    active, elapsed = column(capture, SM_ACTIVE), column(capture, SM_ELAPSED)
    kernel = min(active, key=lambda name: active[name] / elapsed[name])
    share = 100 * active[kernel] / elapsed[kernel]
    return Asked(
        f"While {kernel} of {capture} runs, nvidia-smi would say 100 % utilized. For what share of "
        "that time did an average multiprocessor have anything to do?",
        share,
        f"{share:.0f} %. Utilization asks whether any kernel runs, not how much of the device it "
        "uses.",
        f"captures/{capture}/kernels.csv: {SM_ACTIVE} ÷ {SM_ELAPSED} in the row of {kernel}",
        unit="pct",
    )


def mean_and_median(capture: str) -> Asked:
    """How far is the mean from the median?"""
    sql = """SELECT r."end" - r.start
FROM CUPTI_ACTIVITY_KIND_RUNTIME AS r JOIN StringIds AS s ON s.id = r.nameId
WHERE s.value LIKE 'cudaLaunchKernel~_v%' ESCAPE '~'"""
    took = [row[0] for row in query(capture, sql)]
    mean, median = statistics.mean(took), statistics.median(took)
    return Asked(
        f"How many times as long as the median cudaLaunchKernel of {capture} is the mean one?",
        mean / median,
        f"{len(took)} calls: mean {units.format_ns(mean)}, median {units.format_ns(median)}, longest "
        f"{units.format_ns(max(took))}. A mean tells what all of them cost, a median what one of them "
        "usually costs; where they differ, look at the longest before you believe either.",
        _sql(capture, sql),
        unit="ratio",
        tolerance=0.03,
    )


QUESTIONS = (
    Question(
        "filled_by_kernels",
        "begin",
        ("training_item", "alloc_every_step", "host_preprocess"),
        f"{DAY1}#Was it busy?",
        filled_by_kernels,
    ),
    Question(
        "not_in_the_capture",
        "begin",
        ("training_item", "alloc_every_step"),
        f"{DAY1}#What to record, and what it costs",
        not_in_the_capture,
    ),
    Question(
        "without_waiting",
        "begin",
        ("benchmark_pitfalls",),
        "labs/docs/06_profiling.md",
        without_waiting,
    ),
    Question(
        "only_in_the_page",
        "tools",
        ("ncu_memory", "ncu_compute"),
        f"{DAY2}#Read the counters",
        only_in_the_page,
    ),
    Question(
        "replayed",
        "tools",
        ("ncu_memory", "ncu_memory_basic", "ncu_compute"),
        f"{DAY2}#Ask for one thing, of one kernel",
        replayed,
    ),
    Question(
        "kernel_to_open",
        "tools",
        ("torch_inference_improved", "training_async"),
        f"{DAY2}#Which kernel first?",
        kernel_to_open,
    ),
    Question(
        "which_limit",
        "limits",
        ("ncu_bandwidth", "ncu_compute", "ncu_parallelism"),
        f"{DAY2}#How near to the ceiling",
        which_limit,
    ),
    Question(
        "ridge",
        "limits",
        ("roofline_ops",),
        f"{DAY4}#Two roofs",
        ridge,
    ),
    Question(
        "bytes_per_second",
        "limits",
        ("ncu_bandwidth", "ncu_bandwidth_small"),
        f"{DAY4}#Kernels on the roofline",
        bytes_per_second,
    ),
    Question(
        "at_best",
        "priorities",
        ("training_async", "training_item"),
        f"{DAY4}#Choose what the evidence supports",
        at_best,
    ),
    Question(
        "step_that_paid",
        "priorities",
        ("sgemm_steps", "sgemm_steps_small"),
        f"{DAY2}#What would a fix give?",
        step_that_paid,
    ),
    Question(
        "rate_of_copies",
        "priorities",
        ("copy_pageable", "copy_serial"),
        f"{DAY1}#Copies that run alone",
        rate_of_copies,
    ),
    Question(
        "price_of_a_batch",
        "serving",
        ("serving_sweep_eager", "serving_sweep_graph"),
        f"{DAY5}#The best batch",
        price_of_a_batch,
    ),
    Question(
        "in_flight",
        "serving",
        ("serving_sweep_eager", "serving_sweep_graph"),
        f"{DAY5}#Little's law: in balance, or piling up?",
        in_flight,
    ),
    Question(
        "what_suffers",
        "serving",
        ("llm_decode_chat", "llm_decode_documents"),
        f"{DAY5}#Words that appear one by one",
        what_suffers,
    ),
    Question(
        "occupancy_misleads",
        "metrics",
        ("ncu_waiting", "ncu_parallelism"),
        f"{DAY2}#How many blocks fit",
        occupancy_misleads,
    ),
    Question(
        "idle_in_a_busy_kernel",
        "metrics",
        ("ncu_parallelism", "ncu_waiting"),
        f"{DAY1}#Utilization, and what it does not say",
        idle_in_a_busy_kernel,
    ),
    Question(
        "mean_and_median",
        "metrics",
        ("training_item", "host_preprocess"),
        f"{DAY1}#Every launch in its parts",
        mean_and_median,
    ),
)
