"""What the sections of a report are made of: traces, ranks, kernels, memory, places; and progress."""

from __future__ import annotations

import fnmatch
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from grading.checks.generate.drawn_timeline import Timeline
from profiling_lab import captures
from profiling_lab.captures import Kind, Part
from profiling_lab.cli import lab
from profiling_lab.cli.pages import section_without_timeline
from profiling_lab.course import manifest as course
from profiling_lab.course import progress
from profiling_lab.course.progress import Verdict
from profiling_lab.findings import Finding
from profiling_lab.reports import (
    CaptureSection,
    Lane,
    MetricSeries,
    builder,
    section_from_capture,
    traces,
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


# -- traces ---------------------------------------------------------------------------------------


def event(kind: str, name: str, start: int, end: int, **more: Any) -> dict[str, Any]:
    given = {"process": 1, "thread": 2, "device": None, "stream": None, "correlation": None}
    return {"kind": kind, "name": name, "start_ns": start, "end_ns": end} | given | more


def trace(offset: int = 0, **more: Any) -> dict[str, Any]:
    on = {"device": 0, "stream": 7, "thread": 7, "process": 0}
    events = [
        event("operator", "before the steps", 0, 50),
        event("range", "ProfilerStep#3", 100, 300),
        event("operator", "aten::linear", 110, 200),
        event("operator", "aten::addmm", 120, 150),
        event("operator", "aten::relu", 150, 160),
        event("call", "cudaStreamSynchronize", 160, 240),
        event("call", "cudaLaunchKernel", 130, 135),
        event("operator", "of another thread", 140, 150, thread=9),
        event("kernel", "gemm", 140, 230, **on),
        event("copy", "Memcpy HtoD (Pageable -> Device)", 105, 120, **on),
        event("copy", "Memcpy DtoH (Device -> Pageable)", 235, 238, **on),
        event("memset", "Memset (Device)", 121, 122, **(on | {"stream": 8})),
    ]
    memory = [
        {"time_ns": time, "device": 0, "bytes": 1, "allocated_bytes": held, "reserved_bytes": 900}
        for time, held in ((10, 100), (90, 200), (150, 700), (250, 400), (310, 999))
    ]
    return {
        "events": events,
        "memory": memory,
        "devices": [{"id": 0, "name": "A GPU"}],
        "epoch_ns": 5_000 + offset,
    } | more


def test_a_trace_in_lanes() -> None:
    window = traces.window_of(trace()["events"])
    assert window == (100, 300)
    lanes = traces.lanes_of(trace(), window)
    shown = [(lane.group, lane.label, lane.names) for lane in lanes]
    assert shown == [
        ("Host", "Ranges, thread 2", ["ProfilerStep#3"]),
        ("Host", "Operators, thread 2", ["aten::linear"]),
        ("Host", "", ["aten::addmm", "aten::relu"]),
        ("Host", "CUDA calls, thread 2", ["cudaLaunchKernel", "cudaStreamSynchronize"]),
        ("Host", "Operators, thread 9", ["of another thread"]),
        (
            "GPU 0", "Stream 7",
            ["Memcpy HtoD (Pageable -> Device)", "gemm", "Memcpy DtoH (Device -> Pageable)"],
        ),
        ("GPU 0", "Stream 8", ["Memset (Device)"]),
    ]  # fmt: skip
    assert lanes[3].kinds == ["api", "wait"]
    assert lanes[5].kinds == ["copy_in", "kernel", "copy_out"]
    assert [(lane.device, lane.key) for lane in lanes[5:]] == [(0, "stream:7"), (0, "stream:8")]
    assert traces.window_of([event("kernel", "k", 3, 9)]) == (3, 9)


def test_nothing_is_drawn_below_the_deepest_row() -> None:
    nested = [event("operator", f"op{depth}", depth, 100 - depth) for depth in range(20)]
    assert len(traces.lanes_of({"events": nested}, (0, 100))) == traces.DEEPEST


def test_memory_of_a_trace() -> None:
    in_use, held = traces.memory_of(trace(), (100, 300))
    # What was in use before the window still is when it begins; what comes after it is left out.
    assert (in_use.timestamp_ns, in_use.values) == ([90, 150, 250], [200, 700, 400])
    assert in_use.holds_on and in_use.key == "memory" and in_use.unit == "bytes"
    assert in_use.maximum == held.maximum == 999
    older = trace(memory=[{"time_ns": 120, "device": 0, "allocated_bytes": None}])
    assert traces.memory_of(older, (100, 300)) == []
    on_host = trace(memory=[{"time_ns": 120, "device": None, "allocated_bytes": 5}])
    assert traces.memory_of(on_host, (100, 300)) == []


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (None, 'no list "events"'),
        ({"events": []}, 'no list "events"'),
        ({"events": [{"kind": "call"}]}, "without one of"),
        ({"events": [event("call", "c", 1.5, 2)]}, "no integer"),  # type: ignore[arg-type]
        ({"events": [event("kernel", "k", 1, 2)]}, "without its device"),
    ],
)
def test_what_is_no_trace(answer: Any, words: str) -> None:
    assert words in traces.problem(answer)
    assert traces.problem(trace()) == ""


