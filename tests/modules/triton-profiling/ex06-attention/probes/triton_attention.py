"""Runs `attention` beside the learner's code, in the counting interpreter."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import numpy as np

from profiling_lab.mine.functions import load_once


def _interpreter() -> ModuleType:
    return load_once(
        Path(__file__).parents[2] / "probes" / "triton_interpreter.py", "_triton_interpreter"
    )


def _laid_out(numbers: Any, dtype: str, layout: str) -> Any:
    """(batch, heads, tokens, head) as a tensor; with "tokens first", tokens lie before heads in memory."""
    import torch

    x = torch.from_numpy(numbers.copy()).to(getattr(torch, dtype))
    if layout == "tokens first":
        return x.transpose(1, 2).contiguous().transpose(1, 2)
    if (
        layout == "parts of one tensor"
    ):  # as a layer has them: with neighbours that must not be touched
        wide = torch.full((*x.shape[:3], x.shape[3] + 16), float("nan"), dtype=x.dtype)
        wide[..., 16:] = x
        return wide[..., 16:]
    return x


def run(
    module: ModuleType,
    arrays: list[Any],
    dtype: str,
    causal: bool,
    config: dict[str, int],
    layout: str = "plain",
) -> dict[str, Any]:
    """`attention` of q, k and v (float32 arrays) in the interpreter: its numbers and what was counted."""
    import torch

    layouts = [layout] * 3
    if layout.startswith("only V "):
        layouts = ["plain", "plain", layout.removeprefix("only V ")]
    q, k, v = (_laid_out(numbers, dtype, own) for numbers, own in zip(arrays, layouts, strict=True))
    before = [x.clone() for x in (q, k, v)]
    to_numpy, handed = torch.Tensor.numpy, []

    def numpy(self: Any, *args: Any, **kwargs: Any) -> Any:
        handed.append("numpy")  # which computes unseen
        return to_numpy(self, *args, **kwargs)

    with np.errstate(all="ignore"), mock.patch.object(torch.Tensor, "numpy", numpy):
        result, counts = _interpreter().counted(
            module, lambda: module.attention(q, k, v, causal, config), q=q, k=k, v=v
        )
    counts["torch_operators"] += handed
    if not isinstance(result, torch.Tensor):
        return {"kind": type(result).__name__}
    pairs = zip((q, k, v), before, strict=True)
    return {
        "kind": "Tensor",
        "shape": list(result.shape),
        "dtype": str(result.dtype).removeprefix("torch."),
        "contiguous": result.is_contiguous(),
        "unchanged": all(torch.equal(torch.nan_to_num(x), torch.nan_to_num(y)) for x, y in pairs),
        "numbers": result.float().numpy().copy(),
        "counts": counts,
    }


def twice(module: ModuleType, first: list[Any], second: list[Any], config: Any) -> dict[str, Any]:
    """`attention` of some tensors and again after other numbers were put into them, looked at afterwards."""
    q, k, v = (_laid_out(numbers, "float16", "plain") for numbers in first)
    with np.errstate(all="ignore"), _interpreter().interpreted(module):
        before = module.attention(q, k, v, False, config)
        for x, numbers in zip((q, k, v), second, strict=True):
            x.copy_(_laid_out(numbers, "float16", "plain"))
        after = module.attention(q, k, v, False, config)
    return {"first": before.float().numpy().copy(), "second": after.float().numpy().copy()}
