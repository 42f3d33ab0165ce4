"""Takes a tensor for contiguous if its strides fall from dimension to dimension."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

CAUGHT_BY = "test_layouts_of_tensors"
SAYS = "torch was asked"


def layout_report(
    shape: Sequence[int], strides: Sequence[int], element_bytes: int
) -> dict[str, Any]:
    bad = any(size < 1 for size in shape) or any(stride < 0 for stride in strides)
    if bad or len(shape) != len(strides):
        raise ValueError(f"{list(shape)} with strides {list(strides)}: no layout of a tensor")
    if element_bytes < 1:
        raise ValueError(f"element_bytes is {element_bytes}: at least 1 is needed")

    def is_dense(order: Sequence[int]) -> bool:
        found = [strides[dimension] for dimension in order]
        return found == sorted(found)

    whole = element_bytes
    for size in shape:
        whole *= size
    images = len(shape) == 4
    contiguous = is_dense(range(len(shape))[::-1])
    channels_last = images and is_dense((1, 3, 2, 0))
    return {
        "contiguous": contiguous,
        "channels_last": channels_last,
        "copy_bytes": 0 if contiguous else whole,
        "channels_last_copy_bytes": (0 if channels_last else whole) if images else None,
    }
