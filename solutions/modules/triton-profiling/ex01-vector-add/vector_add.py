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


# Of what was tried on an H200, as good as any.
_LIVE = {"block": 1024, "num_warps": 4}


@triton.jit
def _vector_add_kernel(x_ptr, y_ptr, out_ptr, n, block: tl.constexpr):
    program = tl.program_id(0)
    at = program * block + tl.arange(0, block)
    # Only the last program may be partly empty. The others need no mask, and without one a thread
    # loads 16 bytes at a time whatever n is.
    if program < n // block:
        x = tl.load(x_ptr + at)
        y = tl.load(y_ptr + at)
        tl.store(out_ptr + at, x + y)
    else:
        inside = at < n
        x = tl.load(x_ptr + at, mask=inside)
        y = tl.load(y_ptr + at, mask=inside)
        tl.store(out_ptr + at, x + y, mask=inside)


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
    same = x.shape == y.shape and x.dtype == y.dtype and x.device == y.device
    if not same:
        raise ValueError(
            f"x is {x.dtype} {tuple(x.shape)} on {x.device}, y is {y.dtype} {tuple(y.shape)} on "
            f"{y.device}: give both one shape, dtype and device"
        )
    if x.dtype not in (torch.float32, torch.float16, torch.bfloat16):
        raise ValueError(f"x is {x.dtype}: float32, float16 or bfloat16 is needed")
    if not (x.is_contiguous() and y.is_contiguous()):
        raise ValueError("x or y is not contiguous: call .contiguous() on it, which copies it")
    if block_size not in BLOCK_SIZES:
        raise ValueError(f"block_size is {block_size}: one of {BLOCK_SIZES} is needed")
    out = torch.empty_like(x)
    n = x.numel()
    if n:
        kernel: Any = _vector_add_kernel[(triton.cdiv(n, block_size),)]
        kernel(x, y, out, n, block=block_size)
    return out


def bandwidth_gb_s(element_count: int, element_bytes: int, time_ms: float) -> float:
    """The rate at which a vector add moved its bytes, in GB/s (10⁹ bytes per second).

    element_count: number of elements of one vector.
    element_bytes: bytes of an element (4 for float32).
    time_ms: the time of one add, in milliseconds.
    Two vectors are read and one is written.

    Raises ValueError for a count or a size below 1 and for a time that is not above 0.
    """
    if element_count < 1 or element_bytes < 1 or not time_ms > 0:
        raise ValueError(
            f"{element_count} elements of {element_bytes} bytes in {time_ms} ms: all must be above 0"
        )
    return 3 * element_count * element_bytes / time_ms / 1e6


def _sweep(capture: str | Path) -> dict[str, Any]:
    """The sweep of a capture."""
    try:
        table = json.loads(captures.text(capture, "measurements.json"))
    except ValueError as error:
        raise CaptureError(f"{capture}: measurements.json is no JSON: {error}") from None
    if not isinstance(table, dict) or not table.get("sizes"):
        raise CaptureError(f'{capture}: measurements.json holds no rows under "sizes"')
    return table


def _medians(capture: str | Path, table: dict[str, Any], way: str) -> list[float]:
    """The median time of every row, in ns."""
    if way not in WAYS:
        raise ValueError(f"way is {way!r}: one of {WAYS} is needed")
    if not all(row.get(way) for row in table["sizes"]):
        raise CaptureError(f"{capture}: a row has no samples of {way!r}")
    return [statistics.median(row[way]) for row in table["sizes"]]


def launch_floor_ns(capture: str | Path, way: str) -> float:
    """The shortest time of a call in a sweep, however small the vectors are: the cost of a launch, in ns.

    capture: a sweep.
    way: "eager" or "graph"; only the samples of this kind are used.
    A row's time is the median of its samples. The floor is the smallest time of all rows.

    Raises ValueError for any other way. Raises CaptureError if the file is not such a JSON object, if it has
    no rows, or if a row has no samples of this way.
    """
    return min(_medians(capture, _sweep(capture), way))


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
    table = _sweep(capture)
    times = _medians(capture, table, way)
    device = devices.get(table["device"])
    flat_ns = FLAT_RATIO * min(times)
    out = []
    for row, time_ns in zip(table["sizes"], times, strict=True):
        rate = row["bytes"] / time_ns
        if time_ns <= flat_ns:
            regime = "launch"
        elif rate * 1e9 > device.memory_bandwidth_bytes_per_s:
            regime = "cache"
        elif device.l2_bytes is not None and row["bytes"] > device.l2_bytes:
            regime = "dram"
        else:
            regime = "mixed"
        out.append(
            {
                "n": row["n"],
                "bytes": row["bytes"],
                "time_ns": time_ns,
                "gb_s": rate,
                "regime": regime,
            }
        )
    return out


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
    out = []
    for row in _sweep(capture)["sizes"]:
        if not row.get("copy"):
            continue
        add = row["bytes"] / statistics.median(row["cold"])
        copy = row["bytes"] * 2 / 3 / statistics.median(row["copy"])
        out.append({"n": row["n"], "add_gb_s": add, "copy_gb_s": copy, "share_ratio": add / copy})
    if not out:
        raise CaptureError(f"{capture}: no row has samples of a copy")
    return out


def vector_add_live(x: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> None:
    """out = x + y on this machine's GPU, by your kernel, as fast as you can make it.

    x, y, out: contiguous CUDA tensors of the same shape and dtype, up to 2**31 - 8192 elements. out is
    overwritten. Block size, warps and all other parameters of your kernel are your choice. The check compares
    it with `out.copy_(x)` in the same run: it must move at least 92 % of the copy's bytes per second, on
    vectors of at least four times the L2 cache, in float32 and bfloat16.
    """
    n = x.numel()
    kernel: Any = _vector_add_kernel[(triton.cdiv(n, _LIVE["block"]),)]
    kernel(x, y, out, n, **_LIVE)
