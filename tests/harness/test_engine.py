"""The engine's verdicts: on the case files, on recordings that no rule was written for, and as data."""

from __future__ import annotations

import json
import sqlite3
import statistics
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from grading.checks import case_labels
from grading.checks.generate.drawn_timeline import Timeline
from grading.checks.generate.kineto import Trace
from profiling_lab import captures, devices
from profiling_lab.analysis import host_time, recorder_cost, spent
from profiling_lab.assistants import answers
from profiling_lab.captures import inputs
from profiling_lab.categories import Category
from profiling_lab.cli import lab
from profiling_lab.diagnosis import clocks, engine
from profiling_lab.errors import CaptureError
from profiling_lab.findings import CATEGORIES, problems
from profiling_lab.reports import from_verdict, render_report
from tests.harness.drawn_run import MS, US, Drawn, judge, of

TIMED = [
    name
    for name, label in case_labels.labels().items()
    if label["kind"] in ("timeline", "trace", "traces") and len(label["captures"]) == 1
]


@pytest.mark.parametrize("name", TIMED)
def test_a_case_has_its_label(name: str) -> None:
    label = case_labels.labels()[name]
    verdict = judge(name)
    main = verdict.findings[0]
    assert main.category == label.get("engine", label["expect"])
    assert all(not problems(finding) for finding in verdict.findings), verdict.findings
    if label["expect"] in (main.category, CATEGORIES[main.category].parent):
        for key, bounds in case_labels.expected(name).items():
            assert bounds.holds(main.evidence[key]), (key, main.evidence[key], bounds)


def test_nearly_nothing_is_unexplained_on_real_recordings() -> None:
    shares = [
        one.classes[spent.UNEXPLAINED] / one.length_ns
        for name in TIMED
        for seen in judge(name).seen
        for one in seen.spent
    ]
    assert statistics.median(shares) < 0.01


def test_the_verdict_as_data_says_what_it_is_of() -> None:
    told = json.loads(json.dumps(judge("loader_few").to_dict()))
    assert told["schema_version"] == engine.SCHEMA_VERSION
    assert told["file"] == "loader_few" and told["recording"]["source"] == "nsys"
    (balance,) = told["balance"]
    window = told["window"]["end_ns"] - told["window"]["start_ns"]
    assert sum(ns for key, ns in balance.items() if key.endswith("_ns")) == window
    assert told["findings"][0]["category"] == "input_bound"
    assert CATEGORIES["input_bound"].parent == "host_bound"
    assert told["top"]["kernels"][0]["total_ns"] > 0


def test_a_range_is_judged_alone() -> None:
    with pytest.raises(CaptureError, match="no NVTX range 'absent'; ranges here: "):
        judge("training_item", nvtx_range="absent")
    with captures.open("training_item") as capture:
        name = capture.nvtx_ranges["name"][0]
    assert judge("training_item", nvtx_range=name).findings[0].subject == f"range:{name}"


# -- drawn by hand: what the review found wrong, by principle -------------------------------------


def test_1_copies_that_cannot_be_hidden_are_a_cause_with_three_remedies(tmp_path: Path) -> None:
    drawn = Drawn(tmp_path / "pageable.sqlite")
    for _ in range(30):
        # 9 MB at 9 GB/s: pinned memory needs as long as the link of a device takes, the slowest as none is named.
        drawn.blocking_copy("H2D", 1_000, 9_000_000, pinned=False, api="cudaMemcpy_v3020")
        drawn.launch(30)
    main = of(drawn).findings[0]
    assert main.category == "transfer_bound"
    assert main.evidence["moved_less_ns"] > 0.9 * main.evidence["window_ns"]
    assert main.evidence["hidden_ns"] < 0.1 * main.evidence["window_ns"]
    pinned_ns = 9_000_000 / (host_time.LINK_REACHED_RATIO * devices.host_link_bytes_per_s("") / 1e9)
    assert main.evidence["pinned_ns"] == pytest.approx(30 * (1_000 * US - pinned_ns), rel=0.01)
    for word in ("hide", "pin host memory", "move less"):
        assert word in main.recommendation


def test_1_the_recordings_own_rate_comes_before_the_links(tmp_path: Path) -> None:
    """A recording whose pinned copies reach 3 GB/s, each after a pageable one of 1 GB/s."""
    drawn = Drawn(tmp_path / "rates.sqlite")
    for _ in range(30):
        drawn.blocking_copy("H2D", 1_500, 1_500_000, pinned=False, api="cudaMemcpy_v3020")
        drawn.blocking_copy("H2D", 500, 1_500_000, pinned=True, api="cudaMemcpy_v3020")
        drawn.launch(30)
    main = of(drawn).findings[0]
    assert main.category == "transfer_bound"
    assert main.evidence["pinned_ns"] == pytest.approx(30 * 1_000 * US, rel=0.01)


