"""What the lesson on SQL over a recording computes and draws."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from profiling_lab import captures
from scripts.lesson_sources.drawing import BLUE, GRID, ORANGE, VERMILION, legend, reference

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CALL = "CUPTI_ACTIVITY_KIND_RUNTIME"
# What a plan finds the calls of a range by, and the calls that it then looks at.
FOUND_BY = {
    "the thread": "r.globalTid = n.globalTid",
    "the thread and the start": (
        'r.globalTid = n.globalTid AND r.start >= n.start AND r.start < n."end"'
    ),
}


def ask(capture: str, sql: str) -> Any:
    """The first value of a query over a capture."""
    return reference("advanced_ex04").ask(capture, sql, {})[0][0]


@cache
def visited(capture: str, found_by: str) -> int:
    """How many rows of calls the lesson's query looks at, over all ranges."""
    return ask(
        capture,
        f"SELECT count(*) FROM NVTX_EVENTS AS n JOIN {CALL} AS r ON {FOUND_BY[found_by]} "
        "WHERE n.eventType = 59",
    )


def matches(capture: str, by_process: bool) -> int:
    """How many rows kernels joined to calls give, with a second process that counts alike."""
    source = sqlite3.connect(captures.path(capture).resolve().as_uri() + "?mode=ro", uri=True)
    copy = sqlite3.connect(":memory:")
    source.backup(copy)
    source.close()
    for table, column in (("CUPTI_ACTIVITY_KIND_KERNEL", "globalPid"), (CALL, "globalTid")):
        names = [row[1] for row in copy.execute(f"PRAGMA table_info({table})")]
        shown = [f'"{n}" + {1 << 24}' if n == column else f'"{n}"' for n in names]
        copy.execute(f"INSERT INTO {table} SELECT {', '.join(shown)} FROM {table}")
    condition = "AND r.globalTid >> 24 = k.globalPid >> 24" if by_process else ""
    rows = copy.execute(
        f"""SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL AS k
            JOIN {CALL} AS r ON r.correlationId = k.correlationId {condition}"""
    ).fetchone()
    copy.close()
    return rows[0]


@cache
def ranges(capture: str, name: str) -> list[dict[str, int]]:
    """The projected ranges of one name."""
    return reference("advanced_ex04").project_ranges(capture, name)


def host_ns(capture: str, name: str, place: int) -> int:
    """How long a range took on the host."""
    one = ranges(capture, name)[place]
    return one["range_end_ns"] - one["range_start_ns"]


def device_ns(capture: str, name: str, place: int) -> int:
    """From the first start to the last end of what a range issued."""
    one = ranges(capture, name)[place]
    return one["end_ns"] - one["start_ns"]


def behind_ns(capture: str, name: str, place: int) -> int:
    """How long after a range's end its last operation ended."""
    one = ranges(capture, name)[place]
    return one["end_ns"] - one["range_end_ns"]


def gaps(capture: str, least_ns: int = 0) -> list[tuple[int, int, int]]:
    """Idle stretches by the reference's query."""
    ex = reference("advanced_ex04")
    rows = ex.ask(capture, ex.gaps_query(ex._held(capture)), {})
    return [row for row in rows if row[2] - row[1] >= least_ns]


def gaps_by_row_before(capture: str) -> int:
    """Idle time by the query that looks at one row before only."""
    sql = """
        WITH o AS (SELECT start, "end" FROM CUPTI_ACTIVITY_KIND_KERNEL UNION ALL
                   SELECT start, "end" FROM CUPTI_ACTIVITY_KIND_MEMCPY)
        SELECT sum(gap) FROM (SELECT start - lag("end") OVER (ORDER BY start) AS gap FROM o)
        WHERE gap > 0"""
    return ask(capture, sql)


def verdict(capture: str, name: str, key: str) -> Any:
    """One piece of evidence of the verdict, or its category."""
    found = reference("advanced_ex04").verdict(capture, name)
    return found.category if key == "category" else found.evidence[key]


# -- plots --------------------------------------------------------------------------------------------


def projection_plot() -> Figure:
    """Ranges on the host, and where their work ran."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(2, 1, figsize=(9.2, 3.9))
    figure.subplots_adjust(left=0.12, right=0.985, top=0.93, bottom=0.17, hspace=0.5)
    for axes, capture in zip(
        panels, ("torch_inference_baseline", "torch_inference_improved"), strict=True
    ):
        found = ranges(capture, "forward")
        zero = found[0]["range_start_ns"]
        for place, one in enumerate(found):
            colour = (ORANGE, BLUE)[place % 2]
            for lane, first, last in (
                (1, "range_start_ns", "range_end_ns"),
                (0, "start_ns", "end_ns"),
            ):
                start, end = (one[first] - zero) / 1e6, (one[last] - zero) / 1e6
                axes.broken_barh(
                    [(start, max(end - start, 0.02))], (lane - 0.36, 0.72), color=colour
                )
        axes.set_yticks([0, 1], ["device", "host"])
        axes.set(ylim=(-0.6, 1.6), title=f"{capture}: the range forward, ms")
        axes.grid(axis="x", color=GRID, linewidth=0.6)
        axes.set_axisbelow(True)
    legend(figure, {"odd batches": ORANGE, "even batches": BLUE}, columns=2)
    return figure


def visited_plot() -> Figure:
    """What one query looks at, by what its plan can search for, on three captures."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(9.2, 2.5))
    figure.subplots_adjust(left=0.18, right=0.97, top=0.9, bottom=0.27)
    colours = dict(zip(FOUND_BY, (VERMILION, BLUE), strict=True))
    names = ("cuda_pipeline_baseline", "training_item", "pipeline_slow")
    for row, capture in enumerate(names):
        for place, found_by in enumerate(FOUND_BY):
            lane, rows = row + 0.36 * (place - 0.5), visited(capture, found_by)
            axes.barh(lane, rows, height=0.32, color=colours[found_by])
            axes.text(rows, lane, f" {rows:,}", va="center", fontsize=8)
    axes.set(xscale="log", xlim=(1e2, 1e7), ylim=(len(names) - 0.5, -0.5))
    axes.set_title("Calls that the query looks at, over all ranges")
    axes.set_yticks(range(len(names)), names, fontsize=8.5)
    axes.grid(axis="x", color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    legend(figure, {f"found by {name}": colour for name, colour in colours.items()}, columns=2)
    return figure


FIGURES: dict[str, Callable[[], Figure]] = {
    "sqlite_projection": projection_plot,
    "sqlite_visited": visited_plot,
}
