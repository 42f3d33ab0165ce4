"""Time the same work twice in turns: once with a mistake in the benchmark, once without.

Writes pitfalls.json: a row a mistake, with what was run and the samples of both, in ns a call; and
`series`, products in a row after a pause, each with its moment. Random data but where zeros are the
mistake. No profiler.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["TORCHINDUCTOR_FORCE_DISABLE_CACHES"] = "1"  # so that the first call does compile

import torch

SAMPLES, LONG_SAMPLES = 21, 7
LONG_CALLS, LONG_TIMED = (
    300,
    100,
)  # the limit on power takes effect within about a third of a second
FLUSH_BYTES = 512 * 2**20  # several times the L2 cache of any GPU of today
SLEEP_CYCLES = 2_000_000  # about a millisecond: hides the launch of what follows
PAUSE_S, SERIES_CALLS = 2.0, 1200

Sample = Callable[[], float]


def random(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.randn(*shape, device="cuda", dtype=dtype)


def by_host_ns(run: Callable[[], object], calls: int, sync: bool = True) -> float:
    """ns a call by the host's clock, from a device at rest; sync: wait at the end."""
    torch.cuda.synchronize()
    start = time.perf_counter_ns()
    for _ in range(calls):
        run()
    if sync:
        torch.cuda.synchronize()
    took = time.perf_counter_ns() - start
    torch.cuda.synchronize()
    return took / calls


def by_events_ns(run: Callable[[], object], calls: int = 1) -> float:
    """ns a call on the device, its launch hidden behind other work."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda._sleep(SLEEP_CYCLES)
    start.record()
    for _ in range(calls):
        run()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) * 1e6 / calls


def sustained_ns(run: Callable[[], object]) -> float:
    """ns a call on the device for the last of many calls in a row."""
    for _ in range(LONG_CALLS - LONG_TIMED):
        run()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(LONG_TIMED):
        run()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) * 1e6 / LONG_TIMED


def no_sync() -> tuple[str, Sample, Sample]:
    a, b = random(4096, 4096), random(4096, 4096)
    out = torch.empty_like(a)

    def run() -> None:
        torch.mm(a, b, out=out)

    return "matmul 4096³ bf16", lambda: by_host_ns(run, 20, sync=False), lambda: by_host_ns(run, 20)


def queued_before() -> tuple[str, Sample, Sample]:
    a, b = random(4096, 4096), random(4096, 4096)
    out = torch.empty_like(a)
    small = random(1024, 1024)

    def run() -> None:
        torch.add(small, 1, out=small_out)

    small_out = torch.empty_like(small)

    def lie() -> float:
        for _ in range(20):
            torch.mm(a, b, out=out)  # other work, still in the queue when the clock starts
        start = time.perf_counter_ns()
        for _ in range(100):
            run()
        torch.cuda.synchronize()
        return (time.perf_counter_ns() - start) / 100

    return "add, 1,048,576 elements, bf16", lie, lambda: by_host_ns(run, 100)


def copy_inside() -> tuple[str, Sample, Sample]:
    host = torch.randn(4096, 4096).bfloat16()
    on_device = host.cuda()

    def lie() -> float:
        return by_host_ns(lambda: torch.mm(host.cuda(), on_device), 5)

    return (
        "matmul 4096³ bf16",
        lie,
        lambda: by_host_ns(lambda: torch.mm(on_device, on_device), 5),
    )


def side_stream() -> tuple[str, Sample, Sample]:
    a, b = random(4096, 4096), random(4096, 4096)
    out = torch.empty_like(a)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())

    def measured(joined: bool) -> float:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        start.record()
        if joined:
            side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(5):
                torch.mm(a, b, out=out)
        if joined:
            torch.cuda.current_stream().wait_stream(side)
        end.record()
        torch.cuda.synchronize()
        return start.elapsed_time(end) * 1e6 / 5

    return "matmul 4096³ bf16", lambda: measured(joined=False), lambda: measured(joined=True)


def warm_cache() -> tuple[str, Sample, Sample]:
    x = random(4 * 2**20, dtype=torch.float32)  # in and out fit into the L2 cache together
    out = torch.empty_like(x)
    large = torch.ones(FLUSH_BYTES // 4, device="cuda")
    sink = torch.zeros((), device="cuda")

    def run() -> None:
        torch.add(x, 1, out=out)

    def cold() -> float:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(SLEEP_CYCLES)
        torch.sum(large, dim=0, out=sink)  # reads, so that nothing is left to be written back
        start.record()
        run()
        end.record()
        torch.cuda.synchronize()
        return start.elapsed_time(end) * 1e6

    def warm() -> float:
        torch.cuda.synchronize()
        run()
        return by_events_ns(run)

    return "add, 4,194,304 elements, fp32", warm, cold


def zeros() -> tuple[str, Sample, Sample]:
    a, b = random(8192, 8192), random(8192, 8192)
    nothing, out = torch.zeros_like(a), torch.empty_like(a)
    return (
        "matmul 8192³ bf16",
        lambda: sustained_ns(lambda: torch.mm(nothing, nothing, out=out)),
        lambda: sustained_ns(lambda: torch.mm(a, b, out=out)),
    )


def output_as_input() -> tuple[str, Sample, Sample]:
    a, b = random(8192, 8192), random(8192, 8192)
    x, other = a.clone(), torch.empty_like(a)

    def lie() -> float:
        nonlocal x, other

        def run() -> None:  # the values grow with each product until they are none any more
            nonlocal x, other
            torch.mm(x, b, out=other)
            x, other = other, x

        return sustained_ns(run)

    out = torch.empty_like(a)
    return "matmul 8192³ bf16", lie, lambda: sustained_ns(lambda: torch.mm(a, b, out=out))


def sync_every_call() -> tuple[str, Sample, Sample]:
    x = random(1024, 1024)
    out = torch.empty_like(x)

    def run() -> None:
        torch.add(x, 1, out=out)

    def lie() -> float:
        def each() -> None:
            run()
            torch.cuda.synchronize()

        return by_host_ns(each, 100)

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        run()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(100):
            run()
    return (
        "add, 1,048,576 elements, bf16",
        lie,
        lambda: by_events_ns(graph.replay) / 100,
    )


def compile_inside() -> dict[str, Any]:
    """Ten calls of a compiled function from the first one on, and ten after them. Once: it compiles once."""
    x, w, b = (random(2**24, dtype=torch.float32) for _ in range(3))

    def chain(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.relu(x * w + b)

    compiled = torch.compile(chain)
    lie = [by_host_ns(lambda: compiled(x, w, b), 10)]
    honest = [by_host_ns(lambda: compiled(x, w, b), 10) for _ in range(SAMPLES)]
    return row("compile_inside", "relu(x·w + b), 16,777,216 elements, fp32", lie, honest)


def single_calls() -> dict[str, Any]:
    """One call and a wait, many times, by the host's clock: a distribution."""
    x = random(1024, 1024)
    out = torch.empty_like(x)
    torch.cuda.synchronize()
    samples = [by_host_ns(lambda: torch.add(x, 1, out=out), 1) for _ in range(520)][20:]
    lowest = [min(samples)]
    return row("best_of_many", "add, 1,048,576 elements, bf16", lowest, samples)


