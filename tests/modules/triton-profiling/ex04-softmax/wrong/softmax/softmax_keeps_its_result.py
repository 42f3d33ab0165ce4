"""Saves the allocation: results of one shape share one tensor."""

from __future__ import annotations

CAUGHT_BY = "test_every_call_anew"
SAYS = "the first result is wrong"

_KEPT: dict[tuple[int, int, torch.dtype], torch.Tensor] = {}


def softmax(x: torch.Tensor) -> torch.Tensor:
    if x.ndim != 2:
        raise ValueError(f"x has {x.ndim} dimensions: reshape it to (rows, columns)")
    if str(x.dtype) not in DTYPES:
        raise ValueError(f"x is {x.dtype}: convert it to float32, bfloat16 or float16")
    rows, columns = x.shape
    per_program, warps = launch_configuration(columns)
    out = _KEPT.setdefault((rows, columns, x.dtype), torch.empty((rows, columns), dtype=x.dtype))
    if rows:
        kernel: Any = _softmax_kernel[(triton.cdiv(rows, per_program),)]
        kernel(
            out,
            x,
            *x.stride(),
            rows,
            columns,
            per_program=per_program,
            block=triton.next_power_of_2(columns),
            num_warps=warps,
        )
    return out
