"""Blames the host as soon as the late rank is idle for longer."""

from __future__ import annotations

CAUGHT_BY = "test_late_rank_of_drawn_runs"
SAYS = "cause is 'host'"


def late_rank(capture: str) -> dict:
    matched = match_collectives(capture)
    shares = device_time(capture)
    if len(shares) < 2:
        raise CaptureError(f"{capture}: one rank alone waits for nobody")
    account = dict.fromkeys(shares, 0)
    late = dict.fromkeys(shares, 0)
    for collective in matched:
        starts = collective["start_ns"]
        last = max(starts, key=lambda rank: (starts[rank], -rank))
        account[last] += sum(arrived - start for start, arrived, _ in _parts(collective).values())
        late[last] += 1
    rank = max(account, key=lambda rank: (account[rank], -rank))
    extra = {
        key: shares[rank][key] - max(shares[other][key] for other in shares if other != rank)
        for key in ("work_ns", "idle_ns")
    }
    return {
        "rank": rank,
        "waited_ns": account[rank],
        "late_count": late[rank],
        "extra_work_ns": extra["work_ns"],
        "extra_idle_ns": extra["idle_ns"],
        "cause": "host" if extra["idle_ns"] > 0 else "work",
    }