def series() -> list[list[int]]:
    """[moment, duration] in ns of every fifth product in a row, after a pause."""
    a, b = random(8192, 8192), random(8192, 8192)
    out = torch.empty_like(a)
    torch.mm(a, b, out=out)
    torch.cuda.synchronize()
    events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(SERIES_CALLS)]
    time.sleep(PAUSE_S)
    for start, end in events:
        start.record()
        torch.mm(a, b, out=out)
        end.record()
    torch.cuda.synchronize()
    first = events[0][0]
    kept = [*range(20), *range(20, SERIES_CALLS, 5)]
    return [
        [round(first.elapsed_time(start) * 1e6), round(start.elapsed_time(end) * 1e6)]
        for start, end in (events[place] for place in kept)
    ]


def row(name: str, work: str, lie: list[float], honest: list[float]) -> dict[str, Any]:
    return {
        "name": name,
        "work": work,
        "lie_ns": [round(value) for value in lie],
        "honest_ns": [round(value) for value in honest],
    }


def in_turns(
    make: Callable[[], tuple[str, Sample, Sample]], warm_up: int = 3, samples: int = SAMPLES
) -> dict[str, Any]:
    work, lie, honest = make()
    for _ in range(warm_up):
        lie(), honest()
    pairs = [(lie(), honest()) for _ in range(samples)]
    return row(make.__name__, work, [pair[0] for pair in pairs], [pair[1] for pair in pairs])


def clocks() -> str:
    """SM clock and power as the driver tells them now, or nothing."""
    query = ["nvidia-smi", "--query-gpu=clocks.sm,power.draw", "--format=csv,noheader"]
    try:
        return subprocess.run(query, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def main() -> None:
    torch.manual_seed(0)
    at_rest = clocks()
    found_series = series()
    after_series = clocks()
    rows = [
        in_turns(make)
        for make in (
            no_sync,
            queued_before,
            copy_inside,
            side_stream,
            warm_cache,
            sync_every_call,
        )
    ]
    rows += [in_turns(make, 1, LONG_SAMPLES) for make in (zeros, output_as_input)]
    rows += [single_calls(), compile_inside()]
    table = {
        "format": 1,
        "unit": "ns",
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__.partition("+")[0],
        "pause_s": PAUSE_S,
        "clock_and_power_at_rest": at_rest,
        "clock_and_power_after_series": after_series,
    }
    lines = ",\n  ".join(json.dumps(entry) for entry in rows)
    text = json.dumps(table)[:-1] + ',\n "pitfalls": [\n  ' + lines + "\n ],\n "
    text += f'"series_ns": {json.dumps(found_series)}}}\n'
    Path("pitfalls.json").write_text(text, encoding="utf-8")
    medians = {
        entry["name"]: [statistics.median(entry[key]) for key in ("lie_ns", "honest_ns")]
        for entry in rows
    }
    print("RESULT", json.dumps({"pitfalls": len(rows), "medians_ns": medians}))


if __name__ == "__main__":
    main()
