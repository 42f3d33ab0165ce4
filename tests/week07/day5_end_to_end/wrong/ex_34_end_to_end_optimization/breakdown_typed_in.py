"""Returns the lesson's first request."""

from __future__ import annotations

CAUGHT_BY = "test_breakdown_of_a_recorded_pipeline"
SAYS = "entries; expected"


def request_breakdown(capture: str) -> list[dict[str, int]]:
    return [
        {
            "request": 0,
            "total_ns": 3555025,
            "queue_ns": 455775,
            "tokenize_ns": 479674,
            "copy_in_ns": 249421,
            "forward_ns": 1921239,
            "copy_out_ns": 74861,
            "postprocess_ns": 317422,
            "other_ns": 56633,
        }
    ]
