from __future__ import annotations

CAUGHT_BY = "test_starved_stretches_of_a_recording"
SAYS = "looks at all"


def starved_query(tables: Iterable[str]) -> str:
    tables = list(tables)
    if not tables or not set(tables) <= set(OPERATIONS):
        raise ValueError(f"tables {tables}: one or more of {', '.join(OPERATIONS)} are needed")
    operations = " UNION ALL ".join(
        f'SELECT deviceId, start, "end", globalPid, correlationId FROM {table}' for table in tables
    )
    return f"""
        WITH
            operation AS (
                SELECT o.*, (
                    SELECT max(q."end") FROM ({operations}) AS q
                    WHERE q.deviceId = o.deviceId AND q.start < o.start
                ) AS until
                FROM ({operations}) AS o
            ),
            wait AS (
                SELECT r.globalTid, r."end" FROM {CALL} AS r JOIN StringIds AS s ON s.id = r.nameId
                WHERE s.value LIKE '%Synchronize%' AND r.eventClass <> {BACKTRACE_CLASS}
            )
        SELECT
            o.start - o.until AS "Duration:dur_ns",
            o.until AS "Start:ts_ns",
            o.deviceId AS "Device ID",
            s.value AS "API Name",
            EXISTS (
                SELECT 1 FROM wait AS w
                WHERE w.globalTid = r.globalTid AND w."end" BETWEEN o.until AND r.start
            ) AS "Waited"
        FROM operation AS o
        JOIN {CALL} AS r
            ON r.correlationId = o.correlationId AND r.globalTid & {THREAD_MASK} = o.globalPid
        JOIN StringIds AS s ON s.id = r.nameId
        WHERE o.start > o.until AND r.start >= o.until AND r.eventClass <> {BACKTRACE_CLASS}
        ORDER BY 1 DESC, 2, 3
    """
