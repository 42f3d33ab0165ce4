"""Pairs on JAX and flax."""

from __future__ import annotations

import math
import os
import queue
import random
import threading

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen
from harness import Loop, size

_last: list = []


def wait() -> None:
    """Until what was last made is there."""
    if _last:
        jax.block_until_ready(_last[-1])


def _kept(value):
    _last[:] = [value]
    return value


class Network(linen.Module):
    width: int
    layers: int

    @linen.compact
    def __call__(self, x):
        for _ in range(self.layers):
            x = linen.gelu(linen.Dense(self.width)(linen.LayerNorm()(x)))
        return linen.Dense(10)(x)


def _network(width: int, layers: int, batch: int):
    network = Network(size(width, 16), size(layers, 2))
    inputs = jnp.ones((size(batch, 4), size(width, 16)))
    return network, network.init(jax.random.key(0), inputs), inputs


def loss_read_flax(fixed: bool) -> Loop:
    network, weights, inputs = _network(1024, 4, 1024)
    optimizer = optax.adam(1e-3)
    state = [weights, optimizer.init(weights)]

    @jax.jit
    def step(weights, moments, x):
        loss, gradient = jax.value_and_grad(lambda w: network.apply(w, x).std())(weights)
        change, moments = optimizer.update(gradient, moments)
        return optax.apply_updates(weights, change), moments, loss

    def loop(steps: int):
        losses = []
        for _ in range(steps):
            state[0], state[1], loss = step(*state, inputs)
            losses.append(_kept(loss) if fixed else float(loss))
            yield

    return loop


def without_jit_flax(fixed: bool) -> Loop:
    network, weights, inputs = _network(512, 8, 256)
    run = jax.jit(network.apply) if fixed else network.apply

    def loop(steps: int):
        for _ in range(steps):
            _kept(run(weights, inputs))
            yield

    return loop


def numpy_batches_jax(fixed: bool) -> Loop:
    network, weights, inputs = _network(2048, 4, 8192)
    batches = [np.asarray(inputs) + n for n in range(3)]
    if fixed:
        batches = [jax.device_put(batch) for batch in batches]
    run = jax.jit(network.apply)

    def loop(steps: int):
        for number in range(steps):
            _kept(run(weights, batches[number % 3]))
            yield

    return loop


def simulator_in_python_jax(fixed: bool) -> Loop:
    network, weights, inputs = _network(1024, 6, 4096)
    run = jax.jit(lambda weights, x, angle: jnp.argmax(network.apply(weights, x) + angle.mean(), 1))
    count = len(inputs)

    def loop(steps: int):
        angles = np.zeros(count, dtype=np.float32)
        for _ in range(steps):
            actions = np.asarray(run(weights, inputs, angles))
            if fixed:
                angles = (angles + 0.1 * (actions - 4.5) + 0.01 * np.sin(angles)).astype(np.float32)
            else:
                following = []
                for angle, action in zip(angles.tolist(), actions.tolist(), strict=True):
                    following.append(angle + 0.1 * (action - 4.5) + 0.01 * math.sin(angle))
                angles = np.array(following, dtype=np.float32)
            yield

    return loop


def batches_in_line_jax(fixed: bool) -> Loop:
    network, weights, inputs = _network(1024, 8, 4096)
    run = jax.jit(network.apply)
    shape = inputs.shape

    def make(random_numbers: np.random.Generator) -> np.ndarray:
        batch = random_numbers.standard_normal(shape, dtype=np.float32)
        return batch - batch.mean(axis=1, keepdims=True)

    def batches():
        random_numbers = np.random.default_rng(0)
        while True:
            yield make(random_numbers)

    made: queue.Queue = queue.Queue(maxsize=24)

    def produce(seed: int) -> None:
        random_numbers = np.random.default_rng(seed)
        while True:
            made.put(jax.device_put(make(random_numbers)))

    if fixed:
        for seed in range(size(12, 1)):
            threading.Thread(target=produce, args=(seed,), daemon=True).start()
    following = iter(made.get, None) if fixed else batches()

    def loop(steps: int):
        for _ in range(steps):
            _kept(run(weights, next(following))).block_until_ready()
            yield

    return loop


def shapes_compiled_jax(fixed: bool) -> Loop:
    width = size(1024, 16)
    network = Network(width, size(4, 2))
    weights = network.init(jax.random.key(0), jnp.ones((8, width)))
    run = jax.jit(network.apply)
    lengths = random.Random(0).sample(range(64, 512), 256)
    following = iter(lengths)
    padded = np.ones((512, width), dtype=np.float32)

    def loop(steps: int):
        for _ in range(steps):
            length = next(following)
            _kept(run(weights, padded if fixed else padded[:length]))
            yield

    return loop


# -- the second look ------------------------------------------------------------------------------


def scores_in_python_jax(fixed: bool) -> Loop:
    network, weights, inputs = _network(2048, 6, 4096)
    run = jax.jit(lambda weights, x: network.apply(weights, x)[:, 0])
    table = np.linspace(0, 1, size(40_000, 40)).tolist()

    def loop(steps: int):
        total = 0.0
        for _ in range(steps):
            found = np.asarray(run(weights, inputs))
            if not fixed:
                for value in table:
                    total += value * 0.5 - value * value
            total += float(found[0])
            yield

    return loop


def large_batches_flax(fixed: bool) -> Loop:
    network, weights, inputs = _network(8192, 4, 8192)
    run = jax.jit(network.apply)

    def loop(steps: int):
        for _ in range(steps):
            _kept(run(weights, inputs))
            yield

    return loop
