"""Checks of cuda/reduction_student.cu.

Without a GPU its PTX is run by an emulator (grading/checks/cuda), which counts loads, atomics and
wavefronts and says what comes out; ptxas says what the kernels take. With `--live` it runs.
"""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from grading.checks import task
from grading.checks.assertions import fail
from grading.checks.cuda import compiled, on_gpu, runs

SECTOR_BYTES = 32
MOST_SECTORS_RATIO = 1.02
WIDE_BYTES = 16
SMALLEST_WIDE_SHARE = 0.9
RELATIVE_ERROR = 1e-5  # kRelativeError of reduction.cuh
MOST_WAVEFRONTS_RATIO = 1.05
SMS = 132
SCRATCH, SCRATCH_FLOATS = 2, 1 << 16  # its allocation in main(), and kScratchFloats
SMALL_DEVICE_SMS = 4  # what the host code is told, so that its grids can be emulated
FEWEST_BLOCKS_PER_SM = 1
SMALLEST_LIVE_RATIO = 0.95


def ran(cuda_stub, values: np.ndarray, calls: int = 1, descending: bool = False):
    """The emulated run, or a failed check that says why there is none."""
    return runs.emulated(
        cuda_stub,
        f"reduce_sum of {values.size} floats",
        ["--plan", "--count", str(values.size), "--calls", str(calls)],
        {0: values},
        "Plain loads, stores, shared memory, shuffles, barriers and atomics",
        multiprocessors=SMALL_DEVICE_SMS,
        descending=descending,
    )


def drawn(seed: int, count: int) -> np.ndarray:
    return np.random.default_rng(seed + count).random(count, dtype=np.float32) - np.float32(0.25)


def judge(values: np.ndarray, found: float, called: str) -> None:
    exact = float(values.sum(dtype=np.float64))
    allowed = RELATIVE_ERROR * float(np.abs(values).sum(dtype=np.float64))
    if not abs(found - exact) <= allowed:
        fail(
            f"{called}: the sum is {found}; expected {exact}, give or take {allowed:.3g}. What was "
            "left out, counted twice, read before it was written, or not reset shows up here."
        )


@task("ex_31.reduction")
def test_compiles(cuda_stub):
    runs.compiles(cuda_stub)


@task("ex_31.reduction")
def test_launches_and_nothing_else(cuda_stub):
    lines = runs.issued(cuda_stub, ["--plan", "--count", "5000"])
    for line in lines[3:-1]:  # main allocates before it and waits behind it
        if line["kind"] not in ("kernel", "memset"):
            fail(
                f"reduce_sum calls {line.get('function', line['kind'])}. Its contract "
                f"({cuda_stub.source.name.replace('_student.cu', '.cuh')}, top) is kernels and memsets, and nothing "
                "else: a call that allocates, copies or waits holds its caller up."
            )
        if line["stream"] != 0:
            fail(
                f"reduce_sum issues {line.get('name', line['kind'])} on a stream of its own. Expected: on the "
                "default stream, as the contract says. Elsewhere nothing orders it behind what the "
                "caller did before."
            )


@task("ex_31.reduction")
@pytest.mark.parametrize("descending", [False, True], ids=["warps in order", "last warp first"])
def test_the_sum_is_right(cuda_stub, seed, descending):
    chance = random.Random(seed)
    for count in (
        1,
        31,
        4 * chance.randint(300, 900) + 3,
        65_536,
        60_000 + chance.randint(1, 9_000),
    ):
        values = drawn(seed, count)
        run = ran(cuda_stub, values, descending=descending)
        order = "backwards" if descending else "in order"
        judge(values, float(run.buffers[1][0]), f"reduce_sum of {count} floats, warps run {order}")


@task("ex_31.reduction")
def test_a_second_call_starts_anew(cuda_stub, seed):
    values = drawn(seed, 5_000)
    run = ran(cuda_stub, values, calls=2)
    judge(
        values, float(run.buffers[1][0]), "reduce_sum of 5000 floats, called twice, the second time"
    )


@task("ex_31.reduction")
def test_every_float_is_read_once(cuda_stub, seed):
    values = drawn(seed, 131_072)
    run = ran(cuda_stub, values)
    loads = run.total("loads")
    needed = values.size * 4 // SECTOR_BYTES
    if loads.sectors > MOST_SECTORS_RATIO * needed:
        fail(
            f"reduce_sum of {values.size} floats: its loads touch {loads.sectors} sectors of 32 bytes "
            f"({loads.sectors / loads.requests:.1f} a request); {needed} hold all of the input. A sum "
            "reads everything once, and memory moves whole sectors."
        )


@task("ex_31.reduction")
def test_loads_are_wide(cuda_stub, seed):
    values = drawn(seed, 131_072)
    loads = ran(cuda_stub, values).total("loads")
    wide = loads.widths[WIDE_BYTES]
    bytes_wide = wide * 32 * WIDE_BYTES
    if bytes_wide < SMALLEST_WIDE_SHARE * values.size * 4:
        widths = ", ".join(
            f"{n} requests of {w} bytes a thread" for w, n in sorted(loads.widths.items())
        )
        fail(
            f"reduce_sum of {values.size} floats: {widths}. Expected: at least "
            f"{SMALLEST_WIDE_SHARE:.0%} of the bytes by loads of {WIDE_BYTES} bytes a thread. To keep the "
            "memory busy enough bytes must be under way at once; a wide load puts four times as many."
        )


