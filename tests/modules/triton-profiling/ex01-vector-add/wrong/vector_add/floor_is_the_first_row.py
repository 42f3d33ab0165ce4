from __future__ import annotations

CAUGHT_BY = "test_at_the_limits_of_a_regime"
SAYS = "in the file's order"


def regimes(capture: str | Path, way: str) -> list[dict[str, Any]]:
    table = _sweep(capture)
    times = _medians(capture, table, way)
    device = devices.get(table["device"])
    rows = []
    for row, time_ns in zip(table["sizes"], times, strict=True):
        rate = row["bytes"] / time_ns
        if time_ns <= FLAT_RATIO * times[0]:  # wrong: any row may be the fastest
            regime = "launch"
        elif rate > device.memory_bandwidth_bytes_per_s / 1e9:
            regime = "cache"
        elif device.l2_bytes is not None and row["bytes"] > device.l2_bytes:
            regime = "dram"
        else:
            regime = "mixed"
        named = {"n": row["n"], "bytes": row["bytes"], "time_ns": time_ns, "gb_s": rate}
        rows.append({**named, "regime": regime})
    return rows
