"""Comparing timelines, traces and pages of kernels."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections import Counter
from pathlib import Path

import pytest

from grading.checks.generate import SCENARIOS
from grading.checks.generate.kineto import Trace
from grading.checks.generate.ncu import Raw
from profiling_lab import captures
from profiling_lab.analysis.compare import compare_runs
from profiling_lab.analysis.measured_runs import of_verdict
from profiling_lab.analysis.measures import DURATION, WINDOW
from profiling_lab.captures import inputs
from profiling_lab.cli.comparison import show_comparison
from profiling_lab.cli.printing import finding_in_few_words
from profiling_lab.diagnosis import engine
from profiling_lab.diagnosis.ranking import FLOOR_RATIO
from profiling_lab.findings import Finding
from tests.harness.compared_runs import ask, of_file

# -- timelines ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def timeline(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return SCENARIOS["sync_bound"](seed=7, folder=tmp_path_factory.mktemp("timeline")).path


def test_gaps_calls_and_ranges_add_up(timeline: Path) -> None:
    recording = captures.open(timeline)
    operations = recording.device_operations.sort("start_ns").rows(named=True)
    gaps, last = [], operations[0]
    for one in operations[1:]:
        if one["start_ns"] > last["end_ns"]:
            ends = {"start_ns": last["end_ns"], "end_ns": one["start_ns"]}
            gaps.append(ends | {"device": 0, "names": f"{last['name']} → {one['name']}"})
        last = max(last, one, key=lambda operation: operation["end_ns"])
    made = of_file(timeline)
    found = {what: ns for (group, what, unit), ns in made.measures.items() if group == "gaps"}
    assert found.pop("Gaps (device 0)") == len(gaps)
    idle = {what: ns for (group, what, _), ns in made.measures.items() if group == "spent"}
    assert sum(ns or 0 for ns in idle.values()) == made.get("time", WINDOW)
    assert len(found) > 1
    for name, ns in found.items():
        lengths = [gap["end_ns"] - gap["start_ns"] for gap in gaps if gap["names"] == name]
        assert ns == sum(lengths)
    with sqlite3.connect(timeline) as connection:
        start, end = recording.span_ns
        calls = dict(
            connection.execute(
                'SELECT s.value, SUM(r."end" - r.start) FROM CUPTI_ACTIVITY_KIND_RUNTIME AS r '
                "JOIN StringIds AS s ON s.id = r.nameId WHERE r.start >= ? AND r.start < ? "
                "GROUP BY s.value",
                (start, end),
            ).fetchall()
        )
    told = {what: ns for (group, what, _), ns in made.measures.items() if group == "calls"}
    assert Counter(told.values()) == Counter(calls.values())


def test_devices_are_told_apart_where_there_are_several(timeline: Path, tmp_path: Path) -> None:
    two = SCENARIOS["two_devices"](seed=7, folder=tmp_path).path
    for other, wanted in ((timeline, {"Busy"}), (two, {"Busy (device 0)", "Busy (device 1)"})):
        told = json.loads(ask(str(timeline), str(other), "--json").stdout)
        assert {r["what"] for r in told["rows"] if r["what"].startswith("Busy")} == wanted
        assert {r["what"][:4] for r in told["rows"] if r["group"] == "gaps"} >= {"Gaps"}


def test_several_runs_folders_and_patterns(
    timeline: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("before/1", "before/2", "after/1", "after/2"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(timeline, f"{name}.sqlite")
    (tmp_path / "before" / "notes.txt").write_text("not a capture")
    spellings = (
        ("before", "after"),
        ("before/*.sqlite", "after/?.sqlite"),
        ("--before", "before/1.sqlite", "before/2.sqlite", "--after", "after"),
        ("--json", "--after", "after", "--tolerance", "0", "--before", "before"),
    )
    for spelling in spellings:
        result = ask(*spelling, *(["--json"] if "--json" not in spelling else []))
        assert result.exit_code == 0, result.output
        told = json.loads(result.stdout)
        assert told["runs"] == {"before": ["1", "2"], "after": ["1", "2"]}
        assert told["verdict"] == "unchanged"
        assert told["rows"][0]["ratio_interval"] == [1.0, 1.0]
    shown = ask("before", "after")
    assert "95 % interval 1.00× to 1.00×" in " ".join(shown.stdout.split())
    assert "noise" in shown.stdout
    assert all(len(line) <= 80 for line in shown.stdout.splitlines())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["a.sqlite"], "1 are named"),
        ([], "name a capture before and one after"),
        (["--before", "a"], "name a capture before and one after"),
        (["a", "b", "--before", "c"], "or neither"),
        (["a", "b", "--json", "--markdown"], "not both"),
        (["*.nothing", "b"], "no file fits this pattern"),
    ],
)
def test_usage(
    arguments: list[str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = ask(*arguments)
    assert result.exit_code == 2
    assert words in result.stderr and len(result.stderr.splitlines()) == 1


# -- traces ---------------------------------------------------------------------------------------


def trace(folder: Path, kernel_ns: int, steps: int = 2) -> str:
    """Steps of one kernel each, and before them one that still runs when the first step begins."""
    drawn = Trace(folder)
    drawn.kernel(0, 10_000, name="warm_up", call=(0, 1_000))
    end = 10_000
    for number in range(steps):
        start = 2_000 + 1_000 * number
        drawn.step(number, start, start + 900)
        drawn.kernel(end, end + kernel_ns, name="work", call=(start + 10, start + 500))
        end += kernel_ns
    return drawn.save()


def test_traces_by_the_work_of_their_steps(tmp_path: Path) -> None:
    fast, slow = trace(tmp_path / "fast", 5_000), trace(tmp_path / "slow", 6_000)
    more = trace(tmp_path / "more", 5_000, steps=3)
    told = json.loads(ask(fast, slow, "--json").stdout)
    rows = {entry["what"]: (entry["before"], entry["after"]) for entry in told["rows"]}
    assert rows[WINDOW] == (10_000, 12_000)
    assert rows["A step, mean"] == (5_000, 6_000)
    assert rows["work"] == (10_000, 12_000) and "warm_up" not in rows
    # All about one window: nothing of what ran before it is in any row.
    for side in (0, 1):
        assert rows["Busy"][side] + rows["Idle"][side] == rows[WINDOW][side]
        spent = [r[["before", "after"][side]] for r in told["rows"] if r["group"] == "spent"]
        assert sum(spent) == rows[WINDOW][side]
    assert told["verdict"] == "regression"
    result = ask(fast, more)
    assert result.exit_code == 0  # three steps take longer than two, and a step does not
    assert "steps: 2 before and 3 after" in " ".join(result.stdout.split())
    assert ask(fast, slow).exit_code == 1


def test_traces_of_ranks_are_one_run(tmp_path: Path) -> None:
    for job, lengths in {"before": (5_000, 6_000), "after": (5_000, 6_600)}.items():
        for rank, kernel_ns in enumerate(lengths):
            place = Path(trace(tmp_path / "drawn", kernel_ns)) / "trace.json.gz"
            (tmp_path / job).mkdir(exist_ok=True)
            shutil.copy(place, tmp_path / job / f"trace_rank{rank}.json.gz")
    result = ask(*(str(tmp_path / job) for job in ("before", "after")), "--json")
    rows = {entry["what"]: entry for entry in json.loads(result.stdout)["rows"]}
    assert (rows[WINDOW]["before"], rows[WINDOW]["after"]) == (12_000, 13_200)
    assert (rows["work"]["before"], rows["work"]["after"]) == (22_000, 23_200)
    assert (rows["Kernels"]["before"], rows["work"]["change"]) == (4, "")
    assert result.exit_code == 1


def test_both_verdicts_are_said_in_words(tmp_path: Path) -> None:
    fast, slow = trace(tmp_path / "fast", 5_000), trace(tmp_path / "slow", 6_000)
    claim = of_file(Path(fast)).claim
    shown = " ".join(ask(fast, slow).stdout.split())
    assert f"before {claim} " in shown and claim
    told = ask(fast, slow, "--markdown").stdout
    finding = of_file(Path(fast)).findings[""]
    assert f"- before: {claim}" in " ".join(told.split())
    evidence = finding_in_few_words(finding, 4)
    assert evidence in shown and evidence in " ".join(told.split()), "no evidence beside the claim"


def test_the_rows_of_recorded_traces_are_about_the_work_of_their_steps() -> None:
    """Host and device of these steps are far apart: what ran in the host's steps is other work."""
    told = json.loads(ask("torch_infer_launch_bound", "torch_infer_graph", "--json").stdout)
    rows = {entry["what"]: entry for entry in told["rows"]}
    assert rows["Kernels"]["before"] == rows["Kernels"]["after"]
    assert rows["Busy"]["ratio"] == pytest.approx(1, abs=0.02)
    for side in ("before", "after"):
        assert rows["Busy"][side] + rows["Idle"][side] == rows[WINDOW][side]


