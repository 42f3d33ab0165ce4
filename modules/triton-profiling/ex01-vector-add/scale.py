"""A whole Triton kernel to read before you write your own: every element of a tensor times a factor.

    TRITON_INTERPRET=1 uv run --group frameworks python modules/triton-profiling/ex01-vector-add/scale.py

Given, and complete for the sizes that it takes.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl


@triton.jit
def scale_kernel(x_ptr, out_ptr, factor, block: tl.constexpr):
    """What one program does; x_ptr and out_ptr are the addresses of first elements."""
    start = tl.program_id(0) * block  # the first element of this program
    at = start + tl.arange(0, block)  # the numbers of its elements, as many as `block`
    x = tl.load(x_ptr + at)  # all of them in one statement
    tl.store(out_ptr + at, x * factor)


def scale(x: torch.Tensor, factor: float, block: int = 64) -> torch.Tensor:
    """x * factor. The number of elements must be a multiple of block."""
    if x.numel() % block:
        raise ValueError(f"{x.numel()} elements are no multiple of {block}")
    out = torch.empty_like(x)
    launch: Any = scale_kernel[(x.numel() // block,)]
    launch(x, out, factor, block=block)
    return out


if __name__ == "__main__":
    print(scale(torch.arange(256, dtype=torch.float32), 3.0)[-4:])
