"""`lab diagnose`: reports are exported, and what belongs to one run is read together."""

from __future__ import annotations

import csv
import gzip
import json
import os
import shutil
import stat
import sys
from pathlib import Path
from typing import ClassVar

import pytest

from profiling_lab.captures import exports, inputs
from tests.harness.cli_diagnose.diagnosing import (
    NCU_REPORT,
    NSYS_REPORT,
    PAGE,
    RANKS,
    TIMELINE,
    complaint,
    cut,
    diagnose,
    rows_of,
    trace_text,
)

# -- whole files ----------------------------------------------------------------------------------

FAKE_NSYS = """#!{python}
# Does as nsys 2025.3 was seen to: silent if all is well, else one line on the error stream and no file.
import pathlib, sys
options = dict(a[2:].split("=", 1) for a in sys.argv[2:] if a.startswith("--"))
assert sys.argv[1] == "export" and options["type"] == "sqlite", sys.argv
report = pathlib.Path(sys.argv[-1])
if report.stat().st_size != {size}:
    sys.exit("Exportation error: Section Table Reference magic number mismatch.")
pathlib.Path(options["output"]).write_bytes(pathlib.Path({timeline!r}).read_bytes())
"""
FAKE_NCU = """#!{python}
# Does as ncu 2025.3 was seen to: the page or what is wrong with the report, on the standard output.
import pathlib, sys
assert sys.argv[1] == "--import" and sys.argv[3:] == ["--page", "raw", "--csv"], sys.argv
if pathlib.Path(sys.argv[2]).stat().st_size != {size}:
    print("==ERROR== Failed to load report file 'run.ncu-rep'.")
    print("==ERROR== The file is not an Nsight Compute profiler report.")
    sys.exit(1)
sys.stdout.write(pathlib.Path({page!r}).read_text())
"""


def install(name: str, program: str, **values: object) -> None:
    file = Path("programs") / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(program.format(python=sys.executable, **values), encoding="utf-8")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)


