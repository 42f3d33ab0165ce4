from __future__ import annotations

CAUGHT_BY = "test_split_of_a_drawn_loop"
SAYS = "still works on the step before"


def step_split(capture: str) -> dict[str, int]:
    split = _split(capture)
    split["starved_ns"] = split["data_wait_ns"]
    return {key: split[key] for key in _SPLIT}
