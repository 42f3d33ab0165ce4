# The copy's median against the kernel's: two turns that never met.
from __future__ import annotations

CAUGHT_BY = "test_drawn_report"
SAYS = "only within one turn"


def share_of_copy(report: dict[str, Any]) -> dict[str, dict[str, float]]:
    copy = report["kernels"]["device_copy"]
    theirs = copy["useful_bytes"] / statistics.median(copy["samples_ns"])
    out = {}
    for name, kernel in report["kernels"].items():
        if name != "device_copy":
            rate = kernel["useful_bytes"] / statistics.median(kernel["samples_ns"])
            slowest = kernel["useful_bytes"] / max(kernel["samples_ns"])
            out[name] = {
                "bytes_per_s": rate * 1e9,
                "share_ratio": rate / theirs,
                "lowest_ratio": slowest / theirs,
            }
    return out