def findings(*arguments: str) -> list[dict]:
    result = diagnose(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_a_report_of_nsight_systems_is_exported_beside_itself(tmp_path: Path) -> None:
    size = NSYS_REPORT.stat().st_size
    install("nsys", FAKE_NSYS, timeline=str(TIMELINE), size=size)
    shutil.copy(NSYS_REPORT, tmp_path / "run.nsys-rep")
    expected = findings("two_streams")
    assert findings("run.nsys-rep") == expected
    made = tmp_path / "run.sqlite"
    assert made.read_bytes() == TIMELINE.read_bytes()
    (tmp_path / "programs" / "nsys").unlink()
    assert findings("run.nsys-rep") == expected, "what is beside it is used again"
    os.utime(made, ns=(0, 0))
    line = complaint(diagnose("run.nsys-rep"))
    assert "run.sqlite is older than the report" in line
    install("nsys", FAKE_NSYS, timeline=str(TIMELINE), size=size)
    made.write_bytes(b"mine")
    os.utime(made, ns=(0, 0))
    assert findings("run.nsys-rep") == expected
    assert made.read_bytes() == b"mine", "a file that is older is not overwritten"


def test_a_report_of_nsight_compute_becomes_a_raw_page(tmp_path: Path) -> None:
    install("ncu", FAKE_NCU, page=str(PAGE), size=NCU_REPORT.stat().st_size)
    shutil.copy(NCU_REPORT, tmp_path / "run.ncu-rep")
    before = sorted(tmp_path.iterdir())
    assert findings("run.ncu-rep") == findings("ncu_report")
    assert sorted(tmp_path.iterdir()) == before


def test_a_page_that_powershell_wrote_is_read(tmp_path: Path) -> None:
    (tmp_path / "run.csv").write_text(PAGE.read_text(encoding="utf-8"), encoding="utf-16")
    assert findings("run.csv") == findings("ncu_report")


def test_damaged_reports_are_one_line(tmp_path: Path) -> None:
    install("nsys", FAKE_NSYS, timeline=str(TIMELINE), size=NSYS_REPORT.stat().st_size)
    install("ncu", FAKE_NCU, page=str(PAGE), size=NCU_REPORT.stat().st_size)
    (tmp_path / "run.nsys-rep").write_bytes(cut(NSYS_REPORT.read_bytes()))
    (tmp_path / "run.ncu-rep").write_bytes(cut(NCU_REPORT.read_bytes()))
    before = sorted(tmp_path.iterdir())
    assert "magic number mismatch" in complaint(diagnose("run.nsys-rep"))
    assert "not an Nsight Compute profiler report" in complaint(diagnose("run.ncu-rep"))
    assert sorted(tmp_path.iterdir()) == before
    (tmp_path / "programs" / "nsys").write_text("#!/no/such/interpreter\n")
    assert "does not start" in complaint(diagnose("run.nsys-rep"))


class FakeReport:
    """What the package ncu-report gives for a report, from the page that ncu printed of it."""

    NameBase_DEMANGLED = 0
    UNITS: ClassVar = {"Kbyte/block": ("byte/block", 1e3), "us": ("ns", 1e3), "Ghz": ("hz", 1e9)}

    def __init__(self, row: dict[str, str], units: dict[str, str]) -> None:
        self.row, self.units = row, units

    def name(self, base: int) -> str:
        assert base == self.NameBase_DEMANGLED
        return self.row["Kernel Name"]

    def metric_names(self) -> list[str]:
        return [*self.row, "breakdown:sm__throughput.avg", *self._sizes()]

    def metric_by_name(self, name: str) -> FakeReport:
        value = self._sizes().get(name) or self.row[name]
        unit, factor = self.UNITS.get(self.units.get(name, ""), (self.units.get(name, ""), None))
        scaled = float(value) * factor if factor else value
        out = FakeReport({}, {})
        out.value = lambda: None if value == "no data" else scaled  # type: ignore[attr-defined]
        out.unit = lambda: unit  # type: ignore[attr-defined]
        return out

    def _sizes(self) -> dict[str, str]:
        out = {"launch__context_id": "1", "launch__stream_id": "7", "launch__device_id": "0"}
        for what in ("block", "grid"):
            sizes = self.row[f"{what.capitalize()} Size"].strip("()").split(", ")
            out |= {f"launch__{what}_dim_{a}": n for a, n in zip("xyz", sizes, strict=True)}
        return out


def test_without_ncu_the_package_reads_its_reports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a stand-in of the package; `benchmarks` and the guide say how the real one was compared."""
    from types import SimpleNamespace

    header, units, *rows = rows_of(PAGE)
    actions = [
        FakeReport(dict(zip(header, row, strict=True)), dict(zip(header, units, strict=True)))
        for row in rows
    ]
    part = SimpleNamespace(num_actions=lambda: len(actions), action_by_idx=actions.__getitem__)
    whole = SimpleNamespace(num_ranges=lambda: 1, range_by_idx=lambda i: part)
    empty = SimpleNamespace(num_ranges=lambda: 0)
    size = NCU_REPORT.stat().st_size
    package = SimpleNamespace(
        __spec__=True,
        load_report=lambda path: whole if Path(path).stat().st_size == size else empty,
    )
    monkeypatch.setitem(sys.modules, "ncu_report", package)  # type: ignore[arg-type]
    shutil.copy(NCU_REPORT, tmp_path / "run.ncu-rep")
    found, expected = findings("run.ncu-rep"), findings("ncu_report")
    assert [row["category"] for row in found] == [row["category"] for row in expected]
    for row, other in zip(found, expected, strict=True):
        assert row["subject"] == other["subject"]
        assert row["evidence"] == pytest.approx(other["evidence"], rel=1e-3)
    (tmp_path / "cut.ncu-rep").write_bytes(cut(NCU_REPORT.read_bytes()))
    assert "holds no kernel, or is cut off" in complaint(diagnose("cut.ncu-rep"))
    actions.append(SimpleNamespace(metric_names=list))  # as of a report cut off in a kernel
    assert "or is cut off" in complaint(diagnose("run.ncu-rep"))


def test_an_sqlite_file_beside_a_broken_folder_is_exported_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("nsys", FAKE_NSYS, timeline=str(TIMELINE), size=NSYS_REPORT.stat().st_size)
    shutil.copy(NSYS_REPORT, tmp_path / "run.nsys-rep")

    def refuse(source: Path, target: Path) -> None:
        raise PermissionError(13, "Permission denied", str(target))

    monkeypatch.setattr(shutil, "move", refuse)
    made = exports.readable(Path("run.nsys-rep"))
    assert made.name == "run.sqlite"
    assert made.read_bytes() == TIMELINE.read_bytes()
    assert not (tmp_path / "run.sqlite").exists()


# -- together -------------------------------------------------------------------------------------


def kinds(*arguments: str) -> list[list[str]]:
    return [[part.kind for part in run] for run in inputs.runs(inputs.read(arguments))]


def test_what_belongs_to_one_run_is_read_together() -> None:
    assert kinds("nsys_baseline", "ncu_report") == [["timeline", "kernels"]]
    assert kinds("ncu_report", "nsys_baseline") == [["timeline", "kernels"]], "in any order"
    assert kinds("ncu_report", "torch_train_sync", "ncu_memory") == [
        ["trace", "kernels", "kernels"]
    ]
    assert kinds("nsys_baseline", "nsys_improved") == [["timeline"], ["timeline"]]
    assert kinds("nsys_baseline", "nsys_improved", "ncu_report") == [
        ["timeline"],
        ["timeline"],
        ["kernels"],
    ], "of which of the two a page is, nobody says"
    assert kinds("ncu_report", "ncu_memory") == [["kernels"], ["kernels"]]
    assert kinds("nsys_baseline", "nsys_baseline") == [["timeline"]]


def test_traces_of_the_ranks_of_one_job_are_one_capture(tmp_path: Path) -> None:
    for rank in (0, 1):
        packed = (RANKS / f"trace_rank{rank}.json.gz").read_bytes()
        (tmp_path / f"worker{rank}.json.gz").write_bytes(packed)
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "of_rank_1.json").write_bytes(gzip.decompress(packed))
    expected = findings(str(RANKS))
    assert findings("worker1.json.gz", "worker0.json.gz") == expected
    assert findings("plain/of_rank_1.json", "worker0.json.gz") == expected
    assert findings(".") == expected, "a folder that PyTorch wrote to"
    assert kinds("worker1.json.gz") == [["trace"]], "of one rank alone"
    shutil.copy("worker0.json.gz", "again.json.gz")
    assert "a second trace of rank 0" in complaint(diagnose("worker0.json.gz", "again.json.gz"))


def test_each_takes_what_belongs_together_apart(tmp_path: Path) -> None:
    files = ("case_one_thread_a", "case_sum_a")
    together = findings(*files)
    assert together[0]["category"] == "small_grid"
    assert "capture" not in together[0]
    apart = findings(*files, "--each")
    assert [row["capture"] for row in apart] == list(files)
    assert apart[0]["category"] == "healthy"


def test_names_in_a_capture_cannot_steer_the_terminal(tmp_path: Path) -> None:
    evil = "a\x1b[2Jb\u202ec\u0007"
    header, units, *rows = rows_of(PAGE)
    for row in rows:
        row[header.index("Kernel Name")] = f"{evil}({row[header.index('Kernel Name')]})"
    with (tmp_path / "evil.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows([header, units, *rows])
    text = trace_text().decode().replace("ncclDevKernel", f"nccl{json.dumps(evil)[1:-1]}DevKernel")
    (tmp_path / "evil.json").write_text(text, encoding="utf-8")
    name = f"{evil}.csv"
    shutil.copy(tmp_path / "evil.csv", tmp_path / name)
    for arguments in (["evil.csv"], ["evil.json"], [name], [f"{name}x"]):
        output = diagnose(*arguments).output
        assert not any(char in output for char in "\x1b\u202e\u0007"), arguments
