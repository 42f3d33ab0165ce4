"""Triton: a fused softmax

The lesson is `README.md` in this folder, hints are in `hints.md`.
"""

from __future__ import annotations

import json
import math
import statistics
from types import SimpleNamespace
from typing import Any

from profiling_lab import captures, devices
from profiling_lab.errors import CaptureError

try:
    import torch
    import triton
    import triton.language as tl
except ModuleNotFoundError:  # macOS and Windows have no Triton, and only the kernel needs it
    triton: Any = SimpleNamespace(jit=lambda function: function)

# Of a multiprocessor and of a thread, on all devices of compute capability 7.0 to 12.0. Source: CUDA
# C++ Programming Guide, technical specifications per compute capability.
REGISTERS_PER_SM = 65536
REGISTERS_PER_THREAD = 255

# What `launch_configuration` aims at; found by trying on an H200 (see the lesson).
TILE_ELEMENTS = 1024
THREAD_ELEMENTS = 32

WIDEST_COLUMNS = 32768
DTYPES = ("torch.float32", "torch.bfloat16", "torch.float16")

NS_PER_UNIT = {"ns": 1, "us": 1_000, "ms": 1_000_000}


def softmax_bytes(rows: int, columns: int, dtype: str, algorithm: str) -> int:
    """The bytes that a softmax over the rows of a (rows, columns) matrix moves to and from memory.

    dtype: a name or alias. All tensors have this type, and `profiling_lab.devices.dtype(dtype).bytes` is the
        size of one element.
    algorithm:
        "separate":    five kernels; each reads its inputs from memory and writes its result there. They
                       compute the largest element of each row (one element per row); x minus it; exp of that;
                       the sum of each row (one element per row); exp divided by it.
        "three_pass":  one kernel that reads each row for its largest element, again for the sum, and a
                       third time for the result.
        "online":      one kernel that finds the largest element and the sum of a row in one pass, and reads
                       the row a second time for the result (Milakov and Gimelshein, arXiv:1805.02867).
        "fused":       one kernel that keeps a row on the chip from its first read to the result.

    Ignore caches: every read counts. Returns an integer.

    Raises ValueError for an unknown algorithm, with the names of the known ones in the message. Raises ValueError
    unless rows and columns are integers of at least 1. Raises DeviceError (of `devices.dtype`) for an unknown
    data type.
    """
    raise NotImplementedError


def largest_width(warps: int, overhead_registers: int) -> int:
    """The widest row that one program can hold in its registers, as a power of two.

    The program has `warps` warps of 32 threads. The row is padded to a power of two. Its elements are float32,
    one register each, spread evenly over the threads. Each thread needs overhead_registers more, for addresses
    and other values. A thread has at most REGISTERS_PER_THREAD, and all threads of the program together have at
    most REGISTERS_PER_SM. Values that do not fit are spilled to memory.

    Returns the largest width that fits, or 0 if not even 32 · warps elements (one per thread) fit.

    Raises ValueError unless warps is one of 1, 2, 4, 8, 16, 32 and overhead_registers is an integer of at
    least 0.
    """
    raise NotImplementedError


def launch_configuration(columns: int) -> tuple[int, int]:
    """How many rows a program takes, and how many warps it gets: (rows_per_program, warps).

    A program's tile is rows_per_program rows, each padded to the next power of two of columns.
    rows_per_program is the smallest power of two (1, 2, 4, …) with which the tile has at least TILE_ELEMENTS
    elements. warps is the smallest of 1, 2, 4, 8, 16, 32 with which each thread holds at most
    THREAD_ELEMENTS elements of the tile (a warp has 32 threads).

    Raises ValueError unless columns is an integer from 1 to WIDEST_COLUMNS.
    """
    raise NotImplementedError


def softmax(x: torch.Tensor) -> torch.Tensor:
    """The softmax over each row of x, by one launch of a Triton kernel. Write your own kernel above this.

    x: (rows, columns) in float32, bfloat16 or float16, with any number of rows (also 0) and 1 to
    WIDEST_COLUMNS columns. Its strides are arbitrary (it may be a transposed matrix, or every other row of a
    matrix). The last element may be more than 2³¹ elements after the first.

    Returns a new contiguous tensor of the same shape, data type and device, a different one at each call. x is
    not changed. Within a row

        softmax(x)[j] = exp(x[j] - m) / sum of exp(x[k] - m) over all k,    m = largest x[k]

    computed in float32 and rounded once, at the end. Elements may be -inf (their result is 0) or large, of either
    sign: 6e4 in float16, 1e32 in the others; a row may hold nothing above -1e32. A row that holds only -inf, or
    that holds nan or inf, gives either the result of torch.softmax or nan. All other rows must still be right.

    Each element of x is loaded once, and each element of the result is stored once. Nothing else is loaded or
    stored, neither by the kernel nor by an operator of torch. `launch_configuration` gives the rows of a program,
    and the warps of the launch (num_warps).

    Raises ValueError for a tensor that does not have two dimensions, has no columns or more than WIDEST_COLUMNS,
    or has another data type. The message says what to do.
    """
    raise NotImplementedError


def read_sweep(capture: str) -> list[dict[str, Any]]:
    """The time and bandwidth of each row in a capture's sweep over widths, in the order of the file.

    `measurements.json` of the capture has "unit" ("ns", "us" or "ms"), "dtype" and "measurements": rows
    with "implementation", "rows", "columns" and "device_time", a list of samples (one call each, in that unit).

    Returns a dict for each row:
        "implementation", "columns":  as in the file.
        "median_ns":       the median of the samples.
        "iqr_ns":          upper minus lower quartile of the samples, by
                           `statistics.quantiles(samples, n=4, method="inclusive")`.
        "bandwidth_gb_s":  the bytes that a fused softmax moves / the median time, in GB/s (10⁹ bytes), for
                           all implementations alike.

    Raises CaptureError if a row has fewer than two samples or a sample that is not above 0; the message names the
    row's implementation and columns. Also raises it for an unknown unit; the message names the known ones.
    """
    raise NotImplementedError


def speedup_by_width(capture: str, ours: str = "fused", base: str = "torch") -> dict[str, Any]:
    """The speedup of one implementation of a sweep over another, and where it is not a win.

    Returns
        "noise_ratio":     at least 1: how much two measurements of the same thing differ. `base` was measured
                           twice, the second time under its name with "_again". At each width of `ours`, divide
                           the larger of these two medians by the smaller one; take the largest result.
        "widths":          for each width of `ours`, in the order of the file, {"columns", "speedup_ratio":
                           median of `base` / median of `ours`, "verdict": "faster" if that is above
                           noise_ratio, "slower" if it is below 1 / noise_ratio, else "no win"}.
        "geometric_mean_ratio":  the mean of all speedups that becomes its own reciprocal if `ours` and `base`
                           are exchanged.

    Raises CaptureError as `read_sweep` does. Also raises it if `ours`, `base` or the second measurement of
    `base` is not in the sweep, or lacks a width of `ours`; the message names what is missing.
    """
    raise NotImplementedError


def softmax_live(x: torch.Tensor) -> torch.Tensor:
    """The softmax that is timed on this machine's GPU: `softmax`, or a faster one with the same contract.

    It must be a kernel of your own: an operator of torch does not count, and neither does a stored result.

    It is timed against torch.softmax in one run: five times alternately, in float32 and bfloat16, at widths 256, 512, …
    32768. The matrices are several times as large as the L2 cache, and launching does not count. It passes if it is at least as
    fast at every width; 2 % is allowed for noise.
    """
    raise NotImplementedError
