from __future__ import annotations

CAUGHT_BY = "test_verdict_of_made_up_sums"
SAYS = "At most could be saved"


def verdict(reports: Mapping[str, Any], name: str) -> Finding:
    if reports.get("cuda_api_sum") is None:
        raise CaptureError("no cuda_api_sum")
    evidence = {
        "recoverable_ns": 11_001_619,
        "window_ns": 80_489_361,
        "idle_ns": 0,
        "overlap_ns": 0,
    }
    return Finding("transfer_bound", f"range:{name}", evidence, "pin the host memory")
