"""Adds the parts up, and with them the memory that a result took over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

CAUGHT_BY = "test_memory_of_arrays_that_do_not_exist"
SAYS = "the same memory twice"


def device_memory(
    fn: Callable[..., Any], args: Sequence[Any], donated: Sequence[int] = ()
) -> dict[str, int]:
    import jax

    compiled = jax.jit(fn, donate_argnums=tuple(donated)).lower(*args).compile()
    said = compiled.memory_analysis()
    parts = {
        f"{name}_bytes": int(getattr(said, f"{name}_size_in_bytes"))
        for name in ("argument", "output", "temp", "alias")
    }
    needed = parts["argument_bytes"] + parts["output_bytes"] + parts["temp_bytes"]
    return {**parts, "peak_bytes": needed}
