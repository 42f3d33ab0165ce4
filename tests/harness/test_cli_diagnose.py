"""What `lab diagnose` is given: every kind of file, alone and together, whole and broken."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import re
import shutil
import sqlite3
import stat
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest
from click.testing import CliRunner, Result

from grading.checks.generate.drawn_timeline import Timeline
from grading.checks.generate.kineto import Trace
from profiling_lab import captures
from profiling_lab.captures import exports, inputs, opening
from profiling_lab.cli import lab
from profiling_lab.cli.printing import show_finding
from profiling_lab.course import manifest as course
from profiling_lab.course import stubs
from profiling_lab.findings import Finding
from profiling_lab.mine import limits
from profiling_lab.units import format_ns

ROOT = Path(__file__).resolve().parents[2]
CAPTURES = ROOT / "captures"
SOLUTIONS = str(ROOT / "solutions")
TIMELINE = CAPTURES / "two_streams" / "timeline.sqlite"  # a small one
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


# -- what is printed ------------------------------------------------------------------------------


def test_the_second_finding_and_where_to_look() -> None:
    said = diagnose("torch_inference_baseline").stdout
    rows = findings("torch_inference_baseline")
    assert f"  second  {rows[1]['category']}" in said
    assert said.index(rows[0]["category"]) < said.index(f"  second  {rows[1]['category']}")
    with captures.open("torch_inference_baseline") as capture:
        start = capture.span_ns[0]
        copies = capture.copies.filter(capture.copies["kind"].is_in(["H2D", "D2H"]))
        longest = copies.sort("duration_ns").row(-1, named=True)
    place = f"{format_ns(longest['duration_ns'])} at {format_ns(longest['start_ns'] - start)}"
    assert place in " ".join(said.split())
    assert "drawn by: uv run lab report torch_inference_baseline" in said


def test_of_a_healthy_run_nothing_is_to_be_looked_at() -> None:
    said = diagnose("torch_inference_improved").stdout
    assert "healthy" in said
    assert "Where to look" not in said


def test_what_is_everywhere_has_no_place() -> None:
    said = diagnose("case_power_a").stdout
    assert "throttled" in said
    assert "Where to look" not in said


def test_a_healthy_run_is_so_as_far_as_could_be_asked(tmp_path: Path) -> None:
    """Ranks that lack a collective amid others cannot be judged; each device alone looks healthy."""
    shutil.copy(CAPTURES / "ddp_timeline_straggler" / "timeline.sqlite", tmp_path / "run.sqlite")
    with sqlite3.connect(tmp_path / "run.sqlite") as connection:
        connection.execute(
            "DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE rowid = (SELECT k.rowid FROM "
            "CUPTI_ACTIVITY_KIND_KERNEL k JOIN StringIds s ON s.id = k.shortName "
            "WHERE s.value GLOB 'nccl*' ORDER BY k.start DESC LIMIT 1 OFFSET 20)"
        )
    said = diagnose("run.sqlite").stdout
    assert "healthy" in said
    words = "as far as could be judged: not whether ranks wait for each other (see →)"
    assert said.splitlines()[1] == words
    assert "as far as could be asked" not in said
    assert "as far as could be" not in diagnose("two_streams").stdout


def two_steps(folder: Path, gap_ns: int, *, host_ns: int = 10_000, step_ns: int = 1_000_000) -> str:
    """Two steps of two kernels of 250 µs, the second `gap_ns` after the first, launched host_ns later."""
    trace = Trace(folder)
    for number in range(2):
        at = number * step_ns
        trace.step(number, at, at + step_ns)
        trace.kernel(at + 20_000, at + 270_000, call=(at, at + 10_000))
        launch = at + 10_000 + host_ns
        trace.kernel(at + 270_000 + gap_ns, at + 520_000 + gap_ns, call=(launch, launch + 10_000))
    return trace.save()


def test_how_busy_a_trace_is(tmp_path: Path) -> None:
    """Steps of 1 ms in which two kernels of 250 µs run, from 20 µs on; nothing says why one is late."""
    said = " ".join(
        diagnose(two_steps(tmp_path / "late", 400_000, step_ns=1_010_000)).stdout.split()
    )
    assert "healthy" in said
    assert "busy 49.5%, idle 1.02 ms" in said
    said = diagnose(two_steps(tmp_path / "soon", 1_000, step_ns=540_000)).stdout
    assert "healthy" in said
    assert "busy 92.6%, idle 80.0 µs" in said


def test_how_long_a_device_of_a_trace_worked_is_said(tmp_path: Path) -> None:
    """A kernel of 80 µs in a step of 200 µs that starts 100 µs late, or one of 60 µs: all of it counts as idle."""
    for end in (180_000, 160_000):
        trace = Trace(tmp_path / str(end))
        trace.step(1, 0, 200_000)
        trace.kernel(100_000, end, call=(1_000, 3_000))
        said = " ".join(diagnose(trace.save()).stdout.split())
        assert "healthy" in said
        assert f"busy {(end - 100_000) / 2_000:.1f}%, idle {(300_000 - end) / 1_000:.0f} µs" in said


def test_what_the_host_was_in_is_named(tmp_path: Path) -> None:
    """Between the two calls of a step lie 3 ms; what another thread does then is its own business."""
    folder = tmp_path / "host"
    trace = Trace(folder)
    for number, later in ((1, 0), (2, 4_000_000)):
        trace.step(number, later, later + 4_000_000)
        trace.kernel(later + 20_000, later + 270_000, call=(later, later + 10_000))
        begin = later + 20_000 + 10_000 * number  # the first pause is the longer one
        trace.call("cudaGetDevice", later + 11_000, begin)
        trace.kernel(
            later + 3_100_000, later + 3_200_000, call=(later + 3_010_000, later + 3_020_000)
        )
    trace.operator("aten::all_of_it", 30_000, 3_010_000)
    trace.operator("aten::the_most", 100_000, 1_600_000)
    trace.operator("aten::less", 1_600_000, 3_000_000)
    trace.operator("aten::elsewhere", 100_000, 1_599_000, thread=2)
    said = " ".join(diagnose(trace.save()).stdout.split())
    assert "host_bound" in said
    words = "Longest time between CUDA calls: 2.98 ms at 30.0 µs, most of it in aten::the_most"
    assert words in said
    trace.events = [event for event in trace.events if not event["name"].startswith("aten::")]
    said = " ".join(diagnose(trace.save()).stdout.split())
    assert "Longest time between CUDA calls: 2.98 ms at 30.0 µs Longest idle gap" in said
    assert "between CUDA calls" not in diagnose("torch_train_sync").stdout


def test_whether_the_host_worked_or_waited_is_not_recorded(tmp_path: Path) -> None:
    timeline = Timeline(tmp_path / "run.sqlite")
    for at in (0, 1_000_000, 2_000_000):
        timeline.kernel(at + 10_000, at + 110_000, call=(at, at + 5_000))
        timeline.api("none", at + 6_000, at + 7_000)
    said = " ".join(diagnose(timeline.save()).stdout.split())
    assert "host_bound" in said
    assert "whether the host worked between its CUDA calls or waited there" in said
    assert said.count("osrt") == 1, "waits in the operating system are the same question"
    with sqlite3.connect(tmp_path / "run.sqlite") as connection:
        connection.execute(
            "CREATE TABLE OSRT_API (start INT, end INT, nameId INT, globalTid INT, returnValue INT)"
        )
        row = connection.execute(
            "SELECT start, globalTid FROM CUPTI_ACTIVITY_KIND_RUNTIME"
        ).fetchone()
        text = connection.execute("SELECT MIN(id) FROM StringIds").fetchone()[0]
        connection.execute(
            "INSERT INTO OSRT_API VALUES (?, ?, ?, ?, 0)", (row[0], row[0] + 5, text, row[1])
        )
    assert "whether the host worked" not in diagnose("run.sqlite").stdout


def test_a_close_call_says_so() -> None:
    (row,) = findings("copy_overlapped")
    assert row["borderline"] is True
    assert abs(row["evidence"]["margin_ratio"]) < 0.05
    assert "healthy  device:0  borderline" in diagnose("copy_overlapped").stdout
    assert [row["borderline"] for row in findings("nsys_improved")] == [False]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nsys_baseline"], "what limits a single kernel"),
        (["nsys_baseline", "ncu_report"], "why warps wait (ncu --section WarpStateStats)"),
        (["ncu_report"], "how much of the program these kernels are"),
        (["ncu_memory_basic"], "memory traffic (ncu --section MemoryWorkloadAnalysis)"),
        (["torch_train_sync"], "profile_memory=True"),
        ([str(RANKS / "trace_rank0.json.gz")], "the other rank of the job"),
        ([str(RANKS)], "by the clock of another"),
    ],
)
def test_what_cannot_be_seen_is_said(arguments: list[str], words: str) -> None:
    assert words in limits_of(*arguments)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nsys_baseline", "ncu_report"], "what limits a single kernel"),
        (["nsys_baseline", "ncu_report"], "how much of the program these kernels are"),
        (["ncu_memory"], "why warps wait"),
        (["torch_memory_growth"], "profile_memory=True"),
    ],
)
def test_what_can_be_seen_is_not_among_it(arguments: list[str], words: str) -> None:
    assert words not in limits_of(*arguments)


def limits_of(*arguments: str) -> str:
    (run,) = inputs.runs(inputs.read(arguments))
    return "\n".join(limits.of_run(run))


def test_a_timeline_of_one_rank_says_what_it_lacks(tmp_path: Path) -> None:
    words = "whom this rank waits for"
    assert words not in limits_of("ddp_timeline_overlap")
    assert words not in limits_of("two_streams")
    shutil.copy(CAPTURES / "ddp_timeline_overlap" / "timeline.sqlite", tmp_path / "rank0.sqlite")
    with sqlite3.connect(tmp_path / "rank0.sqlite") as connection:
        table = "CUPTI_ACTIVITY_KIND_KERNEL"
        connection.execute(f"DELETE FROM {table} WHERE deviceId = 1")
    assert f"{words} in its collectives, which run alone for " in limits_of("rank0.sqlite")


def test_how_long_collectives_of_one_rank_run_alone_is_said(tmp_path: Path) -> None:
    """10 ms of 20 ms beside a kernel, and a copy beside the rest, which is no computing."""
    trace = Trace(tmp_path / "rank")
    trace.header["distributedInfo"] = {"rank": 0, "world_size": 4, "backend": "nccl"}
    trace.kernel(0, 20_000_000, call=(-2_000_000, -1_000_000))
    all_reduce = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)"
    trace.kernel(10_000_000, 30_000_000, name=all_reduce, call=(-900_000, -800_000))
    trace.copy(20_000_000, 30_000_000, call=(-700_000, -600_000))
    said = limits_of(trace.save())
    assert "the other 3 ranks of the job" in said
    assert "collectives, which run alone for 10.0 ms" in said
    trace.events = [event for event in trace.events if event["name"] != all_reduce]
    assert "collectives" not in limits_of(trace.save())


def test_functions_to_do_are_named_with_their_exercise(tmp_path: Path) -> None:
    """In a tree that holds a stub of Day 1 only: nothing of the references may answer."""
    whole = course.load(ROOT)
    for path, text in stubs.generate(whole, whole.exercise("ex_30")).items():
        file = tmp_path / "mine" / path.relative_to(ROOT)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    result = CliRunner().invoke(
        lab, ["diagnose", "two_streams", "--against", str(tmp_path / "mine")]
    )
    assert result.exit_code == 0, result.output
    said = " ".join(result.stdout.split())
    assert "no finding yet" in said
    assert "still to do in ex_30: busy_time" in said
    assert "lab hint ex_30.busy_time" in said
    assert "kernel_overlap.py" in said, "streams are asked about in an exercise that is not there"
    assert "could be saved" not in said


HALF_DONE = """
def find_window(capture, nvtx_range=None):
    return {window}

