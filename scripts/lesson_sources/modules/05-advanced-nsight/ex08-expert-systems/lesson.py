"""What the lesson on rules of an expert system computes and draws."""

from __future__ import annotations

import csv
import io
import json
import re
import sqlite3
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from profiling_lab import captures
from scripts.lesson_sources.drawing import (
    BLUE,
    GREEN,
    GREY,
    GRID,
    INK,
    ORANGE,
    SKY,
    VERMILION,
    legend,
    reference,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ALARMS = {
    "sync_bound": VERMILION,
    "transfer_bound": BLUE,
    "launch_bound": ORANGE,
    "host_bound": GREEN,
}


# -- what the tool itself said ------------------------------------------------------------------------


@cache
def transcripts(recorded: str) -> dict[str, dict[str, Any]]:
    """What `nsys analyze` printed about a recording, by the name of the question."""
    told = json.loads(captures.text(recorded, "transcripts.json"))["transcripts"]
    return {one["name"]: one for one in told}


def tool_rows(recorded: str, question: str) -> list[dict[str, str]]:
    """The rows of a rule in what the tool printed."""
    lines = [line for line in transcripts(recorded)[question]["stdout"].splitlines() if line]
    start = next(
        (i for i, line in enumerate(lines) if re.match(r"(Duration|Row#|In-Use)\W", line)), None
    )
    return [] if start is None else list(csv.DictReader(io.StringIO("\n".join(lines[start:]))))


def tool_count(recorded: str, question: str) -> int:
    """How many rows a rule of the tool gave."""
    return len(tool_rows(recorded, question))


def in_use(recorded: str, question: str) -> float:
    """The highest In-Use of the tool's rule on utilization, as a ratio."""
    rows = tool_rows(recorded, question)
    return (
        max(float(next(v for k, v in row.items() if k.startswith("In-Use"))) for row in rows) / 100
    )


def busy(capture: str) -> float:
    """Busy time over the span of device 0, by the union."""
    day1 = reference("ex_30")
    return day1.utilization(capture)[0]


def longest_gap_ns(capture: str) -> int:
    """The longest idle stretch of a capture."""
    return max(g["end_ns"] - g["start_ns"] for g in reference("ex_30").idle_gaps(capture))


# -- the learner's rules ------------------------------------------------------------------------------


@cache
def verdict(capture: str) -> Any:
    """The finding of the reference: its queries take a third of a second a capture."""
    return reference("advanced_ex08").verdict(capture)


@cache
def alarms(capture: str) -> dict[str, int]:
    """The time that each of the four alarms accounts for, on the device of the verdict."""
    ex = reference("advanced_ex08")
    file = captures.path(capture)
    connection = sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro&immutable=1", uri=True)
    rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    held = [table for table in ex.OPERATIONS if (table,) in rows]
    device = int(verdict(capture).subject.removeprefix("device:"))
    starved = [r for r in connection.execute(ex.starved_query(held)) if r[2] == device]
    copies = connection.execute(ex.pageable_query()).fetchall() if ex.COPY in held else []
    connection.close()
    return {
        "sync_bound": sum(r[0] for r in starved if r[4]),
        "transfer_bound": sum(r[0] for r in copies if r[3] == device),
        "launch_bound": sum(r[0] for r in starved if not r[4] and r[0] <= ex.LAUNCH_NS),
        "host_bound": sum(r[0] for r in starved if not r[4] and r[0] > ex.LAUNCH_NS),
    }


def share(capture: str, alarm: str) -> float:
    """What an alarm accounts for, over the window of the verdict."""
    window = verdict(capture).evidence["window_ns"]
    return alarms(capture)[alarm] / window


def starved_on(capture: str, device: int) -> float:
    """Stretches of a device that starved after a wait, over that device's own window."""
    ex = reference("advanced_ex08")
    file = captures.path(capture)
    connection = sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro&immutable=1", uri=True)
    rows = connection.execute(ex.starved_query([ex.KERNEL, ex.MEMSET])).fetchall()
    start, end = connection.execute(
        f"""SELECT min(start), max("end") FROM (
            SELECT deviceId, start, "end" FROM {ex.KERNEL}
            UNION ALL SELECT deviceId, start, "end" FROM {ex.MEMSET}
        ) WHERE deviceId = ?""",
        (device,),
    ).fetchone()
    connection.close()
    return sum(r[0] for r in rows if r[2] == device and r[4]) / (end - start)


@cache
def scores(floor: float) -> dict[str, dict[str, Any]]:
    """Scores of the four alarms over LABELS, each firing at a share of floor."""
    ex = reference("advanced_ex08")
    fired = {
        alarm: [c for c in ex.LABELS if alarms(c)[alarm] and share(c, alarm) >= floor]
        for alarm in ALARMS
    }
    return ex.score_rules(fired, {alarm: alarm for alarm in ALARMS}, ex.LABELS)


def score(alarm: str, key: str, floor: float) -> str:
    """A score as text."""
    value = scores(floor)[alarm][key]
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def wrong(alarm: str, floor: float) -> str:
    """The captures in which an alarm is false."""
    return ", ".join(f"`{name}`" for name in scores(floor)[alarm]["false_alarms"]) or "none"


def pageable_count(capture: str) -> int:
    """Rows of the rule on pageable copies."""
    ex = reference("advanced_ex08")
    file = captures.path(capture)
    connection = sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro&immutable=1", uri=True)
    rows = connection.execute(ex.pageable_query()).fetchall()
    connection.close()
    return len(rows)


# -- plots --------------------------------------------------------------------------------------------


def alarms_plot() -> Figure:
    """What each alarm accounts for in each labelled capture."""
    import matplotlib.pyplot as plt

    labels = reference("advanced_ex08").LABELS
    figure, axes = plt.subplots(figsize=(9.2, 5.4))
    figure.subplots_adjust(left=0.36, right=0.985, top=0.93, bottom=0.14)
    for lane, (capture, label) in enumerate(labels.items()):
        at = 0.0
        for alarm, colour in ALARMS.items():
            part = share(capture, alarm)
            axes.barh(lane, part, left=at, height=0.66, color=colour)
            at += part
        axes.text(-0.01, lane, f"{capture}  ", ha="right", va="center", fontsize=8.5)
        axes.text(
            -0.42,
            lane,
            label.removesuffix("_bound"),
            va="center",
            fontsize=8.5,
            color=ALARMS.get(label, INK if label == "healthy" else GREY),
        )
    axes.axvline(0.1, color=INK, linewidth=0.9, linestyle=(0, (4, 3)))
    axes.set(xlim=(0, 1), ylim=(len(labels) - 0.4, -0.6), yticks=[])
    axes.set_title("Left: what Day 1 finds. Bars: what each alarm accounts for, of the window")
    axes.grid(axis="x", color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    legend(
        figure,
        {
            "starved after a wait": VERMILION,
            "pageable copies": BLUE,
            "starved, up to 50 µs": ORANGE,
            "starved, longer": GREEN,
        },
        columns=4,
    )
    return figure


def utilization_plot() -> Figure:
    """The tool's rule on utilization against the union, on two recordings."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(9.2, 1.9))
    figure.subplots_adjust(left=0.22, right=0.97, top=0.84, bottom=0.3)
    names = {"rules_streams": "two_streams", "rules_inference": "torch_inference_baseline"}
    for row, (recorded, capture) in enumerate(names.items()):
        for place, (value, colour) in enumerate(
            ((in_use(recorded, "one chunk"), ORANGE), (busy(capture), SKY))
        ):
            lane = row + 0.36 * (place - 0.5)
            axes.barh(lane, value, height=0.32, color=colour)
            axes.text(value, lane, f" {value:.0%}", va="center", fontsize=8.5)
    axes.axvline(1, color=INK, linewidth=0.9, linestyle=(0, (4, 3)))
    axes.set_yticks(range(len(names)), list(names.values()))
    axes.set(ylim=(1.5, -0.5), xlim=(0, 3.1), title="Share of the time in use")
    axes.grid(axis="x", color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    legend(figure, {"gpu_time_util, the whole in one chunk": ORANGE, "union": SKY}, columns=2)
    return figure


FIGURES: dict[str, Callable[[], Figure]] = {
    "expert_alarms": alarms_plot,
    "expert_utilization": utilization_plot,
}
