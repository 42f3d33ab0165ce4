"""Checks of optimization_loop_student.cu.

Without a GPU its PTX is run by an emulator (grading/checks/cuda), which counts sectors, wavefronts and
barriers and says what comes out; ptxas says what the kernels take. With `--live` it runs beside cuBLAS.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from grading.checks import task
from grading.checks.assertions import fail
from grading.checks.cuda import compiled, on_gpu, runs

SECTOR_BYTES = 32
RELATIVE_ERROR = 1e-5  # kRelativeError of sgemm.cuh
SMALLEST_LIVE_RATIO = 0.85  # of cuBLAS
WIDE_BYTES = 16
# Tiles of 16 x 16 read a 16th of what the naive kernel's threads ask for, and half as much again is let pass.
MOST_REUSE_BYTES = 1.5 * (4 / 16 + 4 / 16)
# Tiles of 64 x 64, the same way.
MOST_WIDE_REUSE_BYTES = 1.5 * (4 / 64 + 4 / 64)
# Wavefronts of shared memory (a cycle of its multiprocessor each) for a multiply-add of a warp (of which a
# multiprocessor does four a cycle): from 0.25 on, shared memory is the slower one.
MOST_WAVEFRONTS = 1.0  # an element a thread needs 2; 4 x 4 need 0.5, and banks may meet
MOST_FAST_WAVEFRONTS = 0.3  # 8 x 8 elements a thread need 0.25
LEAST_FMA_SHARE = 0.7
BIG_SIDE = 4096

Sizes = tuple[int, int, int]


def arguments(step: str, sizes: Sizes) -> list[str]:
    """What the program is called with, to issue one step without data."""
    m, n, k = map(str, sizes)
    return ["--plan", "--step", step, "--m", m, "--n", n, "--k", k]


def ran(cuda_stub: Any, step: str, sizes: Sizes, seed: int, descending: bool = False):
    """A, B and the emulated run; or a failed check that says why there is none."""
    m, n, k = sizes
    chance = np.random.default_rng([seed, m, n, k])
    a, b = (chance.random(shape, dtype=np.float32) - np.float32(0.5) for shape in ((m, k), (k, n)))
    call = f"step {step} of {m} x {n} x {k}"
    run = runs.emulated(
        cuda_stub, call, arguments(step, sizes), {0: a, 1: b}, descending=descending
    )
    return a, b, run


def judge_product(cuda_stub: Any, step: str, sizes: Sizes, seed: int, descending: bool) -> Any:
    """Fail unless the step computes the product; the run."""
    a, b, run = ran(cuda_stub, step, sizes, seed, descending)
    exact = a.astype(np.float64) @ b
    allowed = RELATIVE_ERROR * (np.abs(a).astype(np.float64) @ np.abs(b))
    found = run.buffers[2].reshape(exact.shape)
    wrong = ~(np.abs(found - exact) <= allowed)
    if wrong.any():
        row, column = (int(x[0]) for x in np.nonzero(wrong))
        got = found[row, column]
        why = (
            "It was never written, or was computed from shared memory before another warp had written it "
            "(nothing orders the warps of a block but a barrier)."
            if np.isnan(got)
            else "Products are missing, counted twice, or of the wrong tile: read before it was written, or "
            "overwritten before it was read."
        )
        m, n, k = sizes
        fail(
            f"step {step} of {m} x {n} x {k}, warps run {'backwards' if descending else 'in order'}: "
            f"{int(wrong.sum())} of {wrong.size} elements are wrong. The first: row {row}, column {column} "
            f"is {got}, expected {exact[row, column]:.6g}. {why}"
        )
    return run


def fma_count(sizes: Sizes) -> int:
    m, n, k = sizes
    return m * n * k


def judge_reads(run: Any, step: str, sizes: Sizes, most_bytes: float) -> None:
    """Fail if more is read from global memory than tiles of a size need."""
    moved = run.total("loads").sectors * SECTOR_BYTES / fma_count(sizes)
    if moved > most_bytes:
        fail(
            f"step {step}: {moved:.3f} bytes are read from global memory for a multiply-add; expected at "
            f"most {most_bytes:.3f}. Without tiles it is 4 for the value of B that each thread "
            "reads, and what A adds; tiles of T x T leave 4 / T for each of the two. (ncu: sectors of global "
            "loads.)"
        )


def judge_shared(run: Any, step: str, sizes: Sizes, most: float) -> None:
    """Fail if shared memory is visited too often for a multiply-add."""
    wavefronts = run.total("shared_loads").wavefronts
    each = wavefronts / (fma_count(sizes) / 32)
    if each > most:
        fail(
            f"step {step}: its loads from shared memory take {each:.2f} wavefronts for each multiply-add of "
            f"a warp; expected at most {most}. A multiprocessor does four such multiply-adds a cycle and "
            "serves one wavefront: from 0.25 on, shared memory is what the product waits for. A value that "
            "is in a register can be used again; lanes that meet in one bank come one after the other."
        )
    if not wavefronts:
        fail(f"step {step} reads nothing from shared memory; its tiles are to lie there")


def judge_launch(cuda_stub: Any, step: str) -> None:
    """Fail unless the step issues one kernel on the default stream, and nothing else."""
    lines = runs.issued(cuda_stub, arguments(step, (BIG_SIDE, BIG_SIDE, BIG_SIDE)))
    own = lines[3:-1]  # main allocates before it and waits behind it
    kinds = [line.get("function", line["kind"]) for line in own]
    if kinds != ["kernel"] or own[0]["stream"] != 0:
        fail(
            f"step {step} issues {', '.join(kinds) or 'nothing'}. Its contract (sgemm.cuh, top) is one kernel "
            "on the default stream: the loop compares a launch with a launch, and a call that allocates, "
            "copies or waits is not in its counters."
        )


@task("ncu_ex04.shared_tile")
def test_shared_tile_is_right(cuda_stub, seed):
    sizes = (256, 512, 64)
    run = judge_product(cuda_stub, "shared_tile", sizes, seed, descending=False)
    judge_reads(run, "shared_tile", sizes, MOST_REUSE_BYTES)


@task("ncu_ex04.shared_tile")
def test_shared_tile_is_one_kernel(cuda_stub):
    judge_launch(cuda_stub, "shared_tile")


@task("ncu_ex04.thread_tile")
def test_thread_tile_is_right(cuda_stub, seed):
    sizes = (256, 512, 64)  # a tile may be 32 deep, and there must be a second one
    run = judge_product(cuda_stub, "thread_tile", sizes, seed, descending=True)
    judge_reads(run, "thread_tile", sizes, MOST_WIDE_REUSE_BYTES)
    judge_shared(run, "thread_tile", sizes, MOST_WAVEFRONTS)


@task("ncu_ex04.thread_tile")
def test_thread_tile_is_one_kernel(cuda_stub):
    judge_launch(cuda_stub, "thread_tile")


@task("ncu_ex04.fast")
@pytest.mark.parametrize("descending", [False, True], ids=["warps in order", "last warp first"])
def test_fast_is_right(cuda_stub, seed, descending):
    sizes = (256, 512, 32) if descending else (512, 256, 64)
    run = judge_product(cuda_stub, "fast", sizes, seed, descending)
    if not descending:  # counted once
        judge_reads(run, "fast", sizes, MOST_WIDE_REUSE_BYTES)
        judge_shared(run, "fast", sizes, MOST_FAST_WAVEFRONTS)
        judge_instructions(run, sizes)
        judge_resources(cuda_stub, run)


def judge_instructions(run: Any, sizes: Sizes) -> None:
    """Fail if other instructions take too many slots, or barriers come too often."""
    loads, launch = run.total("loads"), run.launches[0]
    wide = loads.widths[WIDE_BYTES] / max(loads.requests, 1)
    if wide < 0.9:
        fail(
            f"step fast: {wide:.0%} of its reads from global memory are 16 bytes a thread, expected 90 %. "
            "Each narrower read is an instruction, and an issue slot that no multiply-add gets."
        )
    executed = launch.counters.instructions
    share = fma_count(sizes) / 32 / sum(executed.values())
    if share < LEAST_FMA_SHARE:
        fail(
            f"step fast: of its instructions {share:.0%} are multiply-adds (PTX, by warp), expected at least "
            f"{LEAST_FMA_SHARE:.0%}. Four schedulers issue one instruction a cycle each, whichever it is."
        )
    most = sizes[2] // 8 + 1
    barriers = launch.counters.barriers / launch.blocks
    if barriers > most:
        fail(
            f"step fast: a block meets {barriers:.0f} barriers for a k of {sizes[2]}; expected at most "
            f"{most}, one for each 8 of it. Where the next tile goes into another buffer, nobody must wait "
            "until this one was read."
        )


def judge_resources(cuda_stub: Any, run: Any) -> None:
    """Fail if a kernel spills."""
    resources = compiled.compiled(cuda_stub.source, cuda_stub.given).resources
    for launch in run.launches:
        made = resources[launch.symbol]
        if made.spill_bytes or made.stack_bytes:
            fail(
                f"kernel {launch.name} takes {made.registers} registers, spills {made.spill_bytes} bytes and "
                f"keeps {made.stack_bytes} bytes of each thread in local memory (ptxas -v). What spills "
                "passes through the pipe that shared memory needs."
            )


@task("ncu_ex04.fast")
def test_fast_is_one_kernel(cuda_stub):
    judge_launch(cuda_stub, "fast")


# -- on a GPU -----------------------------------------------------------------------------------------


@task("ncu_ex04.fast_live")
def test_live_beside_cublas(cuda_stub, tmp_path):
    side = BIG_SIDE
    program = on_gpu.build(cuda_stub.source, cuda_stub.given, tmp_path)
    result = on_gpu.result(program, "--step", "fast", "--m", side, "--n", side, "--k", side)
    step = (result.get("steps") or {}).get("fast") or {}
    if step.get("wrong") != 0:
        fail(f"step fast of {side}^3: {step.get('wrong')} of 4096 samples are wrong")
    if not result.get("cublas_ns"):
        fail(
            "cuBLAS was not found: set CUBLAS_LIBRARY to its file (libcublas.so.13), as sgemm.cuh says. "
            "Without it there is nothing to compare with on this GPU."
        )
    own, library = on_gpu.medians(step | {"cublas_ns": result["cublas_ns"]}, "own_ns", "cublas_ns")
    if library < SMALLEST_LIVE_RATIO * own:
        fail(
            f"step fast of {side}^3 takes {own / 1e3:.1f} us, cuBLAS {library / 1e3:.1f} us (medians of "
            f"{len(step['own_ns'])} in turns): {library / own:.1%} of its speed. Expected: at least "
            f"{SMALLEST_LIVE_RATIO:.0%}."
        )
