"""What runs beside the learner's `train_with_profile`."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock


def trained(
    module: ModuleType, count: int, plan: dict[str, int], fail_at: int | None = None
) -> dict[str, Any]:
    """Run train_with_profile over `count` numbered batches.

    plan: skip and active; what is left out is left to the default. fail_at: the batch whose step raises.

    Returns the batches in the order in which they were trained ("trained"), what came back ("returned"),
    the exception's name ("raised"), for each step whether the profiler was recording ("on") and whether the
    file was there ("there"), afterwards whether the profiler was left on and the file is there ("left_on",
    "file"), and of the file the batches that it recorded and how many steps it names.
    """
    import torch

    seen: list[int] = []
    on: list[bool] = []
    there: list[bool] = []
    out: dict[str, Any] = {"raised": None, "returned": None}

    def batches() -> Iterator[int]:
        yield from range(count)  # no length, and it can be walked only once

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "steps.json"

        def step(number: int) -> str:
            seen.append(number)
            on.append(bool(torch.autograd._profiler_enabled()))  # type: ignore[attr-defined]
            there.append(file.exists())
            with torch.profiler.record_function(f"batch {number}"):
                torch.sin(torch.ones(8))
            if number == fail_at:
                raise ArithmeticError(f"step {number} cannot go on")
            return f"loss {number}"

        try:
            out["returned"] = module.train_with_profile(step, batches(), str(file), **plan)
        except (ArithmeticError, ValueError) as error:
            out["raised"] = type(error).__name__
        out["left_on"] = bool(torch.autograd._profiler_enabled())  # type: ignore[attr-defined]
        if out["left_on"]:
            torch.autograd._disable_profiler()  # type: ignore[attr-defined]
        out |= {"trained": seen, "on": on, "there": there, "file": file.exists()}
        names: list[str] = []
        if file.exists():
            with contextlib.suppress(ValueError):
                events = json.loads(file.read_text()).get("traceEvents", [])
                names = [e["name"] for e in events if e.get("cat") == "user_annotation"]
        out["recorded"] = sorted(int(n.split()[1]) for n in names if n.startswith("batch "))
        out["steps"] = len({n for n in names if n.startswith("ProfilerStep#")})
    return out


def warm_up(module: ModuleType, plan: dict[str, int]) -> list[int]:
    """Before how many trained batches the profiler was made ready (its warm-up began), each time."""
    import torch

    seen: list[int] = []
    ready: list[int] = []
    prepare = torch.profiler.profile.prepare_trace

    def note(self: Any, *args: Any, **more: Any) -> Any:
        ready.append(len(seen))
        return prepare(self, *args, **more)

    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.object(torch.profiler.profile, "prepare_trace", note),
    ):
        file = str(Path(folder) / "steps.json")
        module.train_with_profile(seen.append, iter(range(sum(plan.values()) + 4)), file, **plan)
    return ready


def activities(module: ModuleType, gpu: bool) -> list[str] | None:
    """Names of what train_with_profile asks torch to watch if it finds a GPU, or none; None: everything."""
    import torch

    asked: list[list[str] | None] = []

    def note(self: Any, *args: Any, **more: Any) -> None:
        given = more.get("activities", args[0] if args else None)
        asked.append(None if given is None else sorted(activity.name for activity in given))
        raise InterruptedError  # nothing is to run

    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.object(torch.profiler.profile, "__init__", note),
        mock.patch.object(torch.cuda, "is_available", lambda: gpu),
        contextlib.suppress(InterruptedError),
    ):
        module.train_with_profile(lambda batch: None, [1, 2], str(Path(folder) / "steps.json"))
    return asked[0] if asked else []
