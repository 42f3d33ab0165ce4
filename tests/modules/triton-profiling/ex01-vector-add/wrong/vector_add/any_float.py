from __future__ import annotations

CAUGHT_BY = "test_what_cannot_be_added_is_refused"
SAYS = "float64 is none of them"


def vector_add(x: torch.Tensor, y: torch.Tensor, block_size: int = 1024) -> torch.Tensor:
    alike = x.shape == y.shape and x.dtype == y.dtype and x.device == y.device
    if (
        not alike or not x.dtype.is_floating_point or block_size not in BLOCK_SIZES
    ):  # wrong: float64
        raise ValueError("no sum")
    if not (x.is_contiguous() and y.is_contiguous()):
        raise ValueError("not contiguous")
    out = torch.empty_like(x)
    if n := x.numel():
        _vector_add_kernel[(triton.cdiv(n, block_size),)](x, y, out, n, block=block_size)
    return out
