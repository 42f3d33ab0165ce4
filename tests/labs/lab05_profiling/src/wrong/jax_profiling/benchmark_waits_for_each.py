"""Waits for each call before the next."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

CAUGHT_BY = "test_lazy_results"
SAYS = "each call was waited for before the next"


def benchmark_jax(
    fn: Callable[..., Any], args: Sequence[Any], warmup: int = 3, iterations: int = 10
) -> float:
    import jax

    if not callable(fn):
        raise TypeError(f"fn is {fn!r}, which cannot be called")
    for name, count in (("warmup", warmup), ("iterations", iterations)):
        if type(count) is not int or count < 1:
            raise ValueError(f"{name} is {count!r}: a whole number of at least 1 is needed")
    result = None
    for _ in range(warmup):
        result = fn(*args)
    jax.block_until_ready(result)
    start = time.perf_counter()
    for _ in range(iterations):
        result = jax.block_until_ready(fn(*args))
    jax.block_until_ready(result)
    return (time.perf_counter() - start) / iterations
