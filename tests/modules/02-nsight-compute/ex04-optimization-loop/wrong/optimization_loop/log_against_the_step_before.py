from __future__ import annotations

CAUGHT_BY = "test_the_log_of_a_drawn_loop"
SAYS = "A change that was taken back is no longer in the program"


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
        kept = gain > 1 + noise
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
        best = step
    return rows
