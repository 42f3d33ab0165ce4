"""The operations that the roofline programs measure: two sets, random data, each result checked.

A case says what is computed, not what it costs: counting operations and bytes is the reader's part.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
import triton
import triton.language as tl

# "tfloat32" is float32 in memory; the tensor cores round what they read of it.
TORCH = {
    "float64": torch.float64,
    "float32": torch.float32,
    "tfloat32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}
TOLERANCE = {"float64": 1e-12, "float32": 1e-5, "tfloat32": 5e-3, "bfloat16": 2e-2, "float16": 5e-3}

Call = Callable[[], torch.Tensor]
Check = Callable[[torch.Tensor], float]
COLD, BOTH = ("cold",), ("cold", "warm")


@dataclass(frozen=True)
class Case:
    """One operation: what it is called, on what shape, and how to make it ready.

    arguments: what is computed, in the words that a count of its cost needs.
    make: allocates the inputs; returns the call, and a check that gives the relative error of its
        result against a more precise one.
    caches: the states of the cache in which it is timed.
    counters: whether the program that reads hardware counters takes it too.
    """

    name: str
    op: str
    dtype: str
    arguments: dict[str, Any]
    make: Callable[[], tuple[Call, Check]]
    caches: tuple[str, ...] = COLD
    counters: bool = False

    def described(self) -> dict[str, Any]:
        return {"op": self.op, "arguments": self.arguments, "dtype": self.dtype}


def verified(case: Case) -> Call:
    """Make a case ready and check its result. Raises SystemExit where it is wrong."""
    torch.set_float32_matmul_precision("high" if case.dtype == "tfloat32" else "highest")
    call, error_of = case.make()
    error = error_of(call())
    if not error < TOLERANCE[case.dtype]:
        raise SystemExit(f"{case.name}: relative error {error:.1e} of the result")
    return call


def _random(*shape: int, dtype: str, scale: float = 1.0, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator("cuda").manual_seed(sum(shape) + seed)
    wide = torch.float64 if dtype == "float64" else torch.float32
    values = torch.randn(*shape, device="cuda", generator=generator, dtype=wide)
    return (values * scale).to(TORCH[dtype])


def _error(got: torch.Tensor, expected: torch.Tensor) -> float:
    difference = (got.double() - expected.double()).norm()
    return float(difference / expected.double().norm())


SHORT = {
    "float64": "fp64",
    "float32": "fp32",
    "tfloat32": "tf32",
    "bfloat16": "bf16",
    "float16": "fp16",
}


def matmul(m: int, k: int, n: int, dtype: str, **more: Any) -> Case:
    def make() -> tuple[Call, Check]:
        a = _random(m, k, dtype=dtype)
        b = _random(k, n, dtype=dtype, scale=k**-0.5, seed=1)
        rows = min(m, 8)
        exact = a[:rows].double() @ b.double()
        return lambda: torch.mm(a, b), lambda got: _error(got[:rows], exact)

    name = f"matmul {SHORT[dtype]} {m}x{k}x{n}"
    return Case(name, "matmul", dtype, {"m": m, "k": k, "n": n}, make, **more)


def batched_matmul(
    batch: int, m: int, k: int, n: int, dtype: str, shared_b: bool = False, **more: Any
) -> Case:
    """A product for each member of a batch; with `shared_b` all are multiplied by one matrix."""

    def make() -> tuple[Call, Check]:
        a = _random(batch, m, k, dtype=dtype)
        size = (k, n) if shared_b else (batch, k, n)
        b = _random(*size, dtype=dtype, scale=k**-0.5, seed=1)
        exact = a[-1].double() @ (b if shared_b else b[-1]).double()
        return lambda: torch.matmul(a, b), lambda got: _error(got[-1], exact)

    arguments = {"m": m, "k": k, "n": n, "batch": batch, "shared_b": shared_b}
    name = f"matmul {SHORT[dtype]} {batch} of {m}x{k}x{n}{', one b' if shared_b else ''}"
    return Case(name, "matmul", dtype, arguments, make, **more)


@triton.jit
def fused_chain(x_pointer, w_pointer, b_pointer, z_pointer, elements, block: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    inside = at < elements
    x = tl.load(x_pointer + at, inside)
    w = tl.load(w_pointer + at, inside)
    b = tl.load(b_pointer + at, inside)
    z = x * w + b
    tl.store(z_pointer + at, tl.where(z > 0, z, 0.0), inside)


@triton.jit
def roofline_marker(pointer):
    """Tells, in a profiler's report, where the next operation begins."""
    tl.store(pointer, 1.0)