def test_ranks_on_one_clock() -> None:
    both = {"0": trace(40), "1": trace()}
    assert traces.shifts(both) == {"0": 40, "1": 0}
    assert traces.shifts(both | {"1": trace(epoch_ns=None)}) == {}
    lanes = traces.lanes_of(both["0"], (140, 340), rank="0", shift_ns=40)
    assert lanes[0].group == "Rank 0, host" and lanes[0].start_ns == [140]
    assert lanes[-1].group == "Rank 0, GPU 0" and lanes[-1].rank == "0"


# -- sections from a tree's functions --------------------------------------------------------------

FUNCTIONS = """
CALLS = {calls!r}


def read_trace(capture):
    return {trace!r}


def step_breakdown(capture):
    return {steps!r}


def read_metrics(capture):
    return {kernels!r}


def under_the_roofs(kernel):
    return {point!r}


def roofs_of(kernel):
    return {roofs!r}
"""
KERNELS = [
    {
        "name": name, "grid": (64, 2, 1), "block": (256, 1, 1),
        "metrics": {"gpu__time_duration.sum": 1_000 * number, "launch__registers_per_thread": 32},
    }
    for number, name in enumerate(("void gemm<float>(float *, int)", "(anonymous namespace)::b(int)"))
]  # fmt: skip
ANSWERS: dict[str, Any] = {
    "calls": 0,
    "trace": trace(),
    "steps": [{"step": 3, "device": 0, "step_ns": 200, "busy_ns": 120, "kernel_ns": 90}],
    "kernels": KERNELS,
    "point": {"dtype": "float32", "intensity": {"dram": 2.0}, "flops_per_s": 1e12},
    "roofs": {"dram": 4e12, "float32": 6e13},
}


def section_by(folder: Path, kind: str, findings: tuple = (), **answers: Any):
    """A section made with functions that give these answers."""
    file = folder / "functions.py"
    file.write_text(FUNCTIONS.format(**(ANSWERS | answers)), encoding="utf-8")
    names = ["trace_rank0.json", "trace_rank1.json"] if kind == "traces" else ["trace.json"]
    for name in names:
        (folder / name).write_text('{"traceEvents": []}', encoding="utf-8")
    path = folder if kind == "traces" else folder / names[0]
    return section_without_timeline(Part("mine", Kind(kind), path), str(file), findings, 0)


def test_a_trace_as_a_section(tmp_path: Path) -> None:
    made, missing = section_by(tmp_path, "trace")
    assert missing == []
    assert made.window_ns == (100, 300) and made.busy_ns == {0: 120}
    assert [(share.label, share.ns) for share in made.shares()] == [
        ("Kernels", 90), ("Copies and memsets alone", 30), ("Idle", 80),
    ]  # fmt: skip
    assert [table.topic for table in made.tables] == ["Steps", "Kernels", "Memory"]
    steps_table, kernels, memory = made.tables
    assert steps_table.rows == [("Step 3", 200, 120, 90, 40.0)]
    place = steps_table.places[0]
    assert place is not None and (place.start_ns, place.end_ns) == (100, 300)
    [idle] = places_of(made, Finding("launch_bound", "device:0"))
    assert (idle.label, idle.start_ns, idle.end_ns) == ("Step 3, the most idle", 100, 300)
    assert kernels.rows[0][:4] == ("gemm", 1, 90, 45.0)
    assert memory.rows[0] == ("GPU 0: in use by tensors", 200, 700, 400)
    highest = memory.places[0]
    assert highest is not None and (highest.start_ns, highest.end_ns) == (150, 250)
    assert made.devices == {0: "A GPU"}
    page = Text(render_report([made], title="A")).text
    assert "steps as the host went through them" in page
    assert "Step 3" in page and "In use by tensors" not in page, "the series' name is drawn"


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ({"trace": {"events": [1]}}, "read_trace returned an event without"),
        ({"trace": None}, None),
        ({"steps": [{"step": 3}]}, None),
        ({"steps": "none"}, None),
    ],
)
def test_wrong_answers_of_a_trace(tmp_path: Path, answers: dict, words: str | None) -> None:
    made, missing = section_by(tmp_path, "trace", **answers)
    assert bool(words) == bool(missing) and (words or "") in " ".join(missing)
    assert made.where_the_time_went == []
    assert render_report([made], title="A")


