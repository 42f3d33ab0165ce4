"""`lab diagnose`: what is printed of findings, of how busy devices are, and of what cannot be seen."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
from pathlib import Path

import pytest
from click.testing import CliRunner

from grading.checks.generate.drawn_timeline import Timeline
from grading.checks.generate.kineto import Trace
from profiling_lab import captures
from profiling_lab.captures import inputs
from profiling_lab.cli import lab
from profiling_lab.cli.printing import show_finding
from profiling_lab.course import manifest as course
from profiling_lab.course import stubs
from profiling_lab.findings import Finding
from profiling_lab.mine import limits
from profiling_lab.units import format_ns
from tests.harness.cli_diagnose.diagnosing import CAPTURES, RANKS, diagnose
from tests.harness.cli_diagnose.test_whole_files import findings

ROOT = Path(__file__).resolve().parents[3]


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
    assert "name_bottleneck, missed_overlap (further)" in said, "the core first"
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


def test_both_verdicts_on_each_kernel(tmp_path: Path) -> None:
    """With Day 2 alone: a row for each kernel, and no word of the order, which kernels alone have without it."""
    for exercise, source in (("ex_31", ROOT / "solutions"), ("case_files", ROOT)):
        stub = course.load(ROOT).exercise(exercise).stub
        (tmp_path / stub).parent.mkdir(parents=True)
        shutil.copy(source / stub, tmp_path / stub)
    arguments = ["diagnose", "ncu_shared", "--mine", "--against", str(tmp_path)]
    result = CliRunner().invoke(lab, arguments)
    rows = [line.split() for line in result.stdout.splitlines() if line.endswith("×")]
    assert ["transpose_direct", "uncoalesced_access", "uncoalesced_access", "4.50×"] in rows
    assert ["transpose_tile33", "memory_bound", "memory_bound", "1.02×"] in rows
    assert len(rows) == len(findings("ncu_shared"))
    assert "diagnose_run" not in result.stdout


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
