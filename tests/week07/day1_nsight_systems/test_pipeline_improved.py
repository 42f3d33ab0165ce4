"""Checks of cuda/pipeline_improved.cu.

Without a GPU the source is compiled by nvcc and linked to a recording stand-in for the CUDA runtime
(grading/checks/cuda): what its host code issues is judged. With `--live` it also runs.
"""

from __future__ import annotations

import math
import random
import re
import sqlite3
import statistics
from contextlib import closing
from pathlib import Path

import pytest

from grading.checks import task
from grading.checks.assertions import fail
from grading.checks.cuda import on_gpu, recording, runs, toolchain
from grading.checks.cuda.schedule import Schedule
from grading.checks.cuda.simulation import Costs, simulate

# A pipeline of perfect overlap takes 1.00 to 1.05 times the bound, with the host's own time; one
# that keeps only two of the three engines at work takes 1.3 times or more.
LONGEST_RATIO = 1.25
SMALLEST_SPEEDUP = 2.0
# Of the busiest engine in a capture. 1 / LONGEST_RATIO is 0.8; the recorded improved pipeline has
# 0.89 (16 batches), the baseline 0.45.
SMALLEST_BUSY = 0.75
# Of a kernel on a batch of more than a million bytes; the devices of the course have over 100 SMs.
FEWEST_BLOCKS = 64


def issued(cuda_stub, batches: int, elements: int, warmup_batches: int) -> Schedule:
    """The schedule of one run, or a failed check that says why there is none."""
    with runs.failures_told(cuda_stub):
        return recording.record(
            cuda_stub.source,
            cuda_stub.given,
            batches=batches,
            elements=elements,
            warmup_batches=warmup_batches,
        )


def drawn(seed: int) -> tuple[int, int, int]:
    """Batches, elements of a batch and batches of the warm-up, from the session's seed."""
    chance = random.Random(seed)
    return chance.randint(14, 22), chance.randint(3_000, 12_000), chance.randint(1, 3)


def called(cuda_stub, batches: int, elements: int, warmup_batches: int) -> str:
    return (
        f"{cuda_stub.source.name} --batches {batches} --elements {elements} "
        f"--warmup-batches {warmup_batches}"
    )


@task("ex_30.pipeline_improved")
def test_compiles(cuda_stub):
    with runs.failures_told(cuda_stub):
        toolchain.build(cuda_stub.source, cuda_stub.given)


@task("ex_30.pipeline_improved")
def test_runtime_accepts_every_call(cuda_stub, seed):
    # More elements than 1024 blocks of 256 threads have: a block cannot have as many threads.
    batches, elements, warmup_batches = drawn(seed)
    run = batches, elements + 1024 * 256, warmup_batches
    schedule = issued(cuda_stub, *run)
    if schedule.refused:
        first = schedule.refused[0]
        fail(
            f"{called(cuda_stub, *run)}: {first['function']} returned {first['error']}: "
            f"{first['why']} ({len(schedule.refused)} refused calls in all). A refused call does "
            "nothing: what should have followed from it is missing. Check every return code."
        )
    if schedule.misplaced:
        fail(f"{called(cuda_stub, *run)}: {schedule.misplaced[0]}")


@task("ex_30.pipeline_improved")
@pytest.mark.parametrize(
    "change",
    [{}, {"batches": 1}, {"batches": 2}, {"batches": 70}, {"warmup": 0}],
    ids=["drawn", "one batch", "two batches", "many batches", "no warm-up"],
)
def test_every_batch_is_worked(cuda_stub, seed, change):
    batches, elements, warmup_batches = drawn(seed)
    batches = change.get("batches", batches)
    warmup_batches = change.get("warmup", warmup_batches)
    schedule = issued(cuda_stub, batches, elements, warmup_batches)
    for phase, count, words in ((0, warmup_batches, "warm-up"), (1, batches, "measured run")):
        if wrong := schedule.wrong_batches(count, phase):
            fail(
                f"{called(cuda_stub, batches, elements, warmup_batches)}, in the {words}: {wrong[0]}"
                + (f" ({len(wrong)} such findings)" if len(wrong) > 1 else "")
                + ". Each batch must be loaded, copied in, normalised, inferred, postprocessed, "
                "copied out and consumed once; a faster pipeline that does less is no faster one."
            )
        loaded = [
            o.batch
            for o in schedule.operations
            if o.name == "load_batch" and o.phase == phase and o.batch is not None
        ]
        if sorted(loaded) != list(range(count)):
            fail(
                f"{called(cuda_stub, batches, elements, warmup_batches)}: run_pipeline was asked for "
                f"{count} batches in the {words} and called load_batch for {loaded}. Expected: once "
                "for each of them, and for no other."
            )


