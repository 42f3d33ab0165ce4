from __future__ import annotations

CAUGHT_BY = "test_a_change_of_a_recorded_step"
SAYS = "After the change the units need"


def expected_gain(
    needs_ns: dict[str, float], duration_ns: float, factors: dict[str, float]
) -> dict[str, Any]:
    wrong = [unit for unit, factor in factors.items() if unit not in UNITS or factor < 0]
    if wrong:
        raise ValueError(f"no factor, or of no known unit: {', '.join(wrong)}")
    after = {unit: needs_ns[unit] * factors.get(unit, 1.0) for unit in UNITS}
    limiter = max(UNITS, key=lambda unit: needs_ns[unit])
    bound, before = after[limiter], max(needs_ns.values())
    if not (duration_ns > 0 and bound > 0):
        raise ValueError(f"duration {duration_ns} ns, longest need {bound} ns: nothing to compare")
    expected = bound * duration_ns / before
    return {
        "limiter": limiter,
        "bound_ns": bound,
        "expected_ns": expected,
        "gain_ratio": duration_ns / expected,
    }
