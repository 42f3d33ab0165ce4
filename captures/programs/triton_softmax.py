"""Time a softmax over the rows of a matrix for many widths: Triton's against torch's and others.

Writes measurements.json. "measurements": for each width the samples of each implementation, in turns:

    fused          one Triton kernel, several rows to a program where rows are short
    one_row        the same kernel, always one row to a program, four warps
    torch          torch.softmax
    torch_again    torch.softmax once more, to see how far two samples of the same thing differ
    separate       five kernels of torch: largest, minus, exp, sum, divide
    copy           out.copy_(x), which moves the same bytes as one kernel needs to

The matrices are several times as large as the L2 cache and hold random numbers. A sample is the time
between two events around a few calls, over the calls, while the host is ahead of the device.

"programs": the registers and spills of the fused kernel with one row to a program, for blocks and
numbers of warps up to what no longer fits, with samples of its time on rows of that width.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import triton
import triton.language as tl

jit: Any = triton.jit  # its type knows nothing of num_warps and the like
TENSOR_BYTES = 256 * 2**20
SAMPLES, CALLS = 15, 4
SLEEP_CYCLES = 6_000_000  # about three milliseconds: longer than issuing a round takes
WIDTHS = (256, 384, 512, 1000, 1024, 2048, 3000, 4096, 8192, 12000, 16384, 32768)
PROGRAMS = [(warps, share) for warps in (4, 8, 16, 32) for share in (16, 32, 64, 128, 256)]
WIDEST_PROGRAM = 131072


@jit
def softmax_kernel(
    out_pointer,
    x_pointer,
    row_stride,
    column_stride,
    rows,
    columns,
    per_program: tl.constexpr,
    block: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64) * per_program + tl.arange(0, per_program)[:, None]
    column = tl.arange(0, block)[None, :]
    inside = (row < rows) & (column < columns)
    place = x_pointer + row * row_stride + column * column_stride
    x = tl.load(place, mask=inside, other=-float("inf")).to(tl.float32)
    powers = tl.exp(x - tl.max(x, axis=1)[:, None])
    result = powers / tl.sum(powers, axis=1)[:, None]
    place = out_pointer + row * columns + column
    tl.store(place, result.to(out_pointer.dtype.element_ty), mask=inside)


def configuration(columns: int) -> tuple[int, int]:
    """Rows to a program and warps: tiles of 1024 elements or more, 32 of them to a thread."""
    block = triton.next_power_of_2(columns)
    rows = max(1, 1024 // block)
    return rows, rows * block // 1024


def launch(out: torch.Tensor, x: torch.Tensor, per_program: int, warps: int) -> Any:
    rows, columns = x.shape
    grid = (triton.cdiv(rows, per_program),)
    return softmax_kernel[grid](
        out,
        x,
        *x.stride(),
        rows,
        columns,
        per_program=per_program,
        block=triton.next_power_of_2(columns),
        num_warps=warps,
    )


def separate(x: torch.Tensor) -> torch.Tensor:
    shifted = x - x.amax(dim=1, keepdim=True)
    powers = torch.exp(shifted)
    return powers / powers.sum(dim=1, keepdim=True)


def in_turns(calls: dict[str, Callable[[], Any]]) -> dict[str, list[int]]:
    """Samples of each call in ns; within a round every call has its turn."""
    for call in calls.values():
        call()
    pairs: dict[str, list[tuple[Any, Any]]] = {name: [] for name in calls}
    for _ in range(SAMPLES):
        torch.cuda._sleep(SLEEP_CYCLES)
        for name, call in calls.items():
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            call()
            start.record()
            for _ in range(CALLS):
                call()
            end.record()
            pairs[name].append((start, end))
        torch.cuda.synchronize()
    return {
        name: [round(start.elapsed_time(end) / CALLS * 1e6) for start, end in found]
        for name, found in pairs.items()
    }


def matrices(columns: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    rows = TENSOR_BYTES // (columns * dtype.itemsize)
    x = torch.empty(rows, columns, device="cuda", dtype=dtype).normal_()
    return x, torch.empty_like(x)


def agrees(out: torch.Tensor, x: torch.Tensor) -> None:
    want = torch.softmax(x[:64].double(), dim=1)
    wrong = (out[:64].double() - want).abs().max().item()
    if not wrong <= max(2e-6, torch.finfo(x.dtype).eps) * want.max().item():
        raise SystemExit(f"softmax of {tuple(x.shape)} {x.dtype} is off by {wrong}")


def measured(columns: int, dtype: torch.dtype) -> list[dict[str, Any]]:
    """The rows of a width, one an implementation."""
    x, out = matrices(columns, dtype)
    per_program, warps = configuration(columns)
    launch(out, x, per_program, warps)
    agrees(out, x)
    samples = in_turns(
        {
            "fused": lambda: launch(out, x, per_program, warps),
            "torch": lambda: torch.softmax(x, dim=1),
            "one_row": lambda: launch(out, x, 1, 4),
            "separate": lambda: separate(x),
            "torch_again": lambda: torch.softmax(x, dim=1),
            "copy": lambda: out.copy_(x),
        }
    )
    return [
        {
            "implementation": name,
            "rows": x.shape[0],
            "columns": columns,
            "rows_per_program": {"fused": per_program, "one_row": 1}.get(name),
            "warps": {"fused": warps, "one_row": 4}.get(name),
            "device_time": times,
        }
        for name, times in samples.items()
    ]


def programs(dtype: torch.dtype) -> list[dict[str, Any]]:
    """Registers, spills and time of one row to a program, by warps and elements of a thread."""
    found = []
    for warps, share in PROGRAMS:
        block = share * 32 * warps
        if block > WIDEST_PROGRAM:
            continue
        x, out = matrices(block, dtype)
        compiled = launch(out, x, 1, warps)
        agrees(out, x)
        times = in_turns({"kernel": lambda: launch(out, x, 1, warps)})["kernel"]  # noqa: B023
        found.append(
            {
                "warps": warps,
                "block": block,
                "registers_count": compiled.n_regs,
                "spills_count": compiled.n_spills,
                "rows": x.shape[0],
                "device_time": times,
            }
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dtype", choices=("bfloat16", "float32"), default="bfloat16")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    dtype = getattr(torch, arguments.dtype)
    rows: list[dict[str, Any]] = []
    for columns in WIDTHS:
        rows += measured(columns, dtype)
        torch.cuda.empty_cache()
    table = {
        "format": 1,
        "unit": "ns",
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "triton": triton.__version__,
        "dtype": arguments.dtype,
        "calls_per_sample": CALLS,
    }
    lists = {"measurements": rows, "programs": programs(dtype)}
    parts = [f'"{key}": {json.dumps(value)}' for key, value in table.items()]
    for key, entries in lists.items():
        parts.append(f'"{key}": [\n  ' + ",\n  ".join(map(json.dumps, entries)) + "\n ]")
    Path("measurements.json").write_text("{" + ",\n ".join(parts) + "}\n", encoding="utf-8")

    median = {
        (row["implementation"], row["columns"]): statistics.median(row["device_time"])
        for row in rows
    }
    ratios = [median["torch", columns] / median["fused", columns] for columns in WIDTHS]
    result = {
        "dtype": arguments.dtype,
        "speedup_over_torch": {
            str(columns): round(ratio, 3) for columns, ratio in zip(WIDTHS, ratios, strict=True)
        },
        "geometric_mean": round(math.exp(statistics.fmean(map(math.log, ratios))), 3),
    }
    print("RESULT", json.dumps(result))


if __name__ == "__main__":
    main()
