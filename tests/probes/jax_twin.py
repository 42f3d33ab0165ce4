"""Runs `jax_twin` beside the learner's code, as it is and compiled, and looks at its products."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np


def twin(module: ModuleType, arrays: list[np.ndarray], dtype: str) -> dict[str, Any]:
    """jax_twin of arrays (float32), given in a data type.

    Returns its result as it is ("eager") and under jax.jit ("compiled"), that of torch_side ("torch"), all in float64, "dtype",
    and "precisions": for each product in the traced program what it was asked to be done in.
    """
    import jax
    import jax.numpy as jnp
    import torch

    with jax.default_device(jax.devices("cpu")[0]):
        given = [jnp.asarray(array, dtype=getattr(jnp, dtype)) for array in arrays]
        eager = module.jax_twin(*given)
        compiled = jax.jit(module.jax_twin)(*given)
        traced = jax.make_jaxpr(module.jax_twin)(*given)
        in_torch = module.torch_side(
            *(torch.from_numpy(array).to(getattr(torch, dtype)) for array in arrays)
        )
    return {
        "torch": in_torch.double().numpy(),
        "eager": np.asarray(eager.astype(jnp.float32), dtype=np.float64),
        "compiled": np.asarray(compiled.astype(jnp.float32), dtype=np.float64),
        "dtype": str(eager.dtype),
        "precisions": _precisions(traced.jaxpr),
    }


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
