"""Triton: matmul over sizes.

You write a matrix product as a Triton kernel, count what it reads and writes, and judge how fast it is: by
its rate, its roofline, its waves of programs, and Nsight Compute's counters.

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
from profiling_lab.errors import CaptureError

try:
    import torch
    import triton
    import triton.language as tl
except ModuleNotFoundError:  # macOS and Windows have no Triton, and only the kernel needs it
    triton: Any = SimpleNamespace(jit=lambda function: function)

CONFIG_KEYS = {"block_m", "block_n", "block_k", "group_m", "num_warps", "num_stages"}

# What `kernel_counters` reads from Nsight Compute's raw page.
COUNTERS = {
    "time_ns": "gpu__time_duration.sum",
    "registers_count": "launch__registers_per_thread",
    "shared_bytes": "launch__shared_mem_per_block",
    "tensor_pipe_pct": "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
    "dram_read_bytes": "dram__bytes_read.sum",
    "dram_write_bytes": "dram__bytes_write.sum",
    "theoretical_occupancy_pct": "sm__maximum_warps_per_active_cycle_pct",
    "achieved_occupancy_pct": "sm__warps_active.avg.pct_of_peak_sustained_active",
}
NS_PER_S = 1e9
# Units in which the tool prints times and sizes. Values in other units stay as they are.
UNITS = {
    **{"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9},
    **{"nsecond": 1, "usecond": 1e3, "msecond": 1e6, "second": 1e9},
    **{"byte": 1, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9, "Tbyte": 1e12},
}


def gflops(m: int, n: int, k: int, time_ms: float) -> float:
    """The rate of a product of an (m, k) and a (k, n) matrix, in GFLOP/s (10⁹ operations per second).

    A multiply-add is two operations. time_ms: the time of one product, in milliseconds.

    Raises ValueError for a size below 1 and for a time that is not above 0.
    """
    raise NotImplementedError


def matmul_bytes(
    m: int, n: int, k: int, block_m: int, block_n: int, element_bytes: int
) -> dict[str, int]:
    """The bytes that the programs of a tiled product load and store, and the least that any product must move.

    A program computes a tile of block_m by block_n elements of the (m, n) result. To do this it loads the
    block_m rows of a (m, k) and the block_n columns of b (k, n), each element once, step by step along
    k. At the edges, elements outside the matrices are not loaded and not stored.

    Returns integer numbers of bytes:
        "load_bytes":  bytes loaded by all programs together. (Bytes that another program loaded before may
                       come from a cache, so DRAM sees fewer.)
        "store_bytes": bytes stored by all programs together.
        "least_bytes": bytes to read a and b once and to write the result once.

    Raises ValueError for a size, a block or element_bytes below 1.
    """
    raise NotImplementedError


def matmul(a: torch.Tensor, b: torch.Tensor, config: dict[str, int]) -> torch.Tensor:
    """a @ b by a Triton kernel in which each program computes a tile of the result.

    Write your own `@triton.jit` kernel above this function, with any name and parameters.

    a: (m, k), b: (k, n); both float32, bfloat16 or float16, on the same device, with any strides. The last
        element is at most 2**31 - 1 elements after the first. Sizes need not be multiples of a block, and
        each may be 0.
    config: block_m, block_n, block_k (powers of two, at least 16; a step along k is a tl.dot of block_k
        columns of a and rows of b), group_m (at least 1), num_warps and num_stages (options of the launch).
        All are used as given.

    Programs that run at the same time have numbers (tl.program_id(0)) close to each other, and should share
    tiles. So the first programs take the upper group_m rows of tiles, column by column from the left, and
    each column from the top. Then come the next group_m rows. The last group may have fewer rows.

    Returns a new (m, n) tensor of the same dtype. Sums are kept in float32 for every dtype. float32 is
    multiplied as float32 (input_precision="ieee"), not as TF32. The programs load and store exactly the number
    of bytes that `matmul_bytes` returns, and nothing outside the tensors. torch may allocate the result, and
    computes nothing.

    Raises ValueError
    - for tensors that are not matrices, whose shapes do not match, or that are on two devices;
    - for dtypes that differ, or are not supported;
    - for a config with other keys, or with blocks that are not powers of two of at least 16.
    """
    raise NotImplementedError


def tile_waves(
    m: int, n: int, block_m: int, block_n: int, sm_count: int, sm_programs: int
) -> dict[str, Any]:
    """How the tiles of an (m, n) result fill a device.

    sm_count: number of multiprocessors. sm_programs: number of programs that run on one of them at the same time.
    All programs that run at the same time are a wave. If all programs take equally long, the last wave takes as
    long as a full one.

    Returns {"tiles_count": int, "waves_count": int, "efficiency_ratio": float}. efficiency_ratio is the share
    of the program places, in all waves together, that have a program.

    Raises ValueError for any argument below 1.
    """
    raise NotImplementedError


def roofline_share(capture: str) -> list[dict[str, Any]]:
    """The products of a recorded sweep under the roofline of the device that ran them.

    capture: name or path of a capture with the measurements.json of `captures/programs/triton_matmul.py`:
    "device", "dtype" (of all tensors; "tfloat32" is float32 in memory), "empty_kernel" (samples of a kernel
    that does nothing), and "sizes": rows with name, m, n, k and "device_time". Samples are in ns.

    Peak and bandwidth are those of `profiling_lab.devices`. A product has 2·m·n·k operations. Its bytes are
    those of a, b and the result, each moved once. Returns a row for each of the sizes, in the file's order:
        "name",
        "median_ns":        the median of "device_time".
        "gflops":           the rate for this time, in GFLOP/s.
        "intensity":        operations per byte.
        "ridge":            the intensity at which memory and arithmetic take equally long.
        "attainable_gflops": the most that the roofline allows at this intensity.
        "share_ratio":      gflops / attainable_gflops.
        "category":         the name of the longest of three times: "memory_bound" (the bytes at full bandwidth),
                            "compute_bound" (the operations at the peak), "launch_bound" (the median of
                            the empty kernel). If times are equal, the first of these.

    Raises profiling_lab.errors.CaptureError if the file is not such a JSON object, lacks one of the keys, or has
    no samples. Raises the errors of `captures.text` and `devices.get`.
    """
    raise NotImplementedError


def kernel_counters(capture: str) -> list[dict[str, Any]]:
    """What Nsight Compute counted for each profiled kernel, from its raw page.

    capture: name or path of a capture with kernels.csv, as `ncu --csv --page raw` prints it. Lines printed by
    the tool may come before the table. The table's first row holds the names of the columns, and its second row
    their units (UNITS; "Kbyte/block" is Kbyte, in thousands). Then there is one row per launch. Numbers may
    have commas between thousands. Find columns by name, because their order changes with the version.

    Returns a row for each launch, in the file's order: "name" (the column "Kernel Name", up to the first
    parenthesis), and a float for each key of COUNTERS, in ns, bytes, percent or plain numbers. The value is None
    if the column is missing or its cell is not a number ("", "n/a", "nan").

    Raises profiling_lab.errors.CaptureError if the file holds no such table, and the errors of
    `captures.text`.
    """
    raise NotImplementedError


def matmul_live(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """a @ b with a Triton kernel on this machine's GPU, as fast as you can make it.

    The contract is that of `matmul`, but you choose the configuration. At the first call with a new combination
    of shape, dtype and device, try a few configurations and keep the fastest. From then on use it without
    measuring again. The check compares it with torch.mm for 8192 by 8192 bfloat16 matrices of random numbers,
    alternately within one run.
    """
    raise NotImplementedError