def test_2_copies_save_no_more_than_is_exposed(tmp_path: Path) -> None:
    """The first copy makes the context: its delay lies before the window."""
    drawn = Drawn(tmp_path / "context.sqlite")
    begin = drawn.now
    drawn.now += 80_000 * US
    drawn.copy(drawn.now, drawn.now + 50 * US, bytes=2_000_000, call=(begin, drawn.now - 2 * US))
    drawn.free = drawn.now + 50 * US
    for _ in range(50):
        drawn.launch(2_000)
    verdict = of(drawn)
    assert verdict.findings[0].category == "healthy"
    assert verdict.seen[0].saved.causes["copies"] <= 60 * US


def test_3_nothing_is_called_healthy_that_stands_still(tmp_path: Path) -> None:
    drawn = Drawn(tmp_path / "still.sqlite")
    for _ in range(30):
        drawn.free += 300 * US  # the device begins late, and nothing says why
        drawn.launch(100)
    verdict = of(drawn)
    assert verdict.findings[0].category == "unexplained"


def test_3_a_busy_device_is_said_to_be_that_with_its_kernels(tmp_path: Path) -> None:
    drawn = Drawn(tmp_path / "busy.sqlite")
    for number in range(40):
        drawn.launch(500, name=f"work_{number % 2}")
    verdict = of(drawn)
    assert verdict.findings[0].category == "healthy"
    (said,) = [line for line in verdict.rests_on if "kernels not judged" in line]
    assert "kept busy" in said and "work_0 50%" in said and "ncu --set full -k" in said


def test_3_what_the_recording_lacks_is_said_in_data_too(tmp_path: Path) -> None:
    drawn = Drawn(tmp_path / "lacks.sqlite")
    for number in range(30):
        drawn.launch(100)
        drawn.now += 300 * US
        if number % 10 == 0:
            drawn.memset(
                drawn.free + US, drawn.free + 2 * US, stream=9, call=(drawn.now, drawn.now + US)
            )
            drawn.now += 2 * US
    path = drawn.save()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE IF NOT EXISTS DIAGNOSTIC_EVENT (timestamp INT, text TEXT)")
        words = "CUDA profiling: 12 events were dropped"
        connection.execute("INSERT INTO DIAGNOSTIC_EVENT (timestamp, text) VALUES (1, ?)", (words,))
    told = " ".join(judge(path).to_dict()["cannot_be_judged"])
    for says in (words, "no calls of the operating system", "--cuda-event-trace=true"):
        assert says in told


@pytest.mark.parametrize("api", ["cudaMemcpy_v3020", "cudaMemcpyAsync_v3020"])
def test_5_reading_a_few_bytes_back_is_waiting(api: str, tmp_path: Path) -> None:
    drawn = Drawn(tmp_path / "item.sqlite")
    for _ in range(50):
        drawn.launch(300)
        if "Async" in api:
            start = drawn.free + US
            drawn.copy(
                start, start + 2 * US, "D2H", bytes=4, api=api, call=(drawn.now, drawn.now + 4 * US)
            )
            drawn.now, drawn.free = drawn.now + 4 * US, start + 2 * US
            drawn.wait()
        else:
            drawn.blocking_copy("D2H", 2, 4, pinned=True, api=api)
        drawn.now += 200 * US
    assert of(drawn).findings[0].category == "sync_bound"


def test_6_input_is_named_with_its_loader(tmp_path: Path) -> None:
    drawn = Drawn(tmp_path / "loader.sqlite")
    for _ in range(30):
        drawn.nvtx("DataLoader.__next__", drawn.now, drawn.now + 900 * US)
        drawn.now += 900 * US
        drawn.launch(100)
        drawn.wait()
    main = of(drawn).findings[0]
    assert main.category == "input_bound" and "DataLoader.__next__" in main.recommendation


@pytest.mark.parametrize(("reads_back", "category"), [(False, "input_bound"), (True, "host_bound")])
def test_6_data_that_no_result_is_in_is_input(
    reads_back: bool, category: str, tmp_path: Path
) -> None:
    """Long host code that ends in sending data: input, unless it began with results of the device."""
    drawn = Drawn(tmp_path / "prepare.sqlite")
    for _ in range(30):
        if reads_back:
            drawn.blocking_copy("D2H", 40, 1_000_000, pinned=True, api="cudaMemcpy_v3020")
        drawn.now += 900 * US
        drawn.blocking_copy("H2D", 40, 2_000_000, pinned=True, api="cudaMemcpy_v3020")
        drawn.launch(100)
    assert of(drawn).findings[0].category == category


