"""Triton: vector add over sizes. What limits the simplest kernel, and from which size on?

You write the kernel, count what it moves, and read sweeps over sizes that were recorded on a GPU. The
lesson is `README.md` in this folder, hints are in `hints.md`, and

    uv run lab check triton_ex01

tells what is right and wrong. The kernel runs on the CPU, in Triton's interpreter, where what it loads
and stores is counted.

**A sweep** is a capture with `measurements.json`: a JSON object with

    "device"  the name of the GPU, as `profiling_lab.devices.get` knows it
    "sizes"   a row a size: {"n": elements of a vector, "bytes": what an add of such vectors must move,
              "eager": …, "graph": …, "cold": …, "copy": …}

The last four are samples of one call, in ns: calls that the host issued one by one ("eager"), the same
in a CUDA graph ("graph"), one call with nothing of it in the cache ("cold"), and a copy of one vector
into another, with nothing of it in the cache ("copy"; null where it was not taken).
`captures.text(capture, "measurements.json")` reads the file; `capture` is a name, a folder or a path.
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

# Ways of a sweep in which a call follows the other, on the same vectors.
WAYS = ("eager", "graph")

# A time up to this many times the floor is the floor: it does not tell a size from a smaller one.
FLAT_RATIO = 1.25


def vector_add(x: torch.Tensor, y: torch.Tensor, block_size: int = 1024) -> torch.Tensor:
    """x + y, element by element, computed by a Triton kernel of your own.

    Write the kernel, a function with `@triton.jit` above it, in this file; name and parameters are
    yours. x, y: tensors of one shape (any), one dtype (float32, float16 or bfloat16), one device, and
    contiguous, with up to 2**31 - 8192 elements. block_size: elements a program adds, one of
    BLOCK_SIZES; the launch has exactly as many programs as that takes, and none for empty tensors.

    Returns a new tensor of the same shape, dtype and device. Each element of x and y is loaded once,
    each of the result stored once, and nothing outside of them is touched, also where the number of
    elements is no multiple of block_size. PyTorch allocates the result (`torch.empty_like`) and does
    nothing else.

    Raises ValueError for shapes, dtypes or devices that differ, another dtype, a tensor that is not
    contiguous (to make it so would move its bytes again), or another block size.
    """
    raise NotImplementedError


def bandwidth_gb_s(element_count: int, element_bytes: int, time_ms: float) -> float:
    """The rate at which a vector add moved its bytes, in GB/s (10⁹ bytes a second).

    element_count: elements of one vector. element_bytes: bytes of an element (4 for float32). time_ms:
    the time of one add, in milliseconds. Two vectors are read and one is written.

    Raises ValueError for a count or a size below 1 and for a time that is not above 0.
    """
    raise NotImplementedError


def launch_floor_ns(capture: str | Path, way: str) -> float:
    """The time that no call of a sweep gets under, however small: what a launch costs, in ns.

    capture: a sweep. way: "eager" or "graph", the samples that count. A row's time is the median of its
    samples; the floor is the smallest time of all rows.

    Raises ValueError for another way, and CaptureError for a file that is no such JSON object, one
    without rows, or one with a row that has no samples of this way.
    """
    raise NotImplementedError


def regimes(capture: str | Path, way: str) -> list[dict[str, Any]]:
    """What ruled at every size of a sweep, each by its evidence.

    capture: a sweep. way: "eager" or "graph". Returns a dict a row, in the file's order:

        "n", "bytes"    as in the file
        "time_ns"       the median of the samples
        "gb_s"          the bytes over that time, in GB/s
        "regime"        "launch"  the time is at most FLAT_RATIO times the launch floor of the sweep
                        "cache"   it is above that, and the rate is above the device's peak for its
                                  memory: the bytes cannot all have come from there
                        "dram"    neither, and the bytes are more than the device's L2 cache holds
                        "mixed"   none of these: the evidence names no single limit

    Peak and L2 cache are those of `devices.get`, `.memory_bandwidth_bytes_per_s` and `.l2_bytes`; where
    no size of the cache is known (None), there is no evidence for "dram". A sweep repeats each call on the same vectors.

    Raises what `launch_floor_ns` raises, and DeviceError for a device that is not in the table.
    """
    raise NotImplementedError


def share_of_copy(capture: str | Path) -> list[dict[str, Any]]:
    """How near the add comes to what this device can do: to a copy, with a cold cache.

    capture: a sweep. Returns a dict for each row with samples of a copy, in the file's order:

        "n"            as in the file
        "add_gb_s"     the row's bytes over the median of "cold"
        "copy_gb_s"    the bytes that the copy moved over the median of "copy". It reads one vector and
                       writes one; the row's "bytes" are those of three
        "share_ratio"  the first over the second: 1.0 is as fast as a copy

    Raises CaptureError for a file that is no such JSON object, one without rows, or one in which no row
    has samples of a copy.
    """
    raise NotImplementedError


def vector_add_live(x: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> None:
    """out = x + y on this machine's GPU, as fast as you can, by your kernel.

    x, y, out: contiguous CUDA tensors of one shape and dtype, up to 2**31 - 8192 elements; out is
    overwritten. Block size, warps and whatever else your kernel takes are your choice. The check holds
    it against `out.copy_(x)` in the same run: at least 92 % of the copy's bytes a second, on vectors of
    at least four times the L2 cache, in float32 and bfloat16.
    """
    raise NotImplementedError