@task("ex_30.pipeline_improved")
def test_kernels_get_all_of_the_work(cuda_stub, seed):
    batches, elements, warmup_batches = drawn(seed)
    run = batches, elements + 1024 * 256, warmup_batches
    schedule = issued(cuda_stub, *run)
    kernels = [line for line in schedule.lines if line["kind"] == "kernel"]
    for kernel in kernels:
        values = [argument.get("value") for argument in kernel["arguments"]]
        if kernel["name"] == "infer" and values[-1] != iterations(cuda_stub.given):
            fail(
                f"{called(cuda_stub, *run)}: kernel infer was told {values[-1]} iterations; expected "
                f"{iterations(cuda_stub.given)}, which create_pipeline was given. The iterations stand "
                "for the model: with fewer of them another, worse model is faster."
            )
        blocks = math.prod(kernel["grid"])
        if blocks < FEWEST_BLOCKS:
            fail(
                f"{called(cuda_stub, *run)}: kernel {kernel['name']} was launched with {blocks} "
                f"block(s) for {run[1]} elements; expected at least {FEWEST_BLOCKS}. The result is the "
                "same with any grid, but a block runs on one SM: most of the device would idle."
            )


def iterations(given: Path) -> int:
    """What the given main passes on if no option says otherwise."""
    found = re.search(
        r'"--iterations", (\d+)', (given / "pipeline.cuh").read_text(encoding="utf-8")
    )
    assert found
    return int(found[1])


@task("ex_30.pipeline_improved")
def test_no_access_is_unordered(cuda_stub, seed):
    run = drawn(seed)
    schedule = issued(cuda_stub, *run)
    if len(schedule.threads) > 1:
        fail(
            f"{called(cuda_stub, *run)}: CUDA was called from {len(schedule.threads)} host threads. "
            "How the threads wait for each other cannot be seen here; one thread is enough."
        )
    races = schedule.races()
    if races:
        race = races[0]
        others = f" There are {race.count} such pairs" if race.count > 1 else ""
        others += f", and {len(races) - 1} other sorts." if len(races) > 1 else "."
        fail(
            f"{called(cuda_stub, *run)}: nothing orders the {race.first} before the {race.second}. "
            f"Both use bytes {race.access.start} to {race.access.end - 1} of "
            f"{schedule.buffer_name(race.access.buffer)}, and at least one of them writes.{others} "
            f"Expected: {missing_order(race.first, race.second)}. Without it the second may start "
            "while the first is still under way, and then works on half-written data; that it often "
            "goes well by luck of timing is what makes such an error hard to find."
        )


def missing_order(first, second) -> str:
    """Which dependency would order two operations, in words."""
    if second.stream is None:
        return f"the host waits until the {first.name} is complete before {second.name}"
    if first.stream is None:
        return f"{first.name} on the host is over before the {second.name} is issued"
    return (
        f"the {second.name} depends on the {first.name}, by its stream or by something that its "
        "stream waits for"
    )


@task("ex_30.pipeline_improved")
def test_batches_overlap(cuda_stub, seed):
    run = drawn(seed)
    batches, elements, _ = run
    schedule = issued(cuda_stub, *run)
    chance = random.Random(seed + 1)
    steps = [680_000.0 * chance.uniform(0.93, 1.07) for _ in range(3)]
    costs = Costs(elements * 4, *steps)
    simulation = simulate(schedule, costs)
    ideal_ns, serial_ns = costs.ideal_ns(batches), costs.serial_ns(batches)
    ratio = simulation.makespan_ns / ideal_ns
    if ratio <= LONGEST_RATIO:
        return
    together_ns = simulation.busy_ns("copies in", "kernels", "copies out")
    evidence = [
        f"copies in, kernels and copies out ran all three at once for {ms(together_ns)}",
        *waits(simulation),
    ]
    if blocked := simulation.host_blocked_ns.most_common(1):
        evidence.append(f"the host was held up {ms(blocked[0][1])} in {blocked[0][0]}")
    fail(
        f"{called(cuda_stub, *run)}: the issued schedule takes {ms(simulation.makespan_ns)} on a "
        f"device with a copy engine for each direction, where a batch takes {ms(steps[0])} to copy "
        f"in, {ms(steps[2])} in the kernels and {ms(steps[1])} to copy out. Expected: at most "
        f"{LONGEST_RATIO} times the {ms(ideal_ns)} that full overlap needs; it is {ratio:.2f} times "
        f"(one step after another, from pinned memory: {ms(serial_ns)}). Evidence: "
        f"{'; '.join(evidence)}. Time in which one engine works alone is time that the other two "
        "could have used for other batches."
    )


