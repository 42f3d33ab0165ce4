"""Time the operations that models are made of, with a cold cache or a warm one.

Writes measurements.json: a row an operation, with its shape, data type and samples: the time of one
call on the device, and the time the host takes to issue it. What an operation costs in operations and
bytes is not in it.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable
from typing import Any

import torch
from roofline_cases import SETS, Case, chain, verified
from roofline_timing import FLUSH_BYTES, Call, Timer, captured, elapsed_ns, write_table

GRAPH_CALLS, SAMPLES = 50, 21
# What fits into the L2 cache of a large GPU and is over so soon that a pair of events around one
# call would be a large part of its time.
GRAPHED: dict[str, Callable[[], list[Case]]] = {
    "main": lambda: [chain(size * 2**20, "bfloat16", fused=True) for size in (1, 2, 3, 4, 16)],
    "fp16": lambda: [chain(size * 2**20, "float16", fused=True) for size in (1, 3, 12)],
}


def in_graph_ns(call: Call) -> list[int]:
    """Samples of one call among many in a CUDA graph, in ns: time of the graph over calls."""

    def calls() -> None:
        for _ in range(GRAPH_CALLS):
            call()

    graph = captured(calls)
    pairs = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(SAMPLES)]
    for _ in range(3):
        graph.replay()
    for start, end in pairs:
        start.record()
        graph.replay()
        end.record()
    torch.cuda.synchronize()
    times = [round(elapsed_ns(start, end) / GRAPH_CALLS) for start, end in pairs]
    graph.reset()
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--set", choices=SETS, default="main")
    arguments = parser.parse_args()

    timer = Timer()
    rows: list[dict[str, Any]] = []
    for case in SETS[arguments.set]():
        call = verified(case)
        for cache in case.caches:
            rows.append(
                {
                    "name": case.name if cache == "cold" else f"{case.name}, {cache}",
                    **case.described(),
                    "cache": cache,
                    "device_time": timer.device_ns(call, cache),
                    "host_time": timer.host_ns(call),
                }
            )
        del call
        torch.cuda.empty_cache()
    for case in GRAPHED[arguments.set]():
        times = in_graph_ns(verified(case))
        name = f"{case.name}, warm, in a graph of {GRAPH_CALLS}"
        shared = {"name": name, **case.described(), "cache": "warm"}
        rows.append({**shared, "device_time": times, "host_time": None})

    table = {
        "format": 1,
        "unit": "ns",
        "device": torch.cuda.get_device_name(),
        "flush_bytes": FLUSH_BYTES,
        "measurements": rows,
    }
    write_table(table)
    medians = {row["name"]: statistics.median(row["device_time"]) for row in rows}
    print("RESULT", json.dumps({"operations": len(rows), "median_ns": medians}))


if __name__ == "__main__":
    main()
