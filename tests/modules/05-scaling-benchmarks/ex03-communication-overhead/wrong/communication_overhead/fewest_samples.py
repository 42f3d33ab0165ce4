from __future__ import annotations

CAUGHT_BY = "test_exposed_time_of_made_up_trainings"
SAYS = "expected rows for samples"


def exposed_by_bucket(capture: str | Path, world_size: int) -> list[dict[str, Any]]:
    found = []
    for row in _content(capture)["training"]:
        if row["world_size"] != world_size:
            continue
        if not world_size == len(row["step_ns"]) == len(row["alone_phases_ns"]):
            raise CaptureError(f"{capture}: a rank is missing; one may have died: record again")
        try:
            step = statistics.median(map(max, zip(*row["step_ns"], strict=True)))
            places = list(zip(*row["alone_phases_ns"], strict=True))
            alone = statistics.median(max(map(sum, place)) for place in places)
            backward = statistics.median(max(phases[1] for phases in place) for place in places)
        except (ValueError, LookupError, TypeError) as error:
            raise CaptureError(
                f"{capture}: ranks have no steps, or not as many ({error})"
            ) from None
        exposed = max(0, step - alone)
        found.append(
            {
                "samples_count": min(row["samples_per_rank"]),
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
        raise ValueError(f"{capture}: no training was measured with {world_size} processes")
    return sorted(found, key=lambda row: (row["samples_count"], row["bucket_cap_mib"]))
