from __future__ import annotations

CAUGHT_BY = "test_launches_on_paper"
SAYS = "rows, expected 2"


def launches_query() -> str:
    return f"""
        SELECT
            (r.globalTid >> 24) & 0xFFFFFF AS process,
            r.globalTid & 0xFFFFFF AS thread,
            s.value AS name,
            r.start AS call_start_ns,
            r."end" AS call_end_ns,
            k.start AS start_ns,
            k."end" AS end_ns
        FROM {KERNEL} AS k
        LEFT JOIN {CALL} AS r
            ON r.correlationId = k.correlationId AND r.globalTid & {THREAD_MASK} = k.globalPid
        JOIN StringIds AS s ON s.id = k.demangledName
        WHERE r.eventClass IS NOT {BACKTRACE_CLASS}
        ORDER BY k.start, k.correlationId, k.globalPid
    """