def waits(simulation) -> list[str]:
    """What kept the engines idle longest, in words."""
    found = []
    for engine in ("copies in", "kernels", "copies out"):
        if longest := simulation.waits_ns(engine).most_common(1):
            what, time_ns = longest[0]
            found.append(f"the engine for {engine} stood idle {ms(time_ns)} waiting for {what}")
    return found


def ms(time_ns: float) -> str:
    return f"{time_ns / 1e6:.2f} ms"


@task("ex_30.pipeline_improved")
def test_everything_is_released(cuda_stub, seed):
    run = drawn(seed)
    schedule = issued(cuda_stub, *run)
    if left := schedule.unreleased():
        fail(
            f"{called(cuda_stub, *run)}: never released after destroy_pipeline: {', '.join(left)}. "
            "Expected: nothing left. In a service that builds pipelines again and again, what is "
            "not released adds up; pinned memory is taken from the whole machine."
        )


# -- on a GPU -------------------------------------------------------------------------------------


@task("ex_30.pipeline_improved_live")
def test_live_same_results_in_less_time(cuda_stub, tmp_path):
    sums = {}
    baseline, improved = (
        on_gpu.build(source, cuda_stub.given, tmp_path)
        for source in (cuda_stub.given / "pipeline_baseline.cu", cuda_stub.source)
    )
    times: dict[Path, list[float]] = {baseline: [], improved: []}
    for program in 3 * [baseline, improved]:  # in turns, so that a change of clocks meets both
        time_ms, sums[program] = on_gpu.timed(program, "ms_per_batch")
        times[program].append(time_ms)
        if sums[program] != sums.get(baseline):
            fail(
                f"{program.name} printed checksum {sums[program]}, the baseline "
                f"{sums[baseline]}: some batch's result is wrong."
            )
    before, after = (statistics.median(times[p]) for p in (baseline, improved))
    if before < SMALLEST_SPEEDUP * after:
        fail(
            f"The improved pipeline took {after:.3f} ms per batch, the baseline {before:.3f} ms (medians "
            f"of 3 runs in turns): {before / after:.2f} times as fast. Expected: at least "
            f"{SMALLEST_SPEEDUP} times."
        )


@task("ex_30.pipeline_improved_live")
def test_live_overlap_in_a_capture(cuda_stub, tmp_path):
    program = on_gpu.build(cuda_stub.source, cuda_stub.given, tmp_path)
    file = on_gpu.record(program, tmp_path)
    # By SQL of its own: a machine with a GPU may have pytest alone. What did not happen has no table.
    queries = {
        "kernels": ("CUPTI_ACTIVITY_KIND_KERNEL", "1"),
        "copies in": ("CUPTI_ACTIVITY_KIND_MEMCPY", "copyKind = 1"),
        "copies out": ("CUPTI_ACTIVITY_KIND_MEMCPY", "copyKind = 2"),
    }
    with closing(sqlite3.connect(file)) as capture:
        tables = {name for (name,) in capture.execute("SELECT name FROM sqlite_master")}
        spans = {
            words: capture.execute(f"SELECT start, end FROM {table} WHERE {which}").fetchall()
            if table in tables
            else []
            for words, (table, which) in queries.items()
        }
    whole = [span for rows in spans.values() for span in rows]
    span_ns = max(end for _, end in whole) - min(start for start, _ in whole)
    busy = {words: union_ns(rows) for words, rows in spans.items()}
    busiest = max(busy, key=lambda words: busy[words])
    if busy[busiest] < SMALLEST_BUSY * span_ns:
        shares = ", ".join(f"{words} {ms(time)}" for words, time in busy.items())
        fail(
            f"A fresh capture of {cuda_stub.source.name} spans {ms(span_ns)} from the first device "
            f"operation to the last; busy in it: {shares}. Expected: {busiest}, the busiest, at work "
            f"for at least {SMALLEST_BUSY:.0%} of the span; found {busy[busiest] / span_ns:.0%}. "
            "While it stands idle it waits for work that could have run at the same time."
        )


def union_ns(spans: list[tuple[int, int]]) -> int:
    """Time in which at least one of the spans runs."""
    total, reached = 0, 0
    for start, end in sorted(spans):
        total += max(0, end - max(start, reached))
        reached = max(reached, end)
    return total
