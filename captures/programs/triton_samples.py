"""Take samples of one call in ways that agree and in ways that do not, each sample kept in its order.

Writes samples.json, a list of ns for each way ("series"):
    "from_start"        wall time of call and synchronisation, from the first call of the process on
    "not_synchronised"  wall time of the call alone, the device being idle before the first
    "after_idle"        time on the device, calls in a row, after two seconds without any work
    "warm"              time on the device, the same call having run just before
    "cold"              the same, after another buffer was read
    "wall"              wall time of call and synchronisation, long after the start
    "blocks"            wall time of 100 calls and one synchronisation, over 100
and what Triton's own functions say of the call, in ms ("triton"), each with its arguments.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl
import triton.testing
from triton_matmul_kernel import config, launch
from triton_timing_device import FLUSH_BYTES, Timer, write_table

FIRST, ALONE, IDLE, MANY, BLOCKS = 200, 200, 600, 400, 40
IDLE_S = 2.0


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    x = tl.load(x_ptr + at, mask=at < n)
    y = tl.load(y_ptr + at, mask=at < n)
    tl.store(out_ptr + at, x + y, mask=at < n)


def add_call(n: int) -> Callable[[], object]:
    """The sum of two vectors of n numbers in float32."""
    x, y = torch.randn(n, device="cuda"), torch.randn(n, device="cuda")
    out = torch.empty_like(x)

    def call() -> None:
        add_kernel[(triton.cdiv(n, 1024),)](x, y, out, n, block=1024, num_warps=4)

    return call


def matmul_call(size: int) -> Callable[[], object]:
    """The product of two square matrices in bfloat16."""
    a, b = (torch.randn(size, size, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    c = torch.empty_like(a)
    chosen = config(128, 256, 64, 8, 3)
    return lambda: launch(a, b, c, chosen)


CALLS = {"add": (add_call, 2**22), "matmul": (matmul_call, 4096)}


def wall_ns(call: Callable[[], object], count: int, wait: bool, calls: int = 1) -> list[int]:
    found = []
    for _ in range(count):
        start = time.perf_counter_ns()
        for _ in range(calls):
            call()
        if wait:
            torch.cuda.synchronize()
        found.append(round((time.perf_counter_ns() - start) / calls))
    torch.cuda.synchronize()
    return found


def device_ns(call: Callable[[], object], count: int) -> list[int]:
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
    marks[0].record()
    for mark in marks[1:]:
        call()
        mark.record()
    torch.cuda.synchronize()
    return [round(one.elapsed_time(two) * 1e6) for one, two in itertools.pairwise(marks)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kernel", choices=CALLS, default="add")
    name = parser.parse_args().kernel
    make, size = CALLS[name]
    torch.manual_seed(6)
    call = make(size)
    torch.cuda.synchronize()

    series: dict[str, list[int]] = {"from_start": wall_ns(call, FIRST, wait=True)}
    series["not_synchronised"] = wall_ns(call, ALONE, wait=False)
    timer = Timer()
    torch.cuda.synchronize()
    time.sleep(IDLE_S)
    series["after_idle"] = device_ns(call, IDLE)
    series["warm"] = timer.samples_ns(call, MANY, "plain")
    series["cold"] = timer.samples_ns(call, MANY, "cold")
    series["wall"] = wall_ns(call, MANY, wait=True)
    series["blocks"] = wall_ns(call, BLOCKS, wait=True, calls=100)

    bench, graph = triton.testing.do_bench, triton.testing.do_bench_cudagraph
    said: dict[str, Any] = {
        "do_bench(fn)": bench(call),
        "do_bench(fn, warmup=25, rep=100, return_mode='median')": bench(
            call, warmup=25, rep=100, return_mode="median"
        ),
        "do_bench(fn, warmup=1, rep=1)": bench(call, warmup=1, rep=1),
        "do_bench(fn, quantiles=[0.25, 0.5, 0.75])": bench(call, quantiles=[0.25, 0.5, 0.75]),
        "do_bench_cudagraph(fn)": graph(call),
    }
    write_table(
        {
            "format": 1,
            "unit": "ns",
            "device": torch.cuda.get_device_name(),
            "kernel": name,
            "size": size,
            "flush_bytes": FLUSH_BYTES,
            "versions": {"torch": torch.__version__, "triton": triton.__version__},
            "triton_ms": said,
            "series": series,
        },
        "samples.json",
    )
    medians = {key: statistics.median(values) for key, values in series.items()}
    first = series["from_start"][:3]
    print("RESULT", json.dumps({"median_ns": medians, "first_ns": first, "triton_ms": said}))


if __name__ == "__main__":
    main()
