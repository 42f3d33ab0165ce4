from __future__ import annotations

CAUGHT_BY = "test_generated_reports"
SAYS = "expected the recommendation of identify_bottleneck"

_right_report = component_report


def component_report(profile_results, device=None):
    text = _right_report(profile_results, device)
    if text.endswith("Recommendation: none"):
        return text
    return text[: text.rindex("Recommendation: ")] + "Recommendation: use flash attention"
