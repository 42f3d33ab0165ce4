"""Runs `blockwise_attention` beside the learner's code and watches every tensor that is made.

The largest tensor, and the bytes alive at once after each operator, inputs not counted. What an
operator allocates and frees inside itself is not seen.
"""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

# The matrix products that everything comes down to, and the place of their first factor.
PRODUCTS = {"mm": 0, "bmm": 0, "mv": 0, "dot": 0, "addmm": 1, "baddbmm": 1, "addmv": 1, "addbmm": 1}


class Watch(TorchDispatchMode):
    """Watches what is made inside the block."""

    def __init__(self, known: list[torch.Tensor]) -> None:
        super().__init__()
        self.known = {tensor.untyped_storage()._cdata for tensor in known}
        self.alive: dict[int, tuple[StorageWeakRef, int]] = {}
        self.names: set[str] = set()
        self.peak_bytes = self.largest_count = self.largest_product = self.flops = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # else the first operator imports all of torch.compile, which takes seconds

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        self.names.add(name)
        if name in PRODUCTS:
            self.flops += 2 * result.numel() * args[PRODUCTS[name]].shape[-1]
            self.largest_product = max(self.largest_product, math.prod(result.shape[-2:]))
        for key in [key for key, (made, _) in self.alive.items() if made.expired()]:
            del self.alive[key]
        for tensor in tree_leaves(result):
            if not isinstance(tensor, torch.Tensor):
                continue
            storage = tensor.untyped_storage()
            if storage._cdata not in self.known and storage._cdata not in self.alive:
                self.alive[storage._cdata] = (StorageWeakRef(storage), storage.nbytes())
                count = storage.nbytes() // tensor.element_size()
                self.largest_count = max(self.largest_count, count)
        self.peak_bytes = max(self.peak_bytes, sum(size for _, size in self.alive.values()))
        return result


def attended(
    module: ModuleType,
    arrays: list[np.ndarray],
    dtype: str,
    options: dict[str, Any],
    key_mask: np.ndarray | None = None,
    upstream: np.ndarray | None = None,
) -> dict[str, Any]:
    """blockwise_attention of query, key and value, given as arrays, in a data type.

    upstream: the gradient of the result; then "gradients" of the three are returned as well.
    Returns "result" (float64), "dtype", "flops" of the products, "largest_product" (elements of the
    largest matrix that one of them makes), "peak_bytes", "largest_count", "names" of operators, and whether an input was "changed".
    """
    torch.set_num_threads(1)
    inputs = [torch.from_numpy(array).to(getattr(torch, dtype)) for array in arrays]
    before = [tensor.clone() for tensor in inputs]
    mask = None if key_mask is None else torch.from_numpy(key_mask)
    for tensor in inputs:
        tensor.requires_grad_(upstream is not None)
    watch = Watch([*inputs, *([] if mask is None else [mask])])
    with torch.set_grad_enabled(upstream is not None), watch:
        result = module.blockwise_attention(*inputs, key_mask=mask, **options)
    out: dict[str, Any] = {
        "result": result.detach().double().numpy(),
        "dtype": str(result.dtype).removeprefix("torch."),
        "flops": watch.flops,
        "largest_product": watch.largest_product,
        "peak_bytes": watch.peak_bytes,
        "largest_count": watch.largest_count,
        "names": sorted(watch.names),
        "changed": not all(map(torch.equal, inputs, before)),
        "gradients": None,
    }
    if upstream is not None:
        result.backward(torch.from_numpy(upstream).to(result.dtype))
        out["gradients"] = [
            None if tensor.grad is None else tensor.grad.double().numpy() for tensor in inputs
        ]
    return out


def refused(
    module: ModuleType,
    shapes: list[list[int]],
    dtypes: list[str],
    options: dict[str, Any],
    mask_shape: list[int] | None = None,
    mask_dtype: str = "bool",
) -> str:
    """The message of the ValueError for zeros of these shapes; "" if there is none, else its kind."""
    inputs = [
        torch.zeros(*shape, dtype=getattr(torch, kind))
        for shape, kind in zip(shapes, dtypes, strict=True)
    ]
    mask = None if mask_shape is None else torch.ones(*mask_shape, dtype=getattr(torch, mask_dtype))
    try:
        module.blockwise_attention(*inputs, key_mask=mask, **options)
    except ValueError as error:
        return str(error)
    except (RuntimeError, TypeError, IndexError) as error:
        return f"!{type(error).__name__}: {error}"
    return ""
