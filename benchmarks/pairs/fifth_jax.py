"""The fifth look: pairs on JAX, flax and optax."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import optax
from flax import linen
from harness import Loop, size
from with_jax import _kept, _network  # it sets how JAX takes memory, before JAX is used


def update_not_jitted_optax(fixed: bool) -> Loop:
    network, weights, inputs = _network(512, 8, 256)
    optimizer = optax.adam(1e-3)
    gradient = jax.jit(jax.grad(lambda w, x: network.apply(w, x).std()))

    def update(weights, moments, slope):
        change, moments = optimizer.update(slope, moments)
        return optax.apply_updates(weights, change), moments

    run = jax.jit(update) if fixed else update
    state = [weights, optimizer.init(weights)]

    def loop(steps: int):
        for _ in range(steps):
            slope = gradient(state[0], inputs)
            state[0], state[1] = run(state[0], state[1], slope)
            _kept(state[0])
            yield

    return loop


def scale_is_static_jax(fixed: bool) -> Loop:
    """A number that changes from step to step is static, so that each value is compiled, or an argument."""
    network, weights, inputs = _network(1024, 4, 1024)

    @partial(jax.jit, static_argnums=() if fixed else (2,))
    def run(weights, x, scale):
        return network.apply(weights, x * scale).mean()

    number = [0]

    def loop(steps: int):
        for _ in range(steps):
            number[0] += 1
            _kept(run(weights, inputs, 1 + number[0] / 1024))
            yield

    return loop


class _Convolved(linen.Module):
    @linen.compact
    def __call__(self, x):
        for width in (64, 128, 256):
            x = linen.relu(linen.Conv(size(width, 4), (3, 3))(x))
        return linen.Dense(10)(x.mean(axis=(1, 2)))


def steady_convolutions_flax(fixed: bool) -> Loop:
    network = _Convolved()
    images = jnp.ones((size(256, 1), size(112, 8), size(112, 8), 3))
    weights = network.init(jax.random.key(0), images)
    gradient = jax.jit(jax.grad(lambda w, x: network.apply(w, x).std()))

    def loop(steps: int):
        for _ in range(steps):
            _kept(gradient(weights, images))
            yield

    return loop
