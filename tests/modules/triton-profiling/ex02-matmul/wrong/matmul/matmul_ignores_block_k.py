"""Takes steps of 16 along k, whatever the config says."""

from __future__ import annotations

from typing import Any

CAUGHT_BY = "test_products"
SAYS = "expected steps of block_k"


def matmul(a: torch.Tensor, b: torch.Tensor, config: dict[str, int]) -> torch.Tensor:
    if a.dim() != 2 or b.dim() != 2 or a.shape[1] != b.shape[0]:
        raise ValueError(f"no product: a is {tuple(a.shape)}, b is {tuple(b.shape)}")
    if a.dtype != b.dtype or a.dtype not in (torch.float32, torch.bfloat16, torch.float16):
        raise ValueError(f"a is {a.dtype}, b is {b.dtype}: make both float32, bfloat16 or float16")
    if a.device != b.device:
        raise ValueError(f"a is on {a.device}, b on {b.device}: move one of them")
    _check_config(config)
    (m, k), n = a.shape, b.shape[1]
    c = torch.empty((m, n), device=a.device, dtype=a.dtype)
    block_m, block_n, block_k = config["block_m"], config["block_n"], 16
    programs = triton.cdiv(m, block_m) * triton.cdiv(n, block_n)
    if programs:
        kernel: Any = _matmul_kernel[(programs,)]
        kernel(
            *(a, b, c, m, n, k, *a.stride(), *b.stride(), *c.stride()),
            **config | {"block_k": 16},
            even=not (m % block_m or n % block_n or k % block_k),
        )
    return c
