"""Returns the lesson's finding."""

from __future__ import annotations

from profiling_lab.findings import Finding

CAUGHT_BY = "test_bottleneck_that_was_built_in"
SAYS = "something else decides its time"


def name_bottleneck(capture: str, nvtx_range: str | None = None) -> Finding:
    return Finding(
        "transfer_bound",
        "device:0",
        {
            "recoverable_ns": 116057004,
            "window_ns": 259812405,
            "recoverable_ratio": 0.44669539162304434,
            "margin_ratio": 0.3466953916230443,
        },
        "pin host memory and copy on a stream of its own while kernels run",
    )
