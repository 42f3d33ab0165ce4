"""Time a Triton vector add over sizes, in three ways, beside a copy by the device.

Writes measurements.json, a row a size: `n` elements a vector, the bytes that an add must move (two
vectors read, one written), and samples in ns of one call:
    "eager"  calls one after the other from the host, with one synchronisation: wall time over calls
    "graph"  the same calls in a CUDA graph, which launches them without the host: its time over calls
    "cold"   one call between two events, after another buffer was read: nothing of it is in the cache
    "copy"   as "cold": a copy of one vector into another (one read, one written)
Eager and graph calls work on the same three vectors again and again.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl
from triton_timing_device import FLUSH_BYTES, Timer, write_table

SAMPLES = 15
EXPONENTS = range(10, 29)
COPY_FROM = 20  # smaller copies say more about the events around them
BLOCK = 1024
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, block: tl.constexpr):
    # 64 bits: a product of 32 bits would run over beyond 2^31 elements
    at = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    inside = at < n
    x = tl.load(x_ptr + at, mask=inside)
    y = tl.load(y_ptr + at, mask=inside)
    tl.store(out_ptr + at, x + y, mask=inside)


def eager_ns(call: Callable[[], object], calls: int) -> list[int]:
    found = []
    for _ in range(SAMPLES):
        torch.cuda.synchronize()
        start = time.perf_counter_ns()
        for _ in range(calls):
            call()
        torch.cuda.synchronize()
        found.append(round((time.perf_counter_ns() - start) / calls))
    return found


def graph_ns(call: Callable[[], object], calls: int) -> list[int]:
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        call()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(calls):
            call()
    pairs = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(SAMPLES)]
    for _ in range(3):
        graph.replay()
    for start, end in pairs:
        start.record()
        graph.replay()
        end.record()
    torch.cuda.synchronize()
    times = [round(start.elapsed_time(end) * 1e6 / calls) for start, end in pairs]
    graph.reset()
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dtype", choices=DTYPES, default="float32")
    name = parser.parse_args().dtype
    dtype = DTYPES[name]
    torch.manual_seed(5)
    timer = Timer()
    rows: list[dict[str, Any]] = []
    for exponent in EXPONENTS:
        n = 2**exponent
        x, y = (torch.randn(n, device="cuda", dtype=dtype) for _ in range(2))
        out = torch.empty_like(x)

        def add(x: Any = x, y: Any = y, out: Any = out, n: int = n) -> None:
            add_kernel[(triton.cdiv(n, BLOCK),)](x, y, out, n, block=BLOCK, num_warps=4)

        def copy(x: Any = x, out: Any = out) -> None:
            out.copy_(x)

        add()
        if not torch.equal(out, x + y):
            raise SystemExit(f"wrong sum at {n} elements")
        calls = 100 if exponent <= 22 else 10
        row: dict[str, Any] = {"n": n, "bytes": 3 * n * x.element_size()}
        row["eager"] = eager_ns(add, calls)
        row["graph"] = graph_ns(add, calls)
        row["cold"] = timer.samples_ns(add, SAMPLES)
        row["copy"] = timer.samples_ns(copy, SAMPLES) if exponent >= COPY_FROM else None
        rows.append(row)
        del x, y, out, add, copy
        torch.cuda.empty_cache()
    write_table(
        {
            "format": 1,
            "unit": "ns",
            "device": torch.cuda.get_device_name(),
            "dtype": name,
            "block": BLOCK,
            "flush_bytes": FLUSH_BYTES,
            "versions": {"torch": torch.__version__, "triton": triton.__version__},
            "sizes": rows,
        }
    )
    last = rows[-1]
    print(
        "RESULT",
        json.dumps(
            {
                "graph_ns": [round(statistics.median(row["graph"])) for row in rows],
                "eager_ns": [round(statistics.median(row["eager"])) for row in rows],
                "gb_s": round(last["bytes"] / statistics.median(last["cold"]), 1),
                "copy_gb_s": round(last["bytes"] / 3 * 2 / statistics.median(last["copy"]), 1),
            }
        ),
    )


if __name__ == "__main__":
    main()
