"""The virtual GPU does what its docstring says, and the given benchmarks lie, or not, as they should."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from profiling_lab.course import manifest as course
from profiling_lab.mine.functions import load_once
from profiling_lab.virtual_gpu import FLUSH_NS, NOISE, VirtualGpu

ROOT = Path(__file__).resolve().parents[2]
FOLDER = "labs/lab05_profiling/benchmarks_that_lie"
CALLS = 40
RECORDED_CALLS, SEED = 24, 1
COLUMNS = ["kind", "region", "stream", "input", "data", "start_ns", "end_ns"]
# What is special about the machine that each case ran on. It says what is wrong, so no learner's file holds it.
MACHINES: dict[str, dict[str, Any]] = {
    "case_01": {"call_ns": 310_000, "compile_ns": 90_000_000},
    "case_02": {"call_ns": 240_000, "queued_ns": 7_000_000},
    "case_03": {"call_ns": 150_000, "cold_ratio": 1.9},
    "case_04": {"call_ns": 280_000, "copy_ns": 700_000},
    "case_05": {"call_ns": 450_000, "zeros_ratio": 0.87},
    "case_06": {"call_ns": 220_000, "uneven": True},
    "case_07": {"call_ns": 380_000, "queued_ns": 3_000_000},
    "case_08": {"call_ns": (900_000, 810_000), "drift_ratio": 0.004},
    "case_09": {"call_ns": 14_000, "sync_ns": 11_000},
    "case_10": {"call_ns": 3_000, "sync_ns": 11_000},
    "case_11": {"call_ns": 350_000, "remembers": True},
    "case_12": {"call_ns": 260_000},
    "case_13": {"call_ns": 300_000, "slow_calls": 60},
    "case_14": {"call_ns": 40_000},
    "case_15": {"call_ns": 500_000, "lazy": True},
    "case_16": {"call_ns": 410_000, "failing": 0.45},
}

broken = load_once(ROOT / FOLDER / "broken.py", "test_virtual_gpu_broken")


def truth(case: str) -> float:
    """What a case should report, from the machine that it runs on."""
    known = course.load(ROOT)
    stub = known.exercise("lab05_lies").stub
    repaired = load_once(known.solution(stub), "reference_lab05_lies")
    verdict, settings = repaired.verdicts()[case]["verdict"], MACHINES[case]
    machine = VirtualGpu(2, **settings)
    if verdict == "honest":
        launch_and_wait = 4_000 + settings["sync_ns"] if "sync_ns" in settings else 0
        return settings["call_ns"] + launch_and_wait
    more = {"side_stream": {"stream": 1}, "wrong_unit": {"input_bytes": 64 * 2**20}}
    return getattr(repaired, verdict)(machine.gpu, CALLS, **more.get(verdict, {}))


@pytest.mark.parametrize("case", sorted(broken.CASES))
def test_fourteen_lie_and_two_do_not(case: str) -> None:
    got = broken.CASES[case](VirtualGpu(1, **MACHINES[case]).gpu, CALLS)
    ratio = got / truth(case)
    if case in ("case_02", "case_09"):
        assert abs(ratio - 1) < 0.02
    else:
        assert abs(ratio - 1) > 0.05


def runs() -> dict[str, Any]:
    """What `runs.json` holds: each case, run once on its machine."""
    found = {}
    for case, settings in MACHINES.items():
        machine = VirtualGpu(SEED, **settings)
        reported, log = broken.CASES[case](machine.gpu, RECORDED_CALLS), machine.log()
        found[case] = {
            "reported": reported,
            "regions": [[region["start_ns"], region["end_ns"]] for region in log["regions"]],
            "operations": [[it[column] for column in COLUMNS] for it in log["operations"]],
        }
    return {"calls": RECORDED_CALLS, "columns": COLUMNS, "runs": found}


def as_text(document: dict[str, Any]) -> str:
    """A run a line, so that a change shows."""
    lines = [f"  {json.dumps(case)}: {json.dumps(run)}" for case, run in document["runs"].items()]
    head = f' "calls": {document["calls"]},\n "columns": {json.dumps(document["columns"])},\n'
    return "{\n" + head + ' "runs": {\n' + ",\n".join(lines) + "\n }\n}\n"


def test_the_recorded_runs_are_those_of_the_machines() -> None:
    """Made by `uv run python tests/harness/test_virtual_gpu.py`."""
    assert broken.RUNS.read_text(encoding="utf-8") == as_text(runs())
    assert sorted(broken.CASES) == sorted(MACHINES)


def test_calls_are_asynchronous_and_in_order() -> None:
    gpu = VirtualGpu(1, 100_000).gpu
    x = gpu.random()
    gpu.sync()
    before = gpu.clock_ns()
    for _ in range(10):
        gpu.call(x)
    assert gpu.clock_ns() - before == 10 * 4_000
    gpu.sync()
    assert abs(gpu.clock_ns() - before - 4_000 - 8_000 - 1_000_000) <= 1_000_000 * NOISE


def test_streams_run_side_by_side() -> None:
    gpu = VirtualGpu(1, 100_000).gpu
    x = gpu.random()
    gpu.sync()
    before = gpu.clock_ns()
    gpu.call(x, stream=1)
    gpu.call(x, stream=2)
    gpu.sync()
    assert gpu.clock_ns() - before < 150_000


def test_an_event_is_taken_when_the_stream_gets_there() -> None:
    gpu = VirtualGpu(1, 100_000).gpu
    gpu.sync()
    start = gpu.record()
    gpu.flush()
    end = gpu.record()
    with pytest.raises(RuntimeError, match="wait"):
        gpu.elapsed_ns(start, end)
    gpu.sync()
    assert gpu.elapsed_ns(start, end) == FLUSH_NS + 4_000


@pytest.mark.parametrize(
    ("what", "word"),
    [
        (lambda gpu: gpu.call(99), "input"),
        (lambda gpu: gpu.call(gpu.on_host()), "to_device"),
        (lambda gpu: gpu.call(gpu.random(), kernel=1), "kernel"),
        (lambda gpu: gpu.ok(0), "output"),
        (lambda gpu: gpu.elapsed_ns(0, 0), "event"),
    ],
)
def test_what_is_not_there_is_refused(what, word: str) -> None:  # noqa: ANN001
    with pytest.raises(ValueError, match=word):
        what(VirtualGpu(1, 100_000).gpu)


def test_a_log_tells_what_ran_and_what_was_measured() -> None:
    machine = VirtualGpu(1, 100_000, failing=1.0)
    gpu = machine.gpu
    x = gpu.random()
    gpu.sync()
    start = gpu.clock_ns()
    assert not gpu.ok(gpu.call(x))
    end = gpu.clock_ns()
    gpu.clock_ns()  # opens a region that is never closed
    gpu.call(x)
    log = machine.log()
    assert log["regions"] == [{"start_ns": start, "end_ns": end}]
    assert [(o["kind"], o["region"], o["start_ns"] is None) for o in log["operations"]] == [
        ("fill", None, False),
        ("call", 0, True),
        ("call", None, True),
    ]


if __name__ == "__main__":
    broken.RUNS.write_text(as_text(runs()), encoding="utf-8")
