"""What the sections of a report are made of: ranks, kernels, memory, places; and progress."""

from __future__ import annotations

import fnmatch
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from click.testing import CliRunner

from grading.checks.generate.drawn_timeline import Timeline
from profiling_lab import captures
from profiling_lab.analysis import kernel_page, kernel_roof
from profiling_lab.captures import inputs
from profiling_lab.cli import lab
from profiling_lab.course import manifest as course
from profiling_lab.course import progress
from profiling_lab.course.progress import Verdict
from profiling_lab.diagnosis import engine
from profiling_lab.findings import Finding
from profiling_lab.mine import functions
from profiling_lab.reports import (
    CaptureSection,
    Lane,
    MetricSeries,
    builder,
    from_verdict,
    section_from_capture,
)
from profiling_lab.reports.page import render_report
from profiling_lab.reports.places import places_of
from profiling_lab.reports.progress import CHECKLIST, render_progress, steps

ROOT = Path(__file__).resolve().parents[2]


class Text(HTMLParser):
    """The words of a page, and its elements with an id."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.inside = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.inside = tag
        self.ids |= {given["id"] or ""} if "id" in given else set()
        self.links += [given["href"] or ""] if tag == "a" else []

    def handle_data(self, data: str) -> None:
        if self.inside not in ("script", "style"):
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


# -- places ---------------------------------------------------------------------------------------


def drawn() -> CaptureSection:
    """A host lane of calls and one of operators, two devices, gaps, memory."""
    calls = Lane(
        "Host", "CUDA calls", [10, 30, 60], [20, 50, 65],
        ["cudaMalloc", "cudaStreamSynchronize", "cudaMallocHost"], ["api", "wait", "api"],
    )  # fmt: skip
    code = Lane(
        "Host", "Operators", [0, 55], [5, 58], ["_compile.compile_inner", "aten::compiled_mm"],
        ["operator", "operator"],
    )  # fmt: skip
    devices = [
        Lane(
            f"GPU {device}", "Stream 7", [0, 20, 40], [15 + device, 30, 41 + device],
            ["ncclDevKernel_AllReduce", "Copy, host to device", "gemm"],
            ["collective", "copy_in", "kernel"], ["", "", f"gemm<{device}>"],
            key="stream:7", device=device, rank=str(device),
        )
        for device in (0, 1)
    ]  # fmt: skip
    return CaptureSection(
        "run",
        window_ns=(0, 100),
        lanes=[calls, code, *devices],
        gaps=[(50, 60), {"device": 1, "start_ns": 60, "end_ns": 90}],
        metrics=[MetricSeries("GPU 0", "In use", [0], [1], "bytes", 1, True, "memory")],
    )


@pytest.mark.parametrize(
    ("category", "subject", "expected"),
    [
        ("sync_bound", "device:0", [(30, 50, 0), (50, 60, None)]),
        ("sync_bound", "device:1", [(30, 50, 0), (60, 90, None)]),
        ("allocation_bound", "device:0", [(10, 20, 0), (50, 60, None)]),
        ("transfer_bound", "device:1", [(20, 30, 3), (60, 90, None)]),
        ("launch_bound", "device:1", [(60, 90, None)]),
        ("recompilation", "device:0", [(0, 5, 1), (50, 60, None)]),
        ("communication_bound", "device:0", [(0, 15, 2)]),
        ("communication_bound", "rank:1", [(0, 16, 3)]),
        # The rank that is late waits least: another one shows it.
        ("rank_imbalance", "rank:0", [(0, 16, 3)]),
        ("memory_growth", "device:0", [(0, 100, None)]),
        ("latency_bound", "kernel:gemm<1>", [(40, 42, 3)]),
        ("latency_bound", "kernel:gemm", [(40, 42, 3)]),
        ("latency_bound", "kernel:another", []),
        ("serialized_streams", "device:0", [(0, 100, 2)]),
        ("healthy", "rank:7", []),
    ],
)
def test_places_of_findings(category: str, subject: str, expected: list[tuple]) -> None:
    found = places_of(drawn(), Finding(category, subject))
    assert [(place.start_ns, place.end_ns, place.lane) for place in found] == expected


def test_places_say_what_is_there() -> None:
    labels = [place.label for place in places_of(drawn(), Finding("sync_bound", "device:1"))]
    assert labels == [
        "Longest wait of the host: cudaStreamSynchronize",
        "Longest idle gap of GPU 1",
    ]
    assert not places_of(CaptureSection("page of kernels"), Finding("sync_bound", "device:0"))


# -- pages of kernels ------------------------------------------------------------------------------


def test_kernels_as_a_section(tmp_path: Path) -> None:
    (part,) = inputs.read(["ncu_roofline"])
    verdict = engine.judge([part])
    (made,) = from_verdict.sections(verdict, [part])
    [table] = made.tables
    assert len(table.rows) == len(verdict.kernels)
    said = {subject: row[1] for subject, row in zip(table.subjects, table.rows, strict=True)}
    for finding in verdict.findings:
        assert finding.category.replace("_", " ") in said[finding.subject]
    assert not any("(" in row[0] for row in table.rows), "a name is the whole signature"
    lengths = [row[table.columns.index(("Duration", "ns"))] for row in table.rows]
    assert lengths == sorted(lengths, reverse=True), "the longest is not the first"
    page = Text(render_report([made], title="A"))
    targets = [link[1:] for link in page.links if link != "#findings"]
    assert len(set(targets)) >= len(made.findings) and set(targets) <= page.ids, "leads nowhere"
    assert any(target.startswith("point-") for target in targets)
    caption, drawing = made.drawings[0]
    assert "tensor cores" in caption and "(float *" not in drawing and "(const" not in drawing, (
        "a label is the whole signature"
    )


def test_a_run_and_its_kernels_are_one_verdict_on_two_sections() -> None:
    run = inputs.read(["case_one_thread_a", "case_sum_a"])
    verdict = engine.judge(run)
    whole, kernels = from_verdict.sections(verdict, run)
    assert whole.claim and not kernels.claim
    assert list(whole.findings) == verdict.findings
    assert {f.subject.partition(":")[0] for f in kernels.findings} <= {"kernel"}


def test_a_kernel_stands_where_the_reference_puts_it() -> None:
    file = ROOT / "solutions" / course.load(ROOT).exercise("ncu_ex03").stub
    reference = functions.load_file(file)
    (part,) = inputs.read(["ncu_roofline"])
    compared = 0
    for kernel in kernel_page.read(part.path):
        place = kernel_roof.of(kernel)
        metrics = {name: kernel.get(name) for name in kernel.metrics}
        told = reference.under_the_roofs({"name": kernel.name, "metrics": metrics})
        if place is None:
            assert not told["flops_per_s"] or not told["intensity"]["dram"]
            continue
        above = reference.roofs_of({"name": kernel.name, "metrics": metrics})
        assert place.dtype == told["dtype"]
        assert place.flops_per_s == pytest.approx(told["flops_per_s"])
        assert place.intensity == pytest.approx(told["intensity"]["dram"])
        assert place.roof_bytes_per_s == pytest.approx(above["dram"])
        assert place.roof_flops_per_s == pytest.approx(above[place.dtype])
        compared += 1
    assert compared > 2


# -- timelines -------------------------------------------------------------------------------------


def test_memory_and_calls_of_a_recording() -> None:
    with captures.open("alloc_every_step") as capture:
        made = section_from_capture(capture, window_ns=capture.span_ns)
    [series] = [one for one in made.metrics if one.key == "memory"]
    assert min(series.values) == 0 and max(series.values) == series.maximum > 0
    events = capture.memory_events
    inside = events.filter(
        (events["start_ns"] >= made.window_ns[0]) & (events["start_ns"] < made.window_ns[1])
    )
    assert series.values[-1] - series.values[0] == inside["bytes"].sum()
    tables = {(table.topic, table.title): table for table in made.tables}
    assert tables["Memory", "Over the window"].rows[0][2] == series.maximum
    copies = tables["Memory", "Copies"].rows
    assert sum(row[2] for row in copies) == capture.copies["bytes"].sum()
    kernels = tables["Kernels", "By total time"]
    longest = kernels.places[0]
    assert longest is not None and longest.lane is not None
    lane = made.lanes[longest.lane]
    assert (longest.start_ns, longest.end_ns) in set(zip(lane.start_ns, lane.end_ns, strict=True))
    with captures.open("host_prefetch") as capture:
        made = section_from_capture(capture, window_ns=capture.span_ns)
    calls = [lane for lane in made.lanes if lane.key == "os"]
    assert calls and {kind for lane in calls for kind in lane.kinds} == {"os"}


def test_a_lane_of_too_many_is_thinned(monkeypatch: pytest.MonkeyPatch) -> None:
    import polars as pl

    monkeypatch.setattr(builder, "MOST_IN_LANE", 1_000)
    monkeypatch.setattr(builder, "SMALLEST_PARTS", 100)
    count, step = 5_000, 20
    starts = [step * at for at in range(count)]
    ends = [start + (step * 300 if start == 50_000 else 10) for start in starts]
    rows = pl.DataFrame(
        {"start_ns": starts, "end_ns": ends, "name": [f"k{at}" for at in range(count)]}
    ).with_columns(kind=pl.lit("kernel"))
    thinned = builder._thinned(rows, (0, step * count))
    assert thinned.height <= 102 and thinned["start_ns"].is_sorted()
    assert "k2500" in thinned["name"].to_list(), "the long one is gone"
    said = [re.match(r"([\d,]+) short operations", name) for name in thinned["name"]]
    told = sum(int(one[1].replace(",", "")) if one else 1 for one in said)
    assert told == count, "operations are lost"
    assert thinned["start_ns"].min() == 0 and thinned["end_ns"].max() == max(ends)
    lane = builder.lane("GPU 0", "Stream 7", rows, (0, step * count), key="stream:7")
    [fact] = builder._thinned_facts([lane])
    assert "GPU 0, Stream 7" in fact.value and "--range" in fact.value
    few = rows.head(1_000)
    assert builder._thinned(few, (0, step * count)).equals(few)


# -- progress --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def known() -> course.Course:
    return course.load(ROOT)


def todo(known: course.Course) -> dict[str, Verdict]:
    return dict.fromkeys(known.tasks, Verdict("todo"))


@pytest.mark.concerns()
def test_the_checklist_is_the_weeks(known: course.Course) -> None:
    readme = (ROOT / "week07/README.md").read_text(encoding="utf-8")
    assert [text for text, _ in CHECKLIST] == re.findall(r"^- \[ \] (.+)$", readme, re.MULTILINE)
    for text, tasks in CHECKLIST:
        assert tasks and all(fnmatch.filter(known.tasks, task) for task in tasks), text


def test_progress_page(known: course.Course) -> None:
    verdicts = todo(known)
    live = next(task for task in known.tasks.values() if task.live)
    for task in ("ex_30.nsys_command", "ex_30.utilization", live.id):
        verdicts[task] = Verdict("passed")
    verdicts["ex_31.choose_counters"] = Verdict("failed", "said <b>no</b>\x1b[31m")
    following = steps(known, verdicts, {"linux"})
    page = render_progress(known, verdicts, following)
    text = Text(page).text
    earned = sum(known.tasks[task].points for task in ("ex_30.nsys_command", "ex_30.utilization"))
    possible = sum(task.points for task in known.tasks.values() if task.core)
    assert f"{earned} of {possible:,}" in text
    assert f"{live.points} of " in text and "points of live checks" in text
    assert "Done: I can record a program with Nsight Systems" in text
    assert "Open: I can analyse a kernel with Nsight Compute." in text
    assert "0 of 3 tasks; open: ex_30.busy_time, ex_30.idle_gaps, ex_30.recoverable_time" in text
    assert "uv run lab check ex_31.choose_counters" in text
    assert "said <b>no</b>\ufffd[31m" in text and "\x1b" not in page
    for exercise in known.exercises:
        assert exercise.id in text
    assert all(task.title in text for task in known.tasks.values())


def test_next_steps(known: course.Course) -> None:
    verdicts = todo(known)
    ids = [step.task.id for step in steps(known, verdicts, ())]
    assert ids == ["ex_30.busy_time", "ex_30.utilization", "ex_30.blocking_time"]
    verdicts["ex_33.matmul_cost"] = Verdict("unchecked")
    verdicts["ex_30.blocking_time"] = Verdict("passed")
    first, second, _ = steps(known, verdicts, ())
    assert (first.task.id, second.task.id) == ("ex_33.matmul_cost", "ex_30.busy_time")
    assert (ROOT / first.lesson).is_file() and (ROOT / first.stub).is_file()
    needy = replace(known.tasks["ex_30.busy_time"], needs=frozenset({"gpu"}))
    known.tasks["ex_30.busy_time"] = needy
    try:
        assert steps(known, verdicts, ())[1].task.id == "ex_30.utilization"
        assert steps(known, verdicts, {"gpu"})[1].task.id == "ex_30.busy_time"
        further = known.tasks["ex_30.missed_overlap"]
        assert further.further and further.id not in ids
        rest = [step.task for step in steps(known, verdicts, {"gpu"}, 10**6)[1:]]
        assert (
            sorted(rest, key=lambda task: task.further) == rest
        )  # further ones when the core is done
    finally:
        known.tasks["ex_30.busy_time"] = replace(needy, needs=frozenset())
    done = dict.fromkeys(known.tasks, Verdict("passed"))
    assert steps(known, done, ()) == []
    assert "uv run lab submit" in Text(render_progress(known, done, [])).text


def test_the_command_writes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "verdicts", todo)
    page = tmp_path / "progress.html"
    run = CliRunner().invoke(lab, ["report", "--progress", "-o", str(page)])
    assert run.exit_code == 0, run.output
    assert "The week’s checklist" in page.read_text(encoding="utf-8")
    for wrong in (["report"], ["report", "--progress", "two_streams"]):
        run = CliRunner().invoke(lab, wrong)
        assert run.exit_code == 2 and "--progress" in run.output


def test_kernels_tell_their_shape_and_share_a_number_with_their_call(tmp_path: Path) -> None:
    drawn = Timeline(tmp_path / "two.sqlite")
    for process in (1, 2):  # correlation ids are unique in a process only
        start = 10_000 * process
        drawn.kernel(start, start + 500, call=(1_000, 2_000), process=process, correlation=5)
    drawn.api("cudaDeviceSynchronize", 30_000, 31_000)
    recording = captures.open(drawn.save())
    lanes = section_from_capture(recording, window_ns=(0, 40_000)).lanes
    told = [
        (lane.device is not None, name, number)
        for lane in lanes
        for name, number in zip(lane.names, lane.launches or [0] * len(lane.names), strict=True)
    ]
    kernels = {number for on_device, _, number in told if on_device}
    calls = {number for on_device, name, number in told if not on_device and "Launch" in name}
    assert kernels == calls and len(kernels) == 2 and 0 not in kernels
    assert {number for _, name, number in told if "Synchronize" in name} == {0}
    (shape,) = {shape for lane in lanes for shape in lane.shapes}
    assert shape.startswith("grid 1 × 1 × 1, block 1 × 1 × 1, ")
