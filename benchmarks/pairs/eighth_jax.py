"""The eighth look: pairs on JAX with flax, equinox, optax and numpyro."""

from __future__ import annotations

import itertools

import equinox
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import optax
from flax import linen, nnx
from harness import Loop, size
from numpyro import distributions
from numpyro.infer import SVI, Trace_ELBO
from numpyro.infer.autoguide import AutoNormal
from with_jax import _kept, _network  # it sets how JAX takes memory, before JAX is used

# -- results that are waited for ------------------------------------------------------------------


class _Speaker(linen.Module):
    """A language model of gated cells, one on the other: the next words, and what they remember."""

    words: int
    width: int
    layers: int

    @linen.compact
    def __call__(self, memories, words):
        x = linen.Embed(self.words, self.width)(words)
        kept = []
        for memory in memories:
            memory, x = linen.GRUCell(self.width)(memory, x)
            kept.append(memory)
        return kept, linen.Dense(self.words)(x)


def stop_checked_flax(fixed: bool) -> Loop:
    """A step is 32 words of each text. Are all texts done? It is asked after each word, or at the end of a step."""
    known, width, batch = size(8000, 32), size(2048, 16), size(64, 2)
    network = _Speaker(known, width, size(6, 2))
    memories = [jnp.zeros((batch, width)) for _ in range(network.layers)]
    words, done = jnp.arange(batch), jnp.zeros(batch, dtype=bool)
    weights = network.init(jax.random.key(0), memories, words)

    @jax.jit
    def following(weights, memories, words, done):
        memories, scores = network.apply(weights, memories, words)
        words = scores.argmax(1)
        done = done | (words == known)
        return memories, words, done, done.all()

    def loop(steps: int):
        state = [memories, words, done]
        for _ in range(steps):
            for _ in range(size(32, 2)):
                *state, every = following(weights, *state)
                if not fixed and bool(every):
                    break
            _kept(state)
            if bool(every):
                break
            yield

    return loop


def _regression(rows: int, width: int, particles: int):
    """A logistic regression and its guide, as numpyro's examples have them; its state and its compiled update."""
    x = jax.random.normal(jax.random.key(0), (size(rows, 8), size(width, 4)))
    y = (x[:, 0] > 0).astype(jnp.float32)

    def model(x, y):
        prior = distributions.Normal(0.0, 1.0).expand([x.shape[1]]).to_event(1)
        slope = numpyro.sample("slope", prior)
        with numpyro.plate("rows", len(x)):
            numpyro.sample("y", distributions.Bernoulli(logits=x @ slope), obs=y)

    search = SVI(model, AutoNormal(model), numpyro.optim.Adam(1e-3), Trace_ELBO(particles))
    state = search.init(jax.random.key(1), x, y)
    return search, state, jax.jit(search.update), x, y


def scales_watched_numpyro(fixed: bool) -> Loop:
    """How narrow has the guide become? It is read after each update, or kept to be read at the end."""
    search, first, update, x, y = _regression(2_000_000, 64, 1)
    state = [first]
    narrowest = jax.jit(lambda state: search.get_params(state)["slope_auto_scale"].min())

    def loop(steps: int):
        seen = []
        for _ in range(steps):
            state[0], _loss = update(state[0], x, y)
            scale = _kept(narrowest(state[0]))
            seen.append(scale if fixed else float(scale))
            yield

    return loop


# -- copies ---------------------------------------------------------------------------------------


class _Placed(equinox.Module):
    """Layers for a sequence, to which it is told where each of its parts stands."""

    places: jax.Array | np.ndarray
    layers: list

    def __call__(self, x):
        x = x + self.places
        for layer in self.layers:
            x = x + jax.nn.gelu(jax.vmap(layer)(x))
        return x.mean(axis=0)


