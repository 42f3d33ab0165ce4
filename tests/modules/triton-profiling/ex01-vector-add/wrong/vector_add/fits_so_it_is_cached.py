from __future__ import annotations

CAUGHT_BY = "test_regimes_of_a_generated_sweep"
SAYS = "nothing here names one limit"


def regimes(capture: str | Path, way: str) -> list[dict[str, Any]]:
    table = _sweep(capture)
    times = _medians(capture, table, way)
    device = devices.get(table["device"])
    out = []
    for row, time_ns in zip(table["sizes"], times, strict=True):
        if time_ns <= FLAT_RATIO * min(times):
            regime = "launch"
        else:
            regime = "cache" if row["bytes"] <= device.l2_bytes else "dram"
        rate = row["bytes"] / time_ns
        out.append(
            {
                "n": row["n"],
                "bytes": row["bytes"],
                "time_ns": time_ns,
                "gb_s": rate,
                "regime": regime,
            }
        )
    return out
