"""Time one Triton kernel in many configurations, several rounds of each, on random data.

    --kernel add      c = a + b, a block of elements a program
    --kernel rowsum   the sum of each row of a matrix, a row a program, a block of columns a step
    --kernel matmul   a product of two 4096 by 4096 matrices in bfloat16, a tile a program

Writes measurements.json: what each configuration was compiled to ("registers_count" a thread,
"spilled_words_count" of 4 bytes a thread, "shared_bytes" a block), and its samples, a list a round.
In a round every configuration gets its turn, in an order of the round's own; the first one is the
default that the others are held against. Times are ns of one call between two events. The inputs are
several times as large as the L2 cache, or the cache is flushed before each sample.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import statistics
from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl
from triton.runtime.errors import OutOfResources
from triton_matmul_kernel import config, label, launch
from triton_timing_device import Timer, write_table

ROUNDS, SAMPLES = 8, 5
ADD_COUNT = 1 << 26
ROWS, COLUMNS = 8192, 8192
BLOCKS = (64, 128, 256, 512, 1024, 2048, 4096, 8192)
WARPS = (1, 2, 4, 8, 16)
MATMUL_SIZE = 4096
TILES = [  # m, n, k, warps, stages
    (128, 128, 64, 4, 3),
    (128, 256, 64, 8, 3),
    (128, 256, 64, 8, 4),
    (128, 256, 64, 4, 3),
    (256, 128, 64, 8, 3),
    (128, 128, 64, 8, 3),
    (128, 128, 64, 4, 4),
    (128, 128, 32, 4, 4),
    (128, 64, 64, 4, 4),
    (64, 128, 64, 4, 4),
    (64, 64, 64, 4, 4),
    (64, 64, 32, 2, 3),
    (256, 64, 64, 4, 4),
    (64, 256, 64, 4, 4),
    (256, 256, 64, 8, 4),
]


@triton.jit
def add_kernel(a, b, c, count, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    inside = at < count
    tl.store(c + at, tl.load(a + at, mask=inside) + tl.load(b + at, mask=inside), mask=inside)


@triton.jit
def rowsum_kernel(x, out, columns, block: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, block)
    total = tl.zeros((block,), dtype=tl.float32)
    for start in range(0, columns, block):
        inside = start + at < columns
        total += tl.load(x + row * columns + start + at, mask=inside, other=0.0)
    tl.store(out + row, tl.sum(total, axis=0))


Case = tuple[dict[str, Any], Callable[[], Any]]


def of_blocks(run: Callable[[int, int], Any]) -> list[Case]:
    """Every block with every number of warps; the default is 1024 elements and 4 warps."""
    pairs = [(block, warps) for block in BLOCKS for warps in WARPS]
    pairs.sort(key=lambda pair: pair != (1024, 4))

    def case(block: int, warps: int) -> Case:
        name = f"{block} w{warps}"
        return {"name": name, "block": block, "num_warps": warps}, lambda: run(block, warps)

    return [case(block, warps) for block, warps in pairs]


def add_cases() -> tuple[list[Case], Callable[[], bool], dict[str, Any]]:
    a, b = (torch.randn(ADD_COUNT, device="cuda") for _ in range(2))
    c = torch.empty_like(a)

    def run(block: int, warps: int) -> Any:
        grid = (triton.cdiv(ADD_COUNT, block),)
        kernel: Any = add_kernel[grid]
        return kernel(a, b, c, ADD_COUNT, block=block, num_warps=warps)

    about = {"cache": "plain", "least_bytes": 3 * 4 * ADD_COUNT}
    return of_blocks(run), lambda: torch.equal(c, a + b), about


def rowsum_cases() -> tuple[list[Case], Callable[[], bool], dict[str, Any]]:
    x = torch.randn(ROWS, COLUMNS, device="cuda")
    out = torch.empty(ROWS, device="cuda")
    right = x.double().sum(dim=1).float()

    def run(block: int, warps: int) -> Any:
        kernel: Any = rowsum_kernel[(ROWS,)]
        return kernel(x, out, COLUMNS, block=block, num_warps=warps)

    about = {"cache": "plain", "least_bytes": 4 * ROWS * (COLUMNS + 1)}
    return of_blocks(run), lambda: torch.allclose(out, right, atol=1e-2), about


def matmul_cases() -> tuple[list[Case], Callable[[], bool], dict[str, Any]]:
    size = MATMUL_SIZE
    a, b = (torch.randn(size, size, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    c, right = torch.empty_like(a), torch.mm(a, b)

    def case(sizes: tuple[int, int, int, int, int]) -> Case:
        chosen = config(*sizes)
        return {"name": label(chosen), **chosen}, lambda: launch(a, b, c, chosen)

    def fine() -> bool:
        return bool((c.float() - right.float()).norm() < 5e-3 * right.float().norm())

    about = {"cache": "cold", "least_bytes": 3 * 2 * size * size, "flops": 2 * size**3}
    return [case(sizes) for sizes in TILES], fine, about


KERNELS = {"add": add_cases, "rowsum": rowsum_cases, "matmul": matmul_cases}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kernel", choices=KERNELS, required=True)
    kernel = parser.parse_args().kernel
    torch.manual_seed(4)
    cases, fine, about = KERNELS[kernel]()
    rows: list[dict[str, Any]] = []
    calls: list[Callable[[], Any]] = []
    refused: list[dict[str, Any]] = []
    for described, call in cases:
        try:
            compiled = call()
        except OutOfResources as error:
            refused.append({"name": described["name"], "message": str(error)})
            continue
        if not fine():
            raise SystemExit(f"{described['name']}: wrong result")
        calls.append(call)
        rows.append(
            {
                **described,
                "registers_count": compiled.n_regs,
                "spilled_words_count": compiled.n_spills,
                "shared_bytes": compiled.metadata.shared,
                "device_time": [],
            }
        )
    timer = Timer()
    for call in calls:
        timer.samples_ns(call, 3, about["cache"])  # warm up
    order = random.Random(4)
    for _ in range(ROUNDS):
        places = list(range(len(calls)))
        order.shuffle(places)
        for place in places:
            calls[place]()
            rows[place]["device_time"].append(
                timer.samples_ns(calls[place], SAMPLES, about["cache"])
            )
    table = {
        "format": 1,
        "unit": "ns",
        "device": torch.cuda.get_device_name(),
        "compute_capability": ".".join(map(str, torch.cuda.get_device_capability())),
        "kernel": kernel,
        **about,
        "default": rows[0]["name"],
        "refused": refused,
        "configurations": rows,
    }
    write_table(table)
    told = {row["name"]: statistics.median(itertools.chain(*row["device_time"])) for row in rows}
    print("RESULT", json.dumps({"kernel": kernel, "median_ns": told}))


if __name__ == "__main__":
    main()
