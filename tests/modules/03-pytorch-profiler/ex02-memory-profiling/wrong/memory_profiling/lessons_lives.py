from __future__ import annotations

CAUGHT_BY = "test_lifetimes_in_a_made_up_run"
SAYS = "entry 0 is"


def lifetimes(capture: str) -> list[dict[str, Any]]:
    # what the lesson's own recording gives
    return [
        {
            "born": "backward",
            "died": "backward",
            "steps_later": 0,
            "bytes": 800588832,
            "count": 168,
        },
        {"born": "forward", "died": "backward", "steps_later": 0, "bytes": 351141920, "count": 80},
        {
            "born": "optimizer",
            "died": "optimizer",
            "steps_later": 0,
            "bytes": 100203776,
            "count": 80,
        },
        {"born": "backward", "died": "backward", "steps_later": 1, "bytes": 87678304, "count": 70},
        {"born": "forward", "died": "forward", "steps_later": 0, "bytes": 49152000, "count": 8},
        {"born": "backward", "died": None, "steps_later": None, "bytes": 46079904, "count": 11},
        {"born": "forward", "died": None, "steps_later": None, "bytes": 34603008, "count": 2},
        {"born": "optimizer", "died": None, "steps_later": None, "bytes": 25050944, "count": 20},
        {"born": "setup", "died": None, "steps_later": None, "bytes": 12525472, "count": 10},
    ]
