"""The seventh look: pairs on JAX, flax's nnx and equinox."""

from __future__ import annotations

import itertools

import equinox
import jax
import jax.numpy as jnp
import optax
from flax import nnx
from harness import Loop, size
from with_jax import _kept  # it sets how JAX takes memory, before JAX is used


class _Block(nnx.Module):
    def __init__(self, width: int, rngs: nnx.Rngs) -> None:
        self.norm = nnx.LayerNorm(width, rngs=rngs)
        self.wide = nnx.Linear(width, 2 * width, rngs=rngs)
        self.narrow = nnx.Linear(2 * width, width, rngs=rngs)

    def __call__(self, x):
        return x + self.narrow(nnx.gelu(self.wide(self.norm(x))))


def blocks_awaited_nnx(fixed: bool) -> Loop:
    """Each block is a compiled function; the faulty version waits for each, as if to time it."""
    width = size(1024, 16)
    parts = [nnx.split(_Block(width, nnx.Rngs(seed))) for seed in range(size(12, 2))]
    graph = parts[0][0]
    run = jax.jit(lambda state, x: nnx.merge(graph, state)(x))
    inputs = jnp.ones((size(4096, 4), width))

    def loop(steps: int):
        for _ in range(steps):
            out = inputs
            for _, state in parts:
                out = run(state, out)
                if not fixed:
                    out.block_until_ready()
            _kept(out)
            yield

    return loop


def samples_one_by_one_equinox(fixed: bool) -> Loop:
    """A model of one sample is called for each sample, or once for all by vmap."""
    width = size(256, 8)
    model = equinox.nn.MLP(width, width, width, 4, key=jax.random.key(0))
    samples = jax.random.normal(jax.random.key(1), (size(64, 3), width))
    each = [sample.block_until_ready() for sample in samples]
    one = equinox.filter_jit(lambda model, x: model(x))
    every = equinox.filter_jit(lambda model, x: jax.vmap(model)(x))

    def loop(steps: int):
        for _ in range(steps):
            if fixed:
                _kept(every(model, samples))
            else:
                for sample in each:
                    _kept(one(model, sample))
            yield

    return loop


def temperature_compiled_equinox(fixed: bool) -> Loop:
    """A step is an epoch with a temperature of its own: a number of Python is a constant to filter_jit."""
    width = size(4096, 8)
    model = equinox.nn.MLP(width, width, width, 6, key=jax.random.key(0))
    inputs = jnp.ones((size(4096, 3), width))
    temperatures = (1.0 + 0.01 * number for number in itertools.count())

    @equinox.filter_jit
    def chosen(model, x, temperature):
        return jax.nn.softmax(jax.vmap(model)(x) / temperature, axis=1).max(axis=1)

    def loop(steps: int):
        for _ in range(steps):
            temperature = next(temperatures)
            told = jnp.asarray(temperature) if fixed else temperature
            for _ in range(size(20, 1)):
                _kept(chosen(model, inputs, told))
            yield

    return loop


def steady_training_nnx(fixed: bool) -> Loop:
    width = size(4096, 16)
    graph, weights = nnx.split(_Block(width, nnx.Rngs(0)))
    optimizer = optax.sgd(1e-4, momentum=0.9)
    state = [weights, optimizer.init(weights)]
    inputs = jnp.ones((size(16_384, 4), width))

    @jax.jit
    def step(weights, moments, x):
        gradient = jax.grad(lambda w: jnp.square(nnx.merge(graph, w)(x)).mean())(weights)
        change, moments = optimizer.update(gradient, moments)
        return optax.apply_updates(weights, change), moments

    def loop(steps: int):
        for _ in range(steps):
            state[0], state[1] = step(state[0], state[1], inputs)
            _kept(jax.tree.leaves(state[0]))
            yield

    return loop
