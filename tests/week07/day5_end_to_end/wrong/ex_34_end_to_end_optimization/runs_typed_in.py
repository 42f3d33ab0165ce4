"""Returns the names that the lesson shows."""

from __future__ import annotations

CAUGHT_BY = "test_runs_of_a_recording"
SAYS = "the dictionary"


def read_runs(capture: str, file: str) -> dict[str, dict]:
    return {
        "open_1301": {"run": "open_1301", "loop": "open"},
        "open_3253": {"run": "open_3253", "loop": "open"},
        "open_5204": {"run": "open_5204", "loop": "open"},
        "open_6180": {"run": "open_6180", "loop": "open"},
        "open_8132": {"run": "open_8132", "loop": "open"},
        "stall_open": {"run": "stall_open", "loop": "open"},
        "stall_closed": {"run": "stall_closed", "loop": "closed"},
    }
