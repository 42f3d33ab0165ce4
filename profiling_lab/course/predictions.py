"""What the week asks learners to predict, and how their predictions did: `lab predict`.

A prediction is an interval for the share of time that a change saves, given before its measurement is
seen. What was measured is computed from the recordings when it is asked for; no profiler ran meanwhile.
"""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from profiling_lab import captures
from profiling_lab.captures.program_runs import run_of
from profiling_lab.course import lab_folder
from profiling_lab.errors import LabError

KEPT = "predictions.json"  # in .lab
# An interval is to be so wide that it holds what was measured this often.
CONFIDENCE = 0.8
LEAST_PCT, MOST_PCT = -100.0, 100.0


@dataclass(frozen=True)
class Change:
    """A change of a program, whose effect was measured.

    lesson: the page it belongs to. text: what is changed, and of what a time is asked. measured: the share of
    the time that it saved, from -inf to 1; below 0 it cost time.
    """

    name: str
    lesson: str
    text: str
    measured: Callable[[], float]

    @property
    def measured_pct(self) -> float:
        """What was measured, in percent, to one decimal."""
        return round(100 * self.measured(), 1) + 0.0  # never -0.0


@dataclass(frozen=True)
class Outcome:
    """A kept prediction beside what was measured, all in percent of the time before the change.

    measured_pct: to one decimal, as it is shown, so that `holds` fits the number that a reader sees.
    """

    name: str
    low_pct: float
    high_pct: float
    measured_pct: float

    @property
    def holds(self) -> bool:
        """Whether what was measured lies in the interval."""
        return self.low_pct <= self.measured_pct <= self.high_pct


def _told(capture: str) -> dict[str, Any]:
    """What the recorded program measured by itself, without a profiler."""
    return captures.provenance(capture)["reported_by_program"]


def _by_rate(before: str, after: str) -> Callable[[], float]:
    return lambda: 1 - _told(before)["steps_per_s"] / _told(after)["steps_per_s"]


def _by_step(before: str, after: str) -> Callable[[], float]:
    return lambda: 1 - _told(after)["step_ms_unprofiled"] / _told(before)["step_ms_unprofiled"]


def _by_kernel(capture: str, before: str, after: str) -> Callable[[], float]:
    def measured() -> float:
        kernels = _told(capture)["kernels"]
        return 1 - kernels[after]["duration_ns"] / kernels[before]["duration_ns"]

    return measured


def _by_operation(before: str, after: str) -> Callable[[], float]:
    def measured() -> float:
        rows = json.loads(captures.text("roofline_ops", "measurements.json"))["measurements"]
        ns = {row["name"]: statistics.median(row["device_time"]) for row in rows}
        return 1 - ns[after] / ns[before]

    return measured


def _by_requests(run: str) -> Callable[[], float]:
    def measured() -> float:
        found = run_of("serving_evidence", "evidence.json", run)
        rounds = zip(found["before_ns"], found["after_ns"], strict=True)
        return 1 - statistics.median(after / before for before, after in rounds)

    return measured


