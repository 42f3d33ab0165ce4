from __future__ import annotations

CAUGHT_BY = "test_gaps_of_generated_captures"
SAYS = "not only of the one before"


def gaps_query(tables: Iterable[str]) -> str:
    return f"""
        WITH
            operation AS ({_union(tables)}),
            until AS (
                SELECT device, start_ns AS end_ns,
                    lag(end_ns) OVER (PARTITION BY device ORDER BY start_ns) AS start_ns
                FROM operation
            )
        SELECT device, start_ns, end_ns FROM until WHERE end_ns > start_ns
        ORDER BY device, start_ns
    """
