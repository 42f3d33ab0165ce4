from __future__ import annotations

CAUGHT_BY = "test_split_of_a_drawn_loop"
SAYS = "on several threads counts once"


def step_split(capture: str) -> dict[str, int]:
    split = _split(capture)
    with captures.open(capture) as recording:
        ranges = recording.nvtx_ranges
    split["step_ns"] = ranges.filter(ranges["name"] == "step")["duration_ns"].sum()
    return {key: split[key] for key in _SPLIT}
