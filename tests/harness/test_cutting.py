"""A part of a timeline holds what ran in it, and a recording larger than the memory is looked at in part."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from click.testing import CliRunner

from profiling_lab import captures, cutting, inputs
from profiling_lab.cli import lab
from profiling_lab.errors import EmptyCapture, LabError

ROOT = Path(__file__).resolve().parents[2]
RUN = ROOT / "captures" / "torch_inference_baseline" / "timeline.sqlite"
GB = 10**9


@pytest.fixture(scope="module")
def steps() -> list[tuple[int, int]]:
    """Start and end of the recording's first ranges of one name that follow each other."""
    with captures.open(RUN) as recording:
        ranges = recording.nvtx_ranges
        name = ranges["name"].value_counts(sort=True)["name"][0]
        frame = ranges.filter(ranges["name"] == name).sort("start_ns")
    return list(frame.select("start_ns", "end_ns").iter_rows())


def test_a_part_holds_the_calls_of_its_time_and_what_they_issued(steps) -> None:
    start_ns, end_ns = steps[1][0], steps[2][1]
    with captures.open(RUN) as recording, captures.open(cutting.cut(RUN, start_ns, end_ns)) as part:
        calls = recording.api_calls
        inside = calls.filter((calls["start_ns"] >= start_ns) & (calls["start_ns"] < end_ns))
        assert 0 < part.api_calls.height == inside.height < calls.height
        issued = recording.device_operations.join(
            inside, on=["process", "correlation"], how="semi", maintain_order="left"
        )
        assert part.device_operations.equals(issued)
        spans = part.nvtx_ranges.select("start_ns", "end_ns").rows()
        assert spans
        assert all(
            (s >= start_ns and e <= end_ns) or (s <= start_ns and e >= end_ns) for s, e in spans
        )


def test_work_that_was_issued_in_time_belongs_to_a_part_whenever_it_ran(steps) -> None:
    with captures.open(RUN) as recording:
        calls = recording.api_calls.select("process", "correlation", called_ns="start_ns")
        late = recording.device_operations.join(calls, on=["process", "correlation"])
        late = late.filter(late["start_ns"] - late["called_ns"] > 100_000).row(0, named=True)
    with captures.open(cutting.cut(RUN, steps[0][0], late["start_ns"])) as part:
        assert late["correlation"] in part.device_operations["correlation"]


def test_ranges_that_reach_over_a_part_stay_and_those_that_cross_its_edge_go(steps) -> None:
    (start_ns, end_ns) = steps[1]
    middle_ns = (start_ns + end_ns) // 2
    with captures.open(cutting.cut(RUN, start_ns, middle_ns)) as part:
        spans = part.nvtx_ranges.select("start_ns", "end_ns").rows()
    assert (start_ns, end_ns) in spans, "it reaches over all of the part"
    later_ns = steps[2][1]
    with captures.open(cutting.cut(RUN, middle_ns, later_ns)) as part:
        spans = part.nvtx_ranges.select("start_ns", "end_ns").rows()
    assert (start_ns, end_ns) not in spans and steps[2] in spans


def test_a_part_without_work_says_where_there_is_some() -> None:
    with pytest.raises(EmptyCapture, match=r"1000\.000 to the end; it is between \d+\.\d+ and"):
        cutting.cut(RUN, 10**12, cutting.LATEST_NS)


@pytest.mark.parametrize("text", ["3", "a:b", "-1:2", "5:5", "6:5", "1:2:3", "1e3:"])
def test_seconds_that_are_none(text: str) -> None:
    with pytest.raises(LabError, match="--seconds"):
        cutting.Seconds.parse(text)


def test_seconds_either_of_which_may_be_missing() -> None:
    assert cutting.Seconds.parse("1.5:2").window_ns() == (1_500_000_000, 2_000_000_000)
    assert cutting.Seconds.parse("3:").window_ns() == (3_000_000_000, cutting.LATEST_NS)
    assert cutting.Seconds.parse(":0.5").window_ns() == (0, 500_000_000)
    assert cutting.Seconds.parse(":").window_ns() is None


def test_where_memory_does_not_suffice_the_middle_is_looked_at() -> None:
    with sqlite3.connect(RUN) as connection:
        starts = [
            start
            for (start,) in connection.execute(
                "SELECT start FROM CUPTI_ACTIVITY_KIND_RUNTIME ORDER BY start"
            )
        ]
    [part] = inputs.read([str(RUN)])
    [whole], nothing = cutting.to_look_at([part], None, 64 * GB)
    assert whole == part and not nothing
    events = _events(RUN)
    third = int(events / 3 * cutting.BYTES_PER_EVENT / cutting.MEMORY_RATIO)
    [middle], [note] = cutting.to_look_at([part], None, third)
    assert "--seconds" in note and part.name in note
    assert _events(middle.path) == pytest.approx(events / 3, rel=0.1)
    with captures.open(middle.path) as cut:
        before = sum(start < cut.api_calls["start_ns"].min() for start in starts)
        behind = sum(start > cut.api_calls["start_ns"].max() for start in starts)
    assert abs(before - behind) <= 2
    [asked_for_all], nothing = cutting.to_look_at([part], ":", third)
    assert asked_for_all == part and not nothing


def _events(file: Path) -> int:
    with captures.open(file) as recording:
        return recording.api_calls.height + recording.device_operations.height


def test_the_command_line_says_which_part_it_looked_at(steps) -> None:
    asked = f"{steps[1][0] / 1e9:.6f}:{steps[2][1] / 1e9:.6f}"
    result = CliRunner().invoke(
        lab, ["diagnose", str(RUN), "--seconds", asked, "--against", str(ROOT / "solutions")]
    )
    assert result.exit_code == 0, result.output
    assert f"({steps[1][0] / 1e9:.3f} to {steps[2][1] / 1e9:.3f} s)" in result.output


def test_seconds_are_for_timelines() -> None:
    result = CliRunner().invoke(lab, ["diagnose", "ncu_memory", "--seconds", "1:2"])
    assert result.exit_code == 2 and "--seconds belongs to timelines" in result.output
