"""Hold what came back against what was expected, in the words that all checks share.

One rule of equality for every exercise (`agree`): types are compared exactly, as values cross the wire. A
list is no tuple and 1 is not True; where a float is expected, a whole number does as well.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import pytest

from profiling_lab.findings import Finding, problems

MOST_SHOWN = 400  # characters of a value in a message


def show(value: Any, most: int = MOST_SHOWN) -> str:
    """A value in a line, shortened; enough digits of a float that two that differ look different."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    text = f"{value:.10g}" if isinstance(value, float) else repr(value)
    return text if len(text) <= most else text[: most - 1] + "…"


def call_words(name: str, *args: Any, **named: Any) -> str:
    """The call as the learner would type it: of a path its last part, of long values the beginning.

    What is None at the end of args is not passed.
    """
    while args and args[-1] is None:
        args = args[:-1]
    shown = [Path(a).name if isinstance(a, str) and "/" in a else a for a in args]
    words = [show(value, 60) for value in shown]
    return f"{name}({', '.join([*words, *(f'{key}={show(v, 60)}' for key, v in named.items())])})"


def fail(message: str) -> NoReturn:
    """Fail with a message, without a traceback."""
    pytest.fail(message, pytrace=False)


def require(right: bool, otherwise: str) -> None:
    """Fail with a message, without a traceback, unless something is right."""
    if not right:
        pytest.fail(otherwise, pytrace=False)


def near(got: Any, want: float, rel: float = 1e-9, absolute: float = 1e-12) -> bool:
    """Whether got is a number (no bool) within a relative and an absolute tolerance of want."""
    return type(got) in (int, float) and math.isclose(got, want, rel_tol=rel, abs_tol=absolute)


def agree(got: Any, want: Any, rel: float = 1e-9) -> bool:
    """Equal in type and value, also inside of lists, tuples and dicts; floats as in `near`."""
    if isinstance(want, float):
        return near(got, want, rel)
    if type(got) is not type(want):
        return False
    if isinstance(want, dict):
        return got.keys() == want.keys() and all(agree(got[k], v, rel) for k, v in want.items())
    if isinstance(want, list | tuple):
        pairs = zip(got, want, strict=False)
        return len(got) == len(want) and all(agree(one, other, rel) for one, other in pairs)
    return bool(got == want)


def alike(got: Any, want: Any, rel: float = 1e-9) -> bool:
    """As `agree`, but any number may be whole or not, to a relative tolerance: the contract says a number."""
    return agree(got, _floats(want), rel)


def _floats(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _floats(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(_floats, value))
    return float(value) if type(value) is int else value


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
        whole = ", a whole number" * (type(value) is int and type(got[key]) is float)
        more = f". {why[key]}" if why.get(key) else ""
        require(
            agree(got[key], value),
            f"{call}: {key} is {show(got[key])}, expected {show(value)}{whole} ({unit}){more}",
        )


def judge_form(call: str, got: Any) -> Finding:
    """Fail unless got is a well-formed Finding."""
    require(isinstance(got, Finding), f"{call} returned {show(got)}, expected a Finding")
    require(not problems(got), f"{call}: {'; '.join(problems(got))}")
    return got


def judge_finding(
    call: str,
    got: Any,
    category: str,
    subject: str,
    evidence: Mapping[str, float],
    facts: str,
    *,
    why: Mapping[str, str] | str = "",
    about: str = "",
    rel: float | None = None,
    absolute: Mapping[str, float] | float = 1e-12,
    others: bool = False,
) -> Finding:
    """Fail unless got is a Finding of this category, on this subject, with this evidence; returns it.

    All three are held against what is expected before it fails, as a wrong category often follows from wrong
    evidence. A number of the evidence may be whole or not.

    facts: measured ones that a wrong category contradicts ("…, but {facts}"); about: what more there is to
    say of a wrong subject, why: of wrong evidence, by its key or for all. rel, absolute: tolerances; without
    rel a whole number is to be exact, and others agree to 1e-9. others: there may be further evidence.
    """
    judge_form(call, got)
    wrong = []
    if not others and got.evidence.keys() != evidence.keys():
        wrong.append(f"{call}: evidence has {sorted(got.evidence)}, expected {sorted(evidence)}")
    for key, value in evidence.items():
        slack = absolute if isinstance(absolute, int | float) else absolute[key]
        exact = rel is None and type(value) is int
        if not near(
            got.evidence.get(key), value, 0.0 if exact else rel or 1e-9, 0.0 if exact else slack
        ):
            more = why if isinstance(why, str) else why.get(key, "")
            more = f". {more}" if more else ""
            wrong.append(
                f"{call}: evidence {key} is {show(got.evidence.get(key))}, expected {show(value)} "
                f"(unit in the name){more}"
            )
            break
    if got.category != category:
        wrong.append(f"{call} says {got.category}, but {facts}")
    if got.subject != subject:
        more = about and f": {about}"
        wrong.append(f"{call}: subject is {got.subject!r}, expected {subject!r}{more}")
    require(not wrong, "\n".join(wrong))
    return got


def judge_recommendation(
    call: str,
    got: Finding,
    facts: str,
    *,
    borderline: bool | None = None,
    anywhere: bool = False,
    names: tuple[str, str] | None = None,
) -> None:
    """Fail unless the recommendation fits the finding: "none" where nothing is to be done, and only there.

    facts: what a wrong one contradicts. borderline: whether the finding is, and so has to begin with that
    word (or, anywhere, to hold it); a sentence will then do for a healthy one, too. names: what it has to name
    unless healthy, and what that is.
    """
    says, healthy = got.recommendation, got.category == "healthy"
    if borderline is not None:
        said = "borderline" in says if anywhere else says.startswith("borderline")
        require(
            said == borderline,
            f"{call}: recommendation is {says!r}, but {facts}. What is close to the floor on either side is borderline, "
            f"and nothing else: its recommendation {'holds' if anywhere else 'begins with'} that word",
        )
    nothing = says.removeprefix("borderline").strip(":, ") == "none"
    require(
        nothing == healthy or (healthy and bool(borderline)),
        f"{call}: recommendation is {says!r} of a finding that is {got.category} ({facts}): 'none' stands where "
        "nothing is to be done, and only there (where it is borderline a sentence will do), else a sentence",
    )
    if names is not None and not healthy:
        text, what = names
        require(
            re.search(re.escape(text) + r"(?!\d)", says) is not None,
            f"{call}: recommendation is {says!r}, which does not name {what}",
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
    floats = {key: float(value) for key, value in evidence.items()}
    judge_finding(
        *(call, got, category, f"kernel:{kernel}", floats),
        f"the evidence contradicts that: {facts}{besides}",
        why=facts,
        absolute=1e-9,
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
        f"{'nothing' if nothing_to_do else 'something'} to fix",
    )
