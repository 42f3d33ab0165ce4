from __future__ import annotations

CAUGHT_BY = "test_functions_of_drawn_samples"
SAYS = "inclusive counts a sample once"


def hot_functions(capture: str, kind: str, thread: int | None = None) -> list[dict[str, Any]]:
    rows: dict[str, dict[str, Any]] = {}
    for sample in samples(capture, kind):
        if thread is None or sample.thread == thread:
            for place, name in enumerate(sample.frames):
                empty = {"function": name, "self_count": 0, "inclusive_count": 0}
                row = rows.setdefault(name, empty)
                row["inclusive_count"] += 1
                row["self_count"] += place == 0
    return sorted(
        rows.values(),
        key=lambda row: (-row["self_count"], -row["inclusive_count"], row["function"]),
    )
