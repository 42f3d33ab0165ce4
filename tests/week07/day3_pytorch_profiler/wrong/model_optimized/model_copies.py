"""Computes with copies of the parameters."""

from __future__ import annotations

import copy

from torch import nn

CAUGHT_BY = "test_gradients_are_the_same"
SAYS = "no gradient reaches"


def optimized_model(slow: nn.Module) -> nn.Module:
    return _Optimized(copy.deepcopy(slow))
