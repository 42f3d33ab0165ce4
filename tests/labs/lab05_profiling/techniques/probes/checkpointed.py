"""Layers that note when they are run, for the learner's `checkpoint_layers`.

Each layer keeps its input and a random mask for its backward pass, and multiplies with a weight of its
own. Every second one is handed over as a plain function.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

WIDTH, ROWS = 8, 4


def _layers(count: int, calls: list[str], seed: int) -> list[Any]:
    import torch

    class Noted(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, weight: Any, number: int) -> Any:
            calls.append(f"f{number}")
            mask = (torch.rand_like(x) > 0.5).to(x.dtype)
            ctx.save_for_backward(x, mask, weight)
            ctx.number = number
            return x * mask * weight + x

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            x, mask, weight = ctx.saved_tensors  # a checkpointed segment runs again here
            calls.append(f"b{ctx.number}")
            (gradient,) = gradients
            return gradient * (mask * weight + 1), (gradient * mask * x).sum(0), None

    class Layer(torch.nn.Module):
        def __init__(self, number: int) -> None:
            super().__init__()
            self.number = number
            self.weight = torch.nn.Parameter(torch.rand(WIDTH))

        def forward(self, x: Any) -> Any:
            return Noted.apply(x, self.weight, self.number)

    torch.manual_seed(seed)
    return [Layer(number) for number in range(count)]


def _step(run: Any, layers: list[Any], needs_gradient: bool, seed: int) -> dict[str, Any]:
    """A step; result and gradients as lists, and the bytes kept after the forward pass."""
    import torch

    torch.manual_seed(seed + 1)
    x = torch.rand(ROWS, WIDTH, requires_grad=needs_gradient)
    weights = {layer.weight.untyped_storage().data_ptr() for layer in layers}
    kept: dict[int, int] = {}

    def pack(tensor: Any) -> Any:
        place = tensor.untyped_storage().data_ptr()
        if place not in weights:
            kept[place] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        result = run(x)
    kept_bytes = sum(kept.values())
    if isinstance(result, torch.Tensor) and result.requires_grad:
        result.square().sum().backward()
    tensors = [*([x] if needs_gradient else []), *(layer.weight for layer in layers)]
    return {
        "result": result.tolist() if isinstance(result, torch.Tensor) else repr(result),
        "gradients": [None if t.grad is None else t.grad.tolist() for t in tensors],
        "kept_bytes": kept_bytes,
        "input_changed": x.requires_grad is not needs_gradient,
    }


def run(
    module: ModuleType, layer_count: int, segment_count: int, needs_gradient: bool, seed: int
) -> dict[str, Any]:
    """A step with checkpoint_layers beside the same step without it."""

    def plain(layers: list[Any], x: Any) -> Any:
        for layer in layers:
            x = layer(x)
        return x

    calls: list[str] = []
    layers = _layers(layer_count, calls, seed)
    wanted = _step(lambda x: plain(layers, x), layers, needs_gradient, seed)
    calls.clear()
    layers = _layers(layer_count, calls, seed)
    given = [layer.forward if layer.number % 2 else layer for layer in layers]
    found = _step(
        lambda x: module.checkpoint_layers(given, x, segment_count), layers, needs_gradient, seed
    )
    return {
        **found,
        "plain_result": wanted["result"],
        "plain_gradients": wanted["gradients"],
        "calls": list(calls),
    }


def refusal(module: ModuleType, layer_count: int, segment_count: int) -> str:
    """The name of the exception for a number of segments that cannot be; "no exception"."""
    import torch

    calls: list[str] = []
    try:
        module.checkpoint_layers(
            _layers(layer_count, calls, 0), torch.rand(1, WIDTH), segment_count
        )
    except Exception as error:  # noqa: BLE001 - whatever the learner's code raises
        return type(error).__name__
    return f"no exception, and {len(calls)} passes ran"
