"""Time attention on every backend that this device has, over shapes and data types.

Writes backends.json: a row for a way to compute softmax(Q Kᵀ / √d) V at a shape: samples of the
device's time of one call (a pair of CUDA events around several calls in a row), taken in turns with the
other ways, and the most memory that a call held beyond its inputs. A way that does not exist for a shape
or a data type has no samples, and what PyTorch said about it.
"""

from __future__ import annotations

import json
import math
import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

ON_GPU = torch.cuda.is_available()
DEVICE = "cuda" if ON_GPU else "cpu"
SAMPLES, SAMPLE_S, MOST_CALLS = 9, 0.008, 100

# batch, heads, tokens, head_dim
SHAPES = {
    "bfloat16": [
        (1, 16, 512, 64),
        (8, 12, 2048, 64),
        (2, 16, 1023, 80),
        (2, 8, 4096, 256),
        (1, 8, 16384, 64),
        (4, 32, 1024, 128),
        (4, 32, 4096, 128),
        (4, 32, 8192, 128),
    ],
    "float16": [(8, 12, 2048, 64), (4, 32, 1024, 128), (4, 32, 4096, 128)],
    "float32": [(1, 16, 512, 64), (8, 12, 2048, 64), (4, 32, 1024, 128), (4, 32, 4096, 128)],
}
COMPILED = {("bfloat16", (4, 32, 4096, 128)), ("bfloat16", (8, 12, 2048, 64))}
SMALL = [(1, 2, 5, 8), (2, 3, 16, 4)]
PINNED = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "math": SDPBackend.MATH,
}

Way = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


def materialised(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    scores = (q * q.shape[-1] ** -0.5) @ k.mT
    return torch.softmax(scores, dim=-1) @ v


def pinned(backend: SDPBackend) -> Way:
    def way(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        with sdpa_kernel(backend):
            return F.scaled_dot_product_attention(q, k, v)

    return way


def wait() -> None:
    if ON_GPU:
        torch.cuda.synchronize()


def calls_in(call: Callable[[], object]) -> int:
    """How many calls make a sample."""
    for _ in range(2):
        call()
    wait()
    start = time.perf_counter()
    call()
    wait()
    return max(1, min(MOST_CALLS, math.ceil(SAMPLE_S / (time.perf_counter() - start))))


def sample_ns(call: Callable[[], object], calls: int) -> int:
    """One sample of a call's time on the device, ns; the host issues while the device is kept busy."""
    if not ON_GPU:
        begin = time.perf_counter_ns()
        for _ in range(calls):
            call()
        return round((time.perf_counter_ns() - begin) / calls)
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda._sleep(16_000_000)
    start.record()
    for _ in range(calls):
        call()
    end.record()
    torch.cuda.synchronize()
    return round(start.elapsed_time(end) * 1e6 / calls)


def peak_bytes(call: Callable[[], object]) -> int | None:
    """The most that a call held beyond what was there before it."""
    if not ON_GPU:
        return None
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    call()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


def rows_of(shape: tuple[int, ...], dtype_name: str) -> list[dict[str, Any]]:
    """A row for each way at a shape."""
    batch, heads, tokens, head_dim = shape
    dtype = getattr(torch, dtype_name)
    generator = torch.Generator(DEVICE).manual_seed(7)
    q, k, v = (
        torch.randn(*shape, generator=generator, device=DEVICE, dtype=torch.float32).to(dtype)
        for _ in range(3)
    )
    logits = q[-1, -1].double() @ k[-1, -1].double().T * head_dim**-0.5
    exact = torch.softmax(logits, dim=-1) @ v[-1, -1].double()
    ways: dict[str, Way] = {"materialised": materialised}
    if (dtype_name, shape) in COMPILED:
        ways["compiled"] = torch.compile(materialised, dynamic=False)
    ways["default"] = F.scaled_dot_product_attention
    ways |= {name: pinned(backend) for name, backend in PINNED.items()}
    rows, ready = [], {}
    for name, way in ways.items():
        row: dict[str, Any] = {
            "way": name,
            "dtype": dtype_name,
            "batch": batch,
            "heads": heads,
            "tokens": tokens,
            "head_dim": head_dim,
            "flops": 4 * batch * heads * tokens * tokens * head_dim,
            "time_ns": None,
            "peak_bytes": None,
            "error_ratio": None,
            "said": None,
        }
        rows.append(row)
        try:
            got = way(q, k, v)[-1, -1].double()
        except RuntimeError as error:
            row["said"] = str(error).splitlines()[0][:120]
            continue
        row["error_ratio"] = float(f"{float((got - exact).abs().max() / exact.abs().max()):.2g}")
        assert row["error_ratio"] < 0.05, row
        del got

        def call(way: Way = way) -> object:
            return way(q, k, v)

        row["peak_bytes"] = peak_bytes(call)
        row["time_ns"] = []
        ready[name] = (row["time_ns"], call, calls_in(call))
    for _ in range(SAMPLES):
        for times, call, calls in ready.values():
            times.append(sample_ns(call, calls))
    return rows


def main() -> None:
    warnings.simplefilter("ignore")  # a pinned backend that does not exist says why, at length
    rows: list[dict[str, Any]] = []
    with torch.no_grad():
        for dtype_name, shapes in SHAPES.items():
            for shape in shapes if ON_GPU else SMALL:
                rows += rows_of(shape, dtype_name)
                if ON_GPU:
                    torch.cuda.empty_cache()
    device = torch.cuda.get_device_name() if ON_GPU else "cpu"
    head = f'{{"format": 1, "device": {json.dumps(device)}, "rows": [\n '
    body = ",\n ".join(json.dumps(row) for row in rows)
    Path("backends.json").write_text(head + body + "\n]}\n", encoding="utf-8")
    medians = {
        "{way} {dtype} {batch}x{heads}x{tokens}x{head_dim}".format(**row): round(
            statistics.median(row["time_ns"]) / 1e3, 1
        )
        for row in rows
        if row["time_ns"]
    }
    print("RESULT", json.dumps({"rows": len(rows), "median_us": medians}))


if __name__ == "__main__":
    main()
