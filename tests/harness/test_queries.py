"""SQL of a submission runs where the kernel ends it, and says of what."""

from __future__ import annotations

import sqlite3
import sys

import pytest

from grading.checks import queries

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="children with limits are Linux's"
)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queries, "MOST_MEMORY_BYTES", 2**27)
    monkeypatch.setattr(queries, "_ended", [])


def test_what_a_query_returns_or_raises_comes_back() -> None:
    connection = sqlite3.connect(":memory:")
    assert queries.apart(
        lambda: connection.execute("SELECT 1, 2.5, 'x', x'00', NULL").fetchall()
    ) == [(1, 2.5, "x", b"\0", None)]
    with pytest.raises(sqlite3.OperationalError, match="no such table: t"):
        queries.apart(lambda: connection.execute("SELECT * FROM t").fetchall())
    queries.confine(connection)
    with pytest.raises(sqlite3.DatabaseError, match="not authorized"):
        queries.apart(lambda: connection.execute("ATTACH ':memory:' AS other").fetchall())


def test_one_long_call_of_a_function_is_ended_and_after_three_no_more_is_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(queries, "_cpu_s", 1)
    connection = sqlite3.connect(":memory:")
    queries.confine(connection)
    endless = (
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT 99999) "
        "SELECT sum(instr(hex(zeroblob(500000)), hex(zeroblob(250000)) || x)) FROM n"
    )
    for _ in range(queries.MOST_ENDED):
        with pytest.raises(sqlite3.OperationalError, match="ended after 1 s of processor time"):
            queries.apart(lambda: connection.execute(endless).fetchall())
    with pytest.raises(
        sqlite3.OperationalError, match="not run: 3 statements before it were ended"
    ):
        queries.apart(lambda: connection.execute("SELECT 1").fetchall())


def test_rows_without_end_take_no_more_memory_than_they_may() -> None:
    connection = sqlite3.connect(":memory:")
    rows = (
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT 100000) "
        "SELECT zeroblob(500000) FROM n"
    )
    with pytest.raises(sqlite3.OperationalError, match="memory"):
        queries.apart(lambda: connection.execute(rows).fetchall())
