"""`lab diagnose` with functions of one's own, and `lab report` of counters."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from profiling_lab.course import manifest, stubs
from tests.harness.cli.small_course import ROOT, SOLUTIONS, Lab, one_line


def test_diagnose_with_the_reference(outside: Lab, scenario: Callable[..., Path]) -> None:
    result = outside("diagnose", str(scenario("sync_bound")), "--against", SOLUTIONS)
    assert result.exit_code == 0, result.output
    for words in ("sync_bound", "Where the time went", "Largest gaps", "What would be saved"):
        assert words in result.stdout
    assert all(len(line) <= 80 for line in result.stdout.splitlines())
    assert "\x1b" not in result.stdout


def test_diagnose_json_is_a_list_of_findings(outside: Lab, scenario: Callable[..., Path]) -> None:
    files = [str(scenario("sync_bound")), str(scenario("healthy"))]
    one = json.loads(outside("diagnose", files[0], "--json", "--against", SOLUTIONS).stdout)
    keys = {"category", "subject", "evidence", "recommendation", "borderline"}
    assert all(set(row) == keys for row in one)
    assert one[0]["category"] == "sync_bound"
    two = json.loads(outside("diagnose", *files, "--json", "--against", SOLUTIONS).stdout)
    first = {row["capture"]: row["category"] for row in reversed(two)}
    assert first == {Path(files[0]).stem: "sync_bound", Path(files[1]).stem: "healthy"}


def test_diagnose_fails_on_a_category(outside: Lab, scenario: Callable[..., Path]) -> None:
    file = str(scenario("sync_bound"))
    arguments = ["diagnose", file, "--json", "--against", SOLUTIONS, "--fail-on"]
    hit = outside(*arguments, "launch_bound,sync_bound")
    assert "is sync_bound" in one_line(hit, code=1)
    assert json.loads(hit.stdout)
    assert outside(*arguments, "transfer_bound").exit_code == 0
    assert "did you mean sync_bound?" in one_line(outside(*arguments, "syncbound"))


def test_diagnose_looks_at_one_range(outside: Lab, scenario: Callable[..., Path]) -> None:
    file = str(scenario("nested_gaps"))
    arguments = ["diagnose", file, "--against", SOLUTIONS, "--range"]
    assert "no_such_range" in one_line(outside(*arguments, "no_such_range"))


def test_diagnose_shows_several_devices(outside: Lab, scenario: Callable[..., Path]) -> None:
    result = outside("diagnose", str(scenario("two_devices")), "--against", SOLUTIONS)
    assert result.exit_code == 0, result.output
    assert "device 0" in result.stdout
    assert "device 1" in result.stdout


def test_diagnose_names_what_is_still_to_do(
    outside: Lab, scenario: Callable[..., Path], tmp_path: Path
) -> None:
    stub = tmp_path / "mine.py"
    stub.write_text(
        "def find_window(capture, nvtx_range=None):\n    return 0, 10**9\n\n\n"
        "def busy_time(capture, nvtx_range=None):\n    return 'much'\n\n\n"
        "def idle_gaps(capture, nvtx_range=None, min_gap_ns=0):\n    return 1 / 0\n\n\n"
        "def recoverable_time(capture, nvtx_range=None):\n    raise NotImplementedError\n\n\n"
        "def name_bottleneck(capture, nvtx_range=None):\n    return recoverable_time(capture)\n"
    )
    file = str(scenario("healthy"))
    result = outside("diagnose", file, "--against", str(stub))
    assert result.exit_code == 0, result.output
    said = " ".join(result.stdout.split())
    assert "busy_time returned 'much', not a dictionary" in said
    assert "idle_gaps raised ZeroDivisionError: division by zero (mine.py, line 10)" in said
    assert "still to do: recoverable_time, name_bottleneck" in said
    assert "window 1.00 s" in said
    assert "no finding" in one_line(outside("diagnose", file, "--against", str(stub), "--json"))
    assert "cannot judge" in one_line(
        outside("diagnose", file, "--against", str(stub), "--fail-on", "sync_bound")
    )


@pytest.mark.parametrize(
    ("capture", "asks_modules"),
    [("torch_inference_baseline", False), ("torch_inference_improved", True)],
)
def test_once_a_cause_is_named_only_the_further_functions_of_the_day_are_left(
    outside: Lab, capture: str, asks_modules: bool, tmp_path: Path
) -> None:
    whole = manifest.load(ROOT)
    day, module = whole.exercise("ex_30"), whole.exercise("energy_ex01")
    todo = "\n\ndef {}(*_):\n    raise NotImplementedError\n"
    names = [task.name for task in day.tasks if task.further and not task.is_cuda]
    solved = (ROOT / "solutions" / day.stub).read_text(encoding="utf-8")
    for path, text in (
        (day.stub, solved + "".join(map(todo.format, names))),
        (module.stub, stubs.generate(whole, module)[ROOT / module.stub]),
    ):
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    result = outside("diagnose", capture, "--against", str(tmp_path))
    assert result.exit_code == 0, result.output
    said = " ".join(result.stdout.split())
    assert "still to do in ex_30: missed_overlap (further), profiler_overhead (further)" in said
    assert "next: uv run lab hint" not in said
    assert "no answer from missed_overlap" not in said
    assert ("energy_ex01: clock_verdict (further)" in said) is asks_modules


FINDS = """
def unit_use(kernel):
    return {"dram": 0.93 if kernel["name"] == "copy" else 0.2, "l1": None}


