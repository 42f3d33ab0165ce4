"""Time a Triton vector add with a mask everywhere beside one with a mask in its last program only.

Writes measurements.json, a row for each data type, kernel ("mask": all lanes compare their place with
n; "branch": programs that are full have no mask) and size: samples in ns of one call, cold, of the add
and of a copy of one vector taken in turns, and how often each kind of load stands in the PTX.
"""

from __future__ import annotations

import json
import re
import statistics
from collections import Counter
from typing import Any

import torch
import triton
import triton.language as tl
from triton_timing_device import FLUSH_BYTES, Timer, write_table

SAMPLES, ROUNDS = 5, 3
SIZES = (2**27, 2**27 + 24, 2**27 + 1)
BLOCK = 1024
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


@triton.jit
def mask_kernel(x_ptr, y_ptr, out_ptr, n, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    inside = at < n
    x = tl.load(x_ptr + at, mask=inside)
    y = tl.load(y_ptr + at, mask=inside)
    tl.store(out_ptr + at, x + y, mask=inside)


@triton.jit
def branch_kernel(x_ptr, y_ptr, out_ptr, n, block: tl.constexpr):
    program = tl.program_id(0)
    at = program * block + tl.arange(0, block)
    if program < n // block:
        tl.store(out_ptr + at, tl.load(x_ptr + at) + tl.load(y_ptr + at))
    else:
        inside = at < n
        x = tl.load(x_ptr + at, mask=inside)
        y = tl.load(y_ptr + at, mask=inside)
        tl.store(out_ptr + at, x + y, mask=inside)


KERNELS = {"mask": mask_kernel, "branch": branch_kernel}


def main() -> None:
    torch.manual_seed(8)
    timer = Timer()
    rows: list[dict[str, Any]] = []
    for dtype, kind in DTYPES.items():
        for n in SIZES:
            x, y = (torch.randn(n, device="cuda").to(kind) for _ in range(2))
            out = torch.empty_like(x)
            for name, kernel in KERNELS.items():

                def add(kernel: Any = kernel, x: Any = x, y: Any = y, out: Any = out) -> Any:
                    n = x.numel()
                    grid = (triton.cdiv(n, BLOCK),)
                    return kernel[grid](x, y, out, n, block=BLOCK, num_warps=4)

                def copy(x: Any = x, out: Any = out) -> None:
                    out.copy_(x)

                out.zero_()
                compiled = add()
                if not torch.equal(out, x + y):
                    raise SystemExit(f"wrong sum: {name}, {n} elements")
                copy()
                times: dict[str, list[int]] = {"add": [], "copy": []}
                for _ in range(ROUNDS):
                    times["add"] += timer.samples_ns(add, SAMPLES)
                    times["copy"] += timer.samples_ns(copy, SAMPLES)
                loads = Counter(re.findall(r"ld\.global\S*", compiled.asm["ptx"]))
                row = {"name": f"{name}, {dtype}, {n}", "kernel": name, "dtype": dtype, "n": n}
                rows.append({**row, "bytes": 3 * n * x.element_size(), **times, "loads": loads})
            del x, y, out
    write_table(
        {
            "format": 1,
            "unit": "ns",
            "device": torch.cuda.get_device_name(),
            "block": BLOCK,
            "flush_bytes": FLUSH_BYTES,
            "versions": {"torch": torch.__version__, "triton": triton.__version__},
            "rows": rows,
        }
    )
    medians = {row["name"]: statistics.median(row["add"]) for row in rows}
    loads = {row["name"]: row["loads"] for row in rows}
    print("RESULT", json.dumps({"median_ns": medians, "loads": loads}))


if __name__ == "__main__":
    main()
