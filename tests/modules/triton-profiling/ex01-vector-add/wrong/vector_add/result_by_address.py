from __future__ import annotations

CAUGHT_BY = "test_every_call_anew"
SAYS = "computes anew"

_results = {}


def vector_add(x: torch.Tensor, y: torch.Tensor, block_size: int = 1024) -> torch.Tensor:
    alike = x.shape == y.shape and x.dtype == y.dtype and x.device == y.device
    good = x.dtype in (torch.float32, torch.float16, torch.bfloat16)
    if not alike or not good or not (x.is_contiguous() and y.is_contiguous()):
        raise ValueError("no sum")
    if block_size not in BLOCK_SIZES:
        raise ValueError("no such block size")
    key = x.data_ptr(), y.data_ptr(), x.shape, x.dtype
    if key not in _results:  # wrong: an address says nothing about the numbers there
        out = torch.empty_like(x)
        if n := x.numel():
            _vector_add_kernel[(triton.cdiv(n, block_size),)](x, y, out, n, block=block_size)
        _results[key] = out
    return _results[key]