def test_ranks_as_a_section(tmp_path: Path) -> None:
    made, missing = section_by(tmp_path, "traces")
    assert missing == []
    groups = list(dict.fromkeys(lane.group for lane in made.lanes))
    assert groups == ["Rank 0, host", "Rank 0, GPU 0", "Rank 1, host", "Rank 1, GPU 0"]
    _, missing = section_by(tmp_path, "traces", trace=trace(epoch_ns=None))
    assert "each begins at 0" in missing[0]


def test_kernels_as_a_section(tmp_path: Path) -> None:
    subject = f"kernel:{KERNELS[0]['name']}"
    found = (Finding("latency_bound", subject, {"recoverable_ns": 5}, "more warps"),)
    (tmp_path / "trace.json").touch()
    made, missing = section_by(tmp_path, "kernels", found)
    assert missing == []
    [table] = made.tables
    assert table.columns[-1] == ("Registers a thread", "count")
    assert table.rows[0] == (KERNELS[0]["name"], "latency bound", 0, "64 × 2 of 256", 32)
    assert table.rows[1][1] == "–"
    page = Text(render_report([made], title="A"))
    targets = [link[1:] for link in page.links if link != "#findings"]
    assert len(targets) == 2 and set(targets) <= page.ids, "a finding leads nowhere"
    assert any(target.startswith("point-") for target in targets)
    drawing = made.drawings[0][1]
    assert ">gemm&lt;float&gt;<" in drawing, "a label is not the kernel's short name"


@pytest.mark.parametrize(
    "answers",
    [
        {"point": None}, {"point": {}}, {"roofs": {}}, {"roofs": {"dram": "4", "float32": 1}},
        {"point": {"dtype": "float32", "intensity": {"dram": None}, "flops_per_s": 1e12}},
        {"point": {"dtype": "float32", "intensity": {"dram": 2}, "flops_per_s": -1.0}},
        {"kernels": [{"name": 5}]}, {"kernels": []},
    ],
)  # fmt: skip
def test_wrong_answers_on_kernels(tmp_path: Path, answers: dict) -> None:
    made, _ = section_by(tmp_path, "kernels", **answers)
    assert not made.drawings
    assert render_report([made], title="A")


def test_without_functions_it_is_said(tmp_path: Path) -> None:
    file = tmp_path / "functions.py"
    file.write_text('def read_trace(capture):\n    """D."""\n    raise NotImplementedError\n')
    (tmp_path / "trace.json").write_text("{}")
    part = Part("mine", Kind.TRACE, tmp_path / "trace.json")
    made, missing = section_without_timeline(part, str(file), (), 0)
    assert missing == ["read_trace is still to do (read_trace)"] and not made.lanes


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
    verdicts["ex_31.read_metrics"] = Verdict("failed", "said <b>no</b>\x1b[31m")
    following = steps(known, verdicts, {"linux"})
    page = render_progress(known, verdicts, following)
    text = Text(page).text
    earned = sum(known.tasks[task].points for task in ("ex_30.nsys_command", "ex_30.utilization"))
    possible = sum(task.points for task in known.tasks.values() if task.core)
    assert f"{earned} of {possible:,}" in text
    assert f"{live.points} of " in text and "points of live checks" in text
    assert "Done: I can record a program with Nsight Systems" in text
    assert "Open: I can analyse a kernel with Nsight Compute." in text
    assert "0 of 3 tasks; open: ex_30.busy_time, ex_30.idle_gaps, ex_30.launch_latency" in text
    assert "uv run lab check ex_31.read_metrics" in text
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
