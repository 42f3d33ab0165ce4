# Counts what lies between the lowest and the highest address, touched or not.
from __future__ import annotations

CAUGHT_BY = "test_sectors_of_a_pattern"
SAYS = "each one that any lane touches is looked up once"


def warp_sectors(addresses: Sequence[int | None], access_bytes: int) -> dict[str, float]:
    if access_bytes not in ACCESS_BYTES:
        raise ValueError(f"a lane accesses one of {ACCESS_BYTES} bytes, got {access_bytes}")
    if not 1 <= len(addresses) <= WARP_THREADS:
        raise ValueError(f"a warp has 1 to {WARP_THREADS} lanes, got {len(addresses)}")
    named = {address for address in addresses if address is not None}
    for address in named:
        if address < 0 or address % access_bytes:
            raise ValueError(f"{address} is no address of an access of {access_bytes} bytes")
    if not named:
        return {"sectors_count": 0, "ideal_count": 0, "used_ratio": 0.0}
    used = len(named) * access_bytes
    sectors = max(named) // SECTOR_BYTES - min(named) // SECTOR_BYTES + 1
    return {
        "sectors_count": sectors,
        "ideal_count": -(-used // SECTOR_BYTES),
        "used_ratio": used / (sectors * SECTOR_BYTES),
    }