def positions_sent_equinox(fixed: bool) -> Loop:
    """NumPy made the table of places, and so it is an array of the host in the module: each call sends it."""
    length, width = size(16_384, 8), size(1024, 8)
    angle = np.arange(length)[:, None] / 10_000 ** (np.arange(width) / width)
    places = np.sin(angle).astype(np.float32)
    keys = jax.random.split(jax.random.key(0), size(6, 2))
    layers = [equinox.nn.Linear(width, width, key=key) for key in keys]
    model = _Placed(jnp.asarray(places) if fixed else places, layers)
    inputs = jax.random.normal(jax.random.key(1), (size(4, 2), length, width))
    run = equinox.filter_jit(lambda model, x: jax.vmap(model)(x))

    def loop(steps: int):
        for _ in range(steps):
            _kept(run(model, inputs))
            yield

    return loop


def moments_offloaded_optax(fixed: bool) -> Loop:
    """Between two updates Adam's moments are in pinned memory of the host, or stay where they are."""
    network, weights, inputs = _network(4096, 4, 16_384)
    optimizer = optax.adam(1e-4)
    device = jax.devices()[0]
    here = jax.sharding.SingleDeviceSharding(device)
    there = jax.sharding.SingleDeviceSharding(device, memory_kind="pinned_host")
    state = [weights, optimizer.init(weights)]

    @jax.jit
    def step(weights, moments, x):
        slope = jax.grad(lambda w: network.apply(w, x).std())(weights)
        change, moments = optimizer.update(slope, moments)
        return optax.apply_updates(weights, change), moments

    def loop(steps: int):
        for _ in range(steps):
            moments = state[1] if fixed else jax.device_put(state[1], here)
            state[0], moments = step(state[0], moments, inputs)
            state[1] = moments if fixed else jax.device_put(moments, there)
            _kept(state)
            yield

    return loop


# -- launches -------------------------------------------------------------------------------------


def averages_by_leaf_flax(fixed: bool) -> Loop:
    """Three running averages of all weights: a compiled function is called for each leaf, or once for all."""
    network, weights, inputs = _network(512, 32, 1024)
    shares = (0.9, 0.99, 0.999)

    @jax.jit
    def step(weights, x):
        slope = jax.grad(lambda w: network.apply(w, x).std())(weights)
        return jax.tree.map(lambda w, g: w - 1e-3 * g, weights, slope)

    def mixed(share: float, average, weight):
        return share * average + (1 - share) * weight

    each = [jax.jit(lambda a, w, share=share: mixed(share, a, w)) for share in shares]

    @jax.jit
    def every(averages, weights):
        return [
            jax.tree.map(lambda a, w, share=share: mixed(share, a, w), average, weights)
            for share, average in zip(shares, averages, strict=True)
        ]

    state = [weights, [weights for _ in shares]]

    def loop(steps: int):
        for _ in range(steps):
            state[0] = step(state[0], inputs)
            if fixed:
                state[1] = every(state[1], state[0])
            else:
                state[1] = [
                    jax.tree.map(one, average, state[0])
                    for one, average in zip(each, state[1], strict=True)
                ]
            _kept(state)
            yield

    return loop


# -- the program's own code -----------------------------------------------------------------------


def model_described_equinox(fixed: bool) -> Loop:
    """The loss is read in both versions; the faulty one writes a description of the model into the log, too."""
    width = size(2048, 8)
    model = equinox.nn.MLP(width, width, width, size(24, 3), key=jax.random.key(0))
    inputs = jnp.ones((size(8192, 4), width))

    @equinox.filter_jit
    def score(model, x):
        return jnp.square(jax.vmap(model)(x)).mean()

    def loop(steps: int):
        log = []
        for _ in range(steps):
            loss = float(_kept(score(model, inputs)))
            log[:] = [f"{loss} of {'' if fixed else equinox.tree_pformat(model)}"]
            yield

    return loop


# -- input ----------------------------------------------------------------------------------------


def _heard(workers: int, batch: int):
    import torch
    from eighth_input import Echoes
    from torch.utils.data import DataLoader, RandomSampler

    sounds = Echoes()
    workers = size(workers, min(workers, 1))
    return DataLoader(
        sounds,
        batch_size=size(batch, 2),
        num_workers=workers,
        sampler=RandomSampler(sounds, True, 10_000_000),
        collate_fn=np.stack,
        multiprocessing_context=torch.multiprocessing.get_context("spawn") if workers else None,
        persistent_workers=workers > 0,
    )


