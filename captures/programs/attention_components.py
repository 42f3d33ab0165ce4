"""Time the five components of an attention layer, each alone and all in a row, at several shapes.

Writes profiles.json: a profile a shape, with the components' times, operations and bytes, the time of
the whole layer, and the time of a call that does next to nothing. A time is wall time per call: many
calls issued one after another, a wait for the device before and after them; the median of several such
samples, all of which are kept (`samples_ns`).
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

ON_GPU = torch.cuda.is_available()
DEVICE = "cuda" if ON_GPU else "cpu"
SAMPLES, SAMPLE_S, MOST_CALLS = 9, 0.02, 200

# batch, tokens, d_model, heads
SHAPES = {
    "bfloat16": [
        (1, 64, 256, 4),
        (1, 512, 1024, 8),
        (4, 2048, 2048, 16),
        (4, 4096, 4096, 32),
        (1, 16384, 2048, 16),
        (16, 512, 8192, 64),
    ],
    "float32": [
        (1, 64, 256, 4),
        (1, 512, 1024, 8),
        (4, 2048, 2048, 16),
        (4, 4096, 4096, 32),
        (8, 512, 4096, 32),
    ],
}
SMALL = [(1, 8, 16, 2), (2, 5, 8, 4)]


def wait() -> None:
    if ON_GPU:
        torch.cuda.synchronize()


def samples_ns(call: Callable[[], object]) -> list[int]:
    """Wall time of one call among many in a row, ns."""
    for _ in range(3):
        call()
    wait()
    start = time.perf_counter()
    call()
    wait()
    calls = max(2, min(MOST_CALLS, math.ceil(SAMPLE_S / (time.perf_counter() - start))))
    found = []
    for _ in range(SAMPLES):
        wait()
        begin = time.perf_counter_ns()
        for _ in range(calls):
            call()
        wait()
        found.append(round((time.perf_counter_ns() - begin) / calls))
    return found


def profile(batch: int, tokens: int, d_model: int, heads: int, dtype_name: str) -> dict[str, Any]:
    """All that is known about one shape."""
    dtype = getattr(torch, dtype_name)
    head_dim = d_model // heads
    generator = torch.Generator(DEVICE).manual_seed(5)

    def random(*shape: int, scale: float = 1.0) -> torch.Tensor:
        values = torch.randn(*shape, generator=generator, device=DEVICE, dtype=torch.float32)
        return (values * scale).to(dtype)

    x = random(batch, tokens, d_model)
    w_qkv = random(d_model, 3 * d_model, scale=d_model**-0.5)
    w_out = random(d_model, d_model, scale=d_model**-0.5)

    def qkv_projection(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        qkv = (x @ w_qkv).view(batch, tokens, 3, heads, head_dim).permute(2, 0, 3, 1, 4)
        return tuple(part.flatten(0, 1) for part in qkv.unbind())

    # baddbmm with beta 0 scales inside the product: one kernel, and no second pass over the scores.
    nothing = torch.zeros((), device=DEVICE, dtype=dtype)

    def score_computation(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        return torch.baddbmm(nothing, q, k.mT, beta=0, alpha=head_dim**-0.5)

    def softmax(scores: torch.Tensor) -> torch.Tensor:
        return torch.softmax(scores, dim=-1)

    def weighted_sum(weights: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return weights @ v

    def output_projection(heads_out: torch.Tensor) -> torch.Tensor:
        merged = heads_out.view(batch, heads, tokens, head_dim).transpose(1, 2)
        return merged.reshape(batch, tokens, d_model) @ w_out

    def whole() -> torch.Tensor:
        q, k, v = qkv_projection(x)
        return output_projection(weighted_sum(softmax(score_computation(q, k)), v))

    with torch.no_grad():
        q, k, v = qkv_projection(x)
        scores = score_computation(q, k)
        weights = softmax(scores)
        summed = weighted_sum(weights, v)
        exact = torch.softmax(q[0].double() @ k[0].double().T * head_dim**-0.5, -1) @ v[0].double()
        error = float((summed[0] - exact).abs().max() / exact.abs().max())
        assert error < (0.03 if dtype_name == "bfloat16" else 1e-4), (dtype_name, error)
        one = torch.zeros(1, device=DEVICE, dtype=dtype)

        size = x.element_size()
        rows, pairs = batch * tokens, batch * heads * tokens * tokens
        product = 2 * pairs * head_dim
        widths = rows * d_model
        counted = {
            "qkv_projection": (6 * rows * d_model**2, 4 * widths + 3 * d_model**2),
            "score_computation": (product, 2 * widths + pairs),
            "softmax": (batch * heads * tokens * (5 * tokens - 2), 2 * pairs),
            "weighted_sum": (product, 2 * widths + pairs),
            "output_projection": (2 * rows * d_model**2, 2 * widths + d_model**2),
        }
        calls: dict[str, Callable[[], object]] = {
            "qkv_projection": lambda: qkv_projection(x),
            "score_computation": lambda: score_computation(q, k),
            "softmax": lambda: softmax(scores),
            "weighted_sum": lambda: weighted_sum(weights, v),
            "output_projection": lambda: output_projection(summed),
        }
        components = []
        for name, (flops, elements) in counted.items():
            times = samples_ns(calls[name])
            components.append(
                {
                    "name": name,
                    "time_s": statistics.median(times) / 1e9,
                    "flops": flops,
                    "bytes": elements * size,
                    "samples_ns": times,
                }
            )
        whole_ns = samples_ns(whole)
        floor_ns = samples_ns(lambda: torch.relu(one))
    sum_s = sum(component["time_s"] for component in components)
    for component in components:
        component["share"] = component["time_s"] / sum_s
    return {
        "device": torch.cuda.get_device_name() if ON_GPU else "cpu",
        "dtype": dtype_name,
        "batch": batch,
        "seq_len": tokens,
        "d_model": d_model,
        "num_heads": heads,
        "components": components,
        "sum_s": sum_s,
        "whole_s": statistics.median(whole_ns) / 1e9,
        "call_floor_s": statistics.median(floor_ns) / 1e9,
        "whole_samples_ns": whole_ns,
        "call_floor_samples_ns": floor_ns,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dtype", choices=SHAPES, default="bfloat16")
    arguments = parser.parse_args()
    profiles = []
    for shape in SHAPES[arguments.dtype] if ON_GPU else SMALL:
        profiles.append(profile(*shape, arguments.dtype))
        if ON_GPU:
            torch.cuda.empty_cache()
    table = {"format": 1, "profiles": profiles}
    Path("profiles.json").write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
    told = {
        "x".join(str(p[key]) for key in ("batch", "seq_len", "d_model", "num_heads")): round(
            p["whole_s"] * 1e6, 1
        )
        for p in profiles
    }
    print("RESULT", json.dumps({"dtype": arguments.dtype, "whole_us": told}))


if __name__ == "__main__":
    main()
