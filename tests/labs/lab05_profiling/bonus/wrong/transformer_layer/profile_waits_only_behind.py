"""Does not wait before a part, so what the layer asked for itself is counted to the part."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

CAUGHT_BY = "test_parts_of_a_known_length"
SAYS = "does not belong to it"


def profile_layer(
    layer: Any,
    x: Any,
    clock: Callable[[], int],
    wait: Callable[[], None],
    repeats: int = 5,
    warmup: int = 2,
) -> dict[str, Any]:
    if repeats < 1 or warmup < 0:
        raise ValueError(f"repeats = {repeats}, warmup = {warmup}: at least 1 and 0 are needed")
    names = [name for name, _ in layer.named_children()]
    if not names:
        raise ValueError("the layer has no children: there are no parts to time")
    for _ in range(warmup):
        layer(x)
    whole = []
    for _ in range(repeats):
        wait()
        start = clock()
        layer(x)
        wait()
        whole.append(clock() - start)

    spent: dict[str, list[int]] = {name: [] for name in names}
    started: dict[str, int] = {}
    handles = []

    def watch(name: str, child: Any) -> None:
        def before(*_: Any) -> None:
            started[name] = clock()

        def after(*_: Any) -> None:
            wait()
            spent[name][-1] += clock() - started[name]

        handles.append(child.register_forward_pre_hook(before))
        handles.append(child.register_forward_hook(after))

    try:
        for name, child in layer.named_children():
            watch(name, child)
        for _ in range(repeats):
            for sums in spent.values():
                sums.append(0)
            layer(x)
    finally:
        for handle in handles:
            handle.remove()
    parts = {name: statistics.median(sums) for name, sums in spent.items()}
    whole_ns = statistics.median(whole)
    return {"whole_ns": whole_ns, "parts_ns": parts, "outside_ns": whole_ns - sum(parts.values())}
