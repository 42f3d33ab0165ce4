"""The counting interpreter: right results, exact counts, guarded accesses, and nothing left behind."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import textwrap
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from grading.runner.scoring import installed

pytestmark = pytest.mark.needs("torch", "triton")
torch: Any = None


@pytest.fixture(scope="module", autouse=True)
def _torch() -> None:
    """Importing it takes seconds, which who only collects these tests need not wait for."""
    global torch
    torch = installed("torch")


ROOT = Path(__file__).resolve().parents[2]
KERNELS = """
from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def _plus(x, y):
    return x + y


@triton.jit
def _add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    x = tl.load(x_ptr + at, mask=mask)
    y = tl.load(y_ptr + at, mask=mask)
    tl.store(out_ptr + at, _plus(x, y), mask=mask)


def add(x, y, block=64):
    out = torch.empty_like(x)
    n = x.numel()
    _add_kernel[(triton.cdiv(n, block),)](x, y, out, n, BLOCK=block, num_warps=2)
    return out


@triton.jit
def _far_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at))


def far(x):
    out = torch.empty_like(x)
    _far_kernel[(2,)](x, out, x.numel(), BLOCK=64)
    return out


@triton.jit
def _softmax_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=-float("inf")).to(tl.float32)
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * columns + at, e / tl.sum(e, axis=0), mask=at < columns)


def softmax(x):
    out = torch.empty_like(x)
    _softmax_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return out


@triton.autotune([triton.Config({"B": 16}), triton.Config({"B": 32}, num_warps=8)], key=["k"])
@triton.jit
def _matmul_kernel(a_ptr, b_ptr, c_ptr, k, n, B: tl.constexpr):
    rows = tl.program_id(0) * B + tl.arange(0, B)
    columns = tl.program_id(1) * B + tl.arange(0, B)
    acc = tl.zeros((B, B), dtype=tl.float32)
    for start in range(0, k, B):
        inner = start + tl.arange(0, B)
        a = tl.load(a_ptr + rows[:, None] * k + inner[None, :])
        b = tl.load(b_ptr + inner[:, None] * n + columns[None, :])
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + rows[:, None] * n + columns[None, :], acc)


def matmul(a, b):
    (m, k), n = a.shape, b.shape[1]
    c = torch.empty((m, n), dtype=torch.float32)
    _matmul_kernel[lambda meta: (triton.cdiv(m, meta["B"]), triton.cdiv(n, meta["B"]))](a, b, c, k, n)
    return c


@triton.jit
def _count_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out_ptr, tl.sum(tl.load(x_ptr + at, mask=at < n, other=0), axis=0))


def total(x):
    out = torch.zeros(1, dtype=x.dtype)
    _count_kernel[(triton.cdiv(x.numel(), 32),)](x, out, x.numel(), BLOCK=32)
    return out


@triton.jit
def _described_kernel(x_ptr, out, n, BLOCK: tl.constexpr):
    start = tl.program_id(0) * BLOCK
    x = tl.make_tensor_descriptor(x_ptr, shape=[n], strides=[1], block_shape=[BLOCK])
    out.store([start], x.load([start]) * 2)


def described(x):
    from triton.tools.tensor_descriptor import TensorDescriptor

    out = torch.empty_like(x)
    to = TensorDescriptor.from_tensor(out, [32])
    _described_kernel[(triton.cdiv(x.numel(), 32),)](x, to, x.numel(), BLOCK=32)
    return out


@triton.jit
def _sum_kernel(x_ptr, out, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out, tl.sum(tl.load(x_ptr + at, mask=at < n)))


def careless_sum(x):
    out = torch.empty(1, dtype=x.dtype)
    _sum_kernel[(1,)](x, out, x.numel(), BLOCK=64)
    return out


def broken(x):
    _broken_kernel[(1,)](x)


@triton.jit
def _broken_kernel(x_ptr):
    tl.store(x_ptr, tl.load(x_ptr) + nothing)
