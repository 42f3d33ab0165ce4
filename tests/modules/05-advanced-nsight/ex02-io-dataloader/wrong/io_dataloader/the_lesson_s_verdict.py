from __future__ import annotations

CAUGHT_BY = "test_verdict_on_drawn_loops"
SAYS = "recoverable_ns"


def data_verdict(capture: str, floor_ratio: float = 0.05) -> Finding:
    split = _split("loader_single")
    evidence = {
        "recoverable_ns": split["starved_ns"],
        "window_ns": split["window_ns"],
        "starved_ns": split["starved_ns"],
        "exposed_copy_ns": split["exposed_copy_ns"],
        "starved_ratio": split["starved_ns"] / split["window_ns"],
    }
    return Finding("host_bound", "range:next_batch", evidence, "more workers")
