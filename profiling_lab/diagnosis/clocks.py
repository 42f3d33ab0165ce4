"""Whether a device's clock was held down while it worked, from sampled metrics.

Launches alike (same kernel, grid and block) take longer at a lower clock. Those at the highest clock of their group
are the reference; the others lost what they took longer, but no more than the clock accounts for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from profiling_lab.analysis.columns import KERNEL

if TYPE_CHECKING:
    from profiling_lab.analysis.nsys_columns import Export

CLOCK = "GPC Clock Frequency [MHz]"
CLOCK_FLOOR_RATIO = 0.02  # clocks this close to the highest are at it
REFERENCE_LAUNCHES = 5  # at the highest clock, for their median to be known
_LIKE = ("name", "grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")


def judge(export: Export) -> list[tuple[str, int, int, dict[str, float]]]:
    """("throttled", device, ns lost, evidence) for each device whose clock was sampled and that lost time."""
    samples = export.metric(CLOCK)
    work = export.recording.operations
    out = []
    for device in np.unique(samples["device"]).tolist():
        own = samples["device"] == device
        times, clocks = samples["time"][own], samples["value"][own]
        rows = np.flatnonzero((work.kind == KERNEL) & (work.device == device))
        # A sample speaks of the time before it.
        place = np.searchsorted(times, (work.start[rows] + work.end[rows]) // 2)
        rows, place = rows[place < len(times)], place[place < len(times)]
        if not len(rows):
            continue
        lost, ratio = _lost(export, rows, clocks[place].astype(float))
        if lost > 0:
            out.append(("throttled", device, round(lost), {"clock_ratio": ratio}))
    return out


def _lost(export: Export, rows: np.ndarray, clock: np.ndarray) -> tuple[float, float]:
    """What launches lost at lower clocks, in ns; and their clock over the highest, weighted by their time."""
    work = export.recording.operations
    duration = (work.end[rows] - work.start[rows]).astype(float)
    like = np.stack([export.launches[name][rows] for name in _LIKE], axis=1)
    _, group = np.unique(like, axis=0, return_inverse=True)
    lost = weighted = worked = 0.0
    by = np.argsort(group, kind="stable")
    for own in np.split(by, np.flatnonzero(np.diff(group[by])) + 1):
        times, at = duration[own], clock[own]
        highest = at.max()
        top = at >= (1 - CLOCK_FLOOR_RATIO) * highest
        if np.count_nonzero(top) < REFERENCE_LAUNCHES:
            continue
        longer = times[~top] - np.median(times[top])
        accounted = times[~top] * (1 - at[~top] / highest)
        lost += float(np.maximum(np.minimum(longer, accounted), 0).sum())
        weighted += float((times * at).sum() / highest)
        worked += float(times.sum())
    return lost, weighted / worked if worked else 1.0
