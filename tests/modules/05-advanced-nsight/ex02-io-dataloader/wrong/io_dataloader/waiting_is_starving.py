from __future__ import annotations

CAUGHT_BY = "test_verdict_on_drawn_loops"
SAYS = "recoverable_ns"


def data_verdict(capture: str, floor_ratio: float = 0.05) -> Finding:
    split = _split(capture)
    waited, window = split["data_wait_ns"], split["window_ns"]
    evidence = {
        "recoverable_ns": waited,
        "window_ns": window,
        "starved_ns": waited,
        "exposed_copy_ns": split["exposed_copy_ns"],
        "starved_ratio": waited / window,
    }
    return Finding("host_bound", "range:next_batch", evidence, "more workers")
