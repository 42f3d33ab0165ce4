"""Copies the factors so that their elements lie row by row: traffic that nobody sees in the kernel."""

from __future__ import annotations

from typing import Any

CAUGHT_BY = "test_products"
SAYS = "what torch copies or computes is traffic"


def matmul(a: torch.Tensor, b: torch.Tensor, config: dict[str, int]) -> torch.Tensor:
    if a.dim() != 2 or b.dim() != 2 or a.shape[1] != b.shape[0]:
        raise ValueError(f"no product: a is {tuple(a.shape)}, b is {tuple(b.shape)}")
    if a.dtype != b.dtype or a.dtype not in (torch.float32, torch.bfloat16, torch.float16):
        raise ValueError(f"a is {a.dtype}, b is {b.dtype}: make both float32, bfloat16 or float16")
    if a.device != b.device:
        raise ValueError(f"a is on {a.device}, b on {b.device}: move one of them")
    _check_config(config)
    (m, k), n = a.shape, b.shape[1]
    a, b = a.contiguous(), b.contiguous()
    c = torch.empty((m, n), device=a.device, dtype=a.dtype)
    block_m, block_n, block_k = config["block_m"], config["block_n"], config["block_k"]
    programs = triton.cdiv(m, block_m) * triton.cdiv(n, block_n)
    if programs:
        kernel: Any = _matmul_kernel[(programs,)]
        kernel(
            *(a, b, c, m, n, k, *a.stride(), *b.stride(), *c.stride()),
            **config,
            even=not (m % block_m or n % block_n or k % block_k),
        )
    return c
