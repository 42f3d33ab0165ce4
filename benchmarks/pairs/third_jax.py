"""The third look: pairs on JAX and flax."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen
from harness import Loop, size
from with_jax import _kept, _network  # it sets how JAX takes memory, before JAX is used


def layers_jitted_flax(fixed: bool) -> Loop:
    width = size(512, 16)
    layer = linen.Dense(width)
    x = jnp.ones((size(64, 4), width))
    every = [layer.init(jax.random.key(n), x) for n in range(size(40, 2))]
    one = jax.jit(lambda weights, x: linen.gelu(layer.apply(weights, x)))

    @jax.jit
    def all_of_them(every, x):
        for weights in every:
            x = linen.gelu(layer.apply(weights, x))
        return x

    def loop(steps: int):
        for _ in range(steps):
            y = x
            if fixed:
                y = all_of_them(every, y)
            else:
                for weights in every:
                    y = one(weights, y)
            _kept(y)
            yield

    return loop


def lengths_jitted_flax(fixed: bool) -> Loop:
    network, weights, inputs = _network(512, 4, 1024)
    run = jax.jit(network.apply)
    lengths = itertools.count(33)
    host = np.asarray(inputs)

    def loop(steps: int):
        for _ in range(steps):
            rows = len(host) if fixed else next(lengths)
            _kept(run(weights, host[:rows]))
            yield

    return loop


def words_counted_flax(fixed: bool) -> Loop:
    network, weights, inputs = _network(2048, 6, 4096)
    run = jax.jit(network.apply)
    words = [f"w{n * n % 977}" for n in range(size(60_000, 50))]

    def loop(steps: int):
        for _ in range(steps):
            _kept(run(weights, inputs))
            if not fixed:
                counts: dict[str, int] = {}
                for word in words:
                    counts[word] = counts.get(word, 0) + 1
            yield

    return loop


def rows_fetched_jax(fixed: bool) -> Loop:
    network, weights, inputs = _network(2048, 4, 8192)

    @jax.jit
    def run(weights, x):
        return jnp.tile(network.apply(weights, x), (1, 200))

    def loop(steps: int):
        for _ in range(steps):
            made = _kept(run(weights, inputs))
            if not fixed:
                np.asarray(made)
            yield

    return loop


def steady_flax(fixed: bool) -> Loop:
    network, weights, inputs = _network(4096, 6, 16_384)
    gradient = jax.jit(jax.grad(lambda w, x: network.apply(w, x).std()))

    def loop(steps: int):
        for _ in range(steps):
            _kept(gradient(weights, inputs))
            yield

    return loop


def steady_scan_jax(fixed: bool) -> Loop:
    side = size(4096, 16)
    weight = jnp.eye(side) * 0.5

    @jax.jit
    def run(x):
        return jax.lax.scan(lambda now, _: (jnp.tanh(now @ weight), None), x, None, 20)[0]

    def loop(steps: int):
        x = jnp.ones((side, side))
        for _ in range(steps):
            x = _kept(run(x))
            yield

    return loop
