"""An export read with SQLite and numpy says the same as its tables, and nothing of the engine needs frames."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from grading.checks.generate.drawn_timeline import Timeline
from profiling_lab import captures
from profiling_lab.analysis.columns import DEVICE_KINDS
from profiling_lab.analysis.nsys_columns import Export
from profiling_lab.errors import CaptureError, EmptyCapture, MissingTable

# Graph nodes, streams, operating-system calls, several ranks, sampled clocks, copies alone.
NAMES = (
    "case_decoder_b",
    "overlap_legacy",
    "loader_few",
    "ddp_timeline_overlap",
    "case_power_a",
    "copy_directions",
)


@pytest.mark.parametrize("name", NAMES)
def test_columns_say_what_the_tables_say(name: str) -> None:
    capture = captures.open(name)
    made = Export(capture).recording
    work, table = made.operations, capture.device_operations
    assert work.start.tolist() == table["start_ns"].to_list()
    assert work.end.tolist() == table["end_ns"].to_list()
    assert [DEVICE_KINDS[kind] for kind in work.kind] == table["kind"].to_list()
    assert [made.names[code] for code in work.name] == table["name"].to_list()
    assert work.bytes.tolist() == table["bytes"].fill_null(-1).to_list()
    pageable = (capture.copies["source"] == "pageable") | (
        capture.copies["destination"] == "pageable"
    )
    assert work.pageable.sum() == pageable.sum()
    calls = capture.api_calls
    assert made.calls.start.tolist() == calls["start_ns"].to_list()
    assert [made.names[code] for code in made.calls.name] == calls["name"].to_list()
    assert made.calls.correlation.tolist() == calls["correlation"].to_list()
    ranges = capture.nvtx_ranges
    assert [made.names[code] for code in made.ranges.name] == ranges["name"].to_list()
    assert made.ranges.end.tolist() == ranges["end_ns"].to_list()
    assert len(made.os_calls) == capture.os_calls.height
    assert len(made.event_records) == capture.event_records.height


def drawn(file: Path) -> Path:
    made = Timeline(file)
    made.kernel(2_000, 3_000, name="kernel", call=(0, 500))
    return Path(made.save())


def changed(file: Path, statement: str) -> Export:
    with sqlite3.connect(file) as connection:
        connection.execute(statement)
    return Export(captures.open(file))


@pytest.mark.parametrize(
    ("statement", "error", "says"),
    [
        ("DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL", EmptyCapture, "no kernel, graph, copy"),
        ("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = 'soon'", CaptureError, "text among"),
        ("DROP TABLE StringIds", MissingTable, "no table StringIds"),
        (
            "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL RENAME COLUMN streamId TO queue",
            MissingTable,
            "lacks the column streamId",
        ),
    ],
)
def test_what_a_file_lacks_is_said(
    tmp_path: Path, statement: str, error: type[Exception], says: str
) -> None:
    export = changed(drawn(tmp_path / "made.sqlite"), statement)
    with pytest.raises(error, match=says):
        _ = export.recording


def test_a_verdict_needs_no_frames() -> None:
    """Timelines, traces and pages, as the engine alone is installed."""
    code = (
        "import sys\n"
        "for name in ('polars', 'adbc_driver_sqlite', 'adbc_driver_manager'): sys.modules[name] = None\n"
        "from profiling_lab.captures import inputs\n"
        "from profiling_lab.diagnosis import engine\n"
        "for name in ('overlap_legacy', 'torch_train_sync', 'case_fields_a', 'case_power_a'):\n"
        "    print(engine.judge(inputs.read([name])).findings[0].category)\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert len(ran.stdout.split()) == 4
