from __future__ import annotations

CAUGHT_BY = "test_verdict_of_a_recording"
SAYS = "Alarms:"


def verdict(capture: str) -> Finding:
    file = captures.path(capture)
    connection = sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro&immutable=1", uri=True)
    try:
        rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        held = [table for table in OPERATIONS if (table,) in rows]
        if not held or (CALL,) not in rows:
            raise EmptyCapture(f"{file}: holds no device operation, or no CUDA call")
        spent = " UNION ALL ".join(f'SELECT deviceId, start, "end" FROM {table}' for table in held)
        device, start, end = connection.execute(
            f'SELECT deviceId, min(start), max("end") FROM ({spent}) GROUP BY deviceId '
            'ORDER BY sum("end" - start) DESC, deviceId'
        ).fetchone()
        starved = [row for row in connection.execute(starved_query(held)) if row[2] == device]
        copies = connection.execute(pageable_query()).fetchall() if COPY in held else []
    except sqlite3.DatabaseError as error:
        raise CaptureError(f"{file}: is no readable SQLite database ({error})") from None
    finally:
        connection.close()
    alarms = {
        "sync_bound": [row[0] for row in starved if row[4]],
        "transfer_bound": [row[0] for row in copies if row[3] == device],
        "launch_bound": [row[0] for row in starved if not row[4] and row[0] <= LAUNCH_NS],
        "host_bound": [row[0] for row in starved if not row[4] and row[0] > LAUNCH_NS],
    }
    cause = max(alarms, key=lambda name: len(alarms[name]))
    category = cause if sum(alarms[cause]) >= FLOOR_RATIO * (end - start) else "healthy"
    return Finding(
        category,
        f"device:{device}",
        {
            "recoverable_ns": sum(alarms[cause]),
            "window_ns": end - start,
            "alarms_count": len(alarms[cause]),
        },
        _RECOMMENDATIONS[category],
    )
