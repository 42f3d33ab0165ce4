"""A few steps of a small network under JAX's own profiler, and what its first call costs.

`--variant jit` compiles the step into one program, `--variant eager` runs it operation by operation.
The numbers are the same.

Writes jax_trace.json.gz, what the profiler wrote for Perfetto of a few warm steps, and jax_timing.json:
times of lowering, compiling, first and later calls, waited for and not, in ns, with what the compiler
says of memory.
"""

from __future__ import annotations

import os

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import argparse
import gzip
import json
import math
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

LAYERS, ROWS, WIDTH, MLP = 6, 512, 1024, 4
STEPS, WARM_UP, SAMPLES, CALLS = 4, 3, 11, 20


def step(weights: list[dict[str, jax.Array]], x: jax.Array) -> dict[str, jax.Array]:
    """The network's result and its mean square: a pytree of two arrays."""
    for layer in weights:
        centred = x - jnp.mean(x, axis=-1, keepdims=True)
        spread = jnp.sqrt(jnp.mean(centred * centred, axis=-1, keepdims=True) + 1e-5)
        inner = centred / spread * layer["scale"] @ layer["up"]
        x = x + 0.5 * inner * (1.0 + jnp.tanh(0.8 * inner)) @ layer["down"]
    return {"result": x, "mean_square": jnp.mean(x * x)}


def data(rows: int) -> tuple[list[dict[str, jax.Array]], jax.Array]:
    """Random weights and input in bfloat16."""
    keys = iter(jax.random.split(jax.random.key(0), 2 * LAYERS + 1))

    def normal(*shape: int) -> jax.Array:
        scale = 1 / math.sqrt(shape[0])
        return (jax.random.normal(next(keys), shape) * scale).astype(jnp.bfloat16)

    weights = [
        {
            "scale": jnp.ones(WIDTH, jnp.bfloat16),
            "up": normal(WIDTH, MLP * WIDTH),
            "down": normal(MLP * WIDTH, WIDTH),
        }
        for _ in range(LAYERS)
    ]
    return weights, normal(rows, WIDTH)


def took_ns(call: Callable[[], Any]) -> tuple[int, Any]:
    began = time.perf_counter_ns()
    result = call()
    return time.perf_counter_ns() - began, result


def waited_for(call: Callable[[], Any]) -> int:
    return took_ns(lambda: jax.block_until_ready(call()))[0]


def timings(run: Callable[..., Any], weights: Any, x: jax.Array) -> dict[str, Any]:
    """Samples in ns. `run` has been called before, except for the shape of "new_shape"."""

    def call() -> Any:
        return run(weights, x)

    def in_a_row() -> int:
        def calls() -> Any:
            for _ in range(CALLS):
                result = call()
            return jax.block_until_ready(result)

        return round(took_ns(calls)[0] / CALLS)

    def issued() -> int:
        spent, result = took_ns(call)
        jax.block_until_ready(result)
        return spent

    for _ in range(WARM_UP):
        jax.block_until_ready(call())
    times = {
        "waited_for_each": [waited_for(call) for _ in range(SAMPLES)],
        "waited_for_at_the_end": [in_a_row() for _ in range(SAMPLES)],
        "not_waited_for": [issued() for _ in range(SAMPLES)],
    }
    other = jax.block_until_ready(x[: ROWS // 2])
    times["new_shape_first"] = [waited_for(lambda: run(weights, other))]
    times["new_shape_again"] = [waited_for(lambda: run(weights, other)) for _ in range(SAMPLES)]
    return times


def staged(weights: Any, x: jax.Array) -> dict[str, Any]:
    """Lowering and compiling apart, and what the compiler says of memory."""

    def fresh(weights: Any, x: jax.Array) -> Any:  # `step` itself may have been traced before
        return step(weights, x)

    lower_ns, lowered = took_ns(lambda: jax.jit(fresh).lower(weights, x))
    compile_ns, compiled = took_ns(lowered.compile)
    said = compiled.memory_analysis()
    names = ("argument", "output", "alias", "temp", "generated_code")
    memory = {f"{name}_bytes": int(getattr(said, f"{name}_size_in_bytes")) for name in names}
    return {"lower": [lower_ns], "compile": [compile_ns], "memory": memory}


def record_trace(run: Callable[..., Any], weights: Any, x: jax.Array) -> None:
    with tempfile.TemporaryDirectory() as folder:
        options = jax.profiler.ProfileOptions()
        options.python_tracer_level = 0
        options.host_tracer_level = 2
        with jax.profiler.trace(folder, create_perfetto_trace=True, profiler_options=options):
            for number in range(STEPS):
                with jax.profiler.StepTraceAnnotation("step", step_num=number):
                    jax.block_until_ready(run(weights, x))
        (found,) = Path(folder).rglob("perfetto_trace.json.gz")
        text = gzip.decompress(found.read_bytes())
    Path("jax_trace.json.gz").write_bytes(gzip.compress(text, mtime=0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--variant", choices=("jit", "eager"), default="jit")
    variant = parser.parse_args().variant

    weights, x = jax.block_until_ready(data(ROWS))
    run = jax.jit(step) if variant == "jit" else step
    first_ns = waited_for(lambda: run(weights, x))
    result = run(weights, x)
    mean_square = float(result["mean_square"])
    if not (0 < mean_square < math.inf and result["result"].shape == (ROWS, WIDTH)):
        raise SystemExit(f"the mean square is {mean_square}")
    times = {"first": [first_ns], **timings(run, weights, x)}
    stages = staged(weights, x)
    memory = stages.pop("memory")
    record_trace(run, weights, x)
    device = jax.devices()[0]
    held = device.memory_stats() or {}
    document = {
        "format": 1,
        "unit": "ns",
        "device": device.device_kind,
        "jax": jax.__version__,
        "variant": variant,
        "sizes": {"layers": LAYERS, "rows": ROWS, "width": WIDTH, "mlp": MLP, "dtype": "bfloat16"},
        "steps_in_trace": STEPS,
        "calls_in_a_row": CALLS,
        "times": {**times, **stages},
        "compiler_memory": memory,
        "device_peak_bytes": held.get("peak_bytes_in_use"),
    }
    Path("jax_timing.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print("RESULT " + json.dumps({"variant": variant, "mean_square": round(mean_square, 4)}))


if __name__ == "__main__":
    main()
