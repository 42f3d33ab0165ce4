"""What traces of ranks cannot show: who is missing, and what the profiler made of their steps."""

from __future__ import annotations

from pathlib import Path

from grading.checks.generate.kineto import Trace
from profiling_lab import captures
from profiling_lab.captures import inputs
from profiling_lab.mine import limits


def drawn(folder: Path, world_size: int, *, steps: bool = True) -> str:
    """Ranks 0 and 1 of a job, three steps from 0 to 4.5 ms that leave 0.5 ms between two of them."""
    for rank in (0, 1):
        trace = Trace(folder / f"rank{rank}")
        trace.header["distributedInfo"] = {
            "rank": rank, "world_size": world_size, "backend": "nccl",
        }  # fmt: skip
        for number in range(3):
            start = number * 1_500_000
            if steps:
                trace.step(number, start, start + (1_000_000 if number < 2 else 1_500_000))
            trace.kernel(start + 10_000, start + 90_000, call=(start + 1_000, start + 2_000))
        text = captures.text(trace.save(), "trace.json")
        (folder / f"trace_rank{rank}.json").write_text(text)
    return str(folder)


def said(place: str) -> list[str]:
    (run,) = inputs.runs(inputs.read([place]))
    return limits.of_run(run)


def test_the_length_of_a_step_is_said_as_recorded(tmp_path: Path) -> None:
    (sentence,) = [line for line in said(drawn(tmp_path, 2)) if "without the profiler" in line]
    assert "here 1.50 ms." in sentence


def test_steps_that_nobody_marked_have_no_length(tmp_path: Path) -> None:
    assert not any("without the profiler" in line for line in said(drawn(tmp_path, 2, steps=False)))


def test_who_is_missing_is_counted(tmp_path: Path) -> None:
    for size, count in ((2, 0), (3, 1), (128, 126)):
        (tmp_path / str(size)).mkdir()
        found = [line for line in said(drawn(tmp_path / str(size), size)) if "the other" in line]
        words = [f"the other {count} of {size} ranks of the job (name the traces of all)"]
        assert found == (words if count else [])