DAY1, DAY2, DAY3, DAY4, DAY5 = (
    f"week07/{day}/README.md"
    for day in (
        "day1_nsight_systems",
        "day2_nsight_compute",
        "day3_pytorch_profiler",
        "day4_bottleneck_analysis",
        "day5_end_to_end",
    )
)
CHANGES = (
    Change(
        "inference",
        DAY1,
        "torch_inference_baseline makes a batch, copies it in, runs a small transformer, reads the logits back and "
        "picks the answers, one after the other. torch_inference_improved pins its buffers, copies on streams of "
        "their own, and orders them by events. What share of a step does that save?",
        _by_rate("torch_inference_baseline", "torch_inference_improved"),
    ),
    Change(
        "item",
        DAY1,
        "training_item reads loss, accuracy and gradient norm with .item() in every step. training_async leaves "
        "them on the device and reads them every ten steps. What share of a step does that save?",
        _by_rate("training_item", "training_async"),
    ),
    Change(
        "transpose",
        DAY2,
        "transpose_direct of ncu_shared reads a matrix along its rows and writes along columns. transpose_tile32 goes "
        "through a tile of 32 by 32 numbers in shared memory, so that it writes along rows as well. What share of "
        "the kernel's time does that save?",
        _by_kernel("ncu_shared", "transpose_direct", "transpose_tile32"),
    ),
    Change(
        "blocks",
        DAY2,
        "normalise_32_blocks of ncu_parallelism runs as 32 blocks on a device of 132 multiprocessors. "
        "normalise_1056_blocks does the same work as 1,056 blocks. What share of the kernel's time does that save?",
        _by_kernel("ncu_parallelism", "normalise_32_blocks", "normalise_1056_blocks"),
    ),
    Change(
        "log",
        DAY3,
        "torch_train_sync picks the labelled examples, checks the loss and logs it in every step, and the host waits "
        "for the device each time. torch_train_clean reads its numbers after the last step. What share of a step "
        "does that save?",
        _by_step("torch_train_sync", "torch_train_clean"),
    ),
    Change(
        "service",
        DAY3,
        "A service answers short batches (torch_infer_launch_bound). One change left every kernel of it as it was. What "
        "share of a step did the change save?",
        _by_step("torch_infer_launch_bound", "torch_infer_graph"),
    ),
    Change(
        "fuse",
        DAY4,
        "A chain of elementwise operations on 67,108,864 numbers in float32 runs as three kernels, each of which "
        "reads and writes memory. Then one kernel does it all. What share of the device's time does that save?",
        _by_operation("chain fp32 67108864 eager", "chain fp32 67108864 fused"),
    ),
    Change(
        "half",
        DAY4,
        "A layer norm over 16,384 rows of 4,096 numbers changes from float32 to bfloat16: half the bytes, the same "
        "operations. What share of the device's time does that save?",
        _by_operation("layer_norm fp32 16384x4096", "layer_norm bf16 16384x4096"),
    ),
    Change(
        "search",
        DAY5,
        "A server runs its model operator by operator, in bfloat16. Then cuDNN may look for its fastest algorithms "
        "(torch.backends.cudnn.benchmark = True). What share of a batch's time does that save (the median over rounds)?",
        _by_requests("change_b"),
    ),
)


def named(name: str) -> Change:
    """The change of a name. Raises LabError that lists the names."""
    for change in CHANGES:
        if change.name == name:
            return change
    raise LabError(f"{name}: no such prediction; one of {', '.join(c.name for c in CHANGES)}")


def percent(text: str) -> float:
    """A share as it is typed: "40", "40%", "-5 %". Raises LabError, with an example, for anything else."""
    found = re.fullmatch(r"\s*([+-]?\d+(?:\.\d+)?)\s*%?\s*", text)
    value = float(found[1]) if found else None
    if value is None or not LEAST_PCT <= value <= MOST_PCT:
        raise LabError(f"{text}: a share from -100% to 100% is wanted, as in 40% (below 0: slower)")
    return value


def keep(root: Path, name: str, low_pct: float, high_pct: float) -> Outcome:
    """Keep a prediction, and say how it did. Raises LabError for a second one, and for an empty interval."""
    change = named(name)
    if low_pct >= high_pct:
        raise LabError(f"{low_pct:g}% to {high_pct:g}%: give the lower end first, then the higher")
    kept = lab_folder.read(root, KEPT)
    if name in kept:
        raise LabError(
            f"{name}: you have seen what was measured, so your first prediction stands; see lab predict"
        )
    kept[name] = [low_pct, high_pct]
    lab_folder.write(root, KEPT, kept)
    return Outcome(name, low_pct, high_pct, change.measured_pct)


def outcomes(root: Path) -> list[Outcome]:
    """Every prediction that was kept, in the week's order."""
    kept = lab_folder.read(root, KEPT)
    out = []
    for change in CHANGES:
        match kept.get(change.name):
            case [int() | float() as low, int() | float() as high]:
                out.append(Outcome(change.name, low, high, change.measured_pct))
    return out


def calibration(told: Sequence[Outcome]) -> str:
    """How often the intervals held, beside how often they should have; "" without any."""
    if not told:
        return ""
    held = sum(outcome.holds for outcome in told)
    width = statistics.median(outcome.high_pct - outcome.low_pct for outcome in told)
    words = (
        f"{held} of {len(told)} intervals contain the measured value: {held / len(told):.0%}, and "
        f"{CONFIDENCE:.0%} should. Their median width is {width:.0f} points."
    )
    if len(told) < 5:
        return f"{words} Too few to judge yet."
    if held < CONFIDENCE * len(told) - 1:
        return f"{words} You are too sure: give wider intervals."
    if held == len(told) and width > 30:
        return f"{words} You know more than you claim: give narrower ones."
    return words
