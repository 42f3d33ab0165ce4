from __future__ import annotations

CAUGHT_BY = "test_recorded_reports"
SAYS = "is no evidence"

_right_report = component_report


def component_report(profile_results, device=None):
    lines = _right_report(profile_results, device).splitlines()
    return "\n".join([lines[0], "Device: GPU", *lines[2:]])
