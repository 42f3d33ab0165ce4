"""Time the operations that models are made of, with a cold cache or a warm one.

Writes measurements.json: a row an operation, with its shape, data type and samples: the time of one
call on the device, and the time the host takes to issue it. What an operation costs in operations and
bytes is not in it.
"""

from __future__ import annotations

import argparse
import json
import statistics
from typing import Any

import torch
from roofline_cases import SETS, verified
from roofline_timing import FLUSH_BYTES, Timer, write_table


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