@pytest.fixture
def free_recorder(monkeypatch: pytest.MonkeyPatch) -> None:
    """A recorder that costs nothing: all that is drawn is the program's own."""
    free = dict.fromkeys(recorder_cost.COSTS, recorder_cost.Cost(0, 0, 0))
    monkeypatch.setattr(recorder_cost, "COSTS", free)


@pytest.mark.usefixtures("free_recorder")
def test_7_allocation_counts_with_the_waits_that_it_implies(tmp_path: Path) -> None:
    drawn = Drawn(tmp_path / "empty_cache.sqlite")
    for _ in range(30):
        for _ in range(4):
            drawn.launch(100)
            drawn.now += 20 * US
        drawn.wait()
        drawn.call("cudaFree_v3020", 150)
        drawn.call("cudaMalloc_v3020", 150)
    main = of(drawn).findings[0]
    assert main.category == "allocation_bound"
    # Without both calls and the wait before them the host runs ahead: the device is never idle.
    assert main.evidence["recoverable_ns"] == pytest.approx(30 * 310 * US, rel=0.05)


def test_8_launches_that_last_until_their_kernel_ends_are_named(tmp_path: Path) -> None:
    drawn = Drawn(tmp_path / "blocking.sqlite")
    for _ in range(60):
        start = drawn.now + 7 * US
        drawn.kernel(start, start + 80 * US, call=(drawn.now, start + 90 * US))
        drawn.now = start + 90 * US + 15 * US
    main = of(drawn).findings[0]
    assert main.category == "sync_bound" and "CUDA_LAUNCH_BLOCKING" in main.recommendation


def test_9_work_in_turns_is_called_that(tmp_path: Path) -> None:
    timeline = Timeline(tmp_path / "pipeline.sqlite")
    now = 1_000_000
    for _ in range(30):
        for rank in (0, 1):
            other = 1 - rank
            at = {"process": rank + 1, "thread": rank + 1, "device": rank}
            beside = {"process": other + 1, "thread": other + 1, "device": other, "stream": 9}
            timeline.kernel(now, now + 500 * US, call=(now - 9 * US, now - 4 * US), **at)
            timeline.kernel(
                now,
                now + 520 * US,
                name="ncclDevKernel_SendRecv",
                call=(now - 9 * US, now - 4 * US),
                **beside,
            )
            end = now + 520 * US
            at["stream"] = 9
            timeline.kernel(
                now + 500 * US,
                end,
                name="ncclDevKernel_SendRecv",
                call=(now + 490 * US, now + 494 * US),
                **at,
            )
            now = end + 10 * US
    verdict = judge(timeline.save())
    assert verdict.findings[0].category == "pipeline_bubble"
    assert verdict.findings[0].evidence["recoverable_ratio"] == pytest.approx(0.47, abs=0.05)


@pytest.mark.parametrize(
    ("flags", "says"), [((3, 1), "legacy default stream, or create"), ((2, 2), "queued first")]
)
def test_streams_in_turns_are_told_by_what(
    flags: tuple[int, int], says: str, tmp_path: Path
) -> None:
    """Kernels of a block each, all launched at once, on two streams, and never two at a time."""
    timeline = Timeline(tmp_path / "turns.sqlite")
    for number in range(20):
        start = 100_000 + 101_000 * number
        call = (1_000 * number, 1_000 * number + 900)
        timeline.kernel(start, start + 100_000, stream=(7, 13)[number % 2], call=call)
    for stream, flag in zip((7, 13), flags, strict=True):
        timeline.stream_type(stream, flag)
    verdict = judge(timeline.save())
    main = verdict.findings[0]
    assert main.category == "serialized_streams" and says in main.recommendation
    assert main.evidence["by_default_stream_ratio"] == (1.0 if flags == (3, 1) else 0.0)
    assert ("legacy default stream" in verdict.headline) is (flags == (3, 1))


def test_what_the_profiler_may_have_cost_is_said(tmp_path: Path) -> None:
    """Steps of 1 ms in which two kernels of 250 µs run, the second launched late by the host."""
    trace = Trace(tmp_path / "gap")
    for number in range(2):
        at = number * MS
        trace.step(number, at, at + MS)
        trace.kernel(at + 20 * US, at + 270 * US, call=(at, at + 10 * US))
        launch = at + 610 * US
        trace.kernel(at + 670 * US, at + 920 * US, call=(launch, launch + 10 * US))
    verdict = judge(trace.save())
    assert verdict.findings[0].category == "launch_bound"
    (said,) = [line for line in verdict.rests_on if "without the profiler" in line]
    assert "here 1.00 ms, of which device 0 works 500 µs" in said and "less than 556 µs" in said
    for name in ("torch_train_sync", "torch_train_clean"):
        assert not [line for line in judge(name).rests_on if "without the profiler" in line]


