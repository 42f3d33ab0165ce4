"""What is said of ranks: alone, together, and where some are not there."""

from __future__ import annotations

import json
import shutil
import sqlite3
from decimal import Decimal
from pathlib import Path

import pytest

from profiling_lab import captures
from profiling_lab.captures import inputs
from profiling_lab.errors import CaptureError, LabError
from profiling_lab.findings import Finding
from profiling_lab.mine.functions import Functions
from tests.harness.asked_functions import REFERENCE, ask, to_do


def test_what_one_rank_would_gain_alone_is_not_said(tmp_path: Path) -> None:
    """Rank 1 of ddp_traces_late_data is late by its host; rank 0 would gain nothing by another host."""
    verdict = ask("ddp_traces_late_data")
    assert [finding.category for finding in verdict.findings] == ["rank_imbalance"]


def test_what_all_ranks_would_gain_is_said_with_the_least(tmp_path: Path) -> None:
    verdict = ask("ddp_traces_one_bucket_narrow")
    found = {finding.category: finding for finding in verdict.findings}
    least = min(
        ask(str(file)).findings[0].evidence["recoverable_ns"]
        for file in sorted(inputs.read(["ddp_traces_one_bucket_narrow"])[0].path.glob("trace_*"))
    )
    assert found["launch_bound"].evidence["recoverable_ns"] == least
    assert found["communication_bound"].subject == "rank:0"


def some_ranks(folder: Path, name: str, *ranks: int, world_size: int) -> list[str]:
    """The traces of ranks of a recorded job, which now say that it had more ranks."""
    out = []
    for rank in ranks:
        text = captures.text(captures.place(name) / f"trace_rank{rank}.json.gz", "trace.json")
        assert '"world_size": 2' in text
        file = folder / f"trace_rank{rank}.json"
        file.write_text(text.replace('"world_size": 2', f'"world_size": {world_size}'))
        out.append(str(file))
    return out


@pytest.mark.parametrize("name", ["ddp_traces_late_data", "ddp_traces_one_bucket_narrow"])
@pytest.mark.parametrize("as_folder", [False, True])
def test_of_some_ranks_each_is_judged_alone(tmp_path: Path, name: str, as_folder: bool) -> None:
    files = some_ranks(tmp_path, name, 0, 1, world_size=128)
    verdict = ask(str(tmp_path)) if as_folder else ask(*files)
    words = "there is no trace of ranks 2, 3, 4, 5, 6, … 127 (126 ranks) of 128"
    assert verdict.unanswered == {}, "nobody could answer"
    assert verdict.unjudged.endswith(words)
    assert verdict.findings[0].recommendation.endswith(words)
    alone = [ask(file).findings[0] for file in files]
    sick = {rank: one for rank, one in enumerate(alone) if one.category != "healthy"}
    found: dict[str, Finding] = {}
    for one in verdict.findings:
        found.setdefault(one.subject, one)  # the main one of each, and not what it leaves behind
    for rank, one in sick.items():
        assert found[f"rank:{rank}"].category == one.category
        assert found[f"rank:{rank}"].evidence == one.evidence
    assert sick
    assert len(found) == len(sick), "nothing is said of ranks that wait for each other"


@pytest.mark.parametrize(
    ("ranks", "size", "words"),
    [((0,), 2, "rank 1 of 2"), ((1,), 3, "ranks 0, 2 of 3"), ((0, 1), 8, "ranks 2, 3, 4, 5, 6, 7 of 8"),
     ((0, 1), 9, "ranks 2, 3, 4, 5, 6, … 8 (7 ranks) of 9")],
)  # fmt: skip
def test_ranks_that_are_not_there_are_named(
    tmp_path: Path, ranks: tuple[int, ...], size: int, words: str
) -> None:
    verdict = ask(*some_ranks(tmp_path, "ddp_traces_late_data", *ranks, world_size=size))
    assert verdict.unjudged.endswith(f"cannot be judged: there is no trace of {words}")
    assert verdict.unjudged in verdict.findings[0].recommendation


