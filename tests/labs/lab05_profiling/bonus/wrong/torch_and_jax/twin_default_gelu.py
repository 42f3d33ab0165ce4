"""Takes JAX's default GELU, an approximation by tanh."""

from __future__ import annotations

from typing import Any

CAUGHT_BY = "test_the_same_numbers"
SAYS = "another function than torch_side"


def jax_twin(x: Any, weight: Any, bias: Any, up: Any, down: Any) -> Any:
    import jax
    import jax.numpy as jnp

    wide = x.astype(jnp.float32)
    centred = wide - wide.mean(axis=-1, keepdims=True)
    variance = jnp.square(centred).mean(axis=-1, keepdims=True)
    normed = centred / jnp.sqrt(variance + 1e-5)
    hidden = (normed * weight.astype(jnp.float32) + bias.astype(jnp.float32)).astype(x.dtype)
    raised = jnp.matmul(hidden, up, precision="highest")
    return jnp.matmul(jax.nn.gelu(raised), down, precision="highest")
