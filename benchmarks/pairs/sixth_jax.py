"""The sixth look: pairs on JAX, flax and optax."""

from __future__ import annotations

import heapq
import itertools

import jax
import jax.numpy as jnp
import optax
from harness import Loop, size
from with_jax import _kept, _network  # it sets how JAX takes memory, before JAX is used


def routes_planned_flax(fixed: bool) -> Loop:
    """The score is read in both versions; then the faulty one looks for a way through a grid, in Python."""
    network, weights, inputs = _network(4096, 6, 8192)
    run = jax.jit(lambda w, x: network.apply(w, x).mean())
    side = size(60, 5)
    cost = [[1 + (x * y) % 7 for x in range(side)] for y in range(side)]

    def planned(score: float) -> float:
        best, heap = {(0, 0): score}, [(score, 0, 0)]
        while heap:
            length, x, y = heapq.heappop(heap)
            if length > best[x, y]:
                continue
            for a, b in ((x + 1, y), (x, y + 1), (x - 1, y), (x, y - 1)):
                if 0 <= a < side and 0 <= b < side:
                    longer = length + cost[b][a]
                    if longer < best.get((a, b), 1e30):
                        best[a, b] = longer
                        heapq.heappush(heap, (longer, a, b))
        return best[side - 1, side - 1]

    def loop(steps: int):
        for _ in range(steps):
            score = float(_kept(run(weights, inputs)))
            if not fixed:
                planned(score)
            yield

    return loop


def windows_jitted_jax(fixed: bool) -> Loop:
    """Windows of another length in each step: each is compiled."""
    signal = jnp.ones((size(512, 4), 4096))
    lengths = itertools.count(65)

    @jax.jit
    def smooth(window):
        return jnp.cumsum(window, axis=1).std(axis=1)

    def loop(steps: int):
        for _ in range(steps):
            length = 1024 if fixed else next(lengths)
            _kept(smooth(signal[:, :length]))
            yield

    return loop


def steady_training_flax(fixed: bool) -> Loop:
    network, weights, inputs = _network(4096, 8, 16_384)
    optimizer = optax.sgd(1e-4)
    state = [weights, optimizer.init(weights)]

    @jax.jit
    def step(weights, moments, x):
        gradient = jax.grad(lambda w: network.apply(w, x).std())(weights)
        change, moments = optimizer.update(gradient, moments)
        return optax.apply_updates(weights, change), moments

    def loop(steps: int):
        for _ in range(steps):
            state[0], state[1] = step(state[0], state[1], inputs)
            _kept(state[0])
            yield

    return loop
