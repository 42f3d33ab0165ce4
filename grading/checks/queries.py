"""Confines SQL that came from the code under judgement: it reads the database that it is given, for a while.

A connection that was opened read-only still writes elsewhere when it is told to: VACUUM INTO and ATTACH make
files (https://www.sqlite.org/lang_vacuum.html#vacuuminto, https://www.sqlite.org/lang_attach.html).
"""

from __future__ import annotations

import sqlite3

MOST_STEPS = 200_000_000  # of SQLite's machine, for all statements of a connection
MOST_VALUE_BYTES = 2**20
_STEPS_AT_A_TIME = 100_000
_READING = frozenset(
    (
        sqlite3.SQLITE_SELECT,
        sqlite3.SQLITE_READ,
        sqlite3.SQLITE_FUNCTION,
        sqlite3.SQLITE_RECURSIVE,
    )
)


def confine(connection: sqlite3.Connection, most_steps: int = MOST_STEPS) -> None:
    """From here on the connection runs queries only, for at most so many steps of SQLite's machine.

    What is no query raises sqlite3.DatabaseError ("not authorized"), a step too many
    sqlite3.OperationalError ("interrupted"), a value of more than MOST_VALUE_BYTES sqlite3.DataError.
    """
    connection.set_authorizer(_only_reading)
    limit(connection, most_steps)


def limit(connection: sqlite3.Connection, most_steps: int = MOST_STEPS) -> None:
    """The limits of `confine` alone, for a database of which nothing is kept."""
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MOST_VALUE_BYTES)
    left = [max(1, most_steps // _STEPS_AT_A_TIME)]

    def step() -> int:
        left[0] -= 1
        return int(left[0] < 0)

    connection.set_progress_handler(step, min(most_steps, _STEPS_AT_A_TIME))


def _only_reading(action: int, *_: object) -> int:
    return sqlite3.SQLITE_OK if action in _READING else sqlite3.SQLITE_DENY
