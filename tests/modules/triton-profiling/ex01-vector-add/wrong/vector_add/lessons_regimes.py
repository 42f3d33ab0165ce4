from __future__ import annotations

CAUGHT_BY = "test_regimes_of_a_recording"
SAYS = "regime is"

LESSON = {
    "eager": [
        "launch",
        "launch",
        "launch",
        "launch",
        "launch",
        "launch",
        "launch",
        "launch",
        "launch",
        "launch",
        "launch",
        "launch",
        "launch",
        "dram",
        "dram",
        "dram",
        "dram",
        "dram",
        "dram",
    ],
    "graph": [
        "launch",
        "launch",
        "launch",
        "launch",
        "mixed",
        "mixed",
        "mixed",
        "mixed",
        "mixed",
        "mixed",
        "cache",
        "cache",
        "mixed",
        "dram",
        "dram",
        "dram",
        "dram",
        "dram",
        "dram",
    ],
}


def regimes(capture: str | Path, way: str) -> list[dict[str, Any]]:
    table = _sweep(capture)
    times = _medians(capture, table, way)
    devices.get(table["device"])
    return [
        {
            "n": row["n"],
            "bytes": row["bytes"],
            "time_ns": time_ns,
            "gb_s": row["bytes"] / time_ns,
            "regime": regime,
        }
        for row, time_ns, regime in zip(table["sizes"], times, LESSON[way], strict=True)
    ]
