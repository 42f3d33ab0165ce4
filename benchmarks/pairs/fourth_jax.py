"""The fourth look: pairs on JAX, flax, optax and equinox."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import optax
from flax import linen
from harness import Loop, size
from with_jax import _kept, _network  # it sets how JAX takes memory, before JAX is used


def metrics_fetched_flax(fixed: bool) -> Loop:
    network, weights, inputs = _network(2048, 4, 2048)
    optimizer = optax.sgd(1e-3)
    state = [weights, optimizer.init(weights)]

    @jax.jit
    def step(weights, moments, x):
        loss, gradient = jax.value_and_grad(lambda w: network.apply(w, x).std())(weights)
        change, moments = optimizer.update(gradient, moments)
        metrics = {"loss": loss, "norm": optax.global_norm(gradient), "step": jnp.sqrt(loss)}
        return optax.apply_updates(weights, change), moments, metrics

    def loop(steps: int):
        history = []
        for _ in range(steps):
            state[0], state[1], metrics = step(*state, inputs)
            _kept(metrics["loss"])
            history.append(metrics if fixed else jax.device_get(metrics))
            yield

    return loop


def weights_fetched_flax(fixed: bool) -> Loop:
    network, weights, inputs = _network(4096, 4, 8192)
    state = [weights]

    @jax.jit
    def step(weights, x):
        gradient = jax.grad(lambda w: network.apply(w, x).std())(weights)
        return jax.tree.map(lambda w, g: w - 1e-3 * g, weights, gradient)

    def loop(steps: int):
        for _ in range(steps):
            state[0] = step(state[0], inputs)
            _kept(state[0])
            if not fixed:
                jax.device_get(state[0])
            yield

    return loop


def cells_in_python_flax(fixed: bool) -> Loop:
    width = size(512, 16)
    cell = linen.GRUCell(width)
    moments = jnp.ones((size(96, 3), size(32, 2), width))
    start = jnp.zeros(moments.shape[1:])
    weights = cell.init(jax.random.key(0), start, moments[0])
    one = jax.jit(lambda weights, state, x: cell.apply(weights, state, x)[0])
    sequence = [moments[n] for n in range(len(moments))]

    @jax.jit
    def all_of_them(weights, state, moments):
        return jax.lax.scan(
            lambda state, x: (cell.apply(weights, state, x)[0], None), state, moments
        )[0]

    def loop(steps: int):
        for _ in range(steps):
            state = start
            if fixed:
                state = all_of_them(weights, state, moments)
            else:
                for x in sequence:
                    state = one(weights, state, x)
            _kept(state)
            yield

    return loop


def allocator_of_platform_flax(fixed: bool) -> Loop:
    """The faulty version's environment has XLA_PYTHON_CLIENT_ALLOCATOR=platform."""
    network, weights, inputs = _network(2048, 6, 4096)
    layers = [jax.jit(lambda x, n=n: linen.gelu(x) * (1 + 0.1 * n)) for n in range(8)]
    run = jax.jit(network.apply)

    def loop(steps: int):
        for _ in range(steps):
            x = inputs
            for layer in layers:
                x = layer(x)
            _kept(run(weights, x))
            yield

    return loop


def functions_jitted_jax(fixed: bool) -> Loop:
    network, weights, inputs = _network(2048, 4, 2048)
    once = jax.jit(lambda w, x: network.apply(w, x).mean())

    def loop(steps: int):
        for _ in range(steps):
            run = once if fixed else jax.jit(lambda w, x: network.apply(w, x).mean())
            _kept(run(weights, inputs))
            yield

    return loop


def table_sorted_jax(fixed: bool) -> Loop:
    network, weights, inputs = _network(2048, 6, 8192)
    run = jax.jit(network.apply)
    rows = [(n * 7919 % 10_007, f"row {n}") for n in range(size(30_000, 30))]

    def loop(steps: int):
        for _ in range(steps):
            _kept(run(weights, inputs))
            if not fixed:
                best = sorted(rows, key=lambda row: (row[0] % 101, row[1]))
                "".join(name for _, name in best)
            yield

    return loop


# -- nothing wrong --------------------------------------------------------------------------------


def steady_attention_flax(fixed: bool) -> Loop:
    width = size(1024, 16)
    layer = linen.MultiHeadDotProductAttention(num_heads=size(16, 2), qkv_features=width)
    inputs = jnp.ones((size(32, 1), size(1024, 8), width), dtype=jnp.bfloat16)
    weights = layer.init(jax.random.key(0), inputs)

    @jax.jit
    def run(weights, x):
        for _ in range(4):
            x = layer.apply(weights, x)
        return x

    def loop(steps: int):
        for _ in range(steps):
            _kept(run(weights, inputs))
            yield

    return loop


def steady_equinox(fixed: bool) -> Loop:
    import equinox

    width = size(4096, 16)
    model = equinox.nn.MLP(width, width, width, 6, key=jax.random.key(0))
    inputs = jnp.ones((size(8192, 4), width))
    gradient = equinox.filter_jit(
        equinox.filter_grad(lambda model, x: jnp.square(jax.vmap(model)(x)).mean())
    )

    def loop(steps: int):
        for _ in range(steps):
            found = gradient(model, inputs)
            _kept(found.layers[0].weight)
            yield

    return loop
