"""Runs `matmul` and `matmul_live` beside the learner's code: in the counting interpreter, and on a GPU."""

from __future__ import annotations

import importlib.util
import statistics
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

FORBIDDEN = ("mm", "matmul", "linear", "einsum", "bmm", "dot", "conv")


def _interpreter() -> Any:
    name = "triton_interpreter_probe"
    if name not in sys.modules:
        path = Path(__file__).parents[2] / "probes" / "triton_interpreter.py"
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


def _factor(rows: int, columns: int, layout: str, dtype: Any, generator: Any) -> Any:
    """A random matrix whose elements lie by rows, by columns, or with gaps between them."""
    import torch

    if layout == "columns":
        made = torch.randn(columns, rows, generator=generator).to(dtype)
        return made.t()
    if layout == "gaps":
        made = torch.randn(rows, 2 * columns + 3, generator=generator).to(dtype)
        return made[:, 1 : 2 * columns + 1 : 2]
    return torch.randn(rows, columns, generator=generator).to(dtype)


def counted(
    module: ModuleType,
    shape: list[int],
    layouts: list[str],
    dtype: str,
    config: dict[str, int],
    seed: int,
) -> dict[str, Any]:
    """A random product in the interpreter: its counts, and how far it is from the right one.

    error_ratio: the largest difference over what rounding the right result may cost.
    """
    import torch

    m, n, k = shape
    kind = getattr(torch, dtype)
    generator = torch.Generator().manual_seed(seed)
    a = _factor(m, k, layouts[0], kind, generator)
    b = _factor(k, n, layouts[1], kind, generator)
    result, counts = _interpreter().counted(module, lambda: module.matmul(a, b, config), a=a, b=b)
    if not isinstance(result, torch.Tensor):
        return {"error": f"returned {type(result).__name__}, not a tensor"}
    said: dict[str, Any] = {
        "shape": list(result.shape),
        "dtype": str(result.dtype).removeprefix("torch."),
        "owns": result.untyped_storage().data_ptr()
        not in (a.untyped_storage().data_ptr(), b.untyped_storage().data_ptr()),
    }
    if said["shape"] == [m, n] and result.numel():
        right = a.double() @ b.double()
        size = a.double().abs() @ b.double().abs()
        allowed = torch.finfo(kind).eps * right.abs() + 1e-6 * size + 1e-12
        said["error_ratio"] = float(((result.double() - right).abs() / allowed).max())
    return {**counts, **said}


def order(module: ModuleType, shape: list[int], config: dict[str, int]) -> list[list[int]]:
    """The tile (row, column) that each program stores first, in the order of their numbers."""
    from unittest import mock

    import numpy as np
    import torch

    interpreter = _interpreter()
    m, n, k = shape
    a, b = torch.ones(m, k), torch.ones(k, n)
    touch = interpreter.Counter.touch
    firsts: dict[tuple[int, ...], int] = {}

    def noted(self: Any, what: str, pointers: Any, mask: Any) -> None:
        active = pointers.data[np.broadcast_to(mask, pointers.data.shape)]
        if what == "store" and active.size:
            number = tuple(interpreter.interpreter.interpreter_builder.grid_idx)
            firsts.setdefault(number, int(active.min()))
        touch(self, what, pointers, mask)

    with mock.patch.object(interpreter.Counter, "touch", noted):
        interpreter.counted(module, lambda: module.matmul(a, b, config), a=a, b=b)
    if not firsts:
        return []
    start = min(firsts.values())
    places = [(firsts[number] - start) // a.element_size() for number in sorted(firsts)]
    return [[at // n // config["block_m"], at % n // config["block_n"]] for at in places]


def carried(module: ModuleType, dtype: str, config: dict[str, int]) -> dict[str, Any]:
    """A product whose sum grows in steps that are lost when it is rounded to dtype after each.

    The first step along k adds a large number, the next four add 16 each. Before it, a product of zeros
    of the same shape is asked for ("before", looked at afterwards): no two products share a tensor.
    """
    import torch

    kind, step = getattr(torch, dtype), config["block_k"]
    large = 32768.0 if dtype == "float16" else 4096.0
    a = torch.zeros(config["block_m"], 5 * step)
    a[:, 0] = large
    a[:, step:] = 16 / step
    b = torch.ones(5 * step, config["block_n"])
    a, b = a.to(kind), b.to(kind)
    zeros = torch.zeros_like(a)
    before, _ = _interpreter().counted(
        module, lambda: module.matmul(zeros, b, config), a=zeros, b=b
    )
    result, _ = _interpreter().counted(module, lambda: module.matmul(a, b, config), a=a, b=b)
    return {
        "got": float(result[0, 0]),
        "want": large + 64,
        "large": large,
        "before": float(before[0, 0]),
    }


def refused(module: ModuleType, case: str, config: dict[str, int]) -> None:
    """Calls `matmul` with tensors that have no product."""
    import torch

    a, b = torch.ones(4, 5), torch.ones(5, 3)
    if case == "inner":
        b = torch.ones(4, 3)
    elif case == "vector":
        b = torch.ones(5)
    elif case == "vector a":
        a = torch.ones(5)
    elif case == "dtypes":
        b = b.half()
    elif case == "double":
        a, b = a.double(), b.double()
    elif case == "devices":
        b = b.to("meta")
    module.matmul(a, b, config)


# -- on a GPU ---------------------------------------------------------------------------------------


def live(module: ModuleType, size: int, repeats: int) -> dict[str, Any]:
    """`matmul_live` beside torch.mm, in turns: medians of device times in ms, and how right it is.

    Random bfloat16 matrices, several times as large as the L2 cache. In a turn each runs alone after
    the other, a few times; times are between events.
    """
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    torch.manual_seed(torch.seed() % 2**31)
    a, b = (torch.randn(size, size, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    called: list[str] = []

    class Names(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            called.append(func.overloadpacket.__name__)
            return func(*args, **(kwargs or {}))

    first = module.matmul_live(a, b)
    with Names():
        result = module.matmul_live(a, b)
    right = torch.mm(a, b)
    error = float((result.float() - right.float()).norm() / right.float().norm())
    repeated = bool(torch.equal(first, result))
    del first, result

    def time_ms(call: Any) -> float:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(1_000_000)  # so that the host is ahead
        start.record()
        for _ in range(3):
            call()
        end.record()
        torch.cuda.synchronize()
        return start.elapsed_time(end) / 3

    def own() -> Any:
        return module.matmul_live(a, b)

    def library() -> Any:
        return torch.mm(a, b)

    for call in (own, library, own, library):
        time_ms(call)
    times: dict[str, list[float]] = {"own": [], "library": []}
    for _ in range(repeats):
        times["own"].append(time_ms(own))
        times["library"].append(time_ms(library))
    c, d = (torch.randn(200, 300, device="cuda") for _ in range(2))
    exact = c.double() @ d.double().t()
    small = float((module.matmul_live(c, d.t()).double() - exact).norm() / exact.norm())
    return {
        "times_ms": times,
        "ratio": statistics.median(times["library"]) / statistics.median(times["own"]),
        "error": error,
        "float32_error": small,
        "repeated": repeated,
        "products": sorted({name for name in called if any(word in name for word in FORBIDDEN)}),
        "device": torch.cuda.get_device_name(),
    }
