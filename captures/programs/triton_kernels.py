"""A few Triton kernels, to be looked at with Nsight Compute.

    vector_add              z = x + y, 64 Mi elements of float32
    matmul                  C = A @ B, 4096 by 4096 by 4096 in bfloat16
    softmax_row             262,144 rows of 256 in bfloat16, one row to a program, four warps
    softmax_rows            the same with four rows to a program of one warp
    softmax_whole           2,048 rows of 32,768 in bfloat16, a row held by one program
    softmax_three_pass      the same in pieces: a row is read for its largest element, again for the
                            sum, and a third time for the result

Without --once the program times each kernel; with it, it launches each once between
cudaProfilerStart and cudaProfilerStop, after a warm-up.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl

jit: Any = triton.jit  # its type knows nothing of num_warps and the like
SAMPLES, SLEEP_CYCLES = 15, 2_000_000
# Each input read once and each output written once.
MINIMUM_BYTES = {
    "vector_add": 3 * 2**26 * 4,
    "matmul": 3 * 4096**2 * 2,
    "softmax_row": 2 * 262144 * 256 * 2,
    "softmax_rows": 2 * 262144 * 256 * 2,
    "softmax_whole": 2 * 2048 * 32768 * 2,
    "softmax_three_pass": 2 * 2048 * 32768 * 2,
}


@jit
def vector_add(z_pointer, x_pointer, y_pointer, elements, block: tl.constexpr):
    place = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    inside = place < elements
    x = tl.load(x_pointer + place, mask=inside)
    y = tl.load(y_pointer + place, mask=inside)
    tl.store(z_pointer + place, x + y, mask=inside)


@jit
def matmul(
    c_pointer,
    a_pointer,
    b_pointer,
    m,
    n,
    k,
    block_m: tl.constexpr,
    block_n: tl.constexpr,
    block_k: tl.constexpr,
    group_m: tl.constexpr,
):
    # Contiguous matrices whose sizes the blocks divide. Programs next to each other in time share
    # rows of A and columns of B: they walk group_m rows of tiles at a time.
    program = tl.program_id(0)
    in_group = group_m * (n // block_n)
    tile_m = program // in_group * group_m + program % in_group % group_m
    tile_n = program % in_group // group_m
    row = tile_m * block_m + tl.arange(0, block_m)[:, None]
    column = tile_n * block_n + tl.arange(0, block_n)[None, :]
    inner = tl.arange(0, block_k)
    a = a_pointer + row * k + inner[None, :]
    b = b_pointer + inner[:, None] * n + column
    total = tl.zeros((block_m, block_n), dtype=tl.float32)
    for _ in range(0, k, block_k):
        total = tl.dot(tl.load(a), tl.load(b), total)
        a += block_k
        b += block_k * n
    tl.store(c_pointer + row * n + column, total.to(c_pointer.dtype.element_ty))


@jit
def softmax_row(out_pointer, x_pointer, columns, block: tl.constexpr):
    column = tl.arange(0, block)
    place = tl.program_id(0).to(tl.int64) * columns + column
    inside = column < columns
    x = tl.load(x_pointer + place, mask=inside, other=-float("inf")).to(tl.float32)
    powers = tl.exp(x - tl.max(x, axis=0))
    result = powers / tl.sum(powers, axis=0)
    tl.store(out_pointer + place, result.to(out_pointer.dtype.element_ty), mask=inside)


@jit
def softmax_rows(
    out_pointer, x_pointer, rows, columns, per_program: tl.constexpr, block: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64) * per_program + tl.arange(0, per_program)[:, None]
    column = tl.arange(0, block)[None, :]
    inside = (row < rows) & (column < columns)
    place = row * columns + column
    x = tl.load(x_pointer + place, mask=inside, other=-float("inf")).to(tl.float32)
    powers = tl.exp(x - tl.max(x, axis=1)[:, None])
    result = powers / tl.sum(powers, axis=1)[:, None]
    tl.store(out_pointer + place, result.to(out_pointer.dtype.element_ty), mask=inside)


@jit
def softmax_whole(out_pointer, x_pointer, columns, block: tl.constexpr):
    column = tl.arange(0, block)
    place = tl.program_id(0).to(tl.int64) * columns + column
    inside = column < columns
    x = tl.load(x_pointer + place, mask=inside, other=-float("inf")).to(tl.float32)
    powers = tl.exp(x - tl.max(x, axis=0))
    result = powers / tl.sum(powers, axis=0)
    tl.store(out_pointer + place, result.to(out_pointer.dtype.element_ty), mask=inside)


@jit
def softmax_three_pass(out_pointer, x_pointer, columns, block: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * columns
    column = tl.arange(0, block)
    largest = tl.full((block,), -float("inf"), tl.float32)
    for first in range(0, columns, block):
        inside = first + column < columns
        x = tl.load(x_pointer + start + first + column, mask=inside, other=-float("inf"))
        largest = tl.maximum(largest, x.to(tl.float32))
    top = tl.max(largest, axis=0)
    sums = tl.zeros((block,), tl.float32)
    for first in range(0, columns, block):
        inside = first + column < columns
        x = tl.load(x_pointer + start + first + column, mask=inside, other=-float("inf"))
        sums += tl.exp(x.to(tl.float32) - top)
    total = tl.sum(sums, axis=0)
    for first in range(0, columns, block):
        inside = first + column < columns
        x = tl.load(x_pointer + start + first + column, mask=inside, other=-float("inf"))
        result = tl.exp(x.to(tl.float32) - top) / total
        place = out_pointer + start + first + column
        tl.store(place, result.to(out_pointer.dtype.element_ty), mask=inside)


def random(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.empty(shape, device="cuda", dtype=dtype).normal_()


def right(out: torch.Tensor, want: torch.Tensor, what: str) -> None:
    if not (out.double() - want.double()).abs().max() <= 1e-2 * want.double().abs().max():
        raise SystemExit(f"{what} is wrong")


def calls() -> dict[str, Callable[[], Any]]:
    """Name to a call of the kernel; each was held against torch."""
    x, y = random(2**26, dtype=torch.float32), random(2**26, dtype=torch.float32)
    z = torch.empty_like(x)
    a, b = random(4096, 4096), random(4096, 4096)
    c = torch.empty_like(a)
    short, long = random(262144, 256), random(2048, 32768)
    short_out, long_out = torch.empty_like(short), torch.empty_like(long)
    tiles = triton.cdiv(4096, 128) * triton.cdiv(4096, 256)
    found: dict[str, Callable[[], Any]] = {
        "vector_add": lambda: vector_add[(2**26 // 1024,)](
            z, x, y, 2**26, block=1024, num_warps=4
        ),
        "matmul": lambda: matmul[(tiles,)](
            c, a, b, 4096, 4096, 4096,
            block_m=128, block_n=256, block_k=64, group_m=8, num_warps=8, num_stages=3,
        ),
        "softmax_row": lambda: softmax_row[(262144,)](
            short_out, short, 256, block=256, num_warps=4
        ),
        "softmax_rows": lambda: softmax_rows[(262144 // 4,)](
            short_out, short, 262144, 256, per_program=4, block=256, num_warps=1
        ),
        "softmax_whole": lambda: softmax_whole[(2048,)](
            long_out, long, 32768, block=32768, num_warps=32
        ),
        "softmax_three_pass": lambda: softmax_three_pass[(2048,)](
            long_out, long, 32768, block=4096, num_warps=8
        ),
    }  # fmt: skip
    results = {
        "vector_add": (z, x + y),
        "matmul": (c, a @ b),
        "softmax_row": (short_out, torch.softmax(short, dim=1)),
        "softmax_rows": (short_out, torch.softmax(short, dim=1)),
        "softmax_whole": (long_out, torch.softmax(long, dim=1)),
        "softmax_three_pass": (long_out, torch.softmax(long, dim=1)),
    }
    for name, call in found.items():
        out, want = results[name]
        out.zero_()
        call()
        right(out, want, name)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--once", action="store_true", help="run under the profiler")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    kernels = calls()
    torch.cuda.synchronize()
    if arguments.once:
        torch.cuda.profiler.start()
        for call in kernels.values():
            call()
        torch.cuda.synchronize()
        torch.cuda.profiler.stop()
        return
    flush = torch.zeros(128 * 2**20, device="cuda")
    times: dict[str, list[tuple[Any, Any]]] = {name: [] for name in kernels}
    for _ in range(SAMPLES):
        for name, call in kernels.items():
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda._sleep(SLEEP_CYCLES)
            flush.sum()
            start.record()
            call()
            end.record()
            times[name].append((start, end))
    torch.cuda.synchronize()
    result = {
        name: round(statistics.median(start.elapsed_time(end) for start, end in pairs) * 1e6)
        for name, pairs in times.items()
    }
    print("RESULT", json.dumps({"median_ns": result, "minimum_bytes": MINIMUM_BYTES}))


if __name__ == "__main__":
    main()