"""


def _load(file: Path) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def probe() -> types.ModuleType:
    return _load(
        Path(__file__).parents[1] / "modules/triton-profiling/probes/triton_interpreter.py"
    )


@pytest.fixture
def kernels(tmp_path: Path) -> Iterator[types.ModuleType]:
    file = tmp_path / "some_kernels.py"
    file.write_text(KERNELS, "utf-8")
    yield _load(file)
    sys.modules.pop("some_kernels", None)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_an_add_is_right_and_counted(probe, kernels, dtype) -> None:
    x, y = (torch.randn(1000).to(getattr(torch, dtype)) for _ in range(2))
    got, counts = probe.counted(kernels, lambda: kernels.add(x, y), x=x, y=y)
    assert torch.equal(got, x + y)
    moved = 1000 * x.element_size()
    assert (counts["launches"], counts["programs"]) == (1, 16)
    assert (counts["load_bytes"], counts["store_bytes"]) == (2 * moved, moved)
    assert counts["masked_lanes"] == 3 * 24
    assert set(counts["tensors"]) == {"x", "y", "result"}
    assert counts["tensors"]["x"]["distinct_load_bytes"] == moved
    assert counts["tensors"]["result"]["distinct_store_bytes"] == moved
    assert counts["kernels"][0]["options"]["num_warps"] == 2
    assert counts["torch_operators"] == []


def test_an_access_outside_is_an_error_and_no_crash(probe, kernels) -> None:
    x = torch.randn(100)
    with pytest.raises(
        probe.OutOfBounds, match=r"program \(1, 0, 0\): load of 4 bytes.*0 bytes behind"
    ):
        probe.counted(kernels, lambda: kernels.far(x))


def test_a_view_guards_what_lies_around_it(probe, kernels) -> None:
    whole = torch.randn(300)
    with pytest.raises(probe.OutOfBounds, match="behind the end of x_ptr"):
        probe.counted(kernels, lambda: kernels.far(whole[100:200]))


def test_the_librarys_functions_run_too(probe, kernels) -> None:
    x = torch.randn(5, 37)
    got, counts = probe.counted(kernels, lambda: kernels.softmax(x))
    torch.testing.assert_close(got, torch.softmax(x, 1))
    assert counts["load_bytes"] == counts["store_bytes"] == x.numel() * 4


def test_an_autotuned_matmul(probe, kernels) -> None:
    a, b = torch.randn(64, 32), torch.randn(32, 96)
    for place, tile in enumerate((16, 32)):
        got, counts = probe.counted(
            kernels,
            lambda: kernels.matmul(a, b),
            config=lambda configs, place=place: configs[place],
            a=a,
            b=b,
        )
        torch.testing.assert_close(got, a @ b, rtol=2e-3, atol=2e-3)
        assert counts["dot_flops"] == 2 * 64 * 32 * 96
        assert counts["tensors"]["a"]["load_bytes"] == 64 * 32 * 4 * 96 // tile
        assert counts["tensors"]["a"]["distinct_load_bytes"] == 64 * 32 * 4
        assert counts["programs"] == 64 // tile * 96 // tile


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_matmul_in_16_bit(probe, kernels, dtype) -> None:
    a, b = (torch.randn(*shape).to(getattr(torch, dtype)) for shape in ((32, 48), (48, 32)))
    got, _ = probe.counted(kernels, lambda: kernels.matmul(a, b))
    torch.testing.assert_close(got, a.float() @ b.float(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_a_lane_masked_off_without_other_is_undefined(probe, kernels, dtype) -> None:
    x = torch.ones(64, dtype=getattr(torch, dtype))
    assert probe.counted(kernels, lambda: kernels.careless_sum(x))[0] == 64
    assert probe.counted(kernels, lambda: kernels.careless_sum(x[:63]))[0].isnan()


def test_kinds_of_dots(probe, kernels) -> None:
    a, b = torch.randn(32, 48), torch.randn(48, 32)
    _, counts = probe.counted(kernels, lambda: kernels.matmul(a, b))
    ((length, kind, precision),) = counts["dots"]
    assert 48 % length == 0
    assert (kind, precision) == ("fp32", "tf32")


def test_conversion_to_bfloat16_rounds_to_nearest(probe, kernels) -> None:
    x = torch.randn(64, 256).to(torch.bfloat16)
    got, _ = probe.counted(kernels, lambda: kernels.softmax(x))
    expected = torch.softmax(x.float(), 1).to(torch.bfloat16)
    assert (got != expected).float().mean() < 0.01  # the order of the sum may turn a tie


def test_atomics_count_apart_and_torch_beside_is_seen(probe, kernels) -> None:
    x = torch.randn(100)
    got, counts = probe.counted(kernels, lambda: kernels.total(x), x=x)
    torch.testing.assert_close(got, x.sum()[None])
    assert counts["atomic_bytes"] == 4 * 4
    assert counts["torch_operators"] == ["zeros"]


def test_descriptors_are_counted_as_well(probe, kernels) -> None:
    x = torch.randn(100)
    got, counts = probe.counted(kernels, lambda: kernels.described(x), x=x)
    assert torch.equal(got, 2 * x)
    assert counts["tensors"]["x"]["load_bytes"] == counts["tensors"]["result"]["store_bytes"] == 400


def test_the_learners_own_error_comes_out(probe, kernels) -> None:
    with pytest.raises(NameError, match="nothing"):
        probe.counted(kernels, lambda: kernels.broken(torch.ones(1)))


def test_nothing_is_left_behind(probe, kernels) -> None:
    import triton.language as tl
    from triton.runtime import interpreter
    from triton.runtime.jit import JITFunction

    x = torch.randn(40)

    def state() -> list:
        return [
            *(dict(vars(owner)) for owner in (tl, tl.core, tl.tensor, tl.dtype, JITFunction)),
            dict(vars(interpreter.InterpreterBuilder)),
            dict(vars(interpreter.GridExecutor)),
            set(vars(kernels)),
        ]

    before = state()
    for _ in range(2):
        probe.counted(kernels, lambda: kernels.add(x, x))
    assert state() == before


def test_functions_of_an_overlay(probe, kernels, tmp_path) -> None:
    overlay = tmp_path / "overlay.py"
    overlay.write_text(
        textwrap.dedent("""
        from __future__ import annotations


        @triton.jit
        def _plus(x, y):
            return x - y
        """),
        "utf-8",
    )
    exec(compile(overlay.read_bytes(), str(overlay), "exec", dont_inherit=True), vars(kernels))
    x, y = torch.randn(10), torch.randn(10)
    got, _ = probe.counted(kernels, lambda: kernels.add(x, y))
    assert torch.equal(got, x - y)


@pytest.mark.proof
def test_checks_run_where_triton_is_told_to_interpret() -> None:
    # Set at import, the variable makes `@triton.jit` return functions that this interpreter cannot run.
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--against", "solutions",
         "tests/modules/triton-profiling/ex01-vector-add", "-k", "test_the_sum_is_right"],
        check=False, cwd=ROOT, env=os.environ | {"TRITON_INTERPRET": "1"},
        capture_output=True, text=True, timeout=1800,
    )  # fmt: skip
    assert result.returncode == 0, result.stdout[-2000:]
