"""Runs `softmax` beside the learner's code: in the counting interpreter, and timed on a GPU."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from profiling_lab.mine.functions import load_once


def _interpreter() -> ModuleType:
    return load_once(
        Path(__file__).parents[2] / "probes" / "triton_interpreter.py", "_triton_interpreter"
    )


def _laid_out(x: Any, layout: str) -> Any:
    """The same numbers, at other places in memory."""
    import torch

    if layout == "transposed":
        return x.t().contiguous().t()
    if layout == "every other row":
        wide = torch.full((2 * x.shape[0], x.shape[1]), 7.0, dtype=x.dtype)
        wide[::2] = x
        return wide[::2]
    if layout == "part of wider rows":
        wide = torch.full((x.shape[0], x.shape[1] + 5), 7.0, dtype=x.dtype)
        wide[:, 2:-3] = x
        return wide[:, 2:-3]
    return x


def run(module: ModuleType, numbers: Any, dtype: str, layout: str = "plain") -> dict[str, Any]:
    """`softmax` of these numbers (a float32 array) in a data type and layout, in the interpreter."""
    import torch

    x = _laid_out(torch.from_numpy(numbers.copy()).to(getattr(torch, dtype)), layout)
    before = x.clone()
    with np.errstate(all="ignore"):
        result, counts = _interpreter().counted(module, lambda: module.softmax(x), x=x)
    if not isinstance(result, torch.Tensor):
        return {"kind": type(result).__name__}
    return {
        "kind": "Tensor",
        "shape": list(result.shape),
        "dtype": str(result.dtype).removeprefix("torch."),
        "contiguous": result.is_contiguous(),
        "unchanged": torch.equal(torch.nan_to_num(x), torch.nan_to_num(before)),
        "numbers": result.detach().float().numpy().copy(),
        "counts": counts,
    }


def far_apart(module: ModuleType, numbers: Any, far: str) -> Any:
    """`softmax` where the last row or column begins 2³¹ elements behind the first, or more.

    Without counts, which would look at every one of the addresses between. None where the memory
    cannot be had; it is asked for, and next to nothing of it is used. Words if an access went astray.
    """
    import torch

    step = 2**30 + 8
    try:
        memory = torch.empty(2 * step + 3, dtype=torch.bfloat16)
    except RuntimeError:
        return None
    x = memory.as_strided((3, 3), (step, 1) if far == "rows" else (1, step))
    x.copy_(torch.from_numpy(numbers))
    interpreter = _interpreter()
    with np.errstate(all="ignore"), interpreter.interpreted(module):
        try:
            return module.softmax(x).float().numpy().copy()
        except interpreter.OutOfBounds as error:
            return str(error)


def twice(module: ModuleType, first: Any, second: Any) -> dict[str, Any]:
    """`softmax` of a tensor and again after other numbers were put into it: both results, afterwards."""
    import torch

    x = torch.from_numpy(first.copy())
    with np.errstate(all="ignore"), _interpreter().interpreted(module):
        before = module.softmax(x)
        x.copy_(torch.from_numpy(second))
        after = module.softmax(x)
    return {"first": before.numpy().copy(), "second": after.numpy().copy()}


def refused(module: ModuleType, what: str) -> Any:
    """`softmax` of something that it must refuse."""
    import torch

    given = {
        "one dimension": lambda: torch.zeros(8),
        "three dimensions": lambda: torch.zeros(2, 3, 4),
        "no columns": lambda: torch.zeros(3, 0),
        "too many columns": lambda: torch.zeros(1, 32769),
        "whole numbers": lambda: torch.zeros(2, 4, dtype=torch.int32),
        "float64": lambda: torch.zeros(2, 4, dtype=torch.float64),
    }
    _interpreter().counted(module, lambda: module.softmax(given[what]()))


def timed(module: ModuleType, dtype: str, widths: list[int], repeats: int = 5) -> dict[str, Any]:
    """`softmax_live` and torch.softmax on the GPU, in turns: ns of a call by width, and errors.

    A sample is the time between two events around a few calls while the host is ahead. The matrices
    are several times as large as the L2 cache and hold random numbers.
    """
    import torch

    torch.manual_seed(0)
    kind = getattr(torch, dtype)
    l2_bytes = torch.cuda.get_device_properties(0).L2_cache_size
    out: dict[str, Any] = {}
    for columns in widths:
        rows = -(-max(2**28, 4 * l2_bytes) // (columns * kind.itemsize))
        x = torch.randn(rows, columns, device="cuda").to(kind)
        calls: dict[str, Callable[[], Any]] = {
            "own": lambda x=x: module.softmax_live(x),
            "torch": lambda x=x: torch.softmax(x, dim=1),
        }
        counter = _interpreter().Counter()
        with _interpreter()._Operators(counter):
            got = calls["own"]()
        wrong = (got[:256].double() - torch.softmax(x[:256].double(), dim=1)).abs().max().item()
        largest = torch.softmax(x[:256].double(), dim=1).max().item()
        samples: dict[str, list[float]] = {name: [] for name in calls}
        for warm_up in (True, *[False] * repeats):
            for name, call in calls.items():
                call()
                torch.cuda._sleep(2_000_000)  # so that the host is ahead of the device
                start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                start.record()
                for _ in range(6):
                    call()
                end.record()
                torch.cuda.synchronize()
                if not warm_up:
                    samples[name].append(start.elapsed_time(end) / 6 * 1e6)
        x.neg_()  # other numbers at the same place: a kept result is wrong now
        off = (calls["own"]()[-64:] - torch.softmax(x[-64:], dim=1)).abs()
        out[str(columns)] = {
            "error_ratio": wrong / largest,
            "end_is_right": bool((off <= 0.02 * largest).all()),
            "torch_operators": counter.torch_operators,
            **samples,
        }
        del x, got, calls
        torch.cuda.empty_cache()
    return out
