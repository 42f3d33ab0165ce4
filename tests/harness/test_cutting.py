"""A part of a timeline holds what ran in it, and a recording larger than the memory is looked at in part."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from pathlib import Path

import pytest
from click.testing import CliRunner

from profiling_lab import captures
from profiling_lab.captures import cutting, inputs
from profiling_lab.cli import lab
from profiling_lab.errors import EmptyCapture, LabError

ROOT = Path(__file__).resolve().parents[2]
RUN = ROOT / "captures" / "torch_inference_baseline" / "timeline.sqlite"
RANKS = ROOT / "captures" / "ddp_timeline_straggler" / "timeline.sqlite"  # 15 to 51 ms
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


def test_ranges_end_with_the_part_that_they_reach_over_and_those_that_cross_its_edge_go(
    steps,
) -> None:
    (start_ns, end_ns) = steps[1]
    middle_ns = (start_ns + end_ns) // 2
    assert (start_ns, middle_ns) in _ranges(RUN, start_ns, middle_ns)
    spans = _ranges(RUN, middle_ns, steps[2][1])
    assert not any(start_ns < middle_ns for start_ns, _ in spans) and steps[2] in spans
    assert steps[1] in _ranges(RUN, start_ns, cutting.LATEST_NS)


def _ranges(file: Path, start_ns: int, end_ns: int) -> list[tuple[int, int]]:
    with captures.open(cutting.cut(file, start_ns, end_ns)) as part:
        return part.nvtx_ranges.select("start_ns", "end_ns").rows()


@pytest.fixture
def marked(tmp_path) -> Path:
    """A copy of a recording of ranks with three more ranges (open, open and late, over all of it) and a mark."""
    file = tmp_path / "marked.sqlite"
    shutil.copyfile(RANKS, file)
    file.chmod(0o600)
    with captures.open(RANKS) as recording:
        calls, work = recording.api_calls, recording.device_operations
    first_ns = min(calls["start_ns"].to_list())
    last_ns = max([*calls["end_ns"].to_list(), *work["end_ns"].to_list()])
    with contextlib.closing(sqlite3.connect(file)) as connection, connection:
        for name, start_ns, end_ns, kind in (
            ("open", 25_000_000, None, 59),
            ("open and late", 45_000_000, None, 60),
            ("all", first_ns - 1, last_ns + 1, 59),
            ("mark", 20_000_000, None, 34),
        ):
            connection.execute(
                'INSERT INTO NVTX_EVENTS (start, "end", eventType, text, globalTid) '
                "VALUES (?, ?, ?, ?, 1)",
                (start_ns, end_ns, kind, name),
            )
    return file


def test_ranges_that_tell_ranks_or_never_end_are_clipped(marked) -> None:
    file = cutting.cut(marked, 30_000_000, 40_000_000)
    with captures.open(file) as part:
        ranges = {
            name: span
            for name, *span in part.nvtx_ranges.select("name", "start_ns", "end_ns").rows()
        }
    edges = [30_000_000, 40_000_000]
    assert ranges["rank 0"] == ranges["rank 1"] == ranges["all"] == edges
    assert ranges["open"][0] == 30_000_000 and "open and late" not in ranges
    assert all(start_ns < end_ns for start_ns, end_ns in ranges.values())
    with contextlib.closing(sqlite3.connect(file)) as connection:
        query = "SELECT start FROM NVTX_EVENTS WHERE text = 'mark'"
        assert connection.execute(query).fetchall() == [(20_000_000,)], "what is no range stays"
    with captures.open(cutting.cut(marked, 0, 40_000_000)) as part:
        starts = dict(part.nvtx_ranges.select("name", "start_ns").rows())
        assert starts["all"] == min(part.api_calls["start_ns"].to_list()) - 1
    with (
        captures.open(marked) as recording,
        captures.open(cutting.cut(marked, 30_000_000, cutting.LATEST_NS)) as part,
    ):
        ends = dict(recording.nvtx_ranges.select("name", "end_ns").rows())
        clipped = dict(part.nvtx_ranges.select("name", "end_ns").rows())
    assert {name: clipped[name] for name in ("rank 0", "rank 1", "all")} == {
        name: ends[name] for name in ("rank 0", "rank 1", "all")
    }, "up to the end of the recording nothing is cut off"


def test_events_are_those_of_the_calls_that_recorded_them() -> None:
    with (
        captures.open(RANKS) as recording,
        captures.open(cutting.cut(RANKS, 30_000_000, 40_000_000)) as part,
    ):
        records = recording.event_records.join(
            part.api_calls, on=["process", "correlation"], how="semi", maintain_order="left"
        )
        assert 0 < part.event_records.height < recording.event_records.height
        assert part.event_records.equals(records)


def test_work_whose_call_was_not_recorded_belongs_to_its_own_time(tmp_path: Path) -> None:
    file = tmp_path / "attached.sqlite"
    shutil.copyfile(RANKS, file)
    file.chmod(0o600)
    with contextlib.closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("DELETE FROM CUPTI_ACTIVITY_KIND_RUNTIME WHERE start < 30000000")
    with captures.open(file) as recording:
        work = recording.device_operations
        issued = work.join(recording.api_calls, on=["process", "correlation"], how="semi")
    early = work.height - issued.height
    late = work.filter(work["start_ns"] >= 25_000_000).height - issued.height
    assert 0 < late < early
    with captures.open(cutting.cut(file, 25_000_000, cutting.LATEST_NS)) as part:
        assert part.device_operations.height == issued.height + late


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
    assert cutting.Seconds.parse("0:1" + 30 * "0").window_ns() == (0, cutting.LATEST_NS)


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


def test_a_middle_without_work_says_how_to_choose_another_part(tmp_path: Path) -> None:
    file = tmp_path / "ends.sqlite"
    shutil.copyfile(RANKS, file)
    file.chmod(0o600)
    with contextlib.closing(sqlite3.connect(file)) as connection, connection:
        calls = "CUPTI_ACTIVITY_KIND_RUNTIME WHERE start BETWEEN 30000000 AND 40000000"
        for table in ("KERNEL", "MEMCPY", "MEMSET"):
            connection.execute(
                f"DELETE FROM CUPTI_ACTIVITY_KIND_{table} WHERE (correlationId, globalPid) IN "
                f"(SELECT correlationId, globalTid & -16777216 FROM {calls})"
            )
    [part] = inputs.read([str(file)])
    with pytest.raises(EmptyCapture, match=r"--seconds FROM:TO.*no device work was issued"):
        cutting.to_look_at([part], None, int(3 * cutting.BYTES_PER_EVENT / cutting.MEMORY_RATIO))
    with pytest.raises(EmptyCapture) as error:
        cutting.to_look_at([part], "0.031:0.039", 64 * GB)
    assert "--seconds" not in str(error.value)


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
    said = " ".join(result.output.split())
    assert f"timeline.sqlite --seconds {asked} " in said, "the report is of the same part"


def test_seconds_are_for_timelines() -> None:
    result = CliRunner().invoke(lab, ["diagnose", "ncu_memory", "--seconds", "1:2"])
    assert result.exit_code == 2 and "--seconds belongs to timelines" in result.output


def test_a_containers_limit_counts_as_well(tmp_path: Path) -> None:
    """The tightest limit on the way up; what files keep in memory can be given back."""
    own, root = tmp_path / "cgroup", tmp_path / "fs"
    job = root / "slurm" / "job_7"
    job.mkdir(parents=True)
    own.write_text("12:devices:/elsewhere\n0::/slurm/job_7\n")
    assert cutting._left_to_group(own, root) == cutting.NO_LIMIT
    for group, most in ((job, "max"), (root / "slurm", "9000")):
        (group / "memory.max").write_text(most)
        (group / "memory.current").write_text("5000")
        (group / "memory.stat").write_text("anon 3000\ninactive_file 1000\n")
    assert cutting._left_to_group(own, root) == 5_000
    (job / "memory.max").write_text("6000")
    assert cutting._left_to_group(own, root) == 2_000
    (job / "memory.current").write_text("8000")
    assert cutting._left_to_group(own, root) == 0
    own.unlink()
    assert cutting._left_to_group(own, root) == cutting.NO_LIMIT


def test_what_is_free_is_the_lesser(monkeypatch: pytest.MonkeyPatch) -> None:
    [part] = inputs.read([str(RUN)])
    monkeypatch.setattr(cutting, "_left_to_group", lambda: 100_000)
    _, notes = cutting.to_look_at([part], None)
    assert len(notes) == 1
