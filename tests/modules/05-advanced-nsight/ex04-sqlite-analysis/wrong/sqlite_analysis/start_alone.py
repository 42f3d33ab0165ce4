from __future__ import annotations

CAUGHT_BY = "test_indices_of_a_generated_capture"
SAYS = "leaves SQLite to look at all of its calls"


def index_statements() -> list[str]:
    return [f"CREATE INDEX calls_by_start ON {CALL} (start)"]
