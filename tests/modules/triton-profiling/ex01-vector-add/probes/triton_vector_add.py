"""Runs a vector add beside the learner's code: in the counting interpreter, or against a copy on a GPU."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import torch


def _interpreter() -> ModuleType:
    name = "triton_interpreter_probe"
    if name not in sys.modules:
        file = Path(__file__).parents[2] / "probes" / "triton_interpreter.py"
        spec = importlib.util.spec_from_file_location(name, file)
        assert spec is not None and spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


def add(module: ModuleType, shape: list[int], dtype: str, block: int | None, seed: int) -> dict:
    """Add random tensors. Counts of the interpreter, and what is wrong with the result ("problem")."""
    chance = torch.Generator().manual_seed(seed)
    kind = getattr(torch, dtype)
    x, y = (torch.randn(*shape, generator=chance).to(kind) for _ in range(2))
    kept = x.clone(), y.clone()
    named = {} if block is None else {"block_size": block}
    got, counts = _interpreter().counted(module, lambda: module.vector_add(x, y, **named), x=x, y=y)
    return {**counts, "problem": _problem(got, x, y, kept)}


def _problem(got: Any, x: torch.Tensor, y: torch.Tensor, kept: tuple) -> str:
    if not isinstance(got, torch.Tensor):
        return f"it returned {type(got).__name__}, no tensor"
    if not (torch.equal(x, kept[0]) and torch.equal(y, kept[1])):
        return "it changed its input: the sum belongs into a new tensor"
    if got.shape != x.shape or got.dtype != x.dtype:
        return f"the result is {got.dtype} {tuple(got.shape)}, x is {x.dtype} {tuple(x.shape)}"
    right = x + y
    wrong = (got != right).flatten().nonzero().flatten()
    if len(wrong):
        at = int(wrong[0])
        pair = float(got.flatten()[at]), float(right.flatten()[at])
        return (
            f"{len(wrong)} of {got.numel()} elements are wrong, the first is number {at}: "
            f"{pair[0]:.6g}, the sum is {pair[1]:.6g}"
        )
    return ""


def twice(module: ModuleType, seed: int) -> dict[str, bool]:
    """Add, put other numbers into x, add again: which results are right after that."""
    chance = torch.Generator().manual_seed(seed)
    x, y, other = (torch.randn(100, generator=chance) for _ in range(3))
    right = {"first": x + y, "second": other + y}
    with _interpreter().interpreted(module):
        got = {"first": module.vector_add(x, y, block_size=32)}
        x.copy_(other)
        got["second"] = module.vector_add(x, y, block_size=32)
    return {name: bool(torch.equal(got[name], right[name])) for name in right}


def refuse(module: ModuleType, case: str) -> Any:
    """Call with what cannot be added; the learner's exception comes out."""
    x = torch.ones(64)
    cases: dict[str, Any] = {
        "shape": lambda: module.vector_add(x, torch.ones(65)),
        "broadcast": lambda: module.vector_add(torch.ones(8, 8), torch.ones(8)),
        "order": lambda: module.vector_add(x, torch.ones(8, 8)),
        "dtype": lambda: module.vector_add(x, x.half()),
        "integers": lambda: module.vector_add(x.int(), x.int()),
        "doubles": lambda: module.vector_add(x.double(), x.double()),
        "device": lambda: module.vector_add(x, torch.ones(64, device="meta")),
        "columns of x": lambda: module.vector_add(torch.ones(8, 8).t(), torch.ones(8, 8)),
        "columns of y": lambda: module.vector_add(torch.ones(8, 8), torch.ones(8, 8).t()),
        "block": lambda: module.vector_add(x, x, block_size=100),
        "large block": lambda: module.vector_add(x, x, block_size=16384),
    }
    with _interpreter().interpreted(module):
        return type(cases[case]()).__name__


def live(module: ModuleType, n: int, dtype: str, repeats: int) -> dict[str, Any]:
    """Time add and copy in turns on the GPU, cold: medians of the samples of each repeat, in ns."""
    kind = getattr(torch, dtype)
    torch.manual_seed(n)
    x, y = (torch.randn(n, device="cuda").to(kind) for _ in range(2))
    out = torch.empty_like(x)

    def add() -> None:
        module.vector_add_live(x, y, out)

    def copy() -> None:
        out.copy_(x)

    for _ in range(3):
        add()
        right = torch.equal(out, x + y)
        copy()
    large = torch.ones(128 * 2**20, device="cuda")
    sink = torch.zeros((), device="cuda")

    def median(call: Any) -> float:
        pairs = []
        for _ in range(9):
            torch.sum(large, dim=0, out=sink)
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            call()
            end.record()
            pairs.append((start, end))
        torch.cuda.synchronize()
        return sorted(start.elapsed_time(end) * 1e6 for start, end in pairs)[4]

    times = [[median(add), median(copy)] for _ in range(repeats)]
    l2 = torch.cuda.get_device_properties(0).L2_cache_size
    return {"times_ns": times, "bytes": n * x.element_size(), "l2_bytes": l2, "right": right}