def chain(elements: int, dtype: str, fused: bool, **more: Any) -> Case:
    """z = relu(x * w + b), all of one size: three kernels, or one."""

    def make() -> tuple[Call, Check]:
        x, w, b = (_random(elements, dtype=dtype, seed=seed) for seed in range(3))
        part = slice(-4096, None)
        exact = torch.relu(x[part].double() * w[part].double() + b[part].double())

        def eager() -> torch.Tensor:
            return torch.relu(torch.add(torch.mul(x, w), b))

        def one_kernel() -> torch.Tensor:
            z = torch.empty_like(x)
            grid = (triton.cdiv(elements, 2048),)
            fused_chain[grid](x, w, b, z, elements, block=2048)  # pyrefly: ignore
            return z

        return one_kernel if fused else eager, lambda got: _error(got[part], exact)

    arguments = {"element_count": elements, "extra_inputs": [1, 1, 0], "fused": fused}
    name = f"chain {SHORT[dtype]} {elements} {'fused' if fused else 'eager'}"
    return Case(name, "elementwise", dtype, arguments, make, **more)


def layer_norm(rows: int, width: int, dtype: str, affine: bool = True, **more: Any) -> Case:
    def make() -> tuple[Call, Check]:
        x = _random(rows, width, dtype=dtype)
        weight = _random(width, dtype=dtype, seed=1) if affine else None
        bias = _random(width, dtype=dtype, seed=2) if affine else None
        exact = F.layer_norm(x[:8].double(), (width,))
        if weight is not None and bias is not None:
            exact = exact * weight.double() + bias.double()
        return (
            lambda: F.layer_norm(x, (width,), weight, bias),
            lambda got: _error(got[:8], exact),
        )

    arguments = {"rows": rows, "width": width, "affine": affine}
    name = f"layer_norm {SHORT[dtype]} {rows}x{width}"
    return Case(name, "layer_norm", dtype, arguments, make, **more)


def softmax(rows: int, width: int, dtype: str, fused: bool = True, **more: Any) -> Case:
    """fused: one call of torch. Otherwise five: max, subtract, exp, sum, divide."""

    def make() -> tuple[Call, Check]:
        x = _random(rows, width, dtype=dtype)
        exact = torch.softmax(x[:8].double(), dim=-1)

        def five() -> torch.Tensor:
            y = torch.exp(x - torch.amax(x, dim=-1, keepdim=True))
            return y / torch.sum(y, dim=-1, keepdim=True)

        def one() -> torch.Tensor:
            return torch.softmax(x, dim=-1)

        return one if fused else five, lambda got: _error(got[:8], exact)

    arguments = {"rows": rows, "width": width, "fused": fused}
    name = f"softmax {SHORT[dtype]} {rows}x{width}{'' if fused else ' in five'}"
    return Case(name, "softmax", dtype, arguments, make, **more)


