"""Takes a finding that is borderline for none: above the floor there still is something to do."""

from __future__ import annotations

CAUGHT_BY = "test_verdict_at_the_floor"
SAYS = "else a sentence"


def name_multi_gpu_bottleneck(capture: str) -> Finding:
    shares = device_time(capture)
    late = late_rank(capture)
    start_ns, end_ns = _window(capture)
    window_ns = end_ns - start_ns
    matched = len(match_collectives(capture))
    left_out = sum(len(rows) - matched for rows in _collectives(capture).values())
    own = [share["work_ns"] + share["idle_ns"] for share in shares.values()]
    savings = {
        "communication_bound": min(
            min(share["exposed_transfer_ns"], share["work_ns"] - share["hidden_ns"])
            for share in shares.values()
        ),
        "rank_imbalance": max(
            (len(own) * max(own) - sum(own)) // len(own),
            sum(share["exposed_wait_ns"] for share in shares.values()) // len(shares),
        ),
    }
    category = max(savings, key=lambda name: savings[name])
    recoverable_ns = savings[category]
    ratio = recoverable_ns / window_ns
    margin = ratio - HEALTHY_FLOOR_RATIO
    subject = late["rank"]
    if category == "communication_bound" or margin < 0:
        subject = max(shares, key=lambda rank: (shares[rank]["exposed_transfer_ns"], -rank))
    advice = {
        "communication_bound": "let gradients travel in several buckets during the backward pass",
        "rank_imbalance": f"rank {late['rank']} is late because of its {late['cause']}: share the "
        "work evenly, or give its host less to do before each step",
        "healthy": "none",
    }
    category = "healthy" if margin < 0 else category
    recommendation = advice[category]
    if abs(margin) <= BORDERLINE_RATIO:
        recommendation = "borderline: none"
    return Finding(
        category,
        f"rank:{subject}",
        {
            "recoverable_ns": recoverable_ns,
            "window_ns": window_ns,
            "recoverable_ratio": ratio,
            "margin_ratio": margin,
            "left_out_count": left_out,
        },
        recommendation,
    )