def estimate_gain(kernel, cause):
    return 2.0 if (kernel["name"], cause) == ("turn", "bank_conflicts") else 1.0


def classify_kernel(kernel):
    return "memory_bound" if kernel["name"] == "copy" else "bank_conflicts"


def name_trace_bottleneck(capture):
    raise NotImplementedError
"""


def test_diagnose_tells_kernels_and_traces_by_their_content(outside: Lab, tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text(FINDS)
    kernels = tmp_path / "run.csv"
    counters = ("gpu__time_duration.sum", "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed")
    where = ("ID", "Kernel Name", "Block Size", "Grid Size", "CC")
    rows = ["==PROF== Connected", ",".join((*where, *counters)), ",,,,,us,%"]
    rows += [f'0,{name},"(256, 1, 1)","(9, 1, 1)",9.0,10,93' for name in ("copy", "turn")]
    kernels.write_text("\n".join(rows))
    result = outside("diagnose", str(kernels), "--against", str(mine))
    assert result.exit_code == 0, result.output
    for words in ("memory_bound  kernel:copy", "93.0%", "bank_conflicts  kernel:turn", "→ pad"):
        assert words in result.stdout
    found = json.loads(outside("diagnose", str(kernels), "--json", "--against", str(mine)).stdout)
    assert [row["subject"] for row in found] == ["kernel:turn", "kernel:copy"], "the main one first"
    trace = tmp_path / "run.json.gz"
    trace.write_bytes(gzip.compress(b'{"traceEvents": [{"cat": "kernel"}]}'))
    told = outside("diagnose", str(trace), "--against", str(mine))
    assert told.exit_code == 0, told.output
    assert "still to do: name_trace_bottleneck" in told.stdout
    assert "no finding" in one_line(
        outside("diagnose", str(trace), "--against", str(mine), "--json")
    )
    other = tmp_path / "notes.txt"
    other.write_text("hello\n")
    assert "neither" in one_line(outside("diagnose", str(other), "--against", str(mine)))


def test_report_draws_counters_as_a_roofline(outside: Lab, tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text(
        "def roofline_points(capture):\n"
        "    return [{'name': 'a <b>', 'intensity': 0.25, 'rate_flops_per_s': 1e12,\n"
        "             'flops_source': 'counters'},\n"
        "            {'name': 'unknown', 'intensity': None, 'rate_flops_per_s': None}]\n"
    )
    counters = tmp_path / "counted" / "counters.json"
    counters.parent.mkdir()
    kernels = [{"name": "a <b>", "dtype": "float32"}, {"name": "unknown", "dtype": None}]
    counters.write_text(json.dumps({"format": 1, "device": "NVIDIA H200", "kernels": kernels}))
    page = tmp_path / "page.html"
    result = outside("report", str(counters.parent), "--against", str(mine), "-o", str(page))
    assert result.exit_code == 0, result.output
    text = page.read_text()
    assert "a &lt;b&gt;" in text and "a <b>" not in text
    assert "Not placed, for want of a count or a peak: unknown" in text
    told = outside("diagnose", str(counters.parent), "--against", str(mine))
    assert "report" in one_line(told)


def test_outside_a_course_the_engine_answers_and_ones_own_functions_are_missed(
    outside: Lab, scenario: Callable[..., Path]
) -> None:
    path = str(scenario("healthy"))
    told = json.loads(outside("diagnose", path, "--json").stdout)
    assert told["findings"][0]["category"] == "healthy" and told["file"] == Path(path).stem
    assert "--against PATH" in one_line(outside("diagnose", path, "--mine"))
    assert "no such folder" in one_line(outside("diagnose", path, "--against", "nowhere"))


def test_functions_that_cannot_be_imported(
    outside: Lab, scenario: Callable[..., Path], tmp_path: Path
) -> None:
    for text, words in (
        ("def busy_time(:\n", "line 1"),
        ("x = 1\nimport no_such_module_here\n", "line 2: ModuleNotFoundError at import"),
        ("raise SystemExit(3)\n", "SystemExit at import"),
    ):
        file = tmp_path / "mine.py"
        file.write_text(text)
        line = one_line(outside("diagnose", str(scenario("healthy")), "--against", str(file)))
        assert words in line
