from __future__ import annotations

CAUGHT_BY = "test_a_gap_is_refused"
SAYS = "too long a gap, or times"


def energy_between(
    time_ns: Sequence[int],
    power_mw: Sequence[int],
    start_ns: float,
    end_ns: float,
    longest_gap_ns: float,
) -> float:
    if len(time_ns) != len(power_mw) or len(time_ns) < 2:
        raise ValueError("two samples are needed")
    if not time_ns[0] <= start_ns < end_ns <= time_ns[-1]:
        raise ValueError("not within the samples' time")
    energy = 0.0
    for (left, low), (right, high) in pairwise(zip(time_ns, power_mw, strict=True)):
        if not left < right <= left + longest_gap_ns:
            raise ValueError("too long a gap, or times that do not increase")
        begin, finish = max(left, start_ns), min(right, end_ns)
        if begin < finish:
            middle = low + (high - low) / (right - left) * ((begin + finish) / 2 - left)
            energy += middle * (finish - begin)
    return energy / 1e12
