"""Triton: attention, made fast

The lesson is `README.md` in this folder, hints are in `hints.md`.
"""

from __future__ import annotations

import csv
import json
import math
import statistics
from types import SimpleNamespace
from typing import Any

from profiling_lab import captures, devices

try:
    import torch
    import triton
    import triton.language as tl
    from triton.tools.tensor_descriptor import TensorDescriptor
except ModuleNotFoundError:  # macOS and Windows have no Triton, and only the kernel needs it
    triton: Any = SimpleNamespace(jit=lambda function: function)

# Of a multiprocessor of compute capability 9.0, in a cycle. Source: CUDA C++ Programming Guide,
# arithmetic instructions, "32-bit floating-point reciprocal, …, base 2 exponential".
EXPONENTIALS_PER_CYCLE = 16

NS_PER_UNIT = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}
NS_PER_UNIT |= {"nsecond": 1, "usecond": 1e3, "msecond": 1e6, "second": 1e9}

# What `programs_that_fit` reads from a raw page of Nsight Compute.
DURATION = "gpu__time_duration.sum"
INSTRUCTIONS = "smsp__inst_executed.sum"
TENSOR_PCT = "sm__pipe_tensor_op_hmma_cycles_active.avg.pct_of_peak_sustained_active"
EXPONENTIALS_PCT = "sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active"
LIMITS = {
    "registers": "launch__occupancy_limit_registers",
    "shared memory": "launch__occupancy_limit_shared_mem",
    "warps": "launch__occupancy_limit_warps",
    "blocks": "launch__occupancy_limit_blocks",
}


def least_times_ns(
    shape: tuple[int, int, int, int], causal: bool, device: str, clock_mhz: float
) -> dict[str, float]:
    """The least time that each part of a device needs for attention in bfloat16.

    shape: (batch, heads, tokens, head), as many keys as queries. `profiling_lab.devices` has the device's peak of
    its tensor cores, its bandwidth and its number of multiprocessors (sm_count). The pipe for special functions
    of one multiprocessor computes EXPONENTIALS_PER_CYCLE in each cycle of clock_mhz.

    With causal, only the scores that are seen count: tokens · (tokens + 1) / 2 per head. A score costs one
    exponential, and two products of `head` multiply-adds, each 2 operations.

    Returns "matrix_ns", "exponential_ns", "memory_ns" (Q, K, V and the result, each once), "overlapped_ns",
    if all three run at the same time, and "serial_ns", if each waits for the others.
    """
    batch, heads, tokens, head = shape
    found = devices.get(device)
    scores = batch * heads * (tokens * (tokens + 1) / 2 if causal else tokens * tokens)
    each_ns = {
        "matrix_ns": 4 * scores * head / found.peak("bfloat16") * 1e9,
        "exponential_ns": scores
        / (EXPONENTIALS_PER_CYCLE * (found.sm_count or 1) * clock_mhz * 1e6)
        * 1e9,
        "memory_ns": 4
        * math.prod(shape)
        * devices.dtype("bfloat16").bytes
        / found.memory_bandwidth_bytes_per_s
        * 1e9,
    }
    times = each_ns.values()
    return each_ns | {"overlapped_ns": max(times), "serial_ns": sum(times)}


def step_rates(capture: str, causal: bool = False) -> list[dict[str, Any]]:
    """The rate of each recorded way to compute attention, slowest first.

    `measurements.json` has "unit" ("ns", "us" or "ms") and "steps": rows with "name", "causal",
    "batch", "heads", "tokens", "head" and the samples "device_time". Use only rows with the given causal.

    Operations are those of both products (4 · batch · heads · tokens² · head), or half of that with
    causal.
    Returns for each row
        "name",
        "median_ns":         the median of the samples.
        "tflops":            the rate, in 10¹² operations per second.
        "over_flash_ratio":  this rate / that of "flash".
        "of_fastest_ratio":  this rate / the highest of all rows.
    """
    table = json.loads(captures.text(capture, "measurements.json"))
    rows = []
    for row in table["steps"]:
        if row["causal"] == causal:
            flops = 4 * row["batch"] * row["heads"] * row["tokens"] ** 2 * row["head"]
            median = statistics.median(row["device_time"]) * NS_PER_UNIT[table["unit"]]
            rate = flops / (2 if causal else 1) / median / 1e3
            rows.append({"name": row["name"], "median_ns": median, "tflops": rate})
    rows.sort(key=lambda row: row["tflops"])
    flash = next(row["tflops"] for row in rows if row["name"] == "flash")
    return [
        row
        | {
            "over_flash_ratio": row["tflops"] / flash,
            "of_fastest_ratio": row["tflops"] / rows[-1]["tflops"],
        }
        for row in rows
    ]


