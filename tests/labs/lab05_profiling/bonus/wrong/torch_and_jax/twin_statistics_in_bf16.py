"""Takes mean and variance in the type of the rows."""

from __future__ import annotations

from typing import Any

CAUGHT_BY = "test_half_precision"
SAYS = "a mean and a variance in float32"


def jax_twin(x: Any, weight: Any, bias: Any, up: Any, down: Any) -> Any:
    import jax
    import jax.numpy as jnp

    centred = x - x.mean(axis=-1, keepdims=True)
    variance = jnp.square(centred).mean(axis=-1, keepdims=True)
    normed = centred / jnp.sqrt(variance + 1e-5)
    hidden = normed * weight + bias
    raised = jnp.matmul(hidden, up, precision="highest")
    return jnp.matmul(jax.nn.gelu(raised, approximate=False), down, precision="highest")
