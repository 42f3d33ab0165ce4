from __future__ import annotations

CAUGHT_BY = "test_no_byte_too_many"
SAYS = "no Triton program was started"


def vector_add(x: torch.Tensor, y: torch.Tensor, block_size: int = 1024) -> torch.Tensor:
    alike = x.shape == y.shape and x.dtype == y.dtype and x.device == y.device
    kinds = (torch.float32, torch.float16, torch.bfloat16)
    good = x.dtype in kinds and x.is_contiguous() and y.is_contiguous()
    if not alike or not good or block_size not in BLOCK_SIZES:
        raise ValueError("no sum")
    return x + y
