"""Time a Triton matrix product over sizes, beside torch's, on random data with cold caches.

Writes measurements.json:
    "sizes"         a row a shape: m, n, k, the tile (the fastest of a few, found by a short trial),
                    samples of the Triton kernel and of torch.mm
    "waves"         one tile, a growing number of columns: how many programs there are against SMs
    "empty_kernel"  samples of a Triton kernel that does nothing, timed in the same way
Times are ns of one call between two events.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable
from typing import Any

import torch
import triton
from triton_matmul_kernel import Config, config, label, launch
from triton_timing_device import FLUSH_BYTES, Timer, write_table

SAMPLES, TRIAL_SAMPLES = 15, 5
SQUARES = (128, 256, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192)
WEIGHTS = 8192  # of a linear layer, as many in as out
FEW_ROWS = (16, 32, 64, 128, 256, 512, 1024)
WAVE_ROWS, WAVE_K, WAVE_TILES = 12, 4096, range(6, 25)
WIDE = {
    "bfloat16": [
        config(128, 256, 64, 8, 3),
        config(128, 256, 64, 8, 4),
        config(128, 128, 64, 4, 4),
        config(64, 128, 64, 4, 4),
        config(16, 128, 128, 4, 4),
        config(64, 64, 64, 4, 4),
    ],
    "tfloat32": [
        config(128, 256, 32, 8, 3),
        config(128, 128, 32, 8, 4),
        config(128, 128, 32, 4, 4),
        config(64, 128, 32, 4, 4),
        config(16, 128, 64, 4, 4),
        config(64, 64, 32, 4, 4),
    ],
}
TORCH_TYPE = {"bfloat16": torch.bfloat16, "tfloat32": torch.float32}


@triton.jit
def empty_kernel(x):
    pass


def product(m: int, n: int, k: int, dtype: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Random factors, and room for their product."""
    kind = TORCH_TYPE[dtype]
    a = torch.randn(m, k, device="cuda", dtype=kind)
    b = torch.randn(k, n, device="cuda", dtype=kind)
    return a, b, torch.empty(m, n, device="cuda", dtype=kind)


def verify(c: torch.Tensor, right: torch.Tensor) -> None:
    """Both are rounded, each in its own order of additions."""
    error = (c.float() - right.float()).norm() / right.float().norm()
    if not error < 5e-3:
        raise SystemExit(f"wrong product: relative error {error:.2g}")


def call_of(
    a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, chosen: Config
) -> Callable[[], object]:
    return lambda: launch(a, b, c, chosen)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dtype", choices=TORCH_TYPE, default="bfloat16")
    dtype = parser.parse_args().dtype
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.manual_seed(4)
    timer = Timer()
    tiles = WIDE[dtype]
    room = torch.zeros(1, device="cuda")

    def nothing() -> None:
        empty_kernel[(1,)](room)

    nothing()
    empty = timer.samples_ns(nothing, 2 * SAMPLES)

    shapes = [(size, size, size) for size in SQUARES]
    shapes += [(rows, WEIGHTS, WEIGHTS) for rows in FEW_ROWS]
    sizes: list[dict[str, Any]] = []
    for m, n, k in shapes:
        a, b, c = product(m, n, k, dtype)
        right = torch.mm(a, b)
        trials = {}
        for chosen in tiles:
            call = call_of(a, b, c, chosen)
            call()
            trials[label(chosen)] = statistics.median(timer.samples_ns(call, TRIAL_SAMPLES))
        best = min(tiles, key=lambda chosen: trials[label(chosen)])
        c.zero_()
        call = call_of(a, b, c, best)
        call()
        verify(c, right)

        def library(a: torch.Tensor = a, b: torch.Tensor = b, out: torch.Tensor = right) -> None:
            torch.mm(a, b, out=out)

        library()
        times: dict[str, list[int]] = {"triton": [], "torch": []}
        for _ in range(3):  # in turns, so that both see the same clocks
            times["triton"] += timer.samples_ns(call, SAMPLES // 3)
            times["torch"] += timer.samples_ns(library, SAMPLES // 3)
        sizes.append(
            {
                "name": f"{m}x{n}x{k}",
                "m": m,
                "n": n,
                "k": k,
                "tile": best,
                "device_time": times["triton"],
                "torch_device_time": times["torch"],
            }
        )
        del a, b, c, right, call, library

    wide = tiles[0]
    waves: list[dict[str, Any]] = []
    for columns in WAVE_TILES:
        m, n, k = WAVE_ROWS * wide["block_m"], columns * wide["block_n"], WAVE_K
        call = call_of(*product(m, n, k, dtype), wide)
        compiled: Any = call()
        samples = timer.samples_ns(call, SAMPLES)
        waves.append({"name": f"{m}x{n}x{k}", "m": m, "n": n, "k": k, "device_time": samples})
    table = {
        "format": 1,
        "unit": "ns",
        "device": torch.cuda.get_device_name(),
        "sm_count": torch.cuda.get_device_properties(0).multi_processor_count,
        "dtype": dtype,
        "flush_bytes": FLUSH_BYTES,
        "empty_kernel": empty,
        "wave_tile": wide,
        "wave_kernel": {
            "registers_count": compiled.n_regs,
            "spilled_words_count": compiled.n_spills,
            "shared_bytes": compiled.metadata.shared,
        },
        "sizes": sizes,
        "waves": waves,
    }
    write_table(table)
    told = {row["name"]: statistics.median(row["device_time"]) for row in sizes}
    print("RESULT", json.dumps({"empty_ns": statistics.median(empty), "median_ns": told}))


if __name__ == "__main__":
    main()
