"""Lets JAX use what it holds of an earlier trace."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

CAUGHT_BY = "test_stages_of_known_length"
SAYS = "shortened the stage"


def compile_and_run_time(
    fn: Callable[..., Any], args: Sequence[Any], iterations: int = 10
) -> dict[str, float]:
    import jax

    if not callable(fn):
        raise TypeError(f"fn is {fn!r}, which cannot be called")
    if type(iterations) is not int or iterations < 1:
        raise ValueError(f"iterations is {iterations!r}: a whole number of at least 1 is needed")

    def unseen(*args: Any) -> Any:  # JAX keeps traces by function
        return fn(*args)

    start = time.perf_counter()
    lowered = jax.jit(fn).lower(*args)
    lowered_at = time.perf_counter()
    compiled = lowered.compile()
    compiled_at = time.perf_counter()
    return {
        "lower_s": lowered_at - start,
        "compile_s": compiled_at - lowered_at,
        "run_s": benchmark_jax(compiled, args, 1, iterations),
    }
