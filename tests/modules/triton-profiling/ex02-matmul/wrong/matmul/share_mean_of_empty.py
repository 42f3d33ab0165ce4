"""Takes the mean of the empty kernel's samples."""

from __future__ import annotations

from typing import Any

CAUGHT_BY = "test_against_a_kernel_that_does_nothing"
SAYS = "Hold three times against each other"


def roofline_share(capture: str) -> list[dict[str, Any]]:
    try:
        table = json.loads(captures.text(capture, "measurements.json"))
        device = devices.get(table["device"])
        element_bytes = devices.dtype(table["dtype"]).bytes
        peak = device.peak(table["dtype"])
        empty_ns = statistics.mean(table["empty_kernel"])
        measured = [
            (row["name"], row["m"], row["n"], row["k"], statistics.median(row["device_time"]))
            for row in table["sizes"]
        ]
    except (KeyError, TypeError, ValueError) as error:  # no JSON, a missing key, no samples
        raise CaptureError(f"{capture}: no sweep of products: {error!r}") from None
    bandwidth = device.memory_bandwidth_bytes_per_s
    rows = []
    for name, m, n, k, median_ns in measured:
        flops = 2 * m * n * k
        moved = (m * k + k * n + m * n) * element_bytes
        least_ns = {
            "memory_bound": moved / bandwidth * NS_PER_S,
            "compute_bound": flops / peak * NS_PER_S,
            "latency_bound": empty_ns,
        }
        attainable = min(peak, flops / moved * bandwidth)
        rows.append(
            {
                "name": name,
                "median_ns": median_ns,
                "gflops": flops / median_ns,
                "intensity": flops / moved,
                "ridge": peak / bandwidth,
                "attainable_gflops": attainable / 1e9,
                "share_ratio": flops / median_ns / (attainable / 1e9),
                "category": max(least_ns, key=least_ns.__getitem__),
            }
        )
    return rows
