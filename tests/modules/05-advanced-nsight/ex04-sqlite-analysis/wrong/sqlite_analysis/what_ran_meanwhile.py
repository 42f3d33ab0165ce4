from __future__ import annotations

CAUGHT_BY = "test_projection_on_paper"
SAYS = "ran later belongs to it"


def project_ranges(capture: str, name: str) -> list[dict[str, int]]:
    operation = _union(_held(capture))
    which = "coalesce(n.text, s.value) = ? AND n.eventType IN (59, 60)"
    rows = ask(
        capture,
        f"""
        SELECT n.start, n."end", min(o.start_ns), max(o.end_ns), count(*)
        FROM NVTX_EVENTS AS n LEFT JOIN StringIds AS s ON s.id = n.textId
        JOIN ({operation}) AS o ON o.start_ns >= n.start AND o.end_ns <= n."end"
        WHERE {which} GROUP BY n.rowid ORDER BY n.start
        """,
        {"NVTX_EVENTS": ["text", "textId"]},
        [name],
    )
    if not rows and not ask(capture, "SELECT 1 FROM NVTX_EVENTS WHERE text = ?", {}, [name]):
        raise EmptyCapture(f"no range {name!r}")
    keys = ("range_start_ns", "range_end_ns", "start_ns", "end_ns", "operations_count")
    return [dict(zip(keys, row, strict=True)) for row in rows]
