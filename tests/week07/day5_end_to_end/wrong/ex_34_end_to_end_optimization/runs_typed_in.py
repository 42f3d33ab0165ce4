"""Returns the names that the lesson shows."""

from __future__ import annotations

CAUGHT_BY = "test_runs_of_a_recording"
SAYS = "the dictionary"


def read_runs(capture: str, file: str) -> dict[str, dict]:
    return {
        "open_1293": {"run": "open_1293", "loop": "open"},
        "open_3233": {"run": "open_3233", "loop": "open"},
        "open_5173": {"run": "open_5173", "loop": "open"},
        "open_6143": {"run": "open_6143", "loop": "open"},
        "open_8082": {"run": "open_8082", "loop": "open"},
        "stall_open": {"run": "stall_open", "loop": "open"},
        "stall_closed": {"run": "stall_closed", "loop": "closed"},
    }
