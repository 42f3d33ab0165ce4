"""Makes the matrix contiguous first, which moves it once more."""

from __future__ import annotations

CAUGHT_BY = "test_other_layouts"
SAYS = "beside the kernel torch ran"


def softmax(x: torch.Tensor) -> torch.Tensor:
    if x.ndim != 2:
        raise ValueError(f"x has {x.ndim} dimensions: reshape it to (rows, columns)")
    if str(x.dtype) not in DTYPES:
        raise ValueError(f"x is {x.dtype}: convert it to float32, bfloat16 or float16")
    x = x.contiguous()
    rows, columns = x.shape
    per_program, warps = launch_configuration(columns)
    out = torch.empty((rows, columns), dtype=x.dtype, device=x.device)
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
