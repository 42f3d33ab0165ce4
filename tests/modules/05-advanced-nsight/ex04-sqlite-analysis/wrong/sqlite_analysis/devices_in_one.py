from __future__ import annotations

CAUGHT_BY = "test_gaps_on_paper"
SAYS = "the quiet of the whole device"


def gaps_query(tables: Iterable[str]) -> str:
    return f"""
        WITH
            operation AS ({_union(tables)}),
            until AS (
                SELECT device, start_ns AS end_ns, max(end_ns) OVER (
                    ORDER BY start_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
                ) AS start_ns
                FROM operation
            )
        SELECT device, start_ns, end_ns FROM until WHERE end_ns > start_ns
        ORDER BY device, start_ns
    """
