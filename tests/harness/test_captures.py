"""Reading captures: what an export can hold that a careless reader gets wrong."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import polars as pl
import pytest

from grading.checks import oracles
from grading.checks.generate import SCENARIOS
from profiling_lab import captures
from profiling_lab.captures import nsys_schema
from profiling_lab.errors import CaptureError, EmptyCapture, MissingTable, NoSuchCapture

RUNTIME = nsys_schema.RUNTIME


@pytest.fixture
def generated(tmp_path: Path) -> Path:
    return SCENARIOS["sync_bound"](seed=11, folder=tmp_path).path


def edit(path: Path, *statements: str) -> Path:
    connection = sqlite3.connect(path)
    with connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()
    return path


def test_a_call_with_a_backtrace_counts_once(generated: Path) -> None:
    # Measured: with --cudabacktrace an export has a second row, of eventClass 67, for such a call.
    calls = captures.open(generated).api_calls
    blocking = oracles.blocking(generated)
    edit(
        generated,
        f"CREATE TABLE twins AS SELECT * FROM {RUNTIME}",
        'UPDATE twins SET eventClass = 67, start = start - 50, "end" = "end" + 50',
        f"INSERT INTO {RUNTIME} SELECT * FROM twins",
        "DROP TABLE twins",
    )
    assert captures.open(generated).api_calls.equals(calls)
    assert oracles.blocking(generated) == blocking


def test_a_changed_file_is_read_again(generated: Path) -> None:
    before = captures.open(generated)
    assert before.kernels.height > 0
    assert captures.open(generated) is before
    edit(generated, f"DELETE FROM {nsys_schema.KERNEL}")
    after = captures.open(generated)
    assert after is not before
    assert after.kernels.height == 0


def test_the_same_correlation_in_two_processes_is_two_calls(tmp_path: Path) -> None:
    scenario = SCENARIOS["two_processes_same_correlation"](seed=3, folder=tmp_path)
    capture = captures.open(scenario.path)
    key = ["process", "correlation"]
    joined = capture.kernels.join(capture.api_calls, on=key, how="left")
    assert joined.height == capture.kernels.height
    assert capture.api_calls["correlation"].n_unique() < capture.api_calls.height


def test_tables_are_ordered_by_time(generated: Path) -> None:
    capture = captures.open(generated)
    for frame in (capture.kernels, capture.api_calls, capture.device_operations):
        assert frame["start_ns"].is_sorted()
        assert frame.height
    assert capture.api_calls.filter(pl.col("name").str.contains(r"_v\d+$")).is_empty()


@pytest.mark.parametrize(
    ("statement", "error", "words"),
    [
        (f"ALTER TABLE {nsys_schema.KERNEL} DROP COLUMN gridX", MissingTable, "gridX"),
        ("DROP TABLE StringIds", MissingTable, "StringIds"),
        (f"DELETE FROM {nsys_schema.KERNEL}", EmptyCapture, "no kernel"),
    ],
)
def test_what_is_missing_is_named(
    generated: Path, statement: str, error: type[CaptureError], words: str
) -> None:
    edit(generated, statement)
    with pytest.raises(error, match=words) as caught:
        _ = captures.open(generated).device_operations
    assert str(generated) in str(caught.value)


def test_a_name_that_does_not_exist_names_those_that_do() -> None:
    with pytest.raises(NoSuchCapture, match="torch_inference_baseline"):
        captures.open("torch_inference_basline")


def test_a_capture_that_is_no_timeline_tells_what_it_is() -> None:
    with pytest.raises(
        CaptureError, match=r"ncu_shared: holds no timeline\.sqlite; it has .*kernels"
    ):
        captures.open("ncu_shared")


def test_a_truncated_file_is_told_apart_from_an_empty_table(generated: Path) -> None:
    content = generated.read_bytes()
    generated.write_bytes(content[: len(content) // 2])
    with pytest.raises(CaptureError, match="truncated"):
        captures.open(generated)
    assert generated.read_bytes() == content[: len(content) // 2]


@pytest.mark.parametrize(
    ("name", "file", "kind"),
    [
        ("decode_graph", "timeline.sqlite", "timeline"),
        ("ncu_shared", "kernels.csv", "kernels"),
        ("torch_train_sync", "trace.json", "trace"),
        ("roofline_counters", "counters.json", "counters"),
    ],
)
def test_a_capture_tells_its_kind_by_its_files_and_by_their_content(
    name: str, file: str, kind: str, tmp_path: Path
) -> None:
    assert captures.kind(name) == kind
    place = captures.file(name, file)
    copy = tmp_path / f"a_copy{place.suffix}"
    copy.write_bytes(place.read_bytes())
    assert captures.kind(copy) == kind


def test_provenance_is_an_object_or_an_error(tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    file.write_text("{}")
    assert captures.provenance_beside(file) == {}
    (tmp_path / "provenance.json").write_text('{"gpu": [{"name": "H200"}]}')
    assert captures.provenance(tmp_path) == captures.provenance_beside(file)
    for wrong in ("[1]", '{"gpu": '):
        (tmp_path / "provenance.json").write_text(wrong)
        with pytest.raises(CaptureError, match=r"provenance\.json"):
            captures.provenance(tmp_path)
        assert captures.provenance_beside(file) == {}


@pytest.mark.parametrize("name", ["/etc/passwd", "../programs/README.md", "a/../../b"])
def test_no_file_outside_a_capture(name: str) -> None:
    with pytest.raises(CaptureError, match="no file inside a capture"):
        captures.file("roofline_ops", name)