def test_ranks_that_recorded_other_collectives_are_judged_alone(tmp_path: Path) -> None:
    files = some_ranks(tmp_path, "ddp_traces_late_data", 0, 1, world_size=2)
    trace = json.loads(Path(files[1]).read_text(), parse_float=Decimal)
    last = max(
        (event for event in trace["traceEvents"] if event.get("name", "").startswith("ncclDev")),
        key=lambda event: event["ts"],
    )
    trace["traceEvents"].remove(last)
    Path(files[1]).write_text(json.dumps(trace, default=float))
    verdict = ask(*files)
    assert verdict.unanswered == {}, "no function is to be fixed"
    assert "communication kernels a rank {0: 18, 1: 17}" in verdict.unjudged
    assert verdict.unjudged in verdict.findings[0].recommendation
    assert {one.category for one in verdict.findings}.isdisjoint({"rank_imbalance", "healthy"})
    assert all(one.subject.startswith("rank:") for one in verdict.findings)


def test_traces_of_two_runs_are_no_job(tmp_path: Path) -> None:
    some_ranks(tmp_path, "ddp_traces_late_data", 0, world_size=2)
    some_ranks(tmp_path, "ddp_traces_late_data", 1, world_size=3)
    with pytest.raises(CaptureError, match="different runs"):
        ask(str(tmp_path))


def test_what_a_late_rank_does_is_said() -> None:
    verdict = ask("ddp_traces_late_data")
    assert verdict.findings[0].category == "rank_imbalance"
    late = verdict.by_rank[verdict.findings[0].subject]
    ratio = late.evidence["recoverable_ratio"]
    said = f"alone is {late.category} ({ratio:.0%} of its window)"
    assert verdict.findings[0].recommendation.endswith(said)
    assert late.category == "host_bound"


def test_a_whole_job_is_judged() -> None:
    for name in ("ddp_traces_late_data", "ddp_timeline_overlap", "two_streams", "torch_train_sync"):
        verdict = ask(name)
        assert verdict.unjudged == ""
        assert "judged" not in verdict.findings[0].recommendation


def changed_timeline(folder: Path, change: str) -> str:
    file = folder / "changed.sqlite"
    shutil.copy(captures.path("ddp_timeline_overlap"), file)
    with sqlite3.connect(file) as connection:
        connection.execute(change)
    return str(file)


def test_nobody_is_healthy_while_ranks_could_not_be_judged(tmp_path: Path) -> None:
    kernels = "CUPTI_ACTIVITY_KIND_KERNEL"
    collectives = (
        "shortName IN (SELECT id FROM StringIds WHERE value GLOB 'nccl*') AND deviceId = 1"
    )
    middle = (
        f"DELETE FROM {kernels} WHERE rowid = (SELECT rowid FROM {kernels} WHERE {collectives} "
        f"ORDER BY start LIMIT 1 OFFSET (SELECT COUNT(*) / 2 FROM {kernels} WHERE {collectives}))"
    )
    verdict = ask(changed_timeline(tmp_path, middle))
    assert verdict.findings[0].category == "healthy"
    assert "missing in between" in verdict.unjudged
    assert verdict.findings[0].recommendation == verdict.unjudged
    one_rank = ask(changed_timeline(tmp_path, f"DELETE FROM {kernels} WHERE deviceId = 1"))
    assert "no other one is in the recording" in one_rank.findings[0].recommendation
    todo = ask("ddp_timeline_overlap", functions=to_do(tmp_path, "nsys_ex04"))
    assert todo.findings[0].category == "healthy"
    assert "name_multi_gpu_bottleneck" in todo.findings[0].recommendation


def test_where_one_process_ran_nothing_is_said_of_ranks() -> None:
    def without(identifier: str) -> Functions:
        if identifier == "nsys_ex04":
            raise LabError("cannot be loaded")
        return REFERENCE(identifier)

    verdict = ask("two_streams", functions=without)
    assert "name_multi_gpu_bottleneck" in verdict.unanswered
    assert (verdict.unjudged, verdict.findings[0].recommendation) == ("", "none")
    assert "cannot be loaded" in ask("ddp_timeline_overlap", functions=without).unjudged
