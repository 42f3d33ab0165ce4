"""Triton: vector add over sizes. What limits the simplest kernel, and from which size on?

You write the kernel, count the bytes that it moves, and read sweeps over sizes that were recorded on a GPU.
The lesson is `README.md` in this folder, hints are in `hints.md`, and

    uv run lab check triton_ex01

checks your solution. The kernel runs on the CPU, in Triton's interpreter, which counts its loads and
stores.

**A sweep** is a capture with `measurements.json`, a JSON object with

    "device"  the name of the GPU, as `profiling_lab.devices.get` knows it
    "sizes"   one row per size: {"n": elements of a vector, "bytes": what an add of such vectors must
              move, "eager": …, "graph": …, "cold": …, "copy": …}

The last four are lists of samples; a sample is the time of one call in ns:
    "eager"  calls that the host issued one by one
    "graph"  the same calls in a CUDA graph
    "cold"   calls with none of their data in the cache
    "copy"   copies of one vector into another, with none of their data in the cache; null where this was
             not measured
`captures.text(capture, "measurements.json")` reads the file. `capture` is a name, a folder or a path.
"""

from __future__ import annotations

import json
import statistics
from pathlib import Path
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

# The block sizes that `vector_add` takes.
BLOCK_SIZES = (32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)

# Ways of a sweep in which calls on the same vectors follow each other.
WAYS = ("eager", "graph")

# A time up to this many times the floor counts as the floor: it does not distinguish a size from a smaller one.
FLAT_RATIO = 1.25


def vector_add(x: torch.Tensor, y: torch.Tensor, block_size: int = 1024) -> torch.Tensor:
    """x + y, element by element, computed by a Triton kernel of your own.

    Write the kernel, a function with `@triton.jit` above it, in this file. You choose its name and parameters.

    x, y: tensors of the same shape (any), the same dtype (float32, float16 or bfloat16) and the same device.
        They are contiguous and have up to 2**31 - 8192 elements.
    block_size: number of elements that a program adds, one of BLOCK_SIZES. The launch has exactly as many
        programs as the elements need, and no program for empty tensors.

    Returns a new tensor of the same shape, dtype and device. Each element of x and y is loaded once, and each
    element of the result is stored once. No other memory is touched, even if the number of elements is not a
    multiple of block_size. PyTorch allocates the result (`torch.empty_like`) and does nothing else.

    Raises ValueError for shapes, dtypes or devices that differ, for any other dtype, and for any other block
    size. Also raises it for a tensor that is not contiguous: making it contiguous would move its bytes again.
    """
    raise NotImplementedError


def bandwidth_gb_s(element_count: int, element_bytes: int, time_ms: float) -> float:
    """The rate at which a vector add moved its bytes, in GB/s (10⁹ bytes per second).

    element_count: number of elements of one vector.
    element_bytes: bytes of an element (4 for float32).
    time_ms: the time of one add, in milliseconds.
    Two vectors are read and one is written.

    Raises ValueError for a count or a size below 1 and for a time that is not above 0.
    """
    raise NotImplementedError


def launch_floor_ns(capture: str | Path, way: str) -> float:
    """The shortest time of a call in a sweep, however small the vectors are: the cost of a launch, in ns.

    capture: a sweep.
    way: "eager" or "graph"; only the samples of this kind are used.
    A row's time is the median of its samples. The floor is the smallest time of all rows.

    Raises ValueError for any other way. Raises CaptureError if the file is not such a JSON object, if it has
    no rows, or if a row has no samples of this way.
    """
    raise NotImplementedError


def regimes(capture: str | Path, way: str) -> list[dict[str, Any]]:
    """What limited the add at each size of a sweep, by the evidence.

    capture: a sweep. way: "eager" or "graph". Returns a dict for each row, in the file's order:

        "n", "bytes":   as in the file.
        "time_ns":      the median of the samples.
        "gb_s":         bytes / time_ns, in GB/s.
        "regime":       the first of these that holds:
                        "launch": the time is at most FLAT_RATIO times the launch floor of the sweep.
                        "cache":  the rate is above the peak of the device's memory: the bytes cannot all
                                  have come from there.
                        "dram":   there are more bytes than the device's L2 cache holds.
                        "mixed":  none of these: the evidence names no single limit.

    `devices.get` has the peak and the size of the L2 cache (`.memory_bandwidth_bytes_per_s` and `.l2_bytes`). If
    the size is None, it is not known, and there is no evidence for "dram". A sweep repeats each call on the same
    vectors.

    Raises the errors of `launch_floor_ns`, and DeviceError for a device that is not in the table.
    """
    raise NotImplementedError


def share_of_copy(capture: str | Path) -> list[dict[str, Any]]:
    """How close the add comes to a copy on the same device, both with a cold cache.

    capture: a sweep. Returns a dict for each row with samples of a copy, in the file's order:

        "n":           as in the file.
        "add_gb_s":    the row's bytes / median of "cold".
        "copy_gb_s":   the bytes that the copy moved / median of "copy". A copy reads one vector and writes
                       one; the row's "bytes" are those of three vectors.
        "share_ratio": add_gb_s / copy_gb_s: 1.0 is as fast as a copy.

    Raises CaptureError if the file is not such a JSON object, if it has no rows, or if no row has samples of a
    copy.
    """
    raise NotImplementedError


def vector_add_live(x: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> None:
    """out = x + y on this machine's GPU, by your kernel, as fast as you can make it.

    x, y, out: contiguous CUDA tensors of the same shape and dtype, up to 2**31 - 8192 elements. out is
    overwritten. Block size, warps and all other parameters of your kernel are your choice. The check compares
    it with `out.copy_(x)` in the same run: it must move at least 92 % of the copy's bytes per second, on
    vectors of at least four times the L2 cache, in float32 and bfloat16.
    """
    raise NotImplementedError
