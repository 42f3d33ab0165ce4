"""Runs `profile_layer` beside the learner's code, on modules whose durations are known.

Time is made up: a part costs the host some ns, then the device some ns, and a wait costs a little
itself. So every right answer is one number.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

WAIT_COST_NS = 700
COLD_NS = 1_000_000  # what the first call of a part costs on top


def profiled(
    module: ModuleType,
    plan: list[list[Any]],
    idle_children: list[str],
    scale: list[int],
    options: dict[str, int],
    fail_at: int | None = None,
) -> dict[str, Any]:
    """Profile a layer that runs the parts of `plan`: [name, ns before it, host ns, device ns].

    Before a part the layer itself keeps the host, and then the device, for so many ns. A name may come several times; `idle_children` never run. scale: all durations of call number i
    are multiplied by scale[i] (the last one goes on). fail_at: the call in which the last part raises.
    Returns "result" or "raised", the number of "calls", and "left": what is left behind on parts.
    """
    import torch

    now = free = 0
    calls = -1

    class Part(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.nn.Identity()  # a part has parts of its own
            self.runs = 0

        def forward(self, x: Any, host_ns: int, device_ns: int) -> Any:
            nonlocal now, free
            factor = scale[min(calls, len(scale) - 1)]
            now += host_ns * factor + (0 if self.runs else COLD_NS)
            free = max(free, now) + device_ns * factor
            self.runs += 1
            return self.inner(x)

    class Layer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for name in dict.fromkeys([*(row[0] for row in plan), *idle_children]):
                self.add_module(name, Part())

        def forward(self, x: Any) -> Any:
            nonlocal now, free, calls
            calls += 1
            for place, (name, before_ns, host_ns, device_ns) in enumerate(plan):
                if calls == fail_at and place == len(plan) - 1:
                    raise ArithmeticError("the last part cannot go on")
                # The layer's own work, between its parts: the host's, then as much of the device's.
                own_ns = before_ns * scale[min(calls, len(scale) - 1)]
                now += own_ns
                free = max(free, now) + own_ns
                x = getattr(self, name)(x, host_ns, device_ns)
            return x

    def clock() -> int:
        return now

    def wait() -> None:
        nonlocal now
        now = max(now, free) + WAIT_COST_NS

    layer = Layer()
    out: dict[str, Any] = {"result": None, "raised": None}
    try:
        out["result"] = module.profile_layer(layer, torch.zeros(2), clock, wait, **options)
    except (ArithmeticError, ValueError) as error:
        out["raised"] = type(error).__name__
    left = []
    for name, part in layer.named_modules():
        hooks = len(part._forward_hooks) + len(part._forward_pre_hooks)
        if hooks or "forward" in vars(part):
            left.append(name or "the layer")
    return out | {"calls": calls + 1, "left": left}


def without_children(module: ModuleType) -> str | None:
    """What profile_layer raises for a layer without parts."""
    import torch

    try:
        module.profile_layer(torch.nn.Identity(), torch.zeros(2), lambda: 0, lambda: None)
    except ValueError as error:
        return type(error).__name__
    return None
