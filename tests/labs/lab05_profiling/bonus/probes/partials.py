"""Runs `merge_partials` beside the learner's code, where warnings and changed inputs can be seen."""

from __future__ import annotations

from types import ModuleType

import numpy as np


def side_effects(
    module: ModuleType, first: list[np.ndarray], second: list[np.ndarray]
) -> dict[str, object]:
    """Whether an input was "changed", and the arithmetic that numpy would warn of ("warned", or "")."""
    given = [*first, *second]
    before = [array.copy() for array in given]
    warned = ""
    with np.errstate(divide="raise", over="raise", invalid="raise"):
        try:
            module.merge_partials(tuple(first), tuple(second))
        except FloatingPointError as error:
            warned = str(error)
    return {"changed": not all(map(np.array_equal, before, given)), "warned": warned}
