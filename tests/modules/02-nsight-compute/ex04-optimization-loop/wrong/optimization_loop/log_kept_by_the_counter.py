from __future__ import annotations

CAUGHT_BY = "test_a_counter_has_no_vote"
SAYS = "a counter that moved as it was"


def loop_log(steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    if len(steps) < 2:
        raise ValueError(f"{len(steps)} steps: a loop needs a start and a change")
    for step in steps:
        if len(step["samples_ns"]) < 2 or not min(step["samples_ns"]) > 0:
            raise ValueError(f"{step['name']}: times {step['samples_ns']}")
    best, rows = steps[0], []
    for step in steps[1:]:
        metric, wanted = step["metric"], step["wanted"]
        if wanted not in ("lower", "higher"):
            raise ValueError(f"{step['name']}: wanted is {wanted!r}, neither lower nor higher")
        for one in (best, step):
            if one["values"].get(metric) is None:
                raise ValueError(f"{one['name']} has no {metric}")
        before, after = best["values"][metric], step["values"][metric]
        gain, noise = _gain(best["samples_ns"], step["samples_ns"])
        kept = after < before if wanted == "lower" else after > before
        rows.append(
            {
                "name": step["name"],
                "against": best["name"],
                "metric": metric,
                "before": before,
                "after": after,
                "moved": after < before if wanted == "lower" else after > before,
                "gain_ratio": gain,
                "noise_ratio": noise,
                "kept": kept,
            }
        )
        if kept:
            best = step
    return rows
