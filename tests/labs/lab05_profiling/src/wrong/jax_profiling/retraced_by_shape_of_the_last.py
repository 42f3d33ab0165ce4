"""Asks whether a call looks like the one before it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

CAUGHT_BY = "test_series_of_calls"
SAYS = "shapes and types were not there before"


def retraced_calls(fn: Callable[..., Any], calls: Sequence[Sequence[Any]]) -> list[int]:
    import jax

    found = []
    before = None
    for index, args in enumerate(calls):
        leaves, structure = jax.tree.flatten(args)
        looks = [
            (getattr(leaf, "shape", ()), getattr(leaf, "dtype", type(leaf))) for leaf in leaves
        ]
        if (looks, structure) != before:
            found.append(index)
        before = looks, structure
    return found
