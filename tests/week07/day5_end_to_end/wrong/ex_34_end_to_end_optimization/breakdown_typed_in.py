"""Returns the lesson's first request."""

from __future__ import annotations

CAUGHT_BY = "test_breakdown_of_a_recorded_pipeline"
SAYS = "entries; expected"


def request_breakdown(capture: str) -> list[dict[str, int]]:
    return [
        {
            "request": 0,
            "total_ns": 306700,
            "queue_ns": 15294,
            "tokenize_ns": 67052,
            "copy_in_ns": 37771,
            "forward_ns": 56287,
            "copy_out_ns": 61410,
            "postprocess_ns": 65944,
            "other_ns": 2942,
        }
    ]
