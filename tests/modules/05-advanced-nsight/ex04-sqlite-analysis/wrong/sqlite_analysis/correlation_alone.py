from __future__ import annotations

CAUGHT_BY = "test_launches_of_two_processes"
SAYS = "correlation ids are counted per"


def launches_query() -> str:
    return f"""
        SELECT (r.globalTid >> 24) & 0xFFFFFF AS process, r.globalTid & 0xFFFFFF AS thread,
            s.value AS name, r.start AS call_start_ns, r."end" AS call_end_ns,
            k.start AS start_ns, k."end" AS end_ns
        FROM {KERNEL} AS k
        JOIN {CALL} AS r ON r.correlationId = k.correlationId
        JOIN StringIds AS s ON s.id = k.demangledName
        WHERE r.eventClass <> {BACKTRACE_CLASS}
        ORDER BY k.start, k.correlationId, k.globalPid
    """
