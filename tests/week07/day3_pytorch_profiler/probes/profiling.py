"""What runs beside the learner's `profile_steps`."""

from __future__ import annotations

import contextlib
import json
import tempfile
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

FIRST_LENGTH = 11  # call number i works on a tensor of FIRST_LENGTH + i elements


def check_of_profile_steps(
    module: ModuleType, plan: dict[str, int], fail_at: int | None = None
) -> dict[str, Any]:
    """Run profile_steps on a step that counts, and read what was written.

    plan: wait, warmup, active and repeat; what is left out is left to the default.

    Returns calls, "on_from" (the calls before each of which the profiler was switched on), names of
    the returned files, and for each file the numbers of the calls that it recorded, the names of its
    steps, and whether it holds shapes, stacks and memory.
    """
    import torch

    calls: list[int] = []
    on_from: list[int] = []
    switch_on = torch.profiler.profile.prepare_trace

    def note(self: Any, *args: Any, **more: Any) -> Any:
        on_from.append(len(calls))
        return switch_on(self, *args, **more)

    def work_of_one_step() -> None:
        number = len(calls)
        calls.append(number)
        if number == fail_at:
            raise ArithmeticError(f"step {number} cannot go on")
        torch.sin(torch.ones(FIRST_LENGTH + number))

    out: dict[str, Any] = {"raised": None, "returned": None, "files": []}
    with tempfile.TemporaryDirectory() as folder:
        try:
            with (
                mock.patch.object(torch.profiler.profile, "prepare_trace", note),
                warnings.catch_warnings(),
            ):
                # What torch says of schedules that the task asks for is nothing to look into.
                for said in (
                    ".*Profiler clears events",
                    ".*Profiler won't be using warmup",
                    ".*CUDA is not available",
                ):
                    warnings.filterwarnings("ignore", said)
                paths = module.profile_steps(work_of_one_step, folder, **plan)
        except (ArithmeticError, ValueError) as error:
            out["raised"] = type(error).__name__
            paths = []
        out |= {"calls": len(calls), "on_from": on_from}
        out["left_on"] = bool(torch.autograd._profiler_enabled())  # type: ignore[attr-defined]
        if out["left_on"]:
            torch.autograd._disable_profiler()  # type: ignore[attr-defined]
        out["kind"] = type(paths).__name__
        for path in paths if isinstance(paths, list) else []:
            out["files"].append(_file(path, folder))
        out["in_folder"] = sorted(entry.name for entry in Path(folder).iterdir())
    return out


def activities_of_profile_steps(module: ModuleType, gpu: bool) -> list[list[str] | None]:
    """Names of the activities that profile_steps asks torch for if it finds a GPU, or finds none.

    None: it left them to torch, which takes all that it supports.
    """
    import torch

    asked: list[list[str] | None] = []
    supported = {torch.profiler.ProfilerActivity.CPU}
    if gpu:
        supported.add(torch.profiler.ProfilerActivity.CUDA)

    def note(self: Any, *args: Any, **more: Any) -> None:
        given = more.get("activities", args[0] if args else None)
        asked.append(None if given is None else sorted(activity.name for activity in given))
        raise InterruptedError  # nothing is to run

    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.object(torch.profiler.profile, "__init__", note),
        mock.patch.object(torch.cuda, "is_available", lambda: gpu),
        mock.patch.object(torch.autograd, "_supported_activities", lambda: supported),
        contextlib.suppress(InterruptedError),
    ):
        module.profile_steps(lambda: None, folder)
    return asked


def _file(path: Any, folder: str) -> dict[str, Any]:
    place = Path(str(path))
    found: dict[str, Any] = {"name": place.name, "inside": place.parent == Path(folder)}
    try:
        events = json.loads(place.read_text())["traceEvents"]
    except (OSError, ValueError, KeyError) as error:
        return found | {"error": type(error).__name__}
    shapes = [
        event["args"].get("Input Dims")
        for event in events
        if event.get("name") == "aten::sin" and event.get("cat") == "cpu_op"
    ]
    return found | {
        "calls": sorted(s[0][0] - FIRST_LENGTH for s in shapes if s and s[0]),
        "sines": len(shapes),
        "steps": sorted({e["name"] for e in events if e["name"].startswith("ProfilerStep#")}),
        "shapes": any(s and s[0] for s in shapes),
        "stacks": any("work_of_one_step" in e["name"] for e in events),
        "memory": any(e["name"] == "[memory]" for e in events),
    }
