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

# What `programs_that_fit` reads of a raw page of Nsight Compute.
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
    """How long each part of a device needs at least for attention in bfloat16.

    shape: (batch, heads, tokens, head), as many keys as queries. A device of `profiling_lab.devices` has the
    peak of its tensor cores, its bandwidth and its multiprocessors (sm_count). Of its pipes
    for special functions, a multiprocessor's do EXPONENTIALS_PER_CYCLE each cycle of clock_mhz.

    With causal only scores that are seen count: tokens · (tokens + 1) / 2 of a head. A score costs one
    exponential, and two products of `head` multiply-adds, each 2 operations.

    Returns "matrix_ns", "exponential_ns", "memory_ns" (Q, K, V and the result, each once), "overlapped_ns",
    if all three run beside each other, and "serial_ns", if each waits for the others.
    """
    raise NotImplementedError


def step_rates(capture: str, causal: bool = False) -> list[dict[str, Any]]:
    """What a recording says of each way to compute attention, slowest first.

    `measurements.json` has "unit" ("ns", "us" or "ms") and "steps": rows with "name", "causal",
    "batch", "heads", "tokens", "head" and the samples "device_time". Only rows of the given causal count.

    Operations are those of both products (4 · batch · heads · tokens² · head), with causal half of them.
    Returns for each row {"name", "median_ns", "tflops", "over_flash_ratio", "of_fastest_ratio"}: the median of
    the samples, 10¹² operations a second, and that rate over the one of "flash" and over the highest of
    all rows.
    """
    raise NotImplementedError


def programs_that_fit(capture: str) -> list[dict[str, Any]]:
    """What Nsight Compute counted of each profiled launch, from the raw page `kernels.csv`.

    The first row holds the counters' names, the second their units, then a row a launch follows. Lines of
    the tool may stand before. Numbers may have commas between thousands. A duration's unit is one of
    NS_PER_UNIT.

    Returns for each launch, in the file's order, "name" ("Kernel Name" up to the first parenthesis),
    "duration_ns", "instructions_count", "tensor_pct", "exponentials_pct" (DURATION, INSTRUCTIONS,
    TENSOR_PCT and EXPONENTIALS_PCT), "programs_count": how many programs fit on a multiprocessor at
    once, the smallest of LIMITS; and "limited_by": the names of the limits that are that small, in the order of LIMITS.
    """
    raise NotImplementedError


def exposed_parts(capture: str, step: str) -> dict[str, Any]:
    """Which parts of a kernel cost time, and which run in the shadow of others.

    `measurements.json` has "parts": rows with "name" (a step), "without" (the part that was left out), and two
    lists of samples, "whole_time" and "device_time": the whole step, and right after it the step without
    the part. The row whose "without" is "" is the whole step twice.

    The saving of a pair of samples is the share of the whole's time that is gone without the part.
    Returns {"noise_ratio", "parts"}. noise_ratio: of the pairs of the whole with itself, the largest
    saving, either way. parts: for each other row of the step, in the order of the file, {"without",
    "saving_ratio" (the median of its pairs), "verdict"}: "exposed" if the saving is above the noise, else
    "hidden".
    """
    raise NotImplementedError


def attention_live(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> torch.Tensor:
    """Attention as fast as you can with a Triton kernel, on this machine's GPU.

    The contract of ex06's `attention`, for bfloat16, contiguous tensors and heads of 64 or 128; blocks, warps and
    stages are your choice. An operator of torch does not count, and neither does a result that was kept.

    Timed in turns with the backends of torch's scaled_dot_product_attention in one run: 4 by 32 heads of
    128, 8,192 tokens, full and causal. It counts as done at 1.15 times the rate of the backend named
    flash, and 0.7 times (causal: 0.65 times) that of the fastest.
    """
    raise NotImplementedError
