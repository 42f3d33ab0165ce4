from __future__ import annotations

CAUGHT_BY = "test_buckets_as_torch_makes_them"
SAYS = "as soon as it is at least as large"


def plan_buckets(gradient_bytes: list[int], bucket_cap_mib: float | None = None) -> list[list[int]]:
    if bucket_cap_mib is not None and not bucket_cap_mib > 0:
        raise ValueError(f"bucket_cap_mib must be above 0, got {bucket_cap_mib}")
    if any(size < 0 for size in gradient_bytes):
        raise ValueError("a gradient has a negative size")
    limit = int(MIB * (FIRST_BUCKET_MIB if bucket_cap_mib is None else bucket_cap_mib))
    buckets: list[list[int]] = []
    filled: int | None = None  # bytes in the open bucket; None: no bucket is open
    for place, size in enumerate(gradient_bytes):
        if filled is None or filled + size > limit:
            if filled is not None:
                limit = int(MIB * (BUCKET_CAP_MIB if bucket_cap_mib is None else bucket_cap_mib))
            buckets.append([])
            filled = 0
        buckets[-1].append(place)
        filled += size
        if filled >= limit:
            filled = None
            limit = int(MIB * (BUCKET_CAP_MIB if bucket_cap_mib is None else bucket_cap_mib))
    return buckets