def busy_time(capture, nvtx_range=None):
    {busy}

def idle_gaps(capture, nvtx_range=None, min_gap_ns=0):
    raise NotImplementedError
"""


def half_done(folder: Path, busy: str) -> list[str]:
    """What `lab diagnose` prints with two functions of Day 1 written, the last line first."""
    whole = course.load(ROOT)
    file = folder / "mine" / whole.exercise("ex_30").stub
    file.parent.mkdir(parents=True)
    window = captures.open("two_streams").span_ns
    file.write_text(HALF_DONE.format(window=window, busy=busy), encoding="utf-8")
    result = CliRunner().invoke(lab, ["diagnose", "two_streams", "--against", str(folder / "mine")])
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()[::-1]


def test_what_fails_first_is_to_be_mended_first(tmp_path: Path) -> None:
    last = half_done(tmp_path, "return 1 / 0")[0]
    assert last.strip() == "Mend busy_time first: uv run lab check ex_30.busy_time"


HEALTHY = """
from profiling_lab.findings import Finding

def name_bottleneck(capture, nvtx_range=None):
    evidence = {"recoverable_ns": 1, "window_ns": 100, "recoverable_ratio": 0.01, "margin_ratio": -0.09}
    return Finding("healthy", "device:0", evidence, "none")
