from __future__ import annotations

CAUGHT_BY = "test_a_query_changes_nothing"
SAYS = "a statement that writes must fail"


def ask(
    capture: str, sql: str, needs: Mapping[str, Sequence[str]], parameters: Sequence[Any] = ()
) -> list[tuple[Any, ...]]:
    file = captures.path(capture)
    connection = sqlite3.connect(file)
    try:
        try:
            held = _columns(connection)
        except sqlite3.DatabaseError:
            raise CaptureError(f"{file}: is no SQLite database") from None
        for table, columns in needs.items():
            missing = [column for column in columns if column not in held.get(table, ())]
            if table not in held or missing:
                what = missing[0] if table in held else ""
                raise MissingTable(f"{table} {what} {_schema(connection, held)}")
        try:
            return connection.execute(sql, parameters).fetchall()
        except sqlite3.Error as error:
            raise ValueError(f"the statement failed: {error}") from None
    finally:
        connection.close()
