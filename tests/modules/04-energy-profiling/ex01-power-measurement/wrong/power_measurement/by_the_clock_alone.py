from __future__ import annotations

CAUGHT_BY = "test_verdict_on_made_up_clocks"
SAYS = "says throttled, but"


def power_verdict(capture: str, phase: str = "steady") -> Finding:
    recording = read_recording(capture)
    place = find_phase(recording, phase)
    clocks = _second_half(recording, place, "sm_clock_mhz")
    reasons = _second_half(recording, place, "reasons")
    ratio = statistics.median(clocks) / recording["device"]["highest_sm_clock_mhz"]
    limited = 100 * sum(bool(reason & LIMITING) for reason in reasons) / len(reasons)
    window = recording["phases"][place]["end_ns"] - recording["phases"][place]["start_ns"]
    throttled = ratio < 1 - CLOCK_FLOOR
    near = abs(ratio - (1 - CLOCK_FLOOR)) <= BORDER
    advice = "lower the power" if throttled else "none"
    return Finding(
        category="throttled" if throttled else "healthy",
        subject="device:0",
        evidence={
            "clock_ratio": ratio,
            "limited_pct": limited,
            "window_ns": window,
            "recoverable_ns": max(0, round(window * (1 - ratio))),
        },
        recommendation=f"borderline: {advice}" if near else advice,
    )
