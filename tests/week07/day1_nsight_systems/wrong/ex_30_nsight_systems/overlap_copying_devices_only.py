"""Leaves out devices that copy nothing."""

from __future__ import annotations

import polars as pl

from profiling_lab import captures

CAUGHT_BY = "test_devices_that_only_copy_or_only_compute"
SAYS = "missing"


def missed_overlap(capture: str, nvtx_range: str | None = None) -> dict[int, dict[str, int]]:
    start, end = find_window(capture, nvtx_range)
    with captures.open(capture) as recording:
        operations = recording.device_operations
        transfers = recording.copies.filter(pl.col("kind").is_in(["H2D", "D2H"]))
    compute = operations.filter(pl.col("kind").is_in(["kernel", "graph"]))
    out = {}
    for device in sorted(transfers["device"].unique().to_list()):
        here = pl.col("device") == device
        copy_ns = _union_ns(transfers.filter(here), start, end)
        compute_ns = _union_ns(compute.filter(here), start, end)
        either = pl.concat(
            [frame.filter(here).select("start_ns", "end_ns") for frame in (transfers, compute)]
        )
        either_ns = _union_ns(either, start, end)
        pageable = transfers.filter(
            here
            & pl.col("start_ns").is_between(start, end, closed="left")
            & ((pl.col("source") == "pageable") | (pl.col("destination") == "pageable"))
        )
        exposed_copy_ns, compute_only_ns = either_ns - compute_ns, either_ns - copy_ns
        out[device] = {
            "copy_ns": copy_ns,
            "exposed_copy_ns": exposed_copy_ns,
            "compute_only_ns": compute_only_ns,
            "hideable_ns": min(exposed_copy_ns, compute_only_ns),
            "pageable_bytes": int(pageable["bytes"].sum()),
        }
    return out
