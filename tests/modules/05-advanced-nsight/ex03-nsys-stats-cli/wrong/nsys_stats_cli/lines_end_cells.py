from __future__ import annotations

CAUGHT_BY = "test_cells_and_tables_that_are_rare"
SAYS = "quotes hold a line break"


def _table(part: str) -> list[dict[str, Any]] | None:
    if not part or part.startswith("SKIPPED"):
        return None
    rows = []
    for row in csv.DictReader(part.splitlines()):
        rows.append(dict(_cell(heading, value) for heading, value in row.items()))
    return rows
