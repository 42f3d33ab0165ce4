"""Forgets the other tensors that operations read."""

from __future__ import annotations

from collections.abc import Sequence

from profiling_lab import devices

CAUGHT_BY = "test_a_chain_is_counted"
SAYS = "also reads its other inputs"


def elementwise_cost(
    element_count: int, extra_inputs: Sequence[int], dtype: str, fused: bool = False
) -> Cost:
    check_sizes(element_count=element_count)
    if not extra_inputs or any(type(count) is not int or count < 0 for count in extra_inputs):
        raise ValueError(f"extra_inputs is {extra_inputs!r}: one count of at least 0 an operation")
    between = 0 if fused else len(extra_inputs) - 1
    tensors = 1 + 2 * between + 1
    return {
        "flops": element_count * len(extra_inputs),
        "bytes": element_count * tensors * devices.dtype(dtype).bytes,
    }
