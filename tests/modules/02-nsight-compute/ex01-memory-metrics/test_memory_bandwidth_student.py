"""Checks of memory_bandwidth_student.cu.

Without a GPU its PTX is run by an emulator (grading/checks/cuda), which counts sectors and what comes
out. With `--live` it runs and is timed against a device copy in the same run.
"""

from __future__ import annotations

import random

import numpy as np

from grading.checks import task
from grading.checks.assertions import fail, require
from grading.checks.cuda import compiled, on_gpu, runs

SECTOR_BYTES = 32
# A few may be lost where the data ends; the next worse thing, half a sector, is far away.
MOST_SECTORS_RATIO = 1.02
FEWEST_BLOCKS = 2 * 132  # two for each multiprocessor of an H200
SMALLEST_LIVE_RATIO = 0.92
FEWEST_THREAD_BYTES = 32  # four elements of each input: a float4 each, or several loads at once
FACTOR = np.float32(0.5)
MOST_EMULATED = 1 << 21  # elements of an emulated launch: some seconds


def ran(cuda_stub, count: int):
    """What went in, and the emulated run; or a failed check that says why there is none."""
    chance = np.random.default_rng(count)
    a, b = (chance.random(count, dtype=np.float32) for _ in range(2))
    call, arguments = f"triad of {count} elements", ["--plan", "--count", str(count)]
    run = runs.emulated(cuda_stub, call, arguments, {0: a, 1: b}, "Plain loads and stores")
    return a, b, run


def issued(cuda_stub, count: int) -> list[dict]:
    """What the host code issues for so many elements."""
    return runs.issued(cuda_stub, ["--plan", "--count", str(count)])


def threads_of(cuda_stub, count: int) -> int:
    """Threads that are launched for so many elements."""
    lines = [line for line in issued(cuda_stub, count) if line["kind"] == "kernel"]
    return sum(int(np.prod(line["grid"])) * int(np.prod(line["block"])) for line in lines)


@task("ncu_ex01.triad")
def test_launches_and_nothing_else(cuda_stub):
    for line in issued(cuda_stub, 1_000)[3:-1]:  # main allocates three arrays, and waits at the end
        require(
            line["kind"] == "kernel" and line["stream"] == 0,
            f"triad issues {line.get('function', line.get('name', line['kind']))}. Its contract "
            "(memory_bandwidth.cuh, top) is launches of kernels on the default stream and nothing else: "
            "a call that allocates, copies or waits holds its caller up.",
        )


@task("ncu_ex01.triad")
def test_every_sum_is_right(cuda_stub, seed):
    chance = random.Random(seed)
    odd = 4 * chance.randrange(300, 900)
    for count in (1, 3, odd, odd + 1, odd + 2, odd + 3, 2048):
        a, b, run = ran(cuda_stub, count)
        found, expected = run.buffers[2][:count], a + FACTOR * b
        wrong = np.nonzero(~(np.abs(found - expected) < 1e-6))[0]
        if wrong.size:
            first = int(wrong[0])
            fail(
                f"triad of {count} elements: {wrong.size} are wrong. The first: c[{first}] is "
                f"{found[first]}, expected a[{first}] + 0.5 * b[{first}] = {expected[first]:.7g}"
                f"{' (never written)' if np.isnan(found[first]) else ''}."
            )


@task("ncu_ex01.triad")
def test_grid_that_does_not_grow(cuda_stub):
    threads = threads_of(cuda_stub, 1 << 24)
    if threads > threads_of(cuda_stub, 1 << 22):
        return  # more elements, more threads
    # As many threads for any number of elements: each must go round, however many there are.
    count = min(MOST_EMULATED, 17 * threads)
    a, b, run = ran(cuda_stub, count)
    wrong = np.nonzero(~(np.abs(run.buffers[2][:count] - (a + FACTOR * b)) < 1e-6))[0]
    if wrong.size:
        fail(
            f"triad of {count} elements: {wrong.size} are wrong, the first is c[{int(wrong[0])}]. The grid "
            f"is the same for {1 << 22} and for {1 << 24} elements, {threads} threads; then a thread must go "
            "on to elements further behind until there are none left."
        )