def test_begin_with_names_a_smaller_effort_that_brings_half(tmp_path: Path) -> None:
    verdict = judge("torch_compile_fixed")
    assert verdict.findings[0].category == "transfer_bound" and verdict.begin_with == "sync_bound"


def test_what_the_host_does_at_a_windows_end_goes_with_its_cause(tmp_path: Path) -> None:
    drawn = Drawn(tmp_path / "end.sqlite")
    begin = drawn.now
    for _ in range(4):
        drawn.launch(100)
        drawn.wait()
        drawn.now += 900 * US  # also behind the last operation
    drawn.api("cudaEventQuery_v3020", drawn.now, drawn.now + US)
    drawn.nvtx("steps", begin, drawn.now + US)
    main = judge(drawn.save(), nvtx_range="steps").findings[0]
    assert main.category == "host_bound"
    assert main.evidence["recoverable_ratio"] == pytest.approx(0.88, abs=0.02)


@pytest.mark.usefixtures("free_recorder")
def test_what_is_read_later_costs_neither_its_copy_nor_its_calls(tmp_path: Path) -> None:
    drawn = Drawn(tmp_path / "items.sqlite")
    for _ in range(20):
        drawn.launch(200)
        for _ in range(20):
            drawn.now += 15 * US
            drawn.blocking_copy("D2H", 2, 4, pinned=False, api="cudaMemcpyAsync_v3020")
    main = of(drawn).findings[0]
    assert main.category == "sync_bound"
    # 200 µs are kernels; 20 times about 28 µs are reading, of which the first waits for the kernel.
    assert main.evidence["recoverable_ratio"] == pytest.approx(0.72, abs=0.05)


def test_a_new_category_touches_its_row_and_its_rule(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = Category(
        "page_faults", "the host waits for pages", ("recoverable_ns", "window_ns"), 12,
        remedy="touch pages before the loop", effort=1,
        headline="Page faults cost {share} of the time", first="begin by touching pages before",
    )  # fmt: skip
    drawn = Drawn(tmp_path / "faults.sqlite")
    for _ in range(30):
        drawn.launch(100)
        drawn.wait()
        drawn.now += 300 * US
    path = drawn.save()
    monkeypatch.setitem(CATEGORIES, row.name, row)
    monkeypatch.setattr(clocks, "judge", lambda _: [(row.name, 0, 9 * MS, {})])
    asked = "diagnose", path
    # 9 of 12.1 ms, of which 0.1 are the recorder's.
    sentence = "Page faults cost 75% of the time: begin by touching pages before"
    assert judge(path).headline == sentence
    screen = " ".join(CliRunner().invoke(lab, asked).stdout.split())
    assert sentence in screen and row.remedy in screen
    told = json.loads(CliRunner().invoke(lab, [*asked, "--json"]).stdout)
    assert told["findings"][0]["category"] == row.name and told["begin_with"] == ""
    assert CliRunner().invoke(lab, [*asked, "--fail-on", row.name]).exit_code == 1
    beside = CliRunner().invoke(lab, [*asked, "--mine", "--against", "solutions"])
    assert beside.exit_code == 0 and f"engine  {row.name}" in beside.stdout
    verdict = judge(path)
    page = render_report(from_verdict.sections(verdict, inputs.read([path])), title="A")
    assert "Page faults cost 75%" in page and ">Page faults<" in page
    compared = CliRunner().invoke(lab, ["compare", path, path])
    assert compared.exit_code == 0 and row.name in compared.stdout, compared.output
    told = answers.verdict(answers.Allowed([path]), path)["answer"]
    assert told["headline"] == sentence


def test_a_damaged_recording_is_said_to_be_one(tmp_path: Path) -> None:
    drawn = Drawn(tmp_path / "damaged.sqlite")
    for _ in range(20):
        drawn.launch(100)
    path = drawn.save()
    assert not [line for line in judge(path).rests_on if "could not process" in line]
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE IF NOT EXISTS DIAGNOSTIC_EVENT (timestamp INT, text TEXT)")
        words = "Error when processing events: Cannot find string for an exterior index"
        connection.execute("INSERT INTO DIAGNOSTIC_EVENT (timestamp, text) VALUES (1, ?)", (words,))
    (line,) = [line for line in judge(path).rests_on if "could not process" in line]
    assert "1 errors" in line or "1 error" in line
