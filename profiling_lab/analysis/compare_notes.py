"""What makes runs hard to compare: other work, other conditions, other shapes, other clocks."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from profiling_lab.analysis.measures import Run

if TYPE_CHECKING:
    from profiling_lab.analysis.compare import Row

SAME_WORK_RATIO = 0.02  # amounts of work that differ by more are pointed out
SAME_CLOCK_RATIO = 0.02


def notes_on(before: Sequence[Run], after: Sequence[Run], rows: Sequence[Row]) -> list[str]:
    """What makes the runs hard to compare, a sentence each."""
    out = []
    for what in dict.fromkeys(key for run in (*before, *after) for key in run.work):
        old, new = (_median(run.work.get(what, 0) for run in runs) for runs in (before, after))
        if old and new and abs(new / old - 1) > SAME_WORK_RATIO:
            out.append(
                f"{what}: {old:,.0f} before and {new:,.0f} after: make sure that both did the same work"
            )
    for what in dict.fromkeys(key for run in (*before, *after) for key in run.conditions):
        old, new = ({run.conditions.get(what, "") for run in runs} for runs in (before, after))
        if old != new and (old | new) != {""}:
            texts = (" or ".join(sorted(text or "unknown" for text in side)) for side in (old, new))
            out.append("recorded under different conditions: {}: {} and {}".format(what, *texts))
    reshaped = [
        row for row in rows if row.group == "kernels" and row.change and "grid" in row.change
    ]
    if reshaped:
        kernels = "1 kernel" if len(reshaped) == 1 else f"{len(reshaped)} kernels"
        out.append(f"{kernels} ran in another grid or block: make sure that both did the same work")
    clocks = [
        {key[1]: value for run in runs for key, value in run.measures.items() if key[2] == "hz"}
        for runs in (before, after)
    ]
    apart = [
        what.removesuffix(": SM clock")
        for what, old in clocks[0].items()
        if old and (new := clocks[1].get(what)) and abs(new / old - 1) > SAME_CLOCK_RATIO
    ]
    if apart:
        out.append(
            f"the SM clock differs by more than {SAME_CLOCK_RATIO:.0%} for {len(apart)} kernels "
            f"({apart[0]:.60}): their durations differ for that alone"
        )
    if len(before) != len(after) and 1 in (len(before), len(after)):
        out.append("one side has a single run: there is no interval, noise is not known")
    return out


def _median(values: Any) -> float:
    return statistics.median(values)
