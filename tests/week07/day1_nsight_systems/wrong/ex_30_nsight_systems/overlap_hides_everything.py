"""Believes that all exposed copying can hide."""

from __future__ import annotations

import polars as pl

from profiling_lab import captures

CAUGHT_BY = "test_what_counts_as_copy_and_compute"
SAYS = "there is less compute than that to hide it behind"


def missed_overlap(capture: str, nvtx_range: str | None = None) -> dict[int, dict[str, int]]:
    start, end = find_window(capture, nvtx_range)
    with captures.open(capture) as recording:
        operations = recording.device_operations
        transfers = recording.copies.filter(pl.col("kind").is_in(["H2D", "D2H"]))
    compute = operations.filter(pl.col("kind").is_in(["kernel", "graph"]))
    out = {}
    for device in sorted(operations["device"].unique().to_list()):
        here = pl.col("device") == device
        moved, worked = transfers.filter(here), compute.filter(here)
        copy_ns, compute_ns = _union_ns(moved, start, end), _union_ns(worked, start, end)
        both = pl.concat([moved.select("start_ns", "end_ns"), worked.select("start_ns", "end_ns")])
        either_ns = _union_ns(both, start, end)
        pageable = moved.filter(
            pl.col("start_ns").is_between(start, end, closed="left")
            & ((pl.col("source") == "pageable") | (pl.col("destination") == "pageable"))
        )
        out[device] = {
            "copy_ns": copy_ns,
            "exposed_copy_ns": either_ns - compute_ns,
            "compute_only_ns": either_ns - copy_ns,
            "hideable_ns": either_ns - compute_ns,
            "pageable_bytes": int(pageable["bytes"].sum()),
        }
    return out
