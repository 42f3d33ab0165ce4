from __future__ import annotations

CAUGHT_BY = "test_pageable_copies_on_paper"
SAYS = "correlation ids are counted per"


def pageable_query() -> str:
    return f"""
        SELECT
            m."end" - m.start AS "Duration:dur_ns",
            m.start AS "Start:ts_ns",
            m.bytes AS "Bytes:mem_B",
            m.deviceId AS "Device ID",
            s.value AS "API Name"
        FROM {COPY} AS m
        JOIN {CALL} AS r
            ON r.correlationId = m.correlationId
        JOIN StringIds AS s ON s.id = r.nameId
        WHERE (m.srcKind = 0 OR m.dstKind = 0) AND s.value LIKE 'cudaMemcpy%Async%'
            AND r.eventClass <> {BACKTRACE_CLASS}
        ORDER BY 1 DESC, 2
    """
