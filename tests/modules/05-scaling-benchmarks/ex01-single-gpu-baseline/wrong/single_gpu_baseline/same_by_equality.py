from __future__ import annotations

CAUGHT_BY = "test_conditions_that_were_drawn"
SAYS = "type and value"


def same_conditions(
    one: Mapping[str, Any], other: Mapping[str, Any], varied: Sequence[str] = ()
) -> dict[str, list[str]]:
    if unknown := [key for key in varied if key not in REQUIRED]:
        raise ValueError(f"varied: {unknown}")
    missing = [k for k in REQUIRED if any(side.get(k) in (None, "") for side in (one, other))]
    different = [k for k in REQUIRED if k not in missing and k not in varied and one[k] != other[k]]
    return {"missing": missing, "different": different}
