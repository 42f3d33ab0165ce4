"""What the programs case_*.py have in common: time a sick and a fixed variant in turns, record one.

Both variants run unprofiled in the same process, in turns, round after round; the samples are printed
as one line, `RESULT {"sick_ns": […], "fixed_ns": […], …}`, in ns a step. Then the variant that was
asked for is recorded:

- `nsys`: between cudaProfilerStart and cudaProfilerStop, each step inside an NVTX range "step";
- `torch`: by torch.profiler, written to `trace.json` (torch_recording.py);
- `ncu`: with `--once`, and then nothing is timed: one step between cudaProfilerStart and …Stop.

`--smoke` runs everything on the CPU with tiny shapes and records nothing.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch

SMOKE = "--smoke" in sys.argv or not torch.cuda.is_available()
DEVICE = torch.device("cpu" if SMOKE else "cuda")
DTYPE = torch.float32 if SMOKE else torch.bfloat16
VARIANTS = ("sick", "fixed")


@dataclass
class Plan:
    """How often what is done. timed_steps in a row make one sample, of which each variant has `rounds`."""

    recorded_steps: int = 8
    timed_steps: int = 6
    rounds: int = 7
    warm_up_steps: int = 3
    watch: str = "nsys"
    stacks: bool = False
    memory: bool = False


class Work:
    """One variant of a program. `step` is what is timed and recorded."""

    def step(self, number: int) -> None:
        raise NotImplementedError

    def finish(self) -> None:
        """Called after the last step of a row, before the device is waited for."""

    def before_steps(self) -> None:
        """Called inside the recording (nsys only), before the steps."""

    def figures(self) -> dict[str, Any]:
        """More to report, at the very end."""
        return {}


def marked(name: str) -> Any:
    """An NVTX range; nothing without a GPU."""
    return nullcontext() if SMOKE else torch.cuda.nvtx.range(name)


def wait() -> None:
    if not SMOKE:
        torch.cuda.synchronize()


def time_steps(work: Work, count: int, first: int = 0) -> int:
    """Time of a step in ns, over `count` steps in a row."""
    wait()
    start = time.perf_counter_ns()
    for number in range(first, first + count):
        work.step(number)
    work.finish()
    wait()
    return (time.perf_counter_ns() - start) // count


def arguments(doc: str, more: Callable[[argparse.ArgumentParser], None] | None = None) -> Any:
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--variant", choices=VARIANTS, required=True)
    parser.add_argument("--smoke", action="store_true", help="tiny shapes on the CPU, no recording")
    parser.add_argument("--once", action="store_true", help="one step for Nsight Compute, untimed")
    if more:
        more(parser)
    return parser.parse_args()


def run(make: Callable[[str], Work], variant: str, plan: Plan) -> None:
    """Time both variants, record one and print what was measured."""
    if plan.watch == "ncu" and "--once" in sys.argv:
        work = make(variant)
        for number in range(plan.warm_up_steps):
            work.step(number)
        wait()
        _profiler(start=True)
        work.step(plan.warm_up_steps)
        wait()
        _profiler(start=False)
        return
    works = {name: make(name) for name in VARIANTS}
    rounds, timed = (2, 1) if SMOKE else (plan.rounds, plan.timed_steps)
    for work in works.values():
        time_steps(work, 1 if SMOKE else plan.warm_up_steps)
    samples: dict[str, list[int]] = {name: [] for name in VARIANTS}
    for number in range(rounds):
        for name, work in works.items():
            samples[name].append(time_steps(work, timed, 10 + number * timed))
    chosen = works.pop(variant)
    del work, works
    if not SMOKE:
        torch.cuda.empty_cache()
        time_steps(chosen, 2, 1_000)
    first = 2_000
    if plan.watch == "nsys":
        _record_nsys(chosen, plan, first)
    elif plan.watch == "torch":
        _record_torch(chosen, plan, first)
    result = {f"{name}_ns": found for name, found in samples.items()}
    result |= {"variant": variant, "recorded_steps": plan.recorded_steps, **chosen.figures()}
    print("RESULT", json.dumps(result), flush=True)


def _profiler(start: bool) -> None:
    if not SMOKE:
        (torch.cuda.profiler.start if start else torch.cuda.profiler.stop)()


def _record_nsys(work: Work, plan: Plan, first: int) -> None:
    count = 1 if SMOKE else plan.recorded_steps
    wait()
    _profiler(start=True)
    wait()  # the first calls after the start are slow, and are no part of the program
    time.sleep(0.02)
    wait()
    work.before_steps()
    with marked("steps"):
        for number in range(first, first + count):
            with marked("step"):
                work.step(number)
        work.finish()
        wait()
    _profiler(start=False)


def _record_torch(work: Work, plan: Plan, first: int) -> None:
    if SMOKE:
        work.step(first)
        return
    import torch_recording

    if plan.memory:
        torch_recording.start_memory_history()
    profiler = torch_recording.profile_steps(
        lambda number: work.step(first + number),
        plan.recorded_steps,
        stacks=plan.stacks,
        memory=plan.memory,
    )
    if plan.memory:
        torch_recording.write_snapshot()
    profiler.export_chrome_trace("trace.json")


def pinned(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor in pinned memory, where there is a GPU."""
    return tensor if SMOKE else tensor.pin_memory()
