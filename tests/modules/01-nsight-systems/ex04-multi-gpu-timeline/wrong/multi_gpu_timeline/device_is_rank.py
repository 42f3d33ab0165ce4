from __future__ import annotations

CAUGHT_BY = "test_ranks_of_drawn_runs"
SAYS = "neither its number nor its device does"


def find_ranks(capture: str) -> dict[int, dict[str, int]]:
    with captures.open(capture) as recording:
        ranges, kernels = recording.nvtx_ranges, recording.kernels
    found: dict[int, dict[str, int]] = {}
    for name, process, start, end in ranges.select(
        "name", "process", "start_ns", "end_ns"
    ).iter_rows():
        named = re.fullmatch(r"rank (\d+)", name or "")
        if not named:
            continue
        number = int(named[1])
        rank = found.setdefault(number, {"process": process, "start_ns": start, "end_ns": end})
        if rank["process"] != process:
            raise CaptureError(
                f"{capture}: two processes are rank {number}: record one run at a time"
            )
        rank["start_ns"] = min(rank["start_ns"], start)
        rank["end_ns"] = max(rank["end_ns"], end)
    if not found:
        raise CaptureError(
            f"{capture}: no NVTX range 'rank <number>'; open one in every process and trace nvtx"
        )
    missing = [str(rank) for rank in range(max(found)) if rank not in found]
    if missing:
        raise CaptureError(
            f"{capture}: rank {', '.join(missing)} is missing: did it die, or run on another host?"
        )
    for number, rank in found.items():
        own = kernels.filter(pl.col("process") == rank["process"])
        if own.is_empty():
            raise CaptureError(f"{capture}: rank {number} ran no kernel: was CUDA traced there?")
        rank["device"] = max(own["device"].to_list())
    return {rank["device"]: rank for rank in sorted(found.values(), key=lambda r: r["device"])}
