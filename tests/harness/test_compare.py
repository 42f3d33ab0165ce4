"""`lab compare`: which difference counts, on runs made by hand, generated captures and evil names."""

from __future__ import annotations

from pathlib import Path

import pytest

from grading.checks.generate.drawn_timeline import Timeline
from profiling_lab.analysis.compare import Row, compare_runs, named_rows
from profiling_lab.analysis.measures import STEP, WINDOW, Launches
from profiling_lab.captures import Kind
from profiling_lab.cli.comparison import and_more, main_change_text, markdown, verdict_text
from profiling_lab.errors import CaptureError
from profiling_lab.units import without_serial_numbers
from tests.harness.compared_runs import of_file, row, run, sides

# -- what counts as a difference ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        ([100], [101], "unchanged"),
        ([100], [103], "regression"),
        ([100], [97], "faster"),
        ([100, 101, 99], [110, 111, 109], "regression"),
        ([100, 101, 99], [90, 91, 89], "faster"),
        ([100, 130, 80], [110, 90, 125], "unclear"),  # the sides overlap
        ([100, 101, 99], [101, 100, 102], "unchanged"),
        ([100, 100.1, 99.9], [101, 101.1, 100.9], "unchanged"),  # surely longer, and by too little
        ([100, 130, 80], [110], "regression"),  # one run: nothing is known of its noise
    ],
)
def test_verdict(before: list[float], after: list[float], verdict: str) -> None:
    result = sides(before, after)
    assert result.verdict == verdict
    assert result.is_regression == (verdict == "regression")
    window = row(result, WINDOW)
    several = min(len(before), len(after)) > 1
    assert (window.interval is not None) == several
    assert any("single run" in note for note in result.notes) == (len(before) != len(after))
    assert window.grew == (verdict == "regression")
    assert sides(before, after, tolerance=1).verdict == "unchanged"


def test_interval_is_seeded_and_holds_what_the_runs_hold() -> None:
    many = [100 + 7 * (number * number % 31) / 10 for number in range(12)]
    first, again = (row(sides(many, [2 * ns for ns in many]), WINDOW) for _ in range(2))
    assert first.interval == again.interval
    assert first.interval is not None and first.interval[0] < 2 < first.interval[1]
    # Of three runs the smallest is the median of 7 in 27 samples, so 2.5 % reach both extremes.
    assert row(sides([100, 104, 96], [200, 208, 192]), WINDOW).interval == (192 / 104, 208 / 96)
    assert row(sides([100] * 5, [200] * 5), WINDOW).interval == (2.0, 2.0)


def test_kernels_that_appear_vanish_and_change() -> None:
    before, after = run(1000, same=700, gone=900, other=50), run(1000, same=715, new=30, other=50)
    after.launches["other"] = Launches(2, frozenset(("(2, 1, 1) × (32, 1, 1)",)))
    result = compare_runs([before], [after])
    assert row(result, "gone").change == "gone" and row(result, "gone").after == 0
    assert row(result, "new").change == "new" and row(result, "new").before == 0
    assert row(result, "new").grew and not row(result, "same").grew
    assert row(result, "same").change == ""
    assert row(result, "other").change == (
        "launches 1 → 2, grid × block (1, 1, 1) × (32, 1, 1) → (2, 1, 1) × (32, 1, 1)"
    )
    kernels = [row.what for row in result.rows if row.group == "kernels"]
    assert kernels[0] == "gone"  # the largest first
    assert any(note.startswith("1 kernel ran in another grid") for note in result.notes)


def test_a_grid_that_joins_or_leaves_is_not_another() -> None:
    before, after = run(1000, other=50), run(1000, other=50)
    (own,) = before.launches["other"].shapes
    after.launches["other"] = Launches(1, frozenset((own, "(16, 1, 1) × (128, 1, 1)")))
    joined, left = compare_runs([before], [after]), compare_runs([after], [before])
    assert row(joined, "other").change == "also grid × block (16, 1, 1) × (128, 1, 1)"
    assert row(left, "other").change == "no more grid × block (16, 1, 1) × (128, 1, 1)"


def test_what_makes_runs_hard_to_compare_is_said() -> None:
    before, after = run(1000), run(1000)
    before.conditions |= {"driver": "1", "profiler": "x", "highest clock": "1980 MHz"}
    after.conditions |= {"driver": "2", "profiler": "x"}
    before.work["steps"], after.work["steps"] = 3, 4
    before.put("counters", "k: SM clock", 1.98e9, "hz")
    after.put("counters", "k: SM clock", 1.41e9, "hz")
    notes = compare_runs([before], [after]).notes
    assert [note for note in notes if "driver: 1 and 2" in note]
    assert [note for note in notes if "highest clock: 1980 MHz and unknown" in note]
    assert [note for note in notes if note.startswith("steps: 3 before and 4 after")]
    assert [note for note in notes if "SM clock" in note]
    assert not [note for note in notes if "profiler" in note]
    assert compare_runs([before], [before]).notes == []


