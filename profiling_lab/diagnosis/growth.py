"""Whether device memory grows from step to step in a trace.

A leak may come in every step, or in every third: for stretches of k steps the smallest difference of what is
allocated at their ends counts, a step. Totals of batches that vary may rise by chance, so for k of 2 and more it
counts up to the bytes of blocks that were allocated in the stretch and are never released.
"""

from __future__ import annotations

import numpy as np

from profiling_lab.analysis.kineto_columns import Trace
from profiling_lab.findings import CATEGORIES, Finding

FLOOR_RATIO = 0.001  # of the memory in use: less growth than that a step is left alone


def judge(file: str, trace: Trace) -> Finding | None:
    """The finding that memory grows; None if it does not, or was not recorded."""
    memory = trace.memory
    for device in np.unique(memory.device[memory.device >= 0]).tolist():
        own = np.flatnonzero(memory.device == device)
        times, totals = memory.time[own], memory.allocated[own]
        ends = np.array([end for _, end in trace.steps_ns])
        place = np.searchsorted(times, ends, side="right") - 1
        place = place[place >= 0]
        if len(place) < 2 or (totals[place] < 0).any():
            continue
        found = _growth(totals[place], place, memory.bytes[own], memory.address[own])
        if found > FLOOR_RATIO * totals[place[0]]:
            evidence = {"growth_bytes": found, "step_end_bytes": int(totals[place[-1]])}
            room = trace.device_bytes.get(device, 0)
            if room > 0:
                evidence["steps_left_count"] = max(0, room - int(totals[place[-1]])) // found
            remedy = CATEGORIES["memory_growth"].remedy
            return Finding("memory_growth", f"device:{device}", evidence, remedy)
    return None


def _growth(ends: np.ndarray, place: np.ndarray, size: np.ndarray, address: np.ndarray) -> int:
    """Bytes that every stretch of steps adds, a step."""
    best = max(0, int((ends[1:] - ends[:-1]).min()))
    if (address < 0).any():
        return best
    # A block stays if nothing happens at its address any more.
    last = np.zeros(len(address), dtype=bool)
    _, from_end = np.unique(address[::-1], return_index=True)
    last[len(address) - 1 - from_end] = True
    stays = np.append(0, np.cumsum(np.where(last & (size > 0), size, 0)))
    for length in range(2, len(ends) // 2 + 1):
        added = ends[length:] - ends[:-length]
        staying = stays[place[length:] + 1] - stays[place[:-length] + 1]
        best = max(best, int(np.minimum(added, staying).min()) // length)
    return best
