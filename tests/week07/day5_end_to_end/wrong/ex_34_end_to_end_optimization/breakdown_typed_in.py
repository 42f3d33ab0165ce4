"""Returns the lesson's first request."""

from __future__ import annotations

CAUGHT_BY = "test_breakdown_of_a_recorded_pipeline"
SAYS = "entries; expected"


def request_breakdown(capture: str) -> list[dict[str, int]]:
    return [
        {
            "request": 0,
            "total_ns": 6497678,
            "queue_ns": 360048,
            "tokenize_ns": 732807,
            "copy_in_ns": 181549,
            "forward_ns": 4472679,
            "copy_out_ns": 165724,
            "postprocess_ns": 486529,
            "other_ns": 98342,
        }
    ]
