"""Picks the action that a table has for the category."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

CAUGHT_BY = "test_the_largest_saving_wins"
SAYS = "which the evidence does not support"


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
    windows = {
        "issue_less": device_ns,
        "tune_kernel": _window(min(device_ns, roof / reachable_ratio), host_ns),
    }
    for change in changes:
        new_roof = predicted_time_ns([change["cost"]], device, change["dtype"])
        windows[change["action"]] = _window(above + new_roof, change.get("host_ns", host_ns))
    category = classify_bound("call", cost, dtype, device, device_ns, host_ns).category
    action = {"launch_bound": "issue_less", "latency_bound": "tune_kernel"}.get(
        category, list(windows)[-1]
    )
    saved = window - windows[action]
    return {
        "action": action if saved / window >= SAVING_FLOOR_RATIO else "none",
        "saved_ns": saved,
        "saved_ratio": saved / window,
    }
