"""`lab diagnose`: files that cannot be read end in one line."""

from __future__ import annotations

import gzip
import os
import shutil
import sqlite3
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from profiling_lab.captures import opening
from profiling_lab.cli import lab
from tests.harness.cli_diagnose.diagnosing import (
    DETAILS,
    NCU_REPORT,
    NSYS_REPORT,
    PAGE,
    TIMELINE,
    complaint,
    cut,
    diagnose,
    page,
    trace_text,
)


def damaged_gzip() -> bytes:
    data = bytearray(gzip.compress(trace_text()))
    data[len(data) // 2] ^= 0xFF
    return bytes(data)


def without_times() -> bytes:
    """A timeline whose kernels have no start."""
    file = Path("damaged.sqlite")
    shutil.copy(TIMELINE, file)
    with sqlite3.connect(file) as connection:
        connection.execute("ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL RENAME COLUMN start TO was")
        connection.execute("ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL ADD COLUMN start INTEGER")
    data = file.read_bytes()
    file.unlink()
    return data


NOISE = zlib.compress(bytes(range(256)) * 40)[2:] + bytes(range(256))
# name of the file: (what is in it, words of the message).
BAD: dict[str, tuple[Callable[[], bytes], str]] = {
    "empty.sqlite": (lambda: b"", "is empty"),
    "cut.sqlite": (lambda: cut(TIMELINE.read_bytes()), "truncated"),
    "noise.sqlite": (lambda: NOISE, "is neither"),
    "noise_behind_a_header.sqlite": (lambda: TIMELINE.read_bytes()[:16] + NOISE, "truncated"),
    "damaged_schema.sqlite": (
        lambda: TIMELINE.read_bytes().replace(b"CREATE TABLE TARGET_INFO_GPU", b"\xd1" * 28),
        "damaged or truncated",
    ),
    "damaged_times.sqlite": (without_times, "a row of CUPTI_ACTIVITY_KIND_KERNEL has no start"),
    "packed.sqlite.gz": (lambda: gzip.compress(TIMELINE.read_bytes()), "gunzip it first"),
    "packed.zip": (lambda: b"PK\x03\x04" + NOISE, "zip archive"),
    "packed.json.zst": (lambda: b"\x28\xb5\x2f\xfd" + NOISE, "zstd"),
    "run.h5": (lambda: b"\x89HDF\r\n" + NOISE, "nsys export --type sqlite"),
    "run.nsys-rep": (NSYS_REPORT.read_bytes, "nsys export --type sqlite run.nsys-rep"),
    "run.ncu-rep": (NCU_REPORT.read_bytes, "uv run --with ncu-report lab diagnose run.ncu-rep"),
    "empty.ncu-rep": (lambda: b"", "is empty"),
    "noise.nsys-rep": (lambda: NOISE, "is neither"),
    "stats.csv": (
        lambda: b"Time (%),Total Time (ns),Instances,Name\n50.0,100,1,k\n",
        "nsys stats",
    ),
    "empty.csv": (lambda: b"", "is empty"),
    "details.csv": (DETAILS.read_bytes, "--page raw --csv"),
    "cut.csv": (lambda: cut(PAGE.read_bytes()), "cut off or damaged"),
    "cut_in_a_row.csv": (lambda: page('"0","k","12"', '"1","k"'), "2 of 3 columns"),
    "no_kernel.csv": (page, "holds no kernel"),
    "nothing_profiled.csv": (
        lambda: b"==PROF== Connected\n==WARNING== No kernels were profiled.\n",
        "No kernels were profiled",
    ),
    "other_table.csv": (lambda: b'"ID","Name"\n"",""\n"0","k"\n', "without kernels"),
    "latin.csv": (lambda: page('"0","k","12"').replace(b"k", b"\xe4"), "not UTF-8"),
    "empty.json": (lambda: b"", "is empty"),
    "cut.json": (lambda: cut(trace_text()), "cut off"),
    "cut.json.gz": (lambda: cut(gzip.compress(trace_text())), "does not decompress"),
    "damaged.json.gz": (damaged_gzip, "does not decompress"),
    "noise.json.gz": (lambda: b"\x1f\x8b" + NOISE, "does not decompress"),
    "settings.json": (lambda: b'{"colour": "blue"}', "not a trace of torch.profiler"),
    "events.json": (lambda: b'{"traceEvents": 3}', "no list traceEvents"),
    "array.json": (lambda: b'[{"ph": "X", "ts": 1, "name": "a"}]', "no list traceEvents"),
    "deep.json": (lambda: b'{"traceEvents": [' + b"[" * 100_000, "is no JSON"),
    "host_only.json": (
        lambda: b'{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "a", "ts": 1, "dur": 2}]}',
        "ProfilerActivity.CUDA",
    ),
    "notes.txt": (lambda: b"Hello\n", "is neither"),
    "program": (lambda: b"\x7fELF" + NOISE, "is a program"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_file_that_cannot_be_read_is_one_line(name: str, tmp_path: Path) -> None:
    content, words = BAD[name]
    file = tmp_path / name
    file.write_bytes(content())
    before = file.read_bytes()
    line = complaint(diagnose(name))
    assert words in line
    assert name in line
    assert file.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == [name], "it left files behind"
    assert line == complaint(diagnose(name, "--json"))


def test_what_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    assert "without a capture" in complaint(diagnose("folder"))
    (tmp_path / "folder" / "notes.txt").write_text("hello")
    assert "it has notes.txt" in complaint(diagnose("folder"))
    assert "no such file or capture" in complaint(diagnose("nothing.sqlite"))
    assert "did you mean nsys_baseline" in complaint(diagnose("nsys_baselin"))
    assert "cannot be read" in complaint(diagnose("n" * 300))
    os.mkfifo(tmp_path / "pipe")
    assert "neither a file nor a folder" in complaint(diagnose("pipe"))


def test_no_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("run.sqlite", "run.nsys-rep", "run.ncu-rep", "run.csv", "run.json", "run.json.gz")
    for name in names:
        (tmp_path / name).write_bytes(b"x")
    real = Path.open

    def refuse(self: Path, *arguments: Any, **options: Any) -> object:
        if self.name.startswith("run."):
            raise PermissionError(13, "Permission denied", str(self))
        return real(self, *arguments, **options)

    monkeypatch.setattr(Path, "open", refuse)
    for name in names:
        assert f"{name}: no permission to read it" in complaint(diagnose(name))


def test_texts_have_a_documented_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = " ".join(CliRunner().invoke(lab, ["diagnose", "--help"]).output.split())
    assert f"at most {opening.MOST_TEXT_BYTES // 2**20} MiB of text" in told
    monkeypatch.setattr(opening, "MOST_TEXT_BYTES", 3 * 2**20)
    text = b'{"traceEvents": [' + b" " * (3 * 2**20) + b'{"cat": "kernel"}]}'
    (tmp_path / "plain.json").write_bytes(text)
    (tmp_path / "packed.json.gz").write_bytes(gzip.compress(text))
    for name in ("plain.json", "packed.json.gz"):
        assert "more than 3 MiB of text; record less" in complaint(diagnose(name))
