from __future__ import annotations

CAUGHT_BY = "test_as_many_programs_as_it_takes"
SAYS = "launched for nothing"


def vector_add(x: torch.Tensor, y: torch.Tensor, block_size: int = 1024) -> torch.Tensor:
    alike = x.shape == y.shape and x.dtype == y.dtype and x.device == y.device
    kinds = (torch.float32, torch.float16, torch.bfloat16)
    good = x.dtype in kinds and x.is_contiguous() and y.is_contiguous()
    if not alike or not good or block_size not in BLOCK_SIZES:
        raise ValueError("no sum")
    out = torch.empty_like(x)
    if n := x.numel():
        _vector_add_kernel[(n // block_size + 1,)](x, y, out, n, block=block_size)
    return out
