from __future__ import annotations

CAUGHT_BY = "test_names_that_changed"
SAYS = "Names that are the same come first"


def match_kernels(before: Mapping[str, float], after: Mapping[str, float]) -> list[dict[str, Any]]:
    rows = [_match("same", name, [name], [name], before, after) for name in {*before} & {*after}]
    left: dict[str, tuple[list[str], list[str]]] = {}
    for side, (names, others) in enumerate(((before, after), (after, before))):
        for name in sorted({*names} - {*others}):
            left.setdefault(_base_name(name), ([], []))[side].append(name)
    for base, (old, new) in left.items():
        if old and new:
            rows += [_match("renamed", base, [a], [b], before, after) for a, b in zip(old, new)]
            old, new = old[len(new) :], new[len(old) :]
        rows += [_match("removed", name, [name], [], before, after) for name in old]
        rows += [_match("added", name, [], [name], before, after) for name in new]
    return sorted(rows, key=lambda row: (-abs(row["change_ns"]), row["name"]))
