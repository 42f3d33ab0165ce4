"""Checks of cuda/transpose_student.cu.

Without a GPU its PTX is run by an emulator (grading/checks/cuda), which counts sectors, wavefronts
and what comes out; ptxas says what the kernels take. With `--live` it runs and is timed.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

from grading.checks import task
from grading.checks.assertions import fail
from grading.checks.cuda import compiled, on_gpu, runs

SECTOR_BYTES = 32
# One in a hundred may be lost at edges; the next worse thing, half a sector, is far away.
MOST_SECTORS_RATIO = 1.01
# A pitch that is odd, or a swizzle, has none; the mildest conflict doubles the wavefronts.
MOST_WAVEFRONTS_RATIO = 1.05
FEWEST_BLOCKS_PER_SM = 2
SMS = 132
SMALLEST_LIVE_RATIO = 0.90
# The counter also holds what the banks lose to other traffic: 3.5 % in the recorded transpose_tile33,
# which has no conflict. The mildest real one is half of the wavefronts.
MOST_LIVE_CONFLICTS = 0.15


def ran(cuda_stub, rows: int, columns: int, descending: bool = False):
    """The matrix that went in, and the emulated run; or a failed check that says why there is none."""
    values = np.random.default_rng(rows * 1000 + columns).random((rows, columns), dtype=np.float32)
    arguments = ["--plan", "--rows", str(rows), "--columns", str(columns)]
    run = runs.emulated(
        cuda_stub,
        f"transpose of {rows} x {columns}",
        arguments,
        {0: values},
        "Plain loads, stores, shared memory, shuffles and barriers",
        descending=descending,
    )
    return values, run


def shapes(seed: int) -> list[tuple[int, int]]:
    """Square, wide and tall; multiples of usual tiles, of four, and of nothing."""
    chance = random.Random(seed)
    return [
        (128, 192),
        (4 * chance.randint(9, 30), 4 * chance.randint(31, 60)),
        (2 * chance.randint(20, 60) + 1, 2 * chance.randint(20, 60) + 1),
        (4 * chance.randint(9, 30), 4 * chance.randint(9, 30) + 1),
        (4 * chance.randint(9, 30) + 2, 4 * chance.randint(9, 30)),
        (1, chance.randint(2, 300)),
        (chance.randint(100, 300), 3),
    ]


@task("ex_31.transpose")
def test_compiles(cuda_stub):
    runs.compiles(cuda_stub)


@task("ex_31.transpose")
def test_launches_and_nothing_else(cuda_stub):
    lines = runs.issued(cuda_stub, ["--plan", "--rows", "96", "--columns", "160"])
    for line in lines[2:-1]:  # main allocates before it and waits behind it
        if line["kind"] not in ("kernel",):
            fail(
                f"transpose calls {line.get('function', line['kind'])}. Its contract "
                f"({cuda_stub.source.name.replace('_student.cu', '.cuh')}, top) is launches of kernels, and nothing "
                "else: a call that allocates, copies or waits holds its caller up."
            )
        if line["stream"] != 0:
            fail(
                f"transpose issues {line.get('name', line['kind'])} on a stream of its own. Expected: on the "
                "default stream, as the contract says. Elsewhere nothing orders it behind what the "
                "caller did before."
            )


@task("ex_31.transpose")
@pytest.mark.parametrize("descending", [False, True], ids=["warps in order", "last warp first"])
def test_every_element_is_in_its_place(cuda_stub, seed, descending):
    for rows, columns in shapes(seed):
        values, run = ran(cuda_stub, rows, columns, descending)
        found, expected = run.buffers[1].reshape(columns, rows), values.T
        wrong = found != expected
        if not wrong.any():
            continue
        column, row = (int(x[0]) for x in np.nonzero(wrong))
        got = found[column, row]
        if np.isnan(got):
            what = (
                "what stands there was never written, or was read from shared memory before another "
                "warp had written it (nothing orders the warps of a block but a barrier)"
            )
        elif (place := np.argwhere(values == got)).size:
            what = f"there stands the element of row {place[0][0]}, column {place[0][1]}"
        else:
            what = f"there stands {got}, which is no element of the input"
        fail(
            f"transpose of {rows} x {columns}, warps run {'backwards' if descending else 'in order'}: "
            f"{int(wrong.sum())} of {rows * columns} elements are not in their place. The first: "
            f"out[{column} * rows + {row}] should hold the element of row {row}, column {column}; {what}."
        )


@task("ex_31.transpose")
@pytest.mark.parametrize("kind", ["loads", "stores"])
def test_whole_sectors(cuda_stub, kind):
    rows, columns = 256, 192
    _, run = ran(cuda_stub, rows, columns)
    traffic = run.total(kind)
    needed = rows * columns * 4 // SECTOR_BYTES
    if traffic.sectors > MOST_SECTORS_RATIO * needed:
        used = traffic.bytes / traffic.sectors / SECTOR_BYTES
        fail(
            f"transpose of {rows} x {columns}: its {kind} touch {traffic.sectors} sectors of 32 bytes "
            f"({traffic.sectors / max(traffic.requests, 1):.1f} a request) where {needed} hold the whole "
            f"matrix; of the bytes of each sector {used:.0%} are used. Memory moves sectors: what is "
            "moved and not used is time. (ncu: sectors per request, bytes per sector.)"
        )


@task("ex_31.transpose")
def test_shared_memory_is_visited_once(cuda_stub):
    _, run = ran(cuda_stub, 256, 192)
    for kind, words in (("shared_loads", "loads"), ("shared_stores", "stores")):
        traffic = run.total(kind)
        if traffic.wavefronts > MOST_WAVEFRONTS_RATIO * traffic.ideal:
            fail(
                f"transpose of 256 x 192: its {words} of shared memory take {traffic.wavefronts} "
                f"wavefronts where {traffic.ideal} would do: on average "
                f"{traffic.wavefronts / traffic.ideal:.1f} visits for each. Words that lie in the same "
                "bank come one after the other. (ncu: bank conflicts.)"
            )


@task("ex_31.transpose")
def test_nothing_spills(cuda_stub):
    _, run = ran(cuda_stub, 128, 192)
    made = compiled.compiled(cuda_stub.source, cuda_stub.given)
    for launch in run.launches:
        resources = made.resources[launch.symbol]
        if resources.spill_bytes or resources.stack_bytes:
            fail(
                f"kernel {launch.name} takes {resources.registers} registers, spills "
                f"{resources.spill_bytes} bytes and keeps {resources.stack_bytes} bytes of each thread in "
                "local memory (ptxas -v). Local memory is device memory: a transpose needs none, what it "
                "holds fits into registers."
            )


@task("ex_31.transpose")
def test_enough_blocks(cuda_stub):
    side = 4096
    lines = runs.issued(cuda_stub, ["--plan", "--rows", str(side), "--columns", str(side)])
    kernels = [line for line in lines if line["kind"] == "kernel"]
    blocks = max((int(np.prod(line["grid"])) for line in kernels), default=0)
    if blocks < FEWEST_BLOCKS_PER_SM * SMS:
        fail(
            f"transpose of {side} x {side} is launched with at most {blocks} block(s). Expected: at least "
            f"{FEWEST_BLOCKS_PER_SM * SMS}, {FEWEST_BLOCKS_PER_SM} for each of the {SMS} multiprocessors "
            "of an H200. A block runs on one; the others would have nothing to do."
        )


# -- on a GPU -------------------------------------------------------------------------------------


@task("ex_31.transpose_live")
def test_live_nearly_as_fast_as_a_copy(cuda_stub, tmp_path):
    result = on_gpu.result(on_gpu.build(cuda_stub.source, cuda_stub.given, tmp_path))
    own, copy = on_gpu.medians(result, "own_ns", "ceiling_ns")
    if result.get("wrong") != 0:
        fail(f"transpose of 16384 x 16384: {result.get('wrong')} elements are not in their place")
    if copy < SMALLEST_LIVE_RATIO * own:
        fail(
            f"transpose of 16384 x 16384 takes {own / 1e3:.1f} us, a copy of as many bytes "
            f"{copy / 1e3:.1f} us (medians of {len(result['own_ns'])} in turns): {copy / own:.1%} of its "
            f"speed. Expected: at least {SMALLEST_LIVE_RATIO:.0%}."
        )


METRICS = {
    "loads": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "stores": "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",
    "wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",
}


@task("ex_31.transpose_counters_live")
def test_live_counters_say_so(cuda_stub, tmp_path):
    side = 8192
    program = on_gpu.build(cuda_stub.source, cuda_stub.given, tmp_path)
    rows = on_gpu.counters(program, METRICS.values(), "--once", "--rows", side, "--columns", side)
    got = {
        name: sum(float(row[metric].replace(",", "")) for row in rows)
        for name, metric in METRICS.items()
    }
    needed = side * side * 4 // SECTOR_BYTES
    for kind in ("loads", "stores"):
        if got[kind] > MOST_SECTORS_RATIO * needed:
            fail(
                f"transpose of {side} x {side}: ncu counts {got[kind]:.0f} sectors for its {kind}; "
                f"{needed} hold the whole matrix."
            )
    if got["conflicts"] > MOST_LIVE_CONFLICTS * got["wavefronts"]:
        fail(
            f"transpose of {side} x {side}: ncu counts {got['conflicts']:.0f} bank conflicts in "
            f"{got['wavefronts']:.0f} wavefronts of shared memory; expected at most "
            f"{MOST_LIVE_CONFLICTS:.0%}."
        )
