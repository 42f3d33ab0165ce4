"""Which table library should the course read captures with?

    python benchmarks/table_library.py [--kernels N] [--repeats N] [--file FILE]

Reads the same million kernels (twelve columns, names resolved, ordered by start) with each
candidate that is installed, in a fresh process a run, and keeps import time, read time and peak
memory in benchmarks/results/table_library.json. Candidates that are not installed are listed as
such, and so is duckdb where its SQLite extension, which it fetches from the network when first
used, cannot be had. pandas, pyarrow and duckdb are no dependencies of the course; to measure them too:

    uv run --with pandas --with pyarrow --with duckdb python benchmarks/table_library.py
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

RESULT = ROOT / "benchmarks/results/table_library.json"
QUERY = """
    SELECT k.start AS start_ns, k."end" AS end_ns, k.deviceId AS device, k.streamId AS stream,
           k.correlationId AS correlation, k.globalPid AS process, s.value AS name,
           k.gridX AS grid_x, k.blockX AS block_x, k.registersPerThread AS registers_per_thread,
           k.staticSharedMemory AS static_shared_bytes,
           k.dynamicSharedMemory AS dynamic_shared_bytes
    FROM {prefix}CUPTI_ACTIVITY_KIND_KERNEL AS k
    LEFT JOIN {prefix}StringIds AS s ON s.id = k.shortName
    ORDER BY k.start
"""


def _polars_adbc(path: str) -> Callable[[], Any]:
    import adbc_driver_manager
    import adbc_driver_sqlite
    import polars as pl

    def read() -> Any:
        uri = Path(path).as_uri() + "?mode=ro&immutable=1"
        database = adbc_driver_manager.AdbcDatabase(
            driver=adbc_driver_sqlite._driver_path(), uri=uri
        )
        connection = adbc_driver_manager.AdbcConnection(database)
        with adbc_driver_manager.AdbcStatement(connection) as statement:
            statement.set_options(**{"adbc.sqlite.query.batch_rows": "65536"})
            statement.set_sql_query(QUERY.format(prefix=""))
            stream, _ = statement.execute_query()
            frame = pl.DataFrame(stream)
        connection.close()
        database.close()
        return frame

    return read


def _polars_sqlite3(path: str) -> Callable[[], Any]:
    import sqlite3

    import polars as pl

    def read() -> Any:
        cursor = sqlite3.connect(path).execute(QUERY.format(prefix=""))
        names = [column[0] for column in cursor.description]
        return pl.DataFrame(cursor.fetchall(), schema=names, orient="row")

    return read


def _pandas_sqlite3(path: str) -> Callable[[], Any]:
    import sqlite3

    import pandas as pd

    return lambda: pd.read_sql_query(QUERY.format(prefix=""), sqlite3.connect(path))


def _duckdb(path: str) -> Callable[[], Any]:
    import duckdb

    def read() -> Any:
        connection = duckdb.connect()
        # The extension that reads SQLite is fetched from the network on first use.
        connection.execute("INSTALL sqlite; LOAD sqlite")
        connection.execute(f"ATTACH '{path}' AS capture (TYPE sqlite, READ_ONLY)")
        return connection.execute(QUERY.format(prefix="capture.")).fetchnumpy()["start_ns"]

    return read


# name: (modules it needs, how to read)
CANDIDATES: dict[str, tuple[tuple[str, ...], Callable[[str], Callable[[], Any]]]] = {
    "polars + ADBC": (("polars", "adbc_driver_sqlite"), _polars_adbc),
    "polars + sqlite3": (("polars",), _polars_sqlite3),
    "pandas + sqlite3": (("pandas",), _pandas_sqlite3),
    "duckdb": (("duckdb",), _duckdb),
}


def measure(name: str, path: str) -> dict[str, Any]:
    """In this process: import, then read; seconds and peak bytes."""
    begun = time.perf_counter()
    read = CANDIDATES[name][1](path)
    imported = time.perf_counter()
    rows = len(read())
    done = time.perf_counter()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "import_s": imported - begun,
        "read_s": done - imported,
        "peak_rss_bytes": peak * (1 if sys.platform == "darwin" else 1024),
        "rows_count": rows,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kernels", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--file", type=Path, help="a capture to read; made anew if it is not there")
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(*options.measure)))
        return

    from benchmarks.machine import describe
    from benchmarks.million_kernels import generate

    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = (options.file or Path(folder) / "kernels.sqlite").resolve()
        if not path.exists():
            generate(path, options.kernels)
        for name, (modules, _) in CANDIDATES.items():
            missing = [m for m in modules if importlib.util.find_spec(m) is None]
            if missing:
                found[name] = f"not installed here: {', '.join(missing)}"
                continue
            command = [sys.executable, __file__, "--measure", name, str(path)]
            runs = []
            for _ in range(options.repeats):
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                if done.returncode:
                    break
                runs.append(json.loads(done.stdout))
            if len(runs) < options.repeats:
                # The kind of error only: what follows it may hold addresses and paths.
                kinds = [
                    line.split(":")[0] for line in done.stderr.splitlines() if "Error:" in line
                ]
                found[name] = f"could not read the file: {kinds[-1] if kinds else 'unknown'}"
                continue
            found[name] = {
                key: statistics.median(run[key] for run in runs)
                for key in ("import_s", "read_s", "peak_rss_bytes")
            } | {"runs": runs}
    report = {
        "what": "read a table of kernels, twelve columns with names, in a fresh process a run; "
        "medians over the runs",
        "machine": describe("polars", "adbc-driver-sqlite", "pandas", "pyarrow", "duckdb", "numpy"),
        "kernels_count": options.kernels,
        "candidates": found,
    }
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    RESULT.write_text(json.dumps(report, indent=2) + "\n")
    for name, figures in found.items():
        if isinstance(figures, str):
            print(f"{name:18s} {figures}")
        else:
            print(
                f"{name:18s} import {figures['import_s']:5.2f} s, read {figures['read_s']:5.2f} s, "
                f"peak {figures['peak_rss_bytes'] / 1e6:6.0f} MB"
            )
    print(f"raw figures: {RESULT.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
