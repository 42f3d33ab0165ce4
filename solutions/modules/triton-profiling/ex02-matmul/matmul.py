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
    _check_sizes(m=m, n=n, k=k)
    if not time_ms > 0:
        raise ValueError(f"time_ms must be above 0, not {time_ms}")
    return 2 * m * n * k / time_ms / 1e6


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
    _check_sizes(m=m, n=n, k=k, block_m=block_m, block_n=block_n, element_bytes=element_bytes)
    tile_rows, tile_columns = math.ceil(m / block_m), math.ceil(n / block_n)
    return {
        "load_bytes": (m * k * tile_columns + k * n * tile_rows) * element_bytes,
        "store_bytes": m * n * element_bytes,
        "least_bytes": (m * k + k * n + m * n) * element_bytes,
    }


@triton.jit
def _matmul_kernel(
    a,
    b,
    c,
    m,
    n,
    k,
    stride_am,
    stride_ak,
    stride_bk,
    stride_bn,
    stride_cm,
    stride_cn,
    block_m: tl.constexpr,
    block_n: tl.constexpr,
    block_k: tl.constexpr,
    group_m: tl.constexpr,
    even: tl.constexpr,
):
    program = tl.program_id(0)
    rows, columns = tl.cdiv(m, block_m), tl.cdiv(n, block_n)
    # group_m rows of tiles together, so that programs that run at the same time share tiles.
    group = program // (group_m * columns)
    height = tl.minimum(rows - group * group_m, group_m)
    tile_m = group * group_m + (program % (group_m * columns)) % height
    tile_n = (program % (group_m * columns)) // height

    at_m = tile_m * block_m + tl.arange(0, block_m)
    at_n = tile_n * block_n + tl.arange(0, block_n)
    at_k = tl.arange(0, block_k)
    a_at = a + at_m[:, None] * stride_am + at_k[None, :] * stride_ak
    b_at = b + at_k[:, None] * stride_bk + at_n[None, :] * stride_bn
    total = tl.zeros((block_m, block_n), dtype=tl.float32)
    for start in range(0, k, block_k):
        if even:
            a_tile, b_tile = tl.load(a_at), tl.load(b_at)
        else:
            inside = at_k < k - start
            a_tile = tl.load(a_at, mask=(at_m < m)[:, None] & inside[None, :], other=0.0)
            b_tile = tl.load(b_at, mask=inside[:, None] & (at_n < n)[None, :], other=0.0)
        total = tl.dot(a_tile, b_tile, total, input_precision="ieee")
        a_at += block_k * stride_ak
        b_at += block_k * stride_bk
    at = c + at_m[:, None] * stride_cm + at_n[None, :] * stride_cn
    inside = (at_m < m)[:, None] & (at_n < n)[None, :]
    tl.store(at, total.to(c.dtype.element_ty), mask=inside)


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
    if a.dim() != 2 or b.dim() != 2 or a.shape[1] != b.shape[0]:
        raise ValueError(f"no product: a is {tuple(a.shape)}, b is {tuple(b.shape)}")
    if a.dtype != b.dtype or a.dtype not in (torch.float32, torch.bfloat16, torch.float16):
        raise ValueError(f"a is {a.dtype}, b is {b.dtype}: make both float32, bfloat16 or float16")
    if a.device != b.device:
        raise ValueError(f"a is on {a.device}, b on {b.device}: move one of them")
    _check_config(config)
    (m, k), n = a.shape, b.shape[1]
    c = torch.empty((m, n), device=a.device, dtype=a.dtype)
    block_m, block_n, block_k = config["block_m"], config["block_n"], config["block_k"]
    programs = triton.cdiv(m, block_m) * triton.cdiv(n, block_n)
    if programs:
        kernel: Any = _matmul_kernel[(programs,)]
        kernel(
            *(a, b, c, m, n, k, *a.stride(), *b.stride(), *c.stride()),
            **config,
            even=not (m % block_m or n % block_n or k % block_k),
        )
    return c


_BLOCKS = [1 << power for power in range(4, 31)]