"""


def test_a_healthy_run_is_so_by_the_functions_that_answered(tmp_path: Path) -> None:
    file = tmp_path / course.load(ROOT).exercise("ex_30").stub
    file.parent.mkdir(parents=True)
    file.write_text(HEALTHY, encoding="utf-8")
    result = CliRunner().invoke(lab, ["diagnose", "two_streams", "--against", str(tmp_path)])
    said = " ".join(result.stdout.split())
    assert "healthy device:0" in said
    assert "as far as could be asked: no answer from find_window, busy_time," in said


def test_a_device_is_not_busy_for_longer_than_the_window(tmp_path: Path) -> None:
    said = " ".join(half_done(tmp_path, "return {0: 10**12}"))
    assert "busy for longer than the window: uv run lab check ex_30.busy_time" in said
    assert "%" not in said


@pytest.mark.parametrize(
    "steps",
    [
        "7",
        "[7]",
        "[{'device': 0, 'step_ns': 5}]",
        "[{'device': 0, 'step_ns': 5, 'busy_ns': 6}]",
        "[{'device': 0, 'step_ns': 0, 'busy_ns': 0}]",
        "1 / 0",
    ],
)
def test_steps_that_cannot_be_are_not_shown(steps: str, tmp_path: Path) -> None:
    file = tmp_path / "mine" / course.load(ROOT).exercise("ex_32").stub
    file.parent.mkdir(parents=True)
    file.write_text(f"def step_breakdown(capture):\n    return {steps}\n", encoding="utf-8")
    arguments = ["diagnose", "torch_train_sync", "--against", str(tmp_path / "mine")]
    result = CliRunner().invoke(lab, arguments)
    assert result.exit_code == 0, result.output
    assert "Where the time went" not in result.stdout
    file.write_text(
        "def step_breakdown(capture):\n    return [{'device': 3, 'step_ns': 50, 'busy_ns': 40}]\n",
        encoding="utf-8",
    )
    assert "busy 80.0%, idle 10 ns" in CliRunner().invoke(lab, arguments).stdout


def test_how_busy_each_rank_is() -> None:
    said = diagnose(str(RANKS)).stdout
    lines = [line.split()[:4] for line in said.splitlines() if "busy" in line and "idle" in line]
    assert lines == [["rank", f"{rank},", "device", str(rank)] for rank in range(2)]


@pytest.mark.parametrize("has", [True, False])
def test_the_references_are_named_where_they_are(
    has: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(ROOT / "course.toml", tmp_path / "course.toml")
    if has:
        (tmp_path / "solutions").mkdir()
    said = half_done(tmp_path, "return {0: 5}")
    assert any("Write idle_gaps next: uv run lab hint ex_30.idle_gaps" in line for line in said)
    assert any("--against solutions" in line for line in said) is has


@pytest.mark.parametrize("columns", [80, 120])
def test_lines_fit_the_screen(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    for arguments in (["nsys_baseline"], ["ncu_shared"]):
        lines = diagnose(*arguments).stdout.splitlines()
        assert all(len(line) <= columns for line in lines)
        assert not any("\x1b" in line for line in lines), "no colours where there is no terminal"


def test_of_a_range_it_is_said_that_ranks_were_not_compared() -> None:
    result = diagnose("ddp_timeline_straggler", "--range", "rank 0")
    assert result.exit_code == 0
    said = " ".join(result.stdout.split())
    assert "as far as could be judged: not whether ranks wait for each other" in said
    assert "cannot be judged in a range: ask without --range" in said
    [row, *_] = json.loads(diagnose("ddp_timeline_straggler", "--range", "rank 0", "--json").stdout)
    assert "cannot be judged in a range" in row["recommendation"]
    assert "cannot be judged" not in diagnose("ddp_timeline_straggler").stdout


def test_what_evidence_is_called_can_be_read() -> None:
    for name in ("torch_inference_baseline", "ncu_memory"):
        said = diagnose(name).stdout
        assert not re.search("margin ratio|ceiling ratio|unjudged count|from the floor", said)
    assert "of the window" in diagnose("torch_inference_baseline").stdout


def test_a_count_of_zero_is_shown_where_it_says_something(
    capsys: pytest.CaptureFixture[str],
) -> None:
    evidence = {"growth_bytes": 512, "steps_left_count": 0, "unjudged_count": 0}
    show_finding(Finding("memory_growth", "device:0", evidence, "detach"))
    said = " ".join(capsys.readouterr().out.split())
    assert "steps until memory is full 0" in said
    assert "causes not judged" not in said
