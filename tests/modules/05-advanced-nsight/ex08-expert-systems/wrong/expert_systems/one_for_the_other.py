from __future__ import annotations

CAUGHT_BY = "test_scores_on_recordings"
SAYS = "Of its alarms, how many are right"


def score_rules(
    alarms: Mapping[str, Collection[str]], causes: Mapping[str, str], labels: Mapping[str, str]
) -> dict[str, dict[str, Any]]:
    out = {}
    for rule, fired in alarms.items():
        unknown = sorted({*fired} - {*labels})
        if unknown or rule not in causes:
            raise ValueError(
                f"rule {rule!r}: no label of {unknown}" if unknown else f"no cause: {rule}"
            )
        true = {capture for capture, label in labels.items() if label == causes[rule]}
        hits = len(true & {*fired})
        out[rule] = {
            "precision_ratio": hits / len(true) if true else None,
            "recall_ratio": hits / len({*fired}) if fired else None,
            "false_alarms": sorted({*fired} - true),
            "missed": sorted(true - {*fired}),
        }
    return out
