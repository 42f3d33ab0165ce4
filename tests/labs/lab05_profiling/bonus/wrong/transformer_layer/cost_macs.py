"""Counts a multiply-add as one operation."""

from __future__ import annotations

from profiling_lab import devices

CAUGHT_BY = "test_each_part_is_counted"
SAYS = "this is what it does and moves"


def layer_cost(
    batch: int, tokens: int, hidden: int, heads: int, ffn: int, dtype: str, causal: bool = True
) -> dict[str, dict[str, int]]:
    sizes = {"batch": batch, "tokens": tokens, "hidden": hidden, "heads": heads, "ffn": ffn}
    for size, value in sizes.items():
        if type(value) is not int or value < 1:
            raise ValueError(f"{size} is {value!r}: a whole number of at least 1 is needed")
    if hidden % heads:
        raise ValueError(f"hidden = {hidden} cannot be split into {heads} heads of one size")
    element = devices.dtype(dtype).bytes
    rows = batch * tokens
    keys_seen = tokens * (tokens + 1) // 2 if causal else tokens * tokens

    def product(inner: int, columns: int) -> dict[str, int]:
        moved = rows * inner + inner * columns + rows * columns
        return {"flops": rows * inner * columns, "bytes": moved * element}

    def norm() -> dict[str, int]:
        moved = 2 * rows * hidden + 2 * hidden
        return {"flops": 7 * rows * hidden + 2 * rows, "bytes": moved * element}

    def residual() -> dict[str, int]:
        return {"flops": rows * hidden, "bytes": 3 * rows * hidden * element}

    return {
        "norm_1": norm(),
        "qkv": product(hidden, 3 * hidden),
        "attention": {
            "flops": 4 * batch * keys_seen * hidden,
            "bytes": 4 * rows * hidden * element,
        },
        "out": product(hidden, hidden),
        "residual_1": residual(),
        "norm_2": norm(),
        "up": product(hidden, ffn),
        "gelu": {"flops": rows * ffn, "bytes": 2 * rows * ffn * element},
        "down": product(ffn, hidden),
        "residual_2": residual(),
    }
