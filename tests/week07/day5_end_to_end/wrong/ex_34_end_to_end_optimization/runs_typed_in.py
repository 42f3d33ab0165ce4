"""Returns the names that the lesson shows."""

from __future__ import annotations

CAUGHT_BY = "test_runs_of_a_recording"
SAYS = "the dictionary"


def read_runs(capture: str, file: str) -> dict[str, dict]:
    return {
        "open_1391": {"run": "open_1391", "loop": "open"},
        "open_3478": {"run": "open_3478", "loop": "open"},
        "open_5565": {"run": "open_5565", "loop": "open"},
        "open_6609": {"run": "open_6609", "loop": "open"},
        "open_8696": {"run": "open_8696", "loop": "open"},
        "stall_open": {"run": "stall_open", "loop": "open"},
        "stall_closed": {"run": "stall_closed", "loop": "closed"},
    }
