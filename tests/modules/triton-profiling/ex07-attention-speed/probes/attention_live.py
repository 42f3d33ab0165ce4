"""Runs `attention_live` beside the learner's code on a GPU, in turns with torch's backends."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from profiling_lab.mine.functions import load_once

SHAPE, REPEATS, CALLS = (4, 32, 8192, 128), 5, 4
RAGGED = ((1, 2, 200, 200, 128), (2, 3, 65, 300, 64), (1, 1, 1, 77, 128))


def _interpreter() -> ModuleType:
    return load_once(
        Path(__file__).parents[2] / "probes" / "triton_interpreter.py", "_triton_interpreter"
    )


def live(module: ModuleType, causal: bool) -> dict[str, Any]:
    """Ratios of rates, errors, and what torch ran beside the learner's kernel."""
    import torch
    import torch.nn.functional as F
    from torch.nn.attention import SDPBackend, sdpa_kernel

    torch.manual_seed(torch.seed() % 2**31)
    q, k, v = (torch.randn(SHAPE, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    pins = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}

    def error(q: Any, k: Any, v: Any) -> float:
        got = module.attention_live(q, k, v, causal)[-1, -1].double()
        want = F.scaled_dot_product_attention(
            *(x[-1:, -1:].double() for x in (q, k, v)), is_causal=causal
        )[0, 0]
        return float((got - want).abs().max() / want.abs().max())

    counter = _interpreter().Counter()
    with _interpreter()._Operators(counter):
        module.attention_live(q, k, v, causal)
    errors = [error(q, k, v)]
    for batch, heads, queries, keys, head in RAGGED:
        small = [
            torch.randn(batch, heads, tokens, head, device="cuda", dtype=torch.bfloat16)
            for tokens in (queries, keys, keys)
        ]
        errors.append(error(*small))

    def pinned(backend: Any) -> Callable[[], Any]:
        def run() -> Any:
            with sdpa_kernel(backend):
                return F.scaled_dot_product_attention(q, k, v, is_causal=causal)

        return run

    calls: dict[str, Callable[[], Any]] = {
        "own": lambda: module.attention_live(q, k, v, causal),
        "default": lambda: F.scaled_dot_product_attention(q, k, v, is_causal=causal),
    }
    for name, backend in pins.items():
        call = pinned(backend)
        try:
            call()
        except RuntimeError:  # a device or release without this backend
            continue
        calls[name] = call
    samples: dict[str, list[float]] = {name: [] for name in calls}
    for warm_up in (True, *[False] * REPEATS):
        for name, call in calls.items():
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda._sleep(2_000_000)  # so that the host is ahead of the device
            start.record()
            for _ in range(CALLS):
                call()
            end.record()
            torch.cuda.synchronize()
            if not warm_up:
                samples[name].append(start.elapsed_time(end) / CALLS)
    k.neg_()  # other numbers at the same place: a kept result is wrong now
    errors.append(error(q, k, v))
    medians = {name: statistics.median(times) for name, times in samples.items()}
    return {
        "errors": errors,
        "torch_operators": counter.torch_operators,
        "median_ms": medians,
        "over_flash": medians.get("flash", medians["default"]) / medians["own"],
        "of_fastest": min(t for n, t in medians.items() if n != "own") / medians["own"],
    }
