"""Hold what came back against what was expected, in the words that all checks share."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pytest

from profiling_lab.findings import Finding, problems

MOST_SHOWN = 400  # characters of a value in a message


def show(value: Any) -> str:
    """A value in a line, shortened; enough digits of a float that two that differ look different."""
    text = f"{value:.10g}" if isinstance(value, float) else repr(value)
    return text if len(text) <= MOST_SHOWN else text[: MOST_SHOWN - 1] + "…"


def require(right: bool, otherwise: str) -> None:
    """Fail with a message, without a traceback, unless something is right."""
    if not right:
        pytest.fail(otherwise, pytrace=False)


def near(got: Any, want: float, rel: float = 1e-9, absolute: float = 1e-12) -> bool:
    """Whether got is a number (no bool) within a relative and an absolute tolerance of want."""
    return type(got) in (int, float) and math.isclose(got, want, rel_tol=rel, abs_tol=absolute)


def agree(got: Any, want: Any) -> bool:
    """Equal in type and value; floats as in `near`, lists and tuples alike, dicts key by key."""
    if isinstance(want, float):
        return near(got, want)
    if isinstance(want, list | tuple):
        return (
            isinstance(got, list | tuple) and len(got) == len(want) and all(map(agree, got, want))
        )
    if isinstance(want, dict):
        same = isinstance(got, dict) and got.keys() == want.keys()
        return same and all(agree(got[key], value) for key, value in want.items())
    return type(got) is type(want) and got == want


def judge(call: str, got: Any, want: Mapping[str, Any], unit: str, why: Mapping[str, str]) -> None:
    """Fail unless got is the dict want: names its keys, or the first entry that differs.

    call: what was called. unit: of the values. why: by key, what more there is to say.
    """
    keys = sorted(got) if isinstance(got, dict) else type(got).__name__
    require(
        isinstance(got, dict) and got.keys() == want.keys(),
        f"{call} returned {show(keys)}, expected a dict of: {', '.join(want)}",
    )
    for key, value in want.items():
        require(
            agree(got[key], value),
            f"{call}: {key} is {show(got[key])}, expected {show(value)} ({unit}). "
            f"{why.get(key, '')}",
        )


def judge_kernel_finding(
    call: str,
    got: Any,
    kernel: str,
    category: str,
    evidence: Mapping[str, float],
    facts: str,
    *,
    nothing_to_do: bool,
    besides: str = "",
) -> None:
    """Fail unless got is the Finding on a kernel that its evidence, with a `margin_ratio`, calls for.

    facts: the measured facts that a wrong answer contradicts; besides: more of them, on the category.
    nothing_to_do: whether the recommendation is "none". Up to a margin of 0.03 it begins "borderline: ".
    """
    require(isinstance(got, Finding), f"{call} returned {show(got)}, expected a Finding")
    require(not problems(got), f"{call}: {'; '.join(problems(got))}")
    subject = f"kernel:{kernel}"
    require(got.subject == subject, f"{call}: the subject is {got.subject!r}, expected {subject!r}")
    require(
        got.evidence.keys() == evidence.keys(),
        f"{call}: the evidence is {show(sorted(got.evidence))}, expected {', '.join(evidence)}",
    )
    for key, value in evidence.items():
        require(
            near(got.evidence[key], float(value), rel=1e-9, absolute=1e-9),
            f"{call}: {key} is {show(got.evidence[key])}, expected {show(float(value))}; {facts}",
        )
    require(
        got.category == category,
        f"{call}: the category is {got.category!r}, which the evidence contradicts: {facts}{besides}",
    )
    borderline = evidence["margin_ratio"] <= 0.03
    require(
        got.recommendation.startswith("borderline: ") == borderline,
        f"{call}: the recommendation is {got.recommendation!r}; margin_ratio is "
        f"{evidence['margin_ratio']:.3f}, and up to 0.03 it begins with 'borderline: '",
    )
    require(
        (got.recommendation.removeprefix("borderline: ") == "none") == nothing_to_do,
        f"{call}: the recommendation is {got.recommendation!r} for {category}: there is "
        f"{'nothing' if nothing_to_do else 'something'} to mend",
    )