def test_what_is_below_the_floor_is_no_advice(capsys: pytest.CaptureFixture[str]) -> None:
    sides = []
    for saved_ns in (900_000, 9_000):  # of 1 ms: far above the floor, and far below it
        (part,) = inputs.read(["torch_infer_graph"])
        verdict = engine.judge([part])
        ratio = saved_ns / 1_000_000
        shares = {"recoverable_ratio": ratio, "margin_ratio": ratio - FLOOR_RATIO}
        evidence = {"recoverable_ns": saved_ns, "window_ns": 1_000_000, **shares}
        verdict.findings = [Finding("sync_bound", "device:0", evidence)]
        sides.append(of_verdict(part, verdict))
    show_comparison(compare_runs(sides[:1], sides[1:]))
    first = " ".join(capsys.readouterr().out.partition("after÷before")[0].split())
    assert "sync_bound → no cause saves a tenth; most: sync_bound" in first
    assert first.count("begin by reading results later") == 1, "a saving below the floor as advice"


def test_the_closing_screen_of_a_day_is_short() -> None:
    shown = ask("torch_infer_launch_bound", "torch_infer_graph").stdout
    assert len(shown.splitlines()) < 50


# -- pages of kernels -----------------------------------------------------------------------------


def page(folder: Path, **durations_ns: float) -> str:
    """A page of kernels; two launches of "twice" of which the second takes 2 µs longer."""
    raw = Raw(3, "base")
    for name, ns in durations_ns.items():
        metrics: dict[str, float | str | None] = {
            DURATION: ns,
            "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed": 90.0 - ns / 1000,
        }
        raw.add(name, metrics)
        if name == "twice":
            raw.add(name, metrics | {DURATION: ns + 2_000})
    raw.save(folder)
    return str(folder)


def test_pages_judge_each_kernel(tmp_path: Path) -> None:
    before = page(tmp_path / "before", first=50_000, twice=10_000, third=1_000)
    after = page(tmp_path / "after", first=20_000, twice=10_000, third=1_100)
    told = json.loads(ask(before, after, "--json").stdout)
    rows = {entry["what"]: entry for entry in told["rows"]}
    assert (rows["twice"]["before"], rows["twice"]["after"]) == (11_000, 11_000)
    assert rows["third"]["grew"] and not rows["first"]["grew"]
    assert told["verdict"] == "regression"  # though all together are faster
    assert told["window_ratio"] == pytest.approx(32_100 / 62_000)
    result = ask(before, after)
    assert result.exit_code == 1
    said = " ".join(result.stdout.split())
    assert "1 of 3 kernels take longer, third 1.10×" in said
    assert "DRAM throughput 40.0% 70.0% 1.75×" in said
    assert ask(before, after, "--tolerance", "0.2").exit_code == 0
    assert ask(after, after).exit_code == 0
