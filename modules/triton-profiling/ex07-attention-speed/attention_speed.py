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
    raise NotImplementedError


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
    raise NotImplementedError


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
    raise NotImplementedError


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
    raise NotImplementedError


def attention_live(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> torch.Tensor:
    """Attention with a Triton kernel on this machine's GPU, as fast as you can make it.

    The contract is that of `attention` in ex06, for bfloat16, contiguous tensors and heads of 64 or 128. Blocks,
    warps and stages are your choice. An operator of torch does not count, and neither does a stored result.

    It is timed alternately with the backends of torch's scaled_dot_product_attention in one run: 4 by 32 heads of
    128, 8,192 tokens, full and causal. It passes with at least 1.15 times the rate of the backend named flash,
    and at least 0.7 times (causal: 0.65 times) that of the fastest.
    """
    raise NotImplementedError
