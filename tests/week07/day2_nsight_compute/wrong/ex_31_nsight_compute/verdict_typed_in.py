"""Returns the lesson's verdict."""

from __future__ import annotations

CAUGHT_BY = "test_verdict_on_recorded_kernels"
SAYS = "of the duration would be saved"


def classify_kernel(kernel: dict[str, Any]) -> Finding:
    return Finding(
        "uncoalesced_access",
        f"kernel:{kernel['name']}",
        {"recoverable_ratio": 0.77, "ceiling_ratio": 0.96},
        "let neighbouring threads use neighbouring addresses",
    )
