# The bandwidth of the lesson's copy in place of the one in the report.
from __future__ import annotations

CAUGHT_BY = "test_recorded_report"
SAYS = "shares of the copy of the same turn"

LESSONS_COPY_BYTES_PER_S = 4.19e12


def share_of_copy(report: dict[str, Any]) -> dict[str, dict[str, float]]:
    out = {}
    for name, kernel in report["kernels"].items():
        if name != "device_copy":
            rates = [kernel["useful_bytes"] * 1e9 / sample for sample in kernel["samples_ns"]]
            out[name] = {
                "bytes_per_s": kernel["useful_bytes"]
                * 1e9
                / statistics.median(kernel["samples_ns"]),
                "share_ratio": statistics.median(rates) / LESSONS_COPY_BYTES_PER_S,
                "lowest_ratio": min(rates) / LESSONS_COPY_BYTES_PER_S,
            }
    return out
