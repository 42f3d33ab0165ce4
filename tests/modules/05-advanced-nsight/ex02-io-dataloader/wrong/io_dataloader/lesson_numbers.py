from __future__ import annotations

CAUGHT_BY = "test_split_of_a_drawn_loop"
SAYS = "step_count"


def step_split(capture: str) -> dict[str, int]:
    split = _split("loader_single")
    return {key: split[key] for key in _SPLIT}
