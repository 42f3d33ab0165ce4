"""Leaves the nodes of graphs out, also where no whole graphs were recorded."""

from __future__ import annotations

import polars as pl

from profiling_lab import captures

CAUGHT_BY = "test_kernels_inside_graphs_are_compute"
SAYS = "also what ran beside kernels"


def missed_overlap(capture: str, nvtx_range: str | None = None) -> dict[int, dict[str, int]]:
    start, end = find_window(capture, nvtx_range)
    with captures.open(capture) as recording:
        operations = recording.device_operations
        transfers = recording.copies.filter(pl.col("kind").is_in(["H2D", "D2H"]))
        k, g = recording.kernels.filter(pl.col("graph_node").is_null()), recording.graph_launches
    compute = pl.concat([f.select("start_ns", "end_ns", "device") for f in (k, g)])
    out = {}
    for device in sorted(operations["device"].unique().to_list()):
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