@task("ncu_ex01.triad")
def test_another_factor(cuda_stub, monkeypatch):
    def changed(*arguments, plain=compiled.issued):
        lines = plain(*arguments)
        for line in lines:
            for argument in line.get("arguments", ()):
                if argument.get("value") == float(FACTOR):
                    argument["value"] = 0.75
        return lines

    monkeypatch.setattr(compiled, "issued", changed)
    a, b, run = ran(cuda_stub, 2048)
    found, expected = run.buffers[2][:2048], a + np.float32(0.75) * b
    wrong = np.nonzero(~(np.abs(found - expected) < 1e-6))[0]
    if wrong.size:
        first = int(wrong[0])
        fail(
            f"triad of 2048 elements whose kernels were given 0.75 in place of the factor 0.5: c[{first}] is "
            f"{found[first]}, expected a[{first}] + 0.75 * b[{first}] = {expected[first]:.7g}. The factor "
            "is an argument of triad, and of its kernels."
        )


@task("ncu_ex01.triad")
def test_no_sector_twice(cuda_stub):
    count = 16_384
    _, _, run = ran(cuda_stub, count)
    for kind, arrays in (("loads", 2), ("stores", 1)):
        traffic, needed = run.total(kind), arrays * count * 4 // SECTOR_BYTES
        require(
            traffic.sectors <= MOST_SECTORS_RATIO * needed,
            f"triad of {count} elements: its {kind} touch {traffic.sectors} sectors of 32 bytes, "
            f"{traffic.sectors / max(1, traffic.requests):.1f} a request; {needed} hold all of it. "
            "Each request of a warp looks up every sector that its lanes touch: neighbouring lanes "
            "should name neighbouring addresses.",
        )


@task("ncu_ex01.triad")
def test_enough_blocks(cuda_stub):
    count = 1 << 24
    lines = [line for line in issued(cuda_stub, count) if line["kind"] == "kernel"]
    blocks = max((int(np.prod(line["grid"])) for line in lines), default=0)
    require(
        blocks >= FEWEST_BLOCKS,
        f"triad of {count} elements is launched with {blocks} block(s), expected at least "
        f"{FEWEST_BLOCKS}, two for each multiprocessor of an H200: a block runs on one of them.",
    )


@task("ncu_ex01.triad")
def test_bytes_under_way(cuda_stub):
    count = 1 << 24
    threads = threads_of(cuda_stub, count)
    each = 2 * 4 * count / max(1, threads)
    require(
        each >= FEWEST_THREAD_BYTES,
        f"triad of {count} elements is launched with {threads} threads: each reads {each:.0f} bytes and is "
        f"gone. Expected: at least {FEWEST_THREAD_BYTES} a thread. A thread that lives for one element pays "
        "its start for it and has few bytes in flight (copy_float and copy_float4 in the lesson's table).",
    )


@task("ncu_ex01.triad_live")
def test_live_at_the_speed_of_a_copy(cuda_stub, tmp_path):
    result = on_gpu.result(on_gpu.build(cuda_stub.source, cuda_stub.given, tmp_path))
    own, copy = on_gpu.medians(result, "own_ns", "copy_ns")
    require(
        result.get("wrong") == 0, f"triad: {result.get('wrong')} elements are wrong on this GPU"
    )
    require(
        copy >= SMALLEST_LIVE_RATIO * own,
        f"triad takes {own / 1e3:.1f} us, a device copy of as many bytes {copy / 1e3:.1f} us (medians "
        f"of {len(result['own_ns'])} in turns): {copy / own:.1%} of its speed, expected at least "
        f"{SMALLEST_LIVE_RATIO:.0%}.",
    )
