"""Asks a line for what it keeps of the steps after the first, as differences of ends do."""

from __future__ import annotations

from collections import defaultdict

CAUGHT_BY = "test_growth_of_a_line_that_starts_late"
SAYS = "where"


def _keeping_line(
    capture: str,
    device: int,
    steps: list[tuple[int, int, int]],
    epoch_ns: int | None,
    length: int,
) -> tuple[str | None, int | None]:
    folder = captures.file(capture, "trace.json").parent
    if epoch_ns is None or not any(folder.glob("snapshot.pickle*")):
        return None, None
    _, blocks = _history(str(folder), device)
    kept: dict[str | None, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for block in blocks:
        if block["to_place"] is None and block["time_us"] is not None:
            number = _step_of(steps, block["time_us"] * 1000 - epoch_ns)
            where = _allocating_line(block["frames"])
            if number is not None and where is not None:
                kept[where][number] += block["bytes"]
    least = {}
    for where, sums in kept.items():
        each = [sums.get(number, 0) for number, _, _ in steps[1:]]
        stretches = (sum(each[at : at + length]) for at in range(len(each) - length + 1))
        least[where] = min(stretches) // length
    where = min(least, key=lambda line: (-least[line], line), default=None)
    return (where, least[where]) if where is not None and least[where] else (None, None)