def attention(
    batch: int,
    heads: int,
    query_tokens: int,
    key_tokens: int,
    head_dim: int,
    dtype: str,
    causal: bool = False,
    backend: str = "flash",
    kv_heads: int | None = None,
    **more: Any,
) -> Case:
    """softmax(q kᵀ / √d) v.

    backend: "none": a product that writes the scores, with `causal` a kernel that adds the mask to
    them in place, a softmax, a product that reads the probabilities; 1/√d is in q already.
    "flash", "cudnn": one call of that backend of scaled_dot_product_attention.
    """
    fused = backend != "none"
    pairs = kv_heads or heads

    def make() -> tuple[Call, Check]:
        torch.backends.cuda.enable_math_sdp(False)
        torch.backends.cuda.enable_mem_efficient_sdp(False)
        torch.backends.cuda.enable_flash_sdp(backend == "flash")
        torch.backends.cuda.enable_cudnn_sdp(backend == "cudnn")
        q = _random(batch, heads, query_tokens, head_dim, dtype=dtype)
        k, v = (
            _random(batch, pairs, key_tokens, head_dim, dtype=dtype, seed=seed) for seed in (1, 2)
        )
        last = q[-1, -1].double() @ k[-1, -1].double().T * head_dim**-0.5
        future = torch.full((query_tokens, key_tokens), -math.inf, device="cuda").triu(1)
        if causal:
            last += future
        future = future.to(q.dtype)
        exact = torch.softmax(last, dim=-1) @ v[-1, -1].double()

        def one_call() -> torch.Tensor:
            return F.scaled_dot_product_attention(
                q, k, v, is_causal=causal, enable_gqa=pairs != heads
            )

        if fused:
            return one_call, lambda got: _error(got[-1, -1], exact)

        scaled = (q * head_dim**-0.5).flatten(0, 1)
        keys, values = k.flatten(0, 1).transpose(1, 2), v.flatten(0, 1)

        def three_calls() -> torch.Tensor:
            scores = torch.bmm(scaled, keys)
            if causal:
                scores.add_(future)
            return torch.bmm(torch.softmax(scores, dim=-1), values).view(q.shape)

        return three_calls, lambda got: _error(got[-1, -1], exact)

    arguments: dict[str, Any] = {
        "batch": batch,
        "heads": heads,
        "query_tokens": query_tokens,
        "key_tokens": key_tokens,
        "head_dim": head_dim,
        "causal": causal,
        "fused": fused,
    }
    if kv_heads:
        arguments["kv_heads"] = kv_heads
    sizes = f"{batch}x{heads}x{query_tokens}x{key_tokens}x{head_dim}"
    how = "in three calls" if not fused else backend
    name = f"attention {SHORT[dtype]} {sizes}{' causal' if causal else ''} {how}"
    return Case(name, "attention", dtype, arguments, make, **more)


def conv2d(
    batch: int,
    in_channels: int,
    size: int,
    out_channels: int,
    kernel: int,
    dtype: str,
    stride: int = 1,
    groups: int = 1,
    **more: Any,
) -> Case:
    """A square image and kernel, padded to keep the size; channels last, as tensor cores read."""
    padding = kernel // 2

    def make() -> tuple[Call, Check]:
        torch.backends.cudnn.benchmark = True
        per_group = in_channels // groups
        x = _random(batch, in_channels, size, size, dtype=dtype)
        scale = (per_group * kernel * kernel) ** -0.5
        weight = _random(out_channels, per_group, kernel, kernel, dtype=dtype, scale=scale)
        x, weight = (t.to(memory_format=torch.channels_last) for t in (x, weight))
        how = {"stride": stride, "padding": padding, "groups": groups}
        exact = F.conv2d(x[:1].cpu().double(), weight.cpu().double(), **how).to("cuda")
        return lambda: F.conv2d(x, weight, **how), lambda got: _error(got[:1], exact)

    arguments = {
        "batch": batch,
        "in_channels": in_channels,
        "height": size,
        "width": size,
        "out_channels": out_channels,
        "kernel": [kernel, kernel],
        "stride": [stride, stride],
        "padding": [padding, padding],
        "groups": groups,
    }
    kind = f"{kernel}x{kernel}{' depthwise' if groups == in_channels else ''}"
    name = f"conv2d {SHORT[dtype]} {kind} {batch}x{in_channels}x{size}x{size} to {out_channels}"
    return Case(name, "conv2d", dtype, arguments, make, **more)


COUNT: dict[str, Any] = {"counters": True}
BOTH_CACHES: dict[str, Any] = {"caches": BOTH}


