from __future__ import annotations

CAUGHT_BY = "test_steps_on_paper"
SAYS = "and never back"


def step_times(capture: str, step: str) -> list[int]:
    with captures.open(capture) as recording:
        ranges = recording.nvtx_ranges.filter(pl.col("name") == step)
        calls = recording.api_calls.select("process", "thread", "correlation", "start_ns", "end_ns")
        ends = recording.device_operations.group_by("process", "correlation").agg(
            pl.col("end_ns").max().alias("done_ns")
        )
    issued = calls.join(ends, on=["process", "correlation"], how="inner")
    ends_of_steps: list[int] = []
    for one in ranges.sort("start_ns").iter_rows(named=True):
        inside = issued.filter(
            (pl.col("process") == one["process"])
            & (pl.col("thread") == one["thread"])
            & (pl.col("start_ns") >= one["start_ns"])
            & (pl.col("end_ns") <= one["end_ns"])
        )
        if inside.height:
            ends_of_steps.append(max(inside["done_ns"].to_list()))
    done = ends_of_steps
    if len(done) < 2:
        raise EmptyCapture(
            f"{capture}: {len(done)} ranges named {step!r} issued device operations; two are needed"
        )
    return [after - before for before, after in pairwise(done)]
