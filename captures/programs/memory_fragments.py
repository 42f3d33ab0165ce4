"""Requests that get longer, each of which leaves a result behind, under a limit of memory.

Each request takes a large buffer, works on it, releases it, and keeps a result that is smaller, and a
few small notes. In the end one buffer is asked for that is larger than all before.

`--variant held` is the allocator as it comes: a result is cut out of the buffer that was released just
before, and holds its segment; what is left of the segment is too short for the next request. With `PYTORCH_ALLOC_CONF=expandable_segments:True` the same program
shows what growing segments change.
`--variant emptied` gives the buffer back to the driver (`empty_cache`) before the result is made.
`--variant full` keeps results so large that the last buffer cannot fit in any order.
`--shape other` has other sizes and another number of requests.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch

MIB = 1 << 20
LIMIT_MIB = 4096
# First buffer and its growth from request to request (MiB), requests, the share of the buffer that is
# kept, the last buffer (MiB).
SHAPES = {"first": (320, 32, 8, 5 / 8, 1024), "other": (240, 72, 7, 1 / 2, 1280)}
FULL_SHARE = 15 / 16  # kept in --variant full
NOTES, NOTE_BYTES = 5, 200_000  # small results of a request: they share segments of 2 MiB


def request(buffer_mib: int, kept_mib: int, variant: str, kept: list[torch.Tensor]) -> None:
    """One request: its buffer goes, its results stay."""
    buffer = torch.empty(buffer_mib * MIB, dtype=torch.uint8, device="cuda")
    buffer.fill_(1)
    del buffer
    if variant == "emptied":
        torch.cuda.empty_cache()
    keep_results(kept_mib, kept)


def keep_results(kept_mib: int, kept: list[torch.Tensor]) -> None:
    """What a later request may look up."""
    result = torch.ones(kept_mib * MIB, dtype=torch.uint8, device="cuda")
    kept.append(result)
    kept.extend(torch.ones(NOTE_BYTES, dtype=torch.uint8, device="cuda") for _ in range(NOTES))


def last_request(size_mib: int) -> bool:
    """Whether the allocator found memory for the last buffer."""
    try:
        buffer = torch.empty(size_mib * MIB, dtype=torch.uint8, device="cuda")
    except torch.OutOfMemoryError:
        return False
    buffer.fill_(1)
    return True


def stats() -> dict[str, int]:
    """What the allocator itself counted."""
    found = torch.cuda.memory_stats()
    return {
        "allocated_bytes": found["allocated_bytes.all.current"],
        "requested_bytes": found["requested_bytes.all.current"],
        "reserved_bytes": found["reserved_bytes.all.current"],
        "inactive_split_bytes": found["inactive_split_bytes.all.current"],
        "cudamalloc_count": found["num_device_alloc"],
        "retries_count": found["num_alloc_retries"],
        "oom_count": found["num_ooms"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--variant", choices=("held", "emptied", "full"), required=True)
    parser.add_argument("--shape", choices=tuple(SHAPES), default="first")
    arguments = parser.parse_args()
    first, growth, requests, share, last = SHAPES[arguments.shape]
    if arguments.variant == "full":
        share = FULL_SHARE

    torch.cuda.init()
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(LIMIT_MIB * MIB / total)
    torch.cuda.memory._record_memory_history(max_entries=20_000, stacks="python")
    kept: list[torch.Tensor] = []
    times = []
    for number in range(requests):
        start = time.perf_counter_ns()
        buffer_mib = first + growth * number
        request(buffer_mib, round(buffer_mib * share), arguments.variant, kept)
        torch.cuda.synchronize()
        times.append(time.perf_counter_ns() - start)
    before = torch.cuda.memory._snapshot()
    counted = stats()
    fits = last_request(last)
    torch.cuda.synchronize()
    after = torch.cuda.memory._snapshot()
    torch.cuda.memory._record_memory_history(enabled=None)
    figures: dict[str, Any] = {
        "limit_bytes": LIMIT_MIB * MIB,
        "asked_bytes": last * MIB,
        "fits": fits,
        "before": counted,
        "after": stats(),
        "request_ns": times,
    }
    both: dict[str, Any] = {"snapshot": before, "after": after}
    for name, snapshot in both.items():
        snapshot["measured"] = figures
        Path(f"{name}.json").write_text(json.dumps(snapshot) + "\n", encoding="utf-8")
    print("RESULT", json.dumps(figures))


if __name__ == "__main__":
    main()
