from __future__ import annotations

CAUGHT_BY = "test_conditions_that_were_drawn"
SAYS = "cannot be compared"


def same_conditions(
    one: Mapping[str, Any], other: Mapping[str, Any], varied: Sequence[str] = ()
) -> dict[str, list[str]]:
    if unknown := [key for key in varied if key not in REQUIRED]:
        raise ValueError(f"varied: {unknown}")
    both = [key for key in REQUIRED if key in one and key in other]
    return {
        "missing": [],
        "different": [
            key
            for key in both
            if key not in varied and (type(one[key]), one[key]) != (type(other[key]), other[key])
        ],
    }
