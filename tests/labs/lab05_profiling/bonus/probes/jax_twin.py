"""Runs `jax_twin` beside the learner's code, compiled, and looks at its products."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np


def twin(module: ModuleType, arrays: list[np.ndarray], dtype: str) -> dict[str, Any]:
    """jax_twin of arrays (float32), given in a data type, compiled by jax.jit.

    Returns "result" in float64 and its "dtype". (One compilation for all; without jax.jit each operator
    would be compiled on its own.)
    """
    import jax

    with jax.default_device(jax.devices("cpu")[0]):
        # Cast by numpy: a cast in JAX is one more program to compile.
        given = [array.astype(jax.numpy.dtype(dtype)) for array in arrays]
        # Each value is rounded to its type, as on a GPU between two kernels; XLA may else compute
        # in float32 what was asked for in bfloat16.
        exactly: dict[str, bool | str] = {"xla_allow_excess_precision": False}
        result = jax.jit(module.jax_twin).lower(*given).compile(compiler_options=exactly)(*given)
    return {"result": np.asarray(result).astype(np.float64), "dtype": str(result.dtype)}


def torch_side(module: ModuleType, arrays: list[np.ndarray]) -> np.ndarray:
    """What torch_side returns, in float64."""
    import torch

    return module.torch_side(*map(torch.from_numpy, arrays)).double().numpy()


def precisions(module: ModuleType, arrays: list[np.ndarray]) -> list[str]:
    """For each product in the traced program what it was asked to be done in; nothing runs."""
    import jax

    return _precisions(jax.make_jaxpr(module.jax_twin)(*arrays).jaxpr)


def _precisions(program: Any) -> list[str]:
    found = []
    for equation in program.eqns:
        if equation.primitive.name == "dot_general":
            asked = equation.params["precision"]
            asked = asked if isinstance(asked, tuple) else (asked,)
            found.append("/".join(sorted({str(one).rpartition(".")[2] for one in asked})))
        for inner in equation.params.values():
            inner = getattr(inner, "jaxpr", inner)
            if hasattr(inner, "eqns"):
                found += _precisions(inner)
    return found
