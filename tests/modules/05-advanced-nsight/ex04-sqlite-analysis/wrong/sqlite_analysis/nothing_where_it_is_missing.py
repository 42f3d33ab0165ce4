from __future__ import annotations

CAUGHT_BY = "test_what_is_missing_is_named"
SAYS = "the capture has no such table"


def ask(
    capture: str, sql: str, needs: Mapping[str, Sequence[str]], parameters: Sequence[Any] = ()
) -> list[tuple[Any, ...]]:
    file = captures.path(capture)
    connection = sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro&immutable=1", uri=True)
    try:
        try:
            held = _columns(connection)
        except sqlite3.DatabaseError:
            raise CaptureError(f"{file}: is no SQLite database") from None
        if any(table not in held for table in needs):
            return []
        try:
            return connection.execute(sql, parameters).fetchall()
        except sqlite3.Error as error:
            raise ValueError(f"the statement failed: {error}") from None
    finally:
        connection.close()