def echoes_in_line_flax(fixed: bool) -> Loop:
    """PyTorch's loader makes echoes of sounds for a model of flax, on the thread that trains or by workers."""
    batches = iter(_heard(8 if fixed else 0, 32))
    batch, samples, width = size(32, 2), size(16_384, 256), size(4096, 16)
    network, weights, _ = _network(width, 6, 1)
    into = jax.random.normal(jax.random.key(2), (128, width)) / 12
    state = [weights]

    @jax.jit
    def step(weights, sounds):
        x = sounds.reshape(batch * samples // 128, 128) @ into
        slope = jax.grad(lambda w: network.apply(w, x).std())(weights)
        return jax.tree.map(lambda w, g: w - 1e-3 * g, weights, slope)

    def loop(steps: int):
        for _ in range(steps):
            state[0] = _kept(step(state[0], next(batches)))
            yield

    return loop


# -- compiling ------------------------------------------------------------------------------------


class _Annealed(nnx.Module):
    """A block whose output grows from epoch to epoch; the epoch is a number of Python, or a variable."""

    def __init__(self, width: int, counts: bool, rngs: nnx.Rngs) -> None:
        self.wide = nnx.Linear(width, 2 * width, rngs=rngs)
        self.narrow = nnx.Linear(2 * width, width, rngs=rngs)
        self.epoch = nnx.Variable(jnp.zeros(())) if counts else 0.0

    def __call__(self, x):
        epoch = self.epoch[...] if isinstance(self.epoch, nnx.Variable) else self.epoch
        return x + (0.1 + 0.01 * epoch) * self.narrow(nnx.gelu(self.wide(x)))


def epoch_in_module_nnx(fixed: bool) -> Loop:
    """A step is an epoch. nnx.jit takes a number of Python in a module for a part of its structure."""
    width = size(4096, 8)
    model = _Annealed(width, fixed, nnx.Rngs(0))
    inputs = jnp.ones((size(16_384, 3), width))
    epochs = itertools.count(1)

    @nnx.jit
    def run(model, x):
        return model(x).mean(axis=0)

    def loop(steps: int):
        for _ in range(steps):
            epoch = float(next(epochs))
            if isinstance(model.epoch, nnx.Variable):
                model.epoch[...] = epoch
            else:
                model.epoch = epoch
            for _ in range(size(30, 1)):
                _kept(run(model, inputs))
            yield

    return loop


# -- healthy --------------------------------------------------------------------------------------


def steady_regression_numpyro(fixed: bool) -> Loop:
    _, first, update, x, y = _regression(4_000_000, 128, 4)
    state = [first]

    def loop(steps: int):
        for _ in range(steps):
            state[0], loss = update(state[0], x, y)
            _kept(loss)
            yield

    return loop


def steady_accumulated_optax(fixed: bool) -> Loop:
    """Gradients of four large parts are added, clipped and applied; the old weights give their memory back."""
    network, weights, inputs = _network(4096, 6, 8192)
    rate = optax.cosine_decay_schedule(1e-4, 10_000)
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(rate))
    state = [weights, optimizer.init(weights)]

    @jax.jit
    def first(weights, x):
        return jax.grad(lambda w: network.apply(w, x).std())(weights)

    @jax.jit
    def more(total, weights, x):
        return jax.tree.map(jnp.add, total, first(weights, x))

    def update(weights, moments, slope):
        change, moments = optimizer.update(slope, moments, weights)
        return optax.apply_updates(weights, change), moments

    change = jax.jit(update, donate_argnums=(0, 1))

    def loop(steps: int):
        for _ in range(steps):
            slope = first(state[0], inputs)
            for _ in range(3):
                slope = more(slope, state[0], inputs)
            state[:] = change(*state, slope)
            _kept(state[0])
            yield

    return loop
