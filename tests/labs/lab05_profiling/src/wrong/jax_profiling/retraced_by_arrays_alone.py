"""Looks at the arrays of a call, and not at where in its arguments they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

CAUGHT_BY = "test_series_of_calls"
SAYS = "the same arrays under other names"


def retraced_calls(fn: Callable[..., Any], calls: Sequence[Sequence[Any]]) -> list[int]:
    import jax

    found: list[int] = []
    seen = set()
    for index, args in enumerate(calls):
        looks = tuple(str(jax.typeof(leaf)) for leaf in jax.tree.leaves(args))
        if looks not in seen:
            found.append(index)
        seen.add(looks)
    return found
