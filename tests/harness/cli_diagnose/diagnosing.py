"""`lab diagnose`, run, and the files that it is given."""

from __future__ import annotations

import csv
import gzip
import io
from pathlib import Path

from click.testing import CliRunner, Result

from profiling_lab.cli import lab

ROOT = Path(__file__).resolve().parents[3]

CAPTURES = ROOT / "captures"
SOLUTIONS = str(ROOT / "solutions")
TIMELINE = CAPTURES / "two_streams" / "timeline.sqlite"  # a small one
NSYS_REPORT = CAPTURES / "nsys_baseline" / "timeline.nsys-rep"
NCU_REPORT = CAPTURES / "ncu_report" / "kernels.ncu-rep"
PAGE = CAPTURES / "ncu_report" / "kernels.csv"
DETAILS = CAPTURES / "ncu_report" / "details.csv"
RANKS = CAPTURES / "ddp_traces_overlap"


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


def page(*rows: str) -> bytes:
    return "\n".join(['"ID","Kernel Name","gpu__time_duration.sum"', '"","","ns"', *rows]).encode()


def rows_of(file: Path) -> list[list[str]]:
    return list(csv.reader(io.StringIO(file.read_text(encoding="utf-8"))))
