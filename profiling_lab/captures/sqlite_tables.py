"""One SQLite file, read table by table into frames; never written to."""

from __future__ import annotations

import itertools
import os
import re
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from profiling_lab.errors import CaptureError, MissingTable

if TYPE_CHECKING:
    import polars as pl

SQLITE_MAGIC = b"SQLite format 3\x00"

# What is in the SQL expressions below besides names of columns.
_SQL = {
    *[
        "COALESCE",
        "CASE",
        "WHEN",
        "THEN",
        "ELSE",
        "END",
        "SELECT",
        "FROM",
        "WHERE",
        "CAST",
        "AS",
        "INTEGER",
        "StringIds",
        "id",
        "value",
        "rowid",
    ]
}  # noqa: SIM905
VERSION_SUFFIX = r"(_ptsz)?_v\d+(_ptsz)?$"

# Above this many rows a table is read in parts, side by side. A row takes this many bytes or more.
_PARALLEL_ROWS = 200_000
_LEAST_ROW_BYTES = 8
# Below this many rows their names are looked up one by one.
_FEW_ROWS = 10_000


class SqliteTables:
    """The tables of an export, opened read-only; its names are numbers of strings in a table of their own."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._uri = uri(file)
        self._is_large = file.stat().st_size >= _PARALLEL_ROWS * _LEAST_ROW_BYTES
        self._columns = _read_schema(file)

    def _read(
        self,
        table: str,
        columns: dict[str, str],
        *,
        order: tuple[str, ...],
        strings: tuple[str, ...] = (),
        text: tuple[str, ...] = (),
        optional: tuple[str, ...] = (),
        where: str = "",
        plain_names: bool = False,
    ) -> pl.DataFrame:
        """Read a table: an empty frame if nothing was recorded there.

        columns: name → SQL expression over the table. strings: those that are numbers of strings, to
        be resolved. text: those that are text. optional: columns that older exports lack, null then.
        order: columns to sort by, "-" for descending. Raises MissingTable naming absent columns.

        Sorting and resolving names happen here and not in SQL, which took four times as long for a
        million rows (benchmarks/results).
        """
        import polars as pl

        names = [*strings, *text]
        schema = {name: pl.String if name in names else pl.Int64 for name in columns}
        if table not in self._columns:
            return pl.DataFrame(schema=schema)
        select = self.select_of(table, columns, optional)
        frame = self._query(select, table, where)
        if frame.is_empty():
            return pl.DataFrame(schema=schema)
        found = frame.schema
        for place, name in enumerate(columns):
            kind = pl.String if name in text else pl.Int64
            if found[name] != kind:
                frame.replace_column(place, frame[name].cast(kind, strict=False))
        times = [n for n in ("start_ns", "end_ns") if n in columns and frame[n].null_count()]
        if times:
            raise CaptureError(f"{self.file}: damaged: a row of {table} has no {times[0][:-3]}")
        for name in strings:
            frame.replace_column(
                frame.get_column_index(name), self._texts(frame[name], plain=plain_names)
            )
        first = frame[order[0]]
        if not first.null_count() and (first.slice(1) > first.slice(0, len(first) - 1)).all():
            return frame  # as written
        return frame.sort(
            [column.lstrip("-") for column in order],
            descending=[column.startswith("-") for column in order],
            maintain_order=True,
        )

    def has(self, table: str, column: str = "") -> bool:
        """Whether the file has a table, and this column in it."""
        return table in self._columns and (not column or column in self._columns[table])

    def select_of(self, table: str, columns: dict[str, str], optional: tuple[str, ...] = ()) -> str:
        """What to select for columns (name → SQL expression). Raises MissingTable naming absent ones."""
        have = self._columns[table]
        expressions = " ".join(re.sub(r"'[^']*'", "", e) for e in columns.values())
        needed = set(re.findall(r"[A-Za-z]\w*", expressions)) - _SQL
        missing = sorted(w for w in needed if w not in have and w not in optional)
        if missing:
            raise MissingTable(
                f"{self.file}: table {table} lacks the column{'s' if len(missing) > 1 else ''} "
                f"{', '.join(missing)}; this export's schema is not one that the course reads"
            )
        return ", ".join(
            (f'"{e}"' if e in have else "CAST(NULL AS INTEGER)" if e in optional else e)
            + f" AS {n}"
            for n, e in columns.items()
        )

    def _texts(self, numbers: pl.Series, *, plain: bool) -> pl.Series:
        """The strings that numbers refer to, null where there is none. plain: without a version's suffix."""
        import polars as pl

        if len(numbers) < _FEW_ROWS:  # the join of a hundred rows takes ten times as long
            rows = numbers.to_list()
            texts = {number: self._text_by_number.get(number) for number in set(rows)}
            if plain:
                texts = {n: t and re.sub(VERSION_SUFFIX, "", t, count=1) for n, t in texts.items()}
            return pl.Series(numbers.name, [texts[row] for row in rows], dtype=pl.String)
        values = self._strings
        if plain:
            values = values.with_columns(pl.col("value").str.replace(VERSION_SUFFIX, ""))
        joined = numbers.to_frame().join(
            values, left_on=numbers.name, right_on="id", how="left", maintain_order="left"
        )
        return joined["value"].alias(numbers.name)

    @cached_property
    def _text_by_number(self) -> dict[int, str | None]:
        return dict(zip(*self._strings.to_dict(as_series=False).values(), strict=True))

    @cached_property
    def _strings(self) -> pl.DataFrame:
        """The table that numbers of names refer to: id, value."""
        import polars as pl

        if "StringIds" not in self._columns:
            raise MissingTable(f"{self.file}: has no table StringIds, so names cannot be resolved")
        frame = self._query("id, value", "StringIds")
        types = {"id": pl.Int64, "value": pl.String}
        return frame if frame.schema == types else frame.cast(types)  # type: ignore[arg-type]

    def _query(self, select: str, table: str, where: str = "") -> pl.DataFrame:
        """Run one SELECT over a table; a large one in parts, side by side, by row number."""
        import polars as pl

        if not self._is_large:
            return self._run(f"SELECT {select} FROM {table}" + (f" WHERE {where}" if where else ""))
        bounds = self._parts(table)
        queries = [
            f"SELECT {select} FROM {table} WHERE rowid >= {low} AND rowid < {high}"
            + (f" AND {where}" if where else "")
            for low, high in itertools.pairwise(bounds)
        ]
        with ThreadPoolExecutor(len(queries)) as pool:
            return pl.concat(list(pool.map(self._run, queries)))

    def _parts(self, table: str) -> list[int]:
        connection = connect(self.file)
        try:
            low, high = connection.execute(
                f"SELECT COALESCE(MIN(rowid), 0), COALESCE(MAX(rowid), 0) + 1 FROM {table}"
            ).fetchone()
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            raise CaptureError(f"{self.file}: damaged or truncated ({error})") from None
        finally:
            connection.close()
        parts = min(4, os.cpu_count() or 1) if high - low > _PARALLEL_ROWS else 1
        return [low + (high - low) * part // parts for part in range(parts + 1)]

    def _run(self, query: str) -> pl.DataFrame:
        import adbc_driver_manager
        import adbc_driver_sqlite
        import polars as pl

        driver = adbc_driver_sqlite._driver_path()
        try:
            with (
                adbc_driver_manager.AdbcDatabase(driver=driver, uri=self._uri) as database,
                adbc_driver_manager.AdbcConnection(database) as connection,
                adbc_driver_manager.AdbcStatement(connection) as statement,
            ):
                # Types are inferred from the first batch, so it must be large enough to see them.
                statement.set_options(**{"adbc.sqlite.query.batch_rows": "65536"})
                statement.set_sql_query(query)
                stream, _ = statement.execute_query()
                return pl.DataFrame(stream)
        except (adbc_driver_manager.Error, pl.exceptions.PolarsError) as error:
            reason = str(error).splitlines()[0]
            raise CaptureError(f"{self.file}: damaged or truncated ({reason})") from None


def uri(file: Path) -> str:
    """A file as SQLite opens it to be read only."""
    # immutable: SQLite takes no lock and makes no journal, so the folder may be read-only too
    return file.resolve().as_uri() + "?mode=ro&immutable=1"


def connect(file: Path) -> sqlite3.Connection:
    """A connection that reads a file and never writes to it."""
    return sqlite3.connect(uri(file), uri=True)


def check_file(file: Path) -> None:
    """Check that a file can be read and is a whole SQLite file; cheap enough for every opening."""
    try:
        with file.open("rb") as handle:
            header = handle.read(100)
        size = file.stat().st_size
    except PermissionError:
        raise CaptureError(f"{file}: no permission to read it") from None
    except OSError as error:
        raise CaptureError(f"{file}: cannot be read ({error.strerror})") from None
    if not size:
        raise CaptureError(f"{file}: is empty")
    if not header.startswith(SQLITE_MAGIC):
        hint = ""
        if file.suffix == ".nsys-rep":
            hint = f"; export it first: nsys export --type sqlite {file.name}"
        raise CaptureError(f"{file}: is not a SQLite file{hint}")
    # Bytes 16 and 28 of the header give the page size and the number of pages.
    page_bytes = int.from_bytes(header[16:18], "big")
    page_bytes = 65536 if page_bytes == 1 else page_bytes
    pages = int.from_bytes(header[28:32], "big")
    if size < page_bytes * pages:
        raise CaptureError(
            f"{file}: truncated: it says {page_bytes * pages:,} bytes and has {size:,}"
        )


def _read_schema(file: Path) -> dict[str, frozenset[str]]:
    """Tables and their columns."""
    try:
        connection = connect(file)
        try:
            columns: dict[str, set[str]] = {}
            for table, column in connection.execute(
                "SELECT m.name, c.name FROM sqlite_master AS m, pragma_table_info(m.name) AS c "
                "WHERE m.type = 'table'"
            ):
                columns.setdefault(table, set()).add(column)
            return {table: frozenset(names) for table, names in columns.items()}
        finally:
            connection.close()
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        raise CaptureError(f"{file}: damaged or truncated ({error})") from None
