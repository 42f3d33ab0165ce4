from __future__ import annotations

CAUGHT_BY = "test_projection_on_paper"
SAYS = "a dict for each range that issued"


def project_ranges(capture: str, name: str) -> list[dict[str, int]]:
    operation = _union(_held(capture))
    which = 'coalesce(n.text, s.value) = ? AND n.eventType IN (59, 60) AND n."end" IS NOT NULL'
    rows = ask(
        capture,
        f"""
        SELECT n.start, n."end", min(o.start_ns), max(o.end_ns), count(*)
        FROM NVTX_EVENTS AS n LEFT JOIN StringIds AS s ON s.id = n.textId
        JOIN {CALL} AS r ON r.globalTid & {THREAD_MASK} = n.globalTid & {THREAD_MASK}
            AND r.start >= n.start AND r."end" <= n."end"
        JOIN ({operation}) AS o
            ON o.correlationId = r.correlationId AND o.globalPid = r.globalTid & {THREAD_MASK}
        WHERE {which} AND r.eventClass <> {BACKTRACE_CLASS} GROUP BY n.rowid ORDER BY n.start
        """,
        {"NVTX_EVENTS": ["text", "textId"]},
        [name],
    )
    if not rows:
        raise EmptyCapture(f"no range {name!r}")
    keys = ("range_start_ns", "range_end_ns", "start_ns", "end_ns", "operations_count")
    return [dict(zip(keys, row, strict=True)) for row in rows]
