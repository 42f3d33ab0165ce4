"""Captures in which nobody marked a step or a rank are read as if all of it were marked."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
from functools import partial
from pathlib import Path

import pytest

from grading.checks.generate.kineto import Trace
from profiling_lab import captures
from profiling_lab.captures import inputs
from profiling_lab.mine import asking, limits
from profiling_lab.mine.functions import functions_for

ROOT = Path(__file__).resolve().parents[2]
STRAGGLER = ROOT / "captures" / "ddp_timeline_straggler" / "timeline.sqlite"
MILLION = 1_000_000


def verdict(*names: str) -> asking.Verdict:
    (run,) = inputs.runs(inputs.read(names))
    return asking.ask_all(run, partial(functions_for, against=str(ROOT / "solutions")))


def waiting_trace(folder: Path, *, step: bool, rank: int | None = None) -> Trace:
    """Five rounds in which the host waits for a kernel and then thinks; the first call is at 2 ms."""
    trace = Trace(folder)
    for number in range(5):
        start = (2 + 10 * number) * MILLION
        trace.kernel(start + MILLION, start + 4 * MILLION, call=(start, start + 20_000))
        trace.call("cudaStreamSynchronize", start + 30_000, start + 4 * MILLION)
    if step:
        trace.step(0, 2 * MILLION, 46 * MILLION)
    trace.operator("aten::randn", 0, MILLION)
    trace.noise(50 * MILLION)  # its ranges on the device are named after steps
    if not step:
        trace.events = [e for e in trace.events if "ProfilerStep" not in e["name"]]
    if rank is not None:
        trace.header["distributedInfo"] = {"rank": rank, "world_size": 2, "backend": "nccl"}
    return trace


@pytest.mark.parametrize("style", ["new", "old"])
def test_a_trace_without_steps_is_one_step(tmp_path: Path, style: str) -> None:
    told = waiting_trace(tmp_path / "told", step=True).save(style)
    untold = waiting_trace(tmp_path / "untold", step=False).save(style)
    want, got = verdict(told).findings, verdict(untold).findings
    assert got[0].category == "host_bound"
    assert got[0].evidence["window_ns"] == 44 * MILLION
    assert got == want


def test_what_is_missing_is_said_of_such_a_trace_only(tmp_path: Path) -> None:
    for step in (True, False):
        folder = waiting_trace(tmp_path / str(step), step=step).save(packed=False)
        (part,) = inputs.read([f"{folder}/trace.json"])
        said = any("profiler.step()" in line for line in limits.of_run([part]))
        assert said is not step
        assert (part.path == Path(folder) / "trace.json") is step, "left alone if steps are marked"
        assert "added" not in (tmp_path / str(step) / "trace.json").read_text(encoding="utf-8")


def test_traces_of_ranks_without_steps(tmp_path: Path) -> None:
    """One rank's file is marked, the other's is not."""
    for rank in (0, 1):
        trace = waiting_trace(tmp_path, step=rank == 0, rank=rank)
        trace.kernel(45 * MILLION, 46 * MILLION, name="ncclDevKernel_AllReduce_Sum_f32")
        file = Path(trace.save(packed=False)) / "trace.json"
        file.rename(tmp_path / f"trace_rank{rank}.json")
    found = verdict(str(tmp_path))
    assert not found.unanswered
    assert found.findings[0].category == "host_bound"


def test_a_trace_that_no_call_issued_is_left_alone(tmp_path: Path) -> None:
    trace = Trace(tmp_path)
    trace.kernel(0, MILLION)
    trace.save(packed=False)
    file = tmp_path / "trace.json"
    data = json.loads(file.read_text(encoding="utf-8"))
    data["traceEvents"] = [e for e in data["traceEvents"] if e["cat"] == "kernel"]
    file.write_text(json.dumps(data), encoding="utf-8")
    (part,) = inputs.read([str(file)])
    assert part.path == file


def test_one_recording_of_ranks_that_nobody_named(tmp_path: Path) -> None:
    file = tmp_path / "job.sqlite"
    shutil.copyfile(STRAGGLER, file)
    with sqlite3.connect(file) as connection:
        removed = connection.execute(
            "DELETE FROM NVTX_EVENTS WHERE "
            "COALESCE(text, (SELECT value FROM StringIds WHERE id = textId)) GLOB 'rank [0-9]*'"
        ).rowcount
    assert removed == 2
    before = file.read_bytes()
    want, got = verdict(str(STRAGGLER)), verdict(str(file))
    assert not got.unanswered
    assert got.findings[0].category == want.findings[0].category == "rank_imbalance"
    assert got.findings[0].subject == want.findings[0].subject == "rank:1"
    shares = [one.findings[0].evidence["recoverable_ratio"] for one in (want, got)]
    # Its window reaches over the whole recording, the ranges only over the steady steps.
    assert shares[1] == pytest.approx(shares[0], rel=0.2)
    assert file.read_bytes() == before


def test_named_ranks_and_single_processes_are_left_alone() -> None:
    for capture in (STRAGGLER, ROOT / "captures" / "two_streams" / "timeline.sqlite"):
        (part,) = inputs.read([str(capture)])
        assert part.path == captures.path(capture)


def test_ranks_are_numbered_by_device(tmp_path: Path) -> None:
    """The process with the larger number may have the first device."""
    file = tmp_path / "job.sqlite"
    shutil.copyfile(STRAGGLER, file)
    with sqlite3.connect(file) as connection:
        connection.execute("DELETE FROM NVTX_EVENTS")
        for table in ("KERNEL", "MEMCPY", "MEMSET"):
            name = f"CUPTI_ACTIVITY_KIND_{table}"
            connection.execute(f"UPDATE {name} SET deviceId = 1 - deviceId")
    (part,) = inputs.read([str(file)])
    recording = captures.open(part.path)
    devices = dict(recording.kernels.select("process", "device").unique().iter_rows())
    named = recording.nvtx_ranges.select("name", "process").iter_rows()
    ranks = {int(name.split()[1]): process for name, process in named if re.match("rank", name)}
    assert {rank: devices[process] for rank, process in ranks.items()} == {0: 0, 1: 1}
