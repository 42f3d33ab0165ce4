from __future__ import annotations

CAUGHT_BY = "test_verdict_of_a_recording"
SAYS = "No more copying can hide"


def verdict(capture: str, name: str) -> Finding:
    ranges = project_ranges(capture, name)
    if not ranges:
        raise EmptyCapture(name)
    window = min(r["start_ns"] for r in ranges), max(r["end_ns"] for r in ranges)
    held = _held(capture)
    compute = _union([t for t in (KERNEL, GRAPH) if t in held])
    copies = _union([COPY], "copyKind IN (1, 2)") if COPY in held else ""
    copy_ns, compute_ns = _covered(capture, window, copies), _covered(capture, window, compute)
    either_ns = _covered(capture, window, " UNION ALL ".join(filter(None, (copies, compute))))
    found = []
    for device in sorted(either_ns):
        exposed = either_ns[device] - compute_ns.get(device, 0)
        found.append((exposed, -device, exposed, either_ns[device] - copy_ns.get(device, 0)))
    saved, device, exposed, alone = max(found)
    is_bound = saved >= FLOOR_RATIO * (window[1] - window[0])
    return Finding(
        "transfer_bound" if is_bound else "healthy",
        f"range:{name}",
        {
            "recoverable_ns": saved,
            "window_ns": window[1] - window[0],
            "exposed_copy_ns": exposed,
            "compute_only_ns": alone,
            "pageable_bytes": _pageable(capture, window, -device) if copies else 0,
        },
        "pin the host memory" if is_bound else "none",
    )
