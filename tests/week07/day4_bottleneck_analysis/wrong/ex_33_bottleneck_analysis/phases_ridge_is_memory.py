"""Calls work on the ridge point memory_bound."""

from __future__ import annotations

from typing import Any

CAUGHT_BY = "test_a_phase_on_the_ridge"
SAYS = "from the ridge point on"


def prefill_decode(
    model: dict[str, int], batch: int, prompt_tokens: int, dtype: str, device: str
) -> dict[str, dict[str, Any]]:
    ridge = ridge_point(device, dtype)
    out = {}
    for phase, new, cached in (("prefill", prompt_tokens, 0), ("decode", 1, prompt_tokens)):
        cost = transformer_cost(
            **model, batch=batch, new_tokens=new, cached_tokens=cached, dtype=dtype
        )
        time_ns = predicted_time_ns([cost], device, dtype)
        intensity = cost["flops"] / cost["bytes"]
        out[phase] = {
            "intensity": intensity,
            "category": "compute_bound" if intensity > ridge else "memory_bound",
            "time_ns": time_ns,
            "tokens_per_s": batch * new / time_ns * 1e9,
        }
    return out
