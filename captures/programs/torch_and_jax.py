"""The same function in PyTorch and in JAX on one GPU, in turns: gelu(layer_norm(x) @ up) @ down.

`--dtype bfloat16` or `--dtype float32`. Writes frameworks.json: a case a size, with a row a variant:
its first call, its relative error against float64, and for each round a sample in ns of one call, once
until all calls were issued and once until the results were there.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from roofline_timing import write_table  # noqa: E402

ROUNDS, INPUTS = 21, 4
SIZES: dict[str, dict[str, int]] = {
    "large": {"rows": 4096, "width": 4096, "ffn": 16384},
    "small": {"rows": 64, "width": 512, "ffn": 2048},
}
CALLS = {"large": {"bfloat16": 5, "float32": 2}, "small": {"bfloat16": 50, "float32": 50}}

Arrays = tuple[Any, ...]  # x, weight, bias, up, down


def in_torch(x, weight, bias, up, down):
    hidden = F.layer_norm(x, (x.shape[-1],), weight, bias)
    return F.gelu(hidden @ up) @ down


def in_jax(x, weight, bias, up, down, precision=None, tanh=False):
    wide = x.astype(jnp.float32)
    mean = wide.mean(axis=-1, keepdims=True)
    variance = jnp.square(wide - mean).mean(axis=-1, keepdims=True)
    scaled = (wide - mean) * jax.lax.rsqrt(variance + 1e-5)
    hidden = (scaled * weight.astype(jnp.float32) + bias.astype(jnp.float32)).astype(x.dtype)
    raised = jnp.matmul(hidden, up, precision=precision)
    return jnp.matmul(jax.nn.gelu(raised, approximate=tanh), down, precision=precision)


class Variant:
    """One way to compute it: how to prepare, how to call, how to wait."""

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        framework: str,
        matmul: str = "highest",
    ) -> None:
        self.name, self.function, self.framework, self.matmul = name, function, framework, matmul

    def prepare(self) -> None:
        if self.framework == "torch":
            torch.set_float32_matmul_precision(self.matmul)

    def wait(self, result: Any) -> None:
        if self.framework == "jax":
            jax.block_until_ready(result)
        else:
            torch.cuda.synchronize()

    def numbers(self, result: Any) -> np.ndarray:
        if self.framework == "jax":
            return np.asarray(result.astype(jnp.float32), dtype=np.float64)
        return result.double().cpu().numpy()


def variants(dtype: str) -> list[Variant]:
    """What is compared. "again" is the first one once more: what differs there is noise."""
    found = [
        Variant("torch eager", in_torch, "torch"),
        Variant("torch eager again", in_torch, "torch"),
        Variant("torch compiled", torch.compile(in_torch, dynamic=False), "torch"),
    ]
    if dtype == "bfloat16":
        return [
            *found,
            Variant("jax jit", jax.jit(in_jax), "jax"),
            Variant("jax jit again", jax.jit(in_jax), "jax"),
            Variant("jax jit, tanh gelu", jax.jit(lambda *a: in_jax(*a, tanh=True)), "jax"),
        ]
    return [
        *found,
        Variant("torch eager, tf32", in_torch, "torch", "high"),
        Variant("jax jit", jax.jit(in_jax), "jax"),
        Variant("jax jit, highest", jax.jit(lambda *a: in_jax(*a, precision="highest")), "jax"),
        Variant(
            "jax jit, highest again", jax.jit(lambda *a: in_jax(*a, precision="highest")), "jax"
        ),
    ]


def arrays(size: dict[str, int], which: int) -> list[np.ndarray]:
    """Random inputs; x differs with `which`, the weights do not."""
    rows, width, ffn = size["rows"], size["width"], size["ffn"]
    x = np.random.default_rng(which).standard_normal((rows, width), dtype=np.float32)
    pick = np.random.default_rng(width)
    weight, bias = pick.standard_normal((2, width), dtype=np.float32)
    up = pick.standard_normal((width, ffn), dtype=np.float32) * np.float32(width**-0.5)
    down = pick.standard_normal((ffn, width), dtype=np.float32) * np.float32(ffn**-0.5)
    return [x, weight, bias, up, down]


def measure(name: str, dtype: str) -> dict[str, Any]:
    """One size, as it stands in the file."""
    size, calls = SIZES[name], CALLS[name][dtype]
    given = [arrays(size, which) for which in range(INPUTS)]
    on_torch = [torch.from_numpy(array).cuda().to(getattr(torch, dtype)) for array in given[0]]
    on_jax = [jnp.asarray(array, dtype=getattr(jnp, dtype)) for array in given[0]]
    inputs: dict[str, list[list[Any]]] = {"torch": [], "jax": []}
    for x, *_ in given:
        inputs["torch"].append(
            [torch.from_numpy(x).cuda().to(getattr(torch, dtype)), *on_torch[1:]]
        )
        inputs["jax"].append([jnp.asarray(x, dtype=getattr(jnp, dtype)), *on_jax[1:]])
    exact = in_torch(*(tensor.double() for tensor in on_torch)).cpu().numpy()
    rows = []
    chosen = variants(dtype)
    for variant in chosen:
        variant.prepare()
        torch.cuda.synchronize()
        start = time.perf_counter_ns()
        result = variant.function(*inputs[variant.framework][0])
        variant.wait(result)
        first = time.perf_counter_ns() - start
        error = variant.numbers(result) - exact
        rows.append(
            {
                "name": variant.name,
                "framework": variant.framework,
                "first_call": first,
                "relative_error": float(np.linalg.norm(error) / np.linalg.norm(exact)),
                "issued": [],
                "done": [],
            }
        )
    for number in range(ROUNDS + 1):
        order = list(zip(chosen, rows, strict=True))
        for variant, row in order if number % 2 else reversed(order):
            variant.prepare()
            mine = inputs[variant.framework]
            for x in mine[:2]:
                variant.wait(variant.function(*x))
            start = time.perf_counter_ns()
            for call in range(calls):
                result = variant.function(*mine[call % INPUTS])
            issued = time.perf_counter_ns()
            variant.wait(result)
            done = time.perf_counter_ns()
            if number:  # the first round warms up
                row["issued"].append(round((issued - start) / calls))
                row["done"].append(round((done - start) / calls))
    return {"name": name, **size, "dtype": dtype, "calls": calls, "variants": rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dtype", choices=("bfloat16", "float32"), default="bfloat16")
    dtype = parser.parse_args().dtype
    if jax.devices()[0].platform not in ("gpu", "cuda"):
        raise SystemExit(f"jax found no GPU, only {jax.devices()}")
    with torch.no_grad():
        cases = [measure(name, dtype) for name in SIZES]
    table = {
        "format": 1,
        "unit": "ns",
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "jax": jax.__version__,
        "cases": cases,
    }
    write_table(table, "frameworks.json")
    medians = {
        f"{case['name']}: {row['name']}": statistics.median(row["done"])
        for case in cases
        for row in case["variants"]
    }
    print("RESULT", json.dumps({"cases": len(cases), "median_ns": medians}))


if __name__ == "__main__":
    main()
