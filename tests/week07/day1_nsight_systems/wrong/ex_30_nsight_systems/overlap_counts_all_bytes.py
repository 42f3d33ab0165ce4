"""Takes all bytes for pageable ones."""

from __future__ import annotations

import polars as pl

from profiling_lab import captures

CAUGHT_BY = "test_overlap_of_pinned_and_pageable_copies"
SAYS = "Pinned memory and copies inside the device are in it"


def missed_overlap(capture: str, nvtx_range: str | None = None) -> dict[int, dict[str, int]]:
    start, end = find_window(capture, nvtx_range)
    with captures.open(capture) as recording:
        operations = recording.device_operations
        copies = recording.copies
    transfers = copies.filter(pl.col("kind").is_in(["H2D", "D2H"]))
    compute = operations.filter(pl.col("kind").is_in(["kernel", "graph"]))
    out = {}
    for device in sorted(operations["device"].unique().to_list()):
        here = pl.col("device") == device
        moved, worked = transfers.filter(here), compute.filter(here)
        copy_ns, compute_ns = _union_ns(moved, start, end), _union_ns(worked, start, end)
        both = pl.concat([moved.select("start_ns", "end_ns"), worked.select("start_ns", "end_ns")])
        either_ns = _union_ns(both, start, end)
        started = here & pl.col("start_ns").is_between(start, end, closed="left")
        out[device] = {
            "copy_ns": copy_ns,
            "exposed_copy_ns": either_ns - compute_ns,
            "compute_only_ns": either_ns - copy_ns,
            "hideable_ns": min(either_ns - compute_ns, either_ns - copy_ns),
            "pageable_bytes": int(copies.filter(started)["bytes"].sum()),
        }
    return out