def main_set() -> list[Case]:
    squares = [
        matmul(size, size, size, dtype, counters=(dtype, size) in COUNTED_SQUARES)
        for dtype in ("float32", "tfloat32", "bfloat16", "float16")
        for size in (256, 1024, 4096, 8192)
        if (dtype, size) != ("float32", 8192)
    ]
    return [
        *squares,
        *(matmul(m, 8192, 8192, "bfloat16", counters=m in (1, 64)) for m in (1, 16, 64, 256)),
        matmul(1, 4096, 4096, "bfloat16", **BOTH_CACHES),
        matmul(8192, 16, 8192, "bfloat16"),
        batched_matmul(64, 512, 512, 512, "bfloat16"),
        batched_matmul(64, 512, 512, 512, "bfloat16", shared_b=True),
        chain(2**26, "float32", fused=False),
        chain(2**26, "float32", fused=True, **COUNT),
        chain(2**26, "bfloat16", fused=False),
        chain(2**26, "bfloat16", fused=True),
        chain(2**26, "float64", fused=True, **COUNT),
        chain(2**22, "bfloat16", fused=True, **BOTH_CACHES),
        chain(2**12, "float32", fused=False, **BOTH_CACHES),
        layer_norm(16384, 4096, "bfloat16", **COUNT),
        layer_norm(16384, 4096, "float32"),
        softmax(16384, 4096, "bfloat16"),
        softmax(16384, 4096, "float32", **COUNT),
        softmax(16384, 4096, "float32", fused=False),
        *(
            attention(
                4,
                32,
                tokens,
                tokens,
                128,
                "bfloat16",
                causal,
                counters=(tokens == 4096 and not causal),
            )
            for tokens in (2048, 4096, 8192)
            for causal in (False, True)
        ),
        *(
            attention(4, 32, tokens, tokens, 128, "bfloat16", causal, "none")
            for tokens in (2048, 4096)
            for causal in (False, True)
        ),
        attention(4, 32, 8192, 8192, 128, "bfloat16", False, "cudnn"),
        attention(4, 32, 8192, 8192, 128, "bfloat16", True, "cudnn"),
        attention(64, 32, 1, 4096, 128, "bfloat16", kv_heads=8),
        conv2d(64, 256, 56, 256, 3, "bfloat16"),
        conv2d(64, 256, 56, 64, 1, "bfloat16"),
        conv2d(64, 256, 56, 256, 3, "bfloat16", groups=256),
    ]


COUNTED_SQUARES = {("float32", 4096), ("tfloat32", 4096), ("bfloat16", 8192), ("bfloat16", 256)}


def fp16_set() -> list[Case]:
    """Other shapes, most of them in float16."""
    return [
        matmul(3072, 3072, 3072, "float32", **COUNT),
        matmul(6144, 6144, 6144, "tfloat32"),
        matmul(6144, 6144, 6144, "float16", **COUNT),
        matmul(128, 128, 128, "float16", **COUNT),
        matmul(8, 12288, 12288, "float16", **COUNT),
        matmul(384, 12288, 12288, "float16"),
        matmul(4, 8192, 8192, "float32"),
        matmul(2, 4096, 5120, "float16", **BOTH_CACHES),
        matmul(12288, 64, 12288, "bfloat16", **COUNT),
        batched_matmul(512, 128, 128, 128, "float16", **COUNT),
        batched_matmul(96, 256, 1024, 256, "float16", shared_b=True),
        chain(3 * 2**25, "float16", fused=False),
        chain(3 * 2**25, "float16", fused=True, **COUNT),
        chain(3 * 2**20, "float16", fused=True, **BOTH_CACHES),
        chain(2**13, "bfloat16", fused=False),
        layer_norm(32768, 2048, "float16", **COUNT),
        layer_norm(32768, 2048, "float32", affine=False),
        softmax(65536, 1024, "float16", **COUNT),
        softmax(8192, 8192, "bfloat16", fused=False),
        attention(8, 12, 2048, 2048, 64, "float16", **COUNT),
        attention(8, 12, 2048, 2048, 64, "float16", True),
        attention(8, 12, 2048, 2048, 64, "float16", False, "none"),
        attention(8, 12, 2048, 2048, 64, "float16", True, "none"),
        attention(32, 16, 1, 8192, 128, "float16"),
        conv2d(128, 128, 28, 128, 3, "float16"),
        conv2d(128, 512, 28, 128, 1, "float16"),
        conv2d(32, 128, 112, 128, 5, "float16", stride=2, groups=128),
    ]


SETS = {"main": main_set, "fp16": fp16_set}
