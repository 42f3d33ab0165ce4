"""What `lab diagnose` is given: every kind of file, alone and together, whole and broken."""

from __future__ import annotations

import csv
import gzip
import io
import os
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from profiling_lab import captures
from profiling_lab.cli import lab

ROOT = Path(__file__).resolve().parents[2]
CAPTURES = ROOT / "captures"
SOLUTIONS = str(ROOT / "solutions")
TIMELINE = CAPTURES / "nsys_baseline" / "timeline.sqlite"
NSYS_REPORT = CAPTURES / "nsys_baseline" / "timeline.nsys-rep"
NCU_REPORT = CAPTURES / "ncu_report" / "kernels.ncu-rep"
PAGE = CAPTURES / "ncu_report" / "kernels.csv"
DETAILS = CAPTURES / "ncu_report" / "details.csv"
RANKS = CAPTURES / "ddp_traces_overlap"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of one's own, in which neither nsys, nor ncu, nor ncu-report is installed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LAB_CAPTURES", str(CAPTURES))
    monkeypatch.setenv("PATH", str(tmp_path / "programs"))
    monkeypatch.setattr("profiling_lab.record.tools.NSYS_PLACES", ())
    monkeypatch.setattr("profiling_lab.record.tools.NCU_PLACES", ())
    monkeypatch.setitem(sys.modules, "ncu_report", None)
    return tmp_path


def diagnose(*arguments: str) -> Result:
    return CliRunner().invoke(lab, ["diagnose", *arguments, "--against", SOLUTIONS])


def complaint(result: Result) -> str:
    """The one line of an error, of a command that printed nothing else and left nothing behind."""
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    assert result.stdout == ""
    (line,) = result.stderr.strip().splitlines()
    assert line.startswith("lab: ")
    return line


def trace_text() -> bytes:
    return gzip.decompress((RANKS / "trace_rank0.json.gz").read_bytes())


def cut(data: bytes) -> bytes:
    return data[: len(data) * 3 // 4]


def damaged_gzip() -> bytes:
    data = bytearray(gzip.compress(trace_text()))
    data[len(data) // 2] ^= 0xFF
    return bytes(data)


def page(*rows: str) -> bytes:
    return "\n".join(['"ID","Kernel Name","gpu__time_duration.sum"', '"","","ns"', *rows]).encode()


def rows_of(file: Path) -> list[list[str]]:
    return list(csv.reader(io.StringIO(file.read_text(encoding="utf-8"))))


NOISE = zlib.compress(bytes(range(256)) * 40)[2:] + bytes(range(256))
# name of the file: (what is in it, words of the message).
BAD: dict[str, tuple[Callable[[], bytes], str]] = {
    "empty.sqlite": (lambda: b"", "is empty"),
    "cut.sqlite": (lambda: cut(TIMELINE.read_bytes()), "truncated"),
    "noise.sqlite": (lambda: NOISE, "is neither"),
    "noise_behind_a_header.sqlite": (lambda: TIMELINE.read_bytes()[:16] + NOISE, "truncated"),
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
    assert "cannot be read" in complaint(diagnose("n" * 5000))
    os.mkfifo(tmp_path / "pipe")
    assert "neither a file nor a folder" in complaint(diagnose("pipe"))


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may read everything")
def test_no_permission(tmp_path: Path) -> None:
    for name in ("run.sqlite", "run.json", "run.csv", "run.ncu-rep"):
        (tmp_path / name).write_bytes(b"x")
        (tmp_path / name).chmod(0)
        assert "no permission" in complaint(diagnose(name))


def test_texts_have_a_documented_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = " ".join(CliRunner().invoke(lab, ["diagnose", "--help"]).output.split())
    assert f"at most {captures.MOST_TEXT_BYTES // 2**20} MiB of text" in told
    monkeypatch.setattr(captures, "MOST_TEXT_BYTES", 3 * 2**20)
    text = b'{"traceEvents": [' + b" " * (3 * 2**20) + b'{"cat": "kernel"}]}'
    (tmp_path / "plain.json").write_bytes(text)
    (tmp_path / "packed.json.gz").write_bytes(gzip.compress(text))
    for name in ("plain.json", "packed.json.gz"):
        assert "more than 3 MiB of text; record less" in complaint(diagnose(name))
