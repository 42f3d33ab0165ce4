"""What the programs torch_*.py have in common: profile a few steady steps, write the recording down.

Written into the current folder:
- `trace.json`: the Kineto trace, as PyTorch exports it;
- `key_averages.json`: PyTorch's own tables of operators over the same events, as evidence;
- `snapshot.pickle`: the allocator's snapshot with its history (torch_memory.py).
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile, schedule

FIRST_STEPS = 3  # one that is not watched, two in which the profiler warms up
COLUMNS = (
    ("self_cpu_time_total", "cpu_time_total", "self_device_time_total", "device_time_total")
    + ("self_cpu_memory_usage", "cpu_memory_usage")
    + ("self_device_memory_usage", "device_memory_usage")
)


def device() -> torch.device:
    """The GPU; the CPU where there is none, or with `--cpu`, to try the program out."""
    return torch.device("cpu" if "--cpu" in sys.argv or not torch.cuda.is_available() else "cuda")


def wait() -> None:
    """Let the device finish what it was given."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def profile_steps(
    step: Callable[[int], None], active: int, *, stacks: bool = False, memory: bool = False
) -> profile:
    """Run `step(0)`, `step(1)`, … under the profiler; the last `active` of them are recorded."""
    activities = [ProfilerActivity.CPU]
    if device().type == "cuda":
        activities.append(ProfilerActivity.CUDA)
    with profile(
        activities=activities,
        schedule=schedule(wait=1, warmup=FIRST_STEPS - 1, active=active, repeat=1),
        record_shapes=True,
        with_stack=stacks,
        profile_memory=memory,
    ) as profiler:
        for number in range(FIRST_STEPS + active):
            step(number)
            if number == FIRST_STEPS + active - 1:
                wait()  # the last step's device work belongs to the recording
            profiler.step()
    return profiler


def write_trace(profiler: profile) -> None:
    """Write `trace.json` and `key_averages.json`."""
    profiler.export_chrome_trace("trace.json")
    tables = {
        "by_name": _rows(profiler.key_averages()),
        "by_shape": _rows(profiler.key_averages(group_by_input_shape=True)),
    }
    text = ",\n".join(
        f'"{name}": [\n' + ",\n".join(json.dumps(row) for row in rows) + "\n]"
        for name, rows in tables.items()
    )
    Path("key_averages.json").write_text(f"{{\n{text}\n}}\n", encoding="utf-8")


def _rows(averages: list) -> list[dict[str, object]]:
    """The rows of a table in plain form, times in µs as torch gives them; no Python functions."""
    return [
        {
            "name": row.key,
            "input_shapes": row.input_shapes,
            "calls": row.count,
            "device_type": row.device_type.name,
            "is_user_annotation": bool(getattr(row, "is_user_annotation", False)),
            **{column: getattr(row, column) for column in COLUMNS},
        }
        for row in averages
        if not re.search(r"\.py\(\d+\): |^<|^nn\.Module: ", row.key)
    ]


def start_memory_history() -> None:
    """Write every allocation and release down from here on, with the Python lines that made it."""
    if device().type == "cuda":
        torch.cuda.memory._record_memory_history(max_entries=50_000, stacks="python")


def write_snapshot() -> None:
    """Write `snapshot.pickle` and stop the history."""
    if device().type == "cuda":
        torch.cuda.memory._dump_snapshot("snapshot.pickle")
        torch.cuda.memory._record_memory_history(enabled=None)


def memory_figures() -> dict[str, int]:
    """What the allocator itself counted since the peaks were last reset."""
    if device().type != "cuda":
        return {}
    stats = torch.cuda.memory_stats()
    return {
        "peak_allocated_bytes": stats["allocated_bytes.all.peak"],
        "peak_requested_bytes": stats["requested_bytes.all.peak"],
        "peak_reserved_bytes": stats["reserved_bytes.all.peak"],
        "allocated_at_end_bytes": stats["allocated_bytes.all.current"],
        "requested_at_end_bytes": stats["requested_bytes.all.current"],
    }


def report(figures: dict[str, object]) -> None:
    """Print the measured figures as one line that the recorder keeps."""
    print("RESULT", json.dumps(figures))