@task("ex_31.reduction")
def test_few_atomics(cuda_stub, seed):
    run = ran(cuda_stub, drawn(seed, 65_536))
    for launch in run.launches:
        if launch.counters.atomics > 2 * launch.blocks:
            fail(
                f"reduce_sum of 65536 floats: {launch} does {launch.counters.atomics} atomic additions, "
                f"{launch.counters.atomics / launch.blocks:.0f} a block. Expected: at most two a block. "
                "Atomics to one address come one after the other; what threads of a block have in common "
                "they can add up among themselves first."
            )


@task("ex_31.reduction")
def test_shared_memory_is_visited_once(cuda_stub, seed):
    run = ran(cuda_stub, drawn(seed, 65_536))
    for kind, words in (("shared_loads", "loads"), ("shared_stores", "stores")):
        traffic = run.total(kind)
        if traffic.wavefronts > MOST_WAVEFRONTS_RATIO * traffic.ideal:
            fail(
                f"reduce_sum of 65536 floats: its {words} of shared memory take {traffic.wavefronts} "
                f"wavefronts where {traffic.ideal} would do. Words in the same bank come one after the "
                "other: with which stride do the threads walk?"
            )


@task("ex_31.reduction")
def test_nothing_spills(cuda_stub, seed):
    run = ran(cuda_stub, drawn(seed, 4_096))
    made = compiled.compiled(cuda_stub.source, cuda_stub.given)
    for launch in run.launches:
        resources = made.resources[launch.symbol]
        if resources.spill_bytes or resources.stack_bytes:
            fail(
                f"kernel {launch.name} takes {resources.registers} registers, spills "
                f"{resources.spill_bytes} bytes and keeps {resources.stack_bytes} bytes of each thread in "
                "local memory (ptxas -v). Local memory is device memory: a sum needs none."
            )


@task("ex_31.reduction")
def test_enough_blocks(cuda_stub):
    count = 1 << 24
    lines = runs.issued(cuda_stub, ["--plan", "--count", str(count)])
    kernels = [line for line in lines if line["kind"] == "kernel"]
    blocks = max((int(np.prod(line["grid"])) for line in kernels), default=0)
    if blocks < FEWEST_BLOCKS_PER_SM * SMS:
        fail(
            f"reduce_sum of {count} floats is launched with at most {blocks} block(s). Expected: at least "
            f"{FEWEST_BLOCKS_PER_SM * SMS}, as many as an H200 has multiprocessors. A block runs on one; "
            "the others would have nothing to do."
        )


@task("ex_31.reduction")
def test_scratch_is_large_enough(cuda_stub, seed):
    # What a launch leaves in scratch here, a float a block, it would leave there, too.
    small, count = 131_072, 1 << 28
    run = ran(cuda_stub, drawn(seed, small))
    written = int(np.count_nonzero(~np.isnan(run.buffers[SCRATCH])))
    lines = runs.issued(cuda_stub, ["--plan", "--count", str(count)])
    cleared = any(x["kind"] == "memset" and x["destination"]["buffer"] == SCRATCH for x in lines)
    for line in lines:
        if line["kind"] != "kernel" or cleared:
            continue
        blocks = int(np.prod(line["grid"]))
        given = any((x.get("pointer") or {}).get("buffer") == SCRATCH for x in line["arguments"])
        before = [launch.blocks for launch in run.launches if launch.symbol == line["symbol"]]
        if given and blocks > SCRATCH_FLOATS and max(before, default=0) == written > 1:
            fail(
                f"reduce_sum of {count} floats: {line['name']} runs {blocks} blocks, and with {small} floats "
                f"each of its {written} blocks left a float in scratch, which has room for "
                f"{SCRATCH_FLOATS}. The others would be written past its end."
            )


# -- on a GPU -------------------------------------------------------------------------------------


@task("ex_31.reduction_live")
def test_live_nearly_as_fast_as_reading(cuda_stub, tmp_path: Path):
    measured = on_gpu.result(on_gpu.build(cuda_stub.source, cuda_stub.given, tmp_path))
    own, read = on_gpu.medians(measured, "own_ns", "ceiling_ns")
    if measured.get("wrong") != 0:
        fail("reduce_sum of 2^28 floats: the sum is not within the stated error of the exact one")
    if read < SMALLEST_LIVE_RATIO * own:
        fail(
            f"reduce_sum of 2^28 floats takes {own / 1e3:.1f} us, reading them {read / 1e3:.1f} us "
            f"(medians of {len(measured['own_ns'])} in turns): {read / own:.1%} of its speed. Expected: "
            f"at least {SMALLEST_LIVE_RATIO:.0%}."
        )
