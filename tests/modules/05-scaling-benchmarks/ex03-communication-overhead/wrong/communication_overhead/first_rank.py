from __future__ import annotations

CAUGHT_BY = "test_exposed_time_of_made_up_trainings"
SAYS = "the slowest rank of each step"


def exposed_by_bucket(capture: str | Path, world_size: int) -> list[dict[str, Any]]:
    found = []
    for row in _content(capture)["training"]:
        if row["world_size"] != world_size:
            continue
        if not world_size == len(row["step_ns"]) == len(row["alone_phases_ns"]):
            raise CaptureError("a rank is missing")
        lengths = (
            {len(rank) for rank in row["step_ns"]},
            {len(rank) for rank in row["alone_phases_ns"]},
        )
        if any(len(each) > 1 or 0 in each for each in lengths):
            raise CaptureError("steps are missing")
        step = statistics.median(row["step_ns"][0])
        alone = statistics.median(map(sum, row["alone_phases_ns"][0]))
        backward = statistics.median(phases[1] for phases in row["alone_phases_ns"][0])
        exposed = max(0, step - alone)
        found.append(
            {
                "samples_count": row["samples_per_rank"][0],
                "bucket_cap_mib": row["bucket_cap_mib"],
                "bucket_bytes": row["bucket_bytes"],
                "step_ns": step,
                "alone_ns": alone,
                "backward_ns": backward,
                "exposed_ns": exposed,
                "exposed_ratio": exposed / step,
            }
        )
    if not found:
        raise ValueError("no such world size")
    return sorted(found, key=lambda row: (row["samples_count"], row["bucket_cap_mib"]))
