"""Time one Triton matrix product with its factors laid out in memory row by row or column by column.

The factors hold the same random numbers in each layout. Writes measurements.json: a row a data type and
layout, with the tile (the fastest of two, found by a short trial), samples of the Triton kernel and of
torch.mm in ns, one call between two events, and what the kernel was compiled to: registers a thread, and
how many wgmma instructions (products of the tensor cores) its PTX holds.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from typing import Any

import torch
from triton_matmul_kernel import Config, config, label, launch
from triton_timing_device import FLUSH_BYTES, Timer, write_table

SIZE, SAMPLES, TRIAL_SAMPLES = 4096, 15, 5
TILES = {
    "bfloat16": [config(128, 256, 64, 8, 4), config(128, 128, 64, 4, 4)],
    "tfloat32": [config(128, 256, 32, 8, 3), config(128, 128, 32, 4, 4)],
}
TORCH_TYPE = {"bfloat16": torch.bfloat16, "tfloat32": torch.float32}


def by_columns(x: torch.Tensor) -> torch.Tensor:
    """The same matrix with its columns one after the other in memory."""
    return x.t().contiguous().t()


def call_of(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, chosen: Config) -> Callable[[], Any]:
    return lambda: launch(a, b, c, chosen)


def library_of(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> Callable[[], Any]:
    return lambda: torch.mm(a, b, out=c)


def main() -> None:
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.manual_seed(4)
    timer = Timer()
    rows: list[dict[str, Any]] = []
    for dtype, tiles in TILES.items():
        kind = TORCH_TYPE[dtype]
        by_rows = [torch.randn(SIZE, SIZE, device="cuda", dtype=kind) for _ in range(2)]
        right = by_rows[0].double() @ by_rows[1].double()
        for layouts in (("rows", "rows"), ("rows", "columns"), ("columns", "rows")):
            a, b = (
                by_columns(x) if layout == "columns" else x
                for x, layout in zip(by_rows, layouts, strict=True)
            )
            c, out = torch.empty_like(by_rows[0]), torch.empty_like(by_rows[0])
            calls = {label(chosen): call_of(a, b, c, chosen) for chosen in tiles}
            compiled = {name: call() for name, call in calls.items()}
            trials = {
                name: statistics.median(timer.samples_ns(call, TRIAL_SAMPLES))
                for name, call in calls.items()
            }
            best = min(trials, key=trials.__getitem__)
            c.zero_()
            calls[best]()
            if not (c.double() - right).norm() < 5e-3 * right.norm():
                raise SystemExit(f"{dtype} {layouts} {best}: wrong product")
            library = library_of(a, b, out)
            library()
            times: dict[str, list[int]] = {"triton": [], "torch": []}
            for _ in range(3):  # in turns, so that both see the same clocks
                times["triton"] += timer.samples_ns(calls[best], SAMPLES // 3)
                times["torch"] += timer.samples_ns(library, SAMPLES // 3)
            rows.append(
                {
                    "name": f"{dtype}, a by {layouts[0]}, b by {layouts[1]}",
                    "dtype": dtype,
                    "a": layouts[0],
                    "b": layouts[1],
                    "m": SIZE,
                    "n": SIZE,
                    "k": SIZE,
                    "tile": best,
                    "registers_count": compiled[best].n_regs,
                    "wgmma_count": compiled[best].asm["ptx"].count("wgmma.mma_async"),
                    "device_time": times["triton"],
                    "torch_device_time": times["torch"],
                }
            )
    table = {
        "format": 1,
        "unit": "ns",
        "device": torch.cuda.get_device_name(),
        "flush_bytes": FLUSH_BYTES,
        "layouts": rows,
    }
    write_table(table)
    told = {row["name"]: statistics.median(row["device_time"]) for row in rows}
    print("RESULT", json.dumps({"median_ns": told}))


if __name__ == "__main__":
    main()
