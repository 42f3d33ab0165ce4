"""Thinks that a kernel can reach the roof."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

CAUGHT_BY = "test_nothing_to_gain"
SAYS = "No kernel reaches the whole roof"


def choose_optimization(
    cost: Cost,
    dtype: str,
    device: str,
    device_ns: float,
    host_ns: float | None,
    reachable_ratio: float,
    changes: Sequence[dict[str, Any]] = (),
) -> dict[str, Any]:
    if not 0 < reachable_ratio <= 1:
        raise ValueError(f"reachable_ratio is {reachable_ratio!r}: a share above 0, up to 1")
    evidence = classify_bound("call", cost, dtype, device, device_ns, host_ns).evidence
    window, above = evidence["window_ns"], evidence["above_roof_ns"]
    roof = device_ns - above
    windows = [
        ("issue_less", device_ns),
        ("tune_kernel", _window(min(device_ns, roof), host_ns)),
    ]
    for change in changes:
        new_roof = predicted_time_ns([change["cost"]], device, change["dtype"])
        new_host_ns = change.get("host_ns", host_ns)
        if new_host_ns is not None and not 0 < new_host_ns < math.inf:
            raise ValueError(f"{change['action']}: host_ns is {new_host_ns!r}, not above 0")
        windows.append((change["action"], _window(above + new_roof, new_host_ns)))
    # Of equal ones min takes the first.
    action, predicted = min(windows, key=lambda candidate: candidate[1])
    saved = window - predicted
    return {
        "action": action if saved / window >= SAVING_FLOOR_RATIO else "none",
        "saved_ns": saved,
        "saved_ratio": saved / window,
    }