def _check_config(config: dict[str, int]) -> None:
    if config.keys() != CONFIG_KEYS:
        raise ValueError(f"config has {sorted(config)}, not {sorted(CONFIG_KEYS)}")
    for name in ("block_m", "block_n", "block_k"):
        if config[name] not in _BLOCKS:
            raise ValueError(f"{name} must be a power of two from 16 on, not {config[name]}")


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
    _check_sizes(
        m=m, n=n, block_m=block_m, block_n=block_n, sm_count=sm_count, sm_programs=sm_programs
    )
    tiles = math.ceil(m / block_m) * math.ceil(n / block_n)
    places = sm_count * sm_programs
    waves = math.ceil(tiles / places)
    return {
        "tiles_count": tiles,
        "waves_count": waves,
        "efficiency_ratio": tiles / (waves * places),
    }


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
    try:
        table = json.loads(captures.text(capture, "measurements.json"))
        device = devices.get(table["device"])
        element_bytes = devices.dtype(table["dtype"]).bytes
        peak = device.peak(table["dtype"])
        empty_ns = statistics.median(table["empty_kernel"])
        measured = [
            (row["name"], row["m"], row["n"], row["k"], statistics.median(row["device_time"]))
            for row in table["sizes"]
        ]
    except (KeyError, TypeError, ValueError) as error:  # no JSON, a missing key, no samples
        raise CaptureError(f"{capture}: no sweep of products: {error!r}") from None
    bandwidth = device.memory_bandwidth_bytes_per_s
    rows = []
    for name, m, n, k, median_ns in measured:
        flops = 2 * m * n * k
        moved = (m * k + k * n + m * n) * element_bytes
        least_ns = {
            "memory_bound": moved / bandwidth * NS_PER_S,
            "compute_bound": flops / peak * NS_PER_S,
            "launch_bound": empty_ns,
        }
        attainable = min(peak, flops / moved * bandwidth)
        rows.append(
            {
                "name": name,
                "median_ns": median_ns,
                "gflops": flops / median_ns,
                "intensity": flops / moved,
                "ridge": peak / bandwidth,
                "attainable_gflops": attainable / 1e9,
                "share_ratio": flops / median_ns / (attainable / 1e9),
                "category": max(least_ns, key=least_ns.__getitem__),
            }
        )
    return rows


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
    lines = captures.text(capture, "kernels.csv").splitlines()
    while lines and not lines[0].startswith('"ID"'):
        lines.pop(0)
    reader = csv.DictReader(lines)
    table = list(reader)
    if not table or "Kernel Name" not in (reader.fieldnames or ()):
        raise CaptureError(f"{capture}: kernels.csv holds no raw page of Nsight Compute")
    units, *launches = table
    return [
        {"name": launch["Kernel Name"].partition("(")[0]}
        | {key: _number(launch.get(name), units.get(name)) for key, name in COUNTERS.items()}
        for launch in launches
    ]


def _number(cell: str | None, unit: str | None) -> float | None:
    try:
        value = float((cell or "").replace(",", ""))
    except ValueError:
        return None
    return value * UNITS.get((unit or "").partition("/")[0], 1) if math.isfinite(value) else None


def matmul_live(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """a @ b with a Triton kernel on this machine's GPU, as fast as you can make it.

    The contract is that of `matmul`, but you choose the configuration. At the first call with a new combination
    of shape, dtype and device, try a few configurations and keep the fastest. From then on use it without
    measuring again. The check compares it with torch.mm for 8192 by 8192 bfloat16 matrices of random numbers,
    alternately within one run.
    """
    key = (*a.shape, *b.shape, a.dtype, a.stride(), b.stride(), a.device)
    if key not in _chosen:
        from triton.testing import do_bench

        def time_ms(config: dict[str, int]) -> float:
            try:
                median: Any = do_bench(lambda: matmul(a, b, config), return_mode="median")
                return median
            except triton.runtime.errors.OutOfResources:
                return math.inf

        with torch.cuda.device(a.device):
            _chosen[key] = min(_CONFIGS.get(str(a.dtype), _WIDE), key=time_ms)
    return matmul(a, b, _chosen[key])


_chosen: dict[Any, dict[str, int]] = {}


_GROUP = {"group_m": 8}


def _configs(*tiles: tuple[int, int, int, int, int]) -> list[dict[str, int]]:
    names = ("block_m", "block_n", "block_k", "num_warps", "num_stages")
    return [dict(zip(names, tile, strict=True)) | _GROUP for tile in tiles]


# Configurations to try. float32 goes through the CUDA cores, an instruction a multiply-add: with large
# tiles that is more code than anyone wants to compile.
_WIDE = _configs(
    (128, 256, 64, 8, 4),
    (128, 256, 64, 8, 3),
    (256, 128, 64, 8, 3),
    (128, 128, 64, 4, 4),
    (64, 128, 64, 4, 4),
)
_CONFIGS = {"torch.float32": _configs((32, 32, 32, 4, 2), (64, 32, 16, 4, 3))}


def _check_sizes(**sizes: int) -> None:
    for name, size in sizes.items():
        if not size > 0:
            raise ValueError(f"{name} must be at least 1, not {size}")
