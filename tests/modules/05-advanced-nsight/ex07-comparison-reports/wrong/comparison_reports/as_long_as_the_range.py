from __future__ import annotations

CAUGHT_BY = "test_steps_of_a_recording"
SAYS = "when the host entered or left"


def step_times(capture: str, step: str) -> list[int]:
    with captures.open(capture) as recording:
        ranges = recording.nvtx_ranges.filter(pl.col("name") == step)
    if ranges.height < 2:
        raise EmptyCapture(f"{capture}: {ranges.height} ranges named {step!r}")
    return ranges["duration_ns"].to_list()[1:]