def test_different_programs_get_no_headline() -> None:
    one, other = run(1000, gemm=800, copy=100), run(3000, copy=100, conv=2000)
    result = compare_runs([one], [other])
    assert result.shared_ratio == pytest.approx(100 / 2100)
    assert result.verdict == "different" and not any(row.grew for row in result.rows)
    assert result.is_regression  # a gate does not pass because all was replaced
    assert "different programs" in verdict_text(result) and "5%" in verdict_text(result)
    assert "×" not in verdict_text(result)
    shown = result.to_report()
    assert shown.main_figure()[0] == "Different programs?"
    assert {row.verdict() for row in shown.rows} == {""}
    halves = compare_runs([run(1000, gemm=800, copy=300)], [run(1000, conv=800, copy=300)])
    assert halves.shared_ratio == pytest.approx(3 / 11) and halves.verdict == "unchanged"
    graphs = run(3000, conv=2000)
    graphs.put("kernels", "CUDA graphs", 3, "count")
    assert compare_runs([one], [graphs]).shared_ratio is None
    assert compare_runs([run(10)], [run(10)]).shared_ratio is None


def test_only_one_kind() -> None:
    other = run(5, "b")
    other.kind = Kind.TRACE
    with pytest.raises(CaptureError, match="a is of kind timeline, b is of kind trace"):
        compare_runs([run(5)], [other])


# -- Markdown -------------------------------------------------------------------------------------


def test_markdown_takes_no_orders_from_names() -> None:
    evil = "k`|<img src=x onerror=y>\n# a [b](c)\x1b[2J"
    result = compare_runs([run(1000, evil, **{evil: 10})], [run(1200, evil, **{evil: 300})])
    lines = list(markdown(result))
    assert lines[0].startswith("**Regression: 1.20× as long")
    table = [line for line in lines if line.startswith("|")]
    assert all(line.count("|") == 6 for line in table)
    named = next(line for line in table if "onerror" in line)
    assert named.count("`") == 2 and "**grew**" in named
    assert not any("\x1b" in line or line.startswith("#") for line in lines)


# -- what is said first -----------------------------------------------------------------------------------


def test_the_main_change_is_the_largest_part_in_the_direction_of_the_verdict() -> None:
    before, after = run(1_000, gemm=500, norm=100), run(700, gemm=600, norm=80)
    for side, idle_ns in ((before, 400), (after, 20)):
        side.put("time", "Idle", idle_ns)
    result = compare_runs([before], [after])
    row, share = result.main_change or (None, 0)
    assert row is not None and (row.what, round(share, 3)) == ("Idle", 1.267)
    assert "127%): Idle, 400 ns to 20 ns" in main_change_text(result)
    assert compare_runs([before], [before]).main_change is None
    scattered = [run(ns, **{f"k{n}": ns / 20 for n in range(20)}) for ns in (1_000, 500)]
    assert compare_runs(*[[run] for run in scattered]).main_change is None, (
        "a twentieth is no main part"
    )


def test_serial_numbers_are_taken_out_of_names() -> None:
    for name, expected in {
        "ProfilerStep#5": "ProfilerStep#…",
        "aten::mm, op_id = 998949": "aten::mm, op_id = …",
        "aten::add, seq = 12": "aten::add, seq = …",
        "step 12 of the loop": "step … of the loop",
        "iteration 7": "iteration …",
        "block at 0x7f3a": "block at 0x…",
        "layer 3": "layer 3",
        "conv2d_3x3": "conv2d_3x3",
        "grid 3 of 4": "grid 3 of 4",
        "Optimizer.step#SGD.step": "Optimizer.step#SGD.step",
    }.items():
        assert without_serial_numbers(name) == expected


def test_rows_that_grew_are_counted_where_they_are_left_out() -> None:
    rows = [Row("calls", f"call {n}", 0, 1_000 - n, grew=True) for n in range(40)]
    shown, hidden = named_rows(rows, "calls")
    assert len(shown) == 10 and len(hidden) == 30
    assert and_more(hidden) == "and 30 more, 30 of which grew"


def test_a_step_is_the_mean_time_from_one_start_of_a_range_to_the_next(tmp_path: Path) -> None:
    drawn = Timeline(tmp_path / "steps.sqlite")
    for step in range(4):
        begin = 1_000 * step
        drawn.kernel(begin + 100, begin + 500)
        drawn.nvtx(f"ProfilerStep#{step}", begin, begin + 800)
        drawn.nvtx("forward", begin + 10, begin + 300)
    found = of_file(Path(drawn.save()))
    # From one start to the next; the last one lasts as long as its range.
    assert found.get("time", f"{STEP}, ProfilerStep#…") == (3_000 + 800) / 4


def test_one_device_is_compared_with_another() -> None:
    made = []
    for device, busy_ns in ((3, 100), (1, 150)):
        one = run(1_000.0)
        one.devices = (device,)
        one.put("time", f"Busy (device {device})", busy_ns)
        made.append(one)
    result = compare_runs(made[:1], made[1:])
    (row,) = [row for row in result.rows if row.what.startswith("Busy")]
    assert (row.what, row.before, row.after) == ("Busy", 100, 150)
