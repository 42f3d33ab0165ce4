from __future__ import annotations

CAUGHT_BY = "test_generated_reports"
SAYS = "is no evidence"

_right_report = component_report


def component_report(profile_results, device=None):
    lines = _right_report(profile_results, device).splitlines()
    # The lesson's layer.
    header = "NVIDIA H200, bfloat16, batch 4, seq_len 4096, d_model 4096, num_heads 32"
    return "\n".join([lines[0], header, *lines[2:]])