def programs_that_fit(capture: str) -> list[dict[str, Any]]:
    """What Nsight Compute counted for each profiled launch, from the raw page `kernels.csv`.

    The table's first row holds the counters' names, and the second their units. Then there is one row per launch.
    Lines printed by the tool may come before the table. Numbers may have commas between thousands. A duration's
    unit is one of NS_PER_UNIT.

    Returns for each launch, in the file's order,
        "name":               "Kernel Name" up to the first parenthesis.
        "duration_ns", "instructions_count", "tensor_pct", "exponentials_pct":  DURATION, INSTRUCTIONS,
                              TENSOR_PCT and EXPONENTIALS_PCT.
        "programs_count":     how many programs fit on a multiprocessor at once: the smallest of LIMITS.
        "limited_by":         the names of the limits equal to programs_count, in the order of LIMITS.
    """
    lines = captures.text(capture, "kernels.csv").splitlines()
    start = next(place for place, line in enumerate(lines) if line.startswith('"ID"'))
    units, *launches = csv.DictReader(lines[start:])

    def number(launch: dict[str, str], counter: str) -> float:
        return float(launch[counter].replace(",", ""))

    rows = []
    for launch in launches:
        limits = {name: int(number(launch, counter)) for name, counter in LIMITS.items()}
        fit = min(limits.values())
        rows.append(
            {
                "name": launch["Kernel Name"].partition("(")[0],
                "duration_ns": number(launch, DURATION) * NS_PER_UNIT[units[DURATION]],
                "instructions_count": int(number(launch, INSTRUCTIONS)),
                "tensor_pct": number(launch, TENSOR_PCT),
                "exponentials_pct": number(launch, EXPONENTIALS_PCT),
                "programs_count": fit,
                "limited_by": [name for name, most in limits.items() if most == fit],
            }
        )
    return rows


def exposed_parts(capture: str, step: str) -> dict[str, Any]:
    """Which parts of a kernel cost time, and which are hidden behind others.

    `measurements.json` has "parts": rows with "name" (a step), "without" (the part that was left out), and two
    lists of samples. "whole_time" has times of the whole step. "device_time" has times of the step without the
    part, each measured right after the whole. The row whose "without" is "" has the whole step twice.

    The saving of a pair of samples is the share of the whole's time that is saved without the part.
    Returns {"noise_ratio", "parts"}. noise_ratio is the largest saving, in absolute value, of the pairs that
    measured the whole step twice. parts has for each other row of the step, in the order of the file, {"without",
    "saving_ratio" (the median of its pairs), "verdict"}. The verdict is "exposed" if the saving is above the
    noise, else "hidden".
    """
    table = json.loads(captures.text(capture, "measurements.json"))
    savings = {
        row["without"]: [
            1 - less / whole
            for whole, less in zip(row["whole_time"], row["device_time"], strict=True)
        ]
        for row in table["parts"]
        if row["name"] == step
    }
    noise = max(abs(saving) for saving in savings.pop(""))
    parts = []
    for name, found in savings.items():
        saving = statistics.median(found)
        verdict = "exposed" if saving > noise else "hidden"
        parts.append({"without": name, "saving_ratio": saving, "verdict": verdict})
    return {"noise_ratio": noise, "parts": parts}


