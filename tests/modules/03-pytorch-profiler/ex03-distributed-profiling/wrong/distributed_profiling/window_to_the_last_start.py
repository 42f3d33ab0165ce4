"""Takes the end of what starts last for the end of the window."""

from __future__ import annotations

from profiling_lab.findings import Finding

CAUGHT_BY = "test_verdict_on_drawn_traces"
SAYS = "evidence window_ns"


def name_distributed_bottleneck(capture: str) -> Finding:
    ranks = read_ranks(capture)
    matched = _matched(capture, ranks)
    wait_ns = {rank: row["wait_ns"] for rank, row in split_by_duration(capture).items()}
    transfers, waits, hideable, windows = {}, {}, [], []
    for rank, operations in ranks.items():
        work = _spans(operations, "compute", "memory")
        transfer = [(m[rank][1], m[rank][2]) for m in matched]
        wait = [(m[rank][0], m[rank][1]) for m in matched]
        work_ns, all_ns = _length(work), _length(work + transfer + wait)
        hidden_ns = work_ns + _length(transfer + wait) - all_ns
        transfers[rank] = _length(work + transfer) - work_ns
        waits[rank] = all_ns - _length(work + transfer)
        hideable.append(min(transfers[rank], work_ns - hidden_ns))
        windows.append(operations[-1]["end_ns"] - operations[0]["start_ns"])
    own = [
        window - transfers[rank] - waits[rank] for rank, window in zip(ranks, windows, strict=True)
    ]
    savings = {
        "communication_bound": min(hideable),
        "rank_imbalance": max(
            (len(own) * max(own) - sum(own)) // len(own), sum(waits.values()) // len(waits)
        ),
    }
    category = max(savings, key=lambda name: savings[name])
    ratio = savings[category] / max(windows)
    margin = ratio - HEALTHY_FLOOR_RATIO
    recoverable_ns = savings[category]
    category = "healthy" if margin < 0 else category
    late = min(wait_ns, key=lambda rank: (wait_ns[rank], rank))
    subject = max(transfers, key=lambda rank: (transfers[rank], -rank))
    recommendation = {
        "communication_bound": "send gradients earlier: smaller buckets, or fewer bytes",
        "rank_imbalance": f"look at what rank {late} does before each collective, and share it evenly",
        "healthy": "none",
    }[category]
    if abs(margin) <= BORDERLINE_RATIO:
        recommendation = f"borderline: {recommendation}"
    return Finding(
        category,
        f"rank:{late if category == 'rank_imbalance' else subject}",
        {
            "recoverable_ns": recoverable_ns,
            "window_ns": max(windows),
            "recoverable_ratio": ratio,
            "margin_ratio": margin,
        },
        recommendation,
    )
