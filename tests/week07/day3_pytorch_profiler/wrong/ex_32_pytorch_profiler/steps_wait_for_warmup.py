"""Takes the two numbers for each other: off as long as it should warm up."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

CAUGHT_BY = "test_the_steady_steps_are_recorded"
SAYS = "on and discarding for 3"


def profile_steps(
    step: Callable[[], object],
    folder: str,
    wait: int = 1,
    warmup: int = 1,
    active: int = 3,
    repeat: int = 1,
) -> list[str]:
    import torch
    from torch.profiler import ProfilerActivity, profile, schedule

    if wait < 0 or warmup < 0 or active < 1 or repeat < 1:
        raise ValueError(
            "wait and warmup must be at least 0, active and repeat at least 1; "
            f"got {wait=}, {warmup=}, {active=}, {repeat=}"
        )
    activities = [ProfilerActivity.CPU]
    if torch.cuda.is_available():
        activities.append(ProfilerActivity.CUDA)
    files: list[str] = []

    def write(profiler: Any) -> None:
        files.append(str(Path(folder) / f"trace_{len(files)}.json"))
        profiler.export_chrome_trace(files[-1])

    with profile(
        activities=activities,
        schedule=schedule(wait=warmup, warmup=wait, active=active, repeat=repeat),
        on_trace_ready=write,
        record_shapes=True,
        with_stack=True,
        profile_memory=True,
    ) as profiler:
        for _ in range((wait + warmup + active) * repeat):
            step()
            profiler.step()
    return files