@triton.jit
def _attend_blocks(
    weighted,
    total,
    largest,
    q,
    k_tiles,
    v_tiles,
    pair,
    row,
    start,
    stop,
    keys,
    scale,
    causal: tl.constexpr,
    masked: tl.constexpr,
    block_n: tl.constexpr,
    head: tl.constexpr,
    stages: tl.constexpr,
):
    for first in tl.range(start, stop, block_n, num_stages=stages):
        k = k_tiles.load([pair, first, 0]).reshape(block_n, head)
        scores = tl.dot(q, k.T)
        if masked:
            column = first + tl.arange(0, block_n)
            seen = (column < keys)[None, :]
            if causal:
                seen = seen & (column[None, :] <= row[:, None])
            scores = tl.where(seen, scores, -float("inf"))
        # The scale is positive, so it may come after the maximum, and then it costs no instruction: a
        # product and a difference are one.
        new = tl.maximum(largest, tl.max(scores, 1) * scale)
        shift = tl.where(new == -float("inf"), 0.0, new)
        powers = tl.exp2(scores * scale - shift[:, None])
        fade = tl.exp2(largest - shift)
        total = total * fade + tl.sum(powers, 1)
        v = v_tiles.load([pair, first, 0]).reshape(block_n, head)
        weighted = tl.dot(powers.to(v.dtype), v, weighted * fade[:, None])
        largest = new
    return weighted, total, largest


@triton.jit
def _attention_kernel(
    out_ptr,
    q_tiles,
    k_tiles,
    v_tiles,
    queries,
    keys,
    scale,
    causal: tl.constexpr,
    block_m: tl.constexpr,
    block_n: tl.constexpr,
    head: tl.constexpr,
    stages: tl.constexpr,
):
    tile, pair = tl.program_id(0), tl.program_id(1)
    row = tile * block_m + tl.arange(0, block_m)
    q = q_tiles.load([pair, tile * block_m, 0]).reshape(block_m, head)
    weighted = tl.zeros((block_m, head), tl.float32)
    total = tl.zeros((block_m,), tl.float32)
    largest = tl.full((block_m,), -float("inf"), tl.float32)
    stop, whole = keys, keys // block_n * block_n
    if causal:
        stop = tl.minimum(keys, (tile + 1) * block_m)
        whole = tl.minimum(whole, tile * block_m // block_n * block_n)
    weighted, total, largest = _attend_blocks(
        *(weighted, total, largest, q, k_tiles, v_tiles, pair, row, 0, whole, keys, scale),
        *(causal, tl.constexpr(False), block_n, head, stages),
    )
    weighted, total, largest = _attend_blocks(
        *(weighted, total, largest, q, k_tiles, v_tiles, pair, row, whole, stop, keys, scale),
        *(causal, tl.constexpr(True), block_n, head, stages),
    )
    # The addresses of the result are computed here: before the loop they would hold registers all through it.
    out_at = out_ptr + (pair.to(tl.int64) * queries + row[:, None]) * head
    result = (weighted / total[:, None]).to(out_ptr.dtype.element_ty)
    tl.store(out_at + tl.arange(0, head)[None, :], result, mask=(row < queries)[:, None])


def _tiles(x: torch.Tensor, block: int) -> TensorDescriptor:
    batch, heads, tokens, head = x.shape
    shape, strides = [batch * heads, tokens, head], [tokens * head, head, 1]
    return TensorDescriptor(x.contiguous(), shape, strides, [1, block, head])


def attention_live(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> torch.Tensor:
    """Attention with a Triton kernel on this machine's GPU, as fast as you can make it.

    The contract is that of `attention` in ex06, for bfloat16, contiguous tensors and heads of 64 or 128. Blocks,
    warps and stages are your choice. An operator of torch does not count, and neither does a stored result.

    It is timed alternately with the backends of torch's scaled_dot_product_attention in one run: 4 by 32 heads of
    128, 8,192 tokens, full and causal. It passes with at least 1.15 times the rate of the backend named flash,
    and at least 0.7 times (causal: 0.65 times) that of the fastest.
    """
    batch, heads, queries, head = q.shape
    out = torch.empty_like(q, memory_format=torch.contiguous_format)
    block_m, block_n = 64, 128
    # Small programs, three of them to a multiprocessor: while one computes powers another multiplies. A
    # thread of four warps may then have 168 of the 65,536 registers.
    kernel: Any = _attention_kernel[(triton.cdiv(queries, block_m), batch * heads)]
    kernel(
        *(out, _tiles(q, block_m), _tiles(k, block_n), _tiles(v, block_n)),
        *(queries, k.shape[2], head**-0.5 * math.log2(math.e)),
        causal=causal,
        block_m=block_m,
        block_n=block_n,
        head=head,
        stages=1 if head == 128 else 2,
        num_warps=4,
        maxnreg=168,
    )
    return out
