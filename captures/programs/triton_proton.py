"""Profile Triton kernels with proton, each in a scope that says what it must compute and move.

Writes proton.json, proton's tree in the form that hatchet reads. Of each scope `flops32` or `flops16`
and `bytes` are what the arithmetic of its calls needs, told to proton by this program; times are what
proton measured of each kernel.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import torch
import triton
import triton.language as tl
import triton.profiler as proton
from triton_matmul_kernel import config, launch

CALLS = 20
VECTORS = (2**18, 2**22, 2**26)
MATRICES = (512, 4096)
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    x = tl.load(x_ptr + at, mask=at < n)
    y = tl.load(y_ptr + at, mask=at < n)
    tl.store(out_ptr + at, x + y, mask=at < n)


def add_call(n: int, dtype: torch.dtype) -> Callable[[], object]:
    x, y = (torch.randn(n, device="cuda", dtype=dtype) for _ in range(2))
    out = torch.empty_like(x)

    def call() -> None:
        add_kernel[(triton.cdiv(n, 1024),)](x, y, out, n, block=1024, num_warps=4)

    return call


def matmul_call(size: int, dtype: torch.dtype) -> Callable[[], object]:
    a, b = (torch.randn(size, size, device="cuda", dtype=dtype) for _ in range(2))
    c = torch.empty_like(a)
    depth = 64 if dtype == torch.bfloat16 else 32
    chosen = config(128, 128, depth, 4, 3)
    return lambda: launch(a, b, c, chosen)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dtype", choices=DTYPES, default="float32")
    name = parser.parse_args().dtype
    dtype = DTYPES[name]
    torch.manual_seed(7)
    wide = dtype.itemsize
    flops = f"flops{8 * wide}"
    work = [(f"add {n}", add_call(n, dtype), {flops: n, "bytes": 3 * n * wide}) for n in VECTORS]
    work += [
        (
            f"matmul {size}",
            matmul_call(size, dtype),
            {flops: 2 * size**3, "bytes": 3 * size * size * wide},
        )
        for size in MATRICES
    ]
    for _, call, _ in work:
        for _ in range(3):
            call()
    torch.cuda.synchronize()
    proton.start("profile")
    for kind in ("add", "matmul"):
        with proton.scope(kind):
            for label, call, need in work:
                if not label.startswith(kind):
                    continue
                with proton.scope(label, {key: CALLS * value for key, value in need.items()}):
                    for _ in range(CALLS):
                        call()
    torch.cuda.synchronize()
    proton.finalize()
    tree = json.loads(Path("profile.hatchet").read_text(encoding="utf-8"))
    Path("proton.json").write_text(json.dumps(tree, indent=1) + "\n", encoding="utf-8")
    print("RESULT", json.dumps({"scopes": [label for label, _, _ in work], "dtype": name}))


if __name__ == "__main__":
    main()
