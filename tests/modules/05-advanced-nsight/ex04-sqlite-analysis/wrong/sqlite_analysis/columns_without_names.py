from __future__ import annotations

CAUGHT_BY = "test_launches_on_paper"
SAYS = "columns are named"


def launches_query() -> str:
    return f"""
        SELECT
            (r.globalTid >> 24) & 0xFFFFFF,
            r.globalTid & 0xFFFFFF,
            s.value,
            r.start,
            r."end",
            k.start,
            k."end"
        FROM {KERNEL} AS k
        JOIN {CALL} AS r
            ON r.correlationId = k.correlationId AND r.globalTid & {THREAD_MASK} = k.globalPid
        JOIN StringIds AS s ON s.id = k.demangledName
        WHERE r.eventClass <> {BACKTRACE_CLASS}
        ORDER BY k.start, k.correlationId, k.globalPid
    """
