"""How many operations and bytes an operator of PyTorch stands for, from the shapes of what it was called with.

Counted as usual: a multiply and an add are two operations. Bytes are the least possible: each input is read once,
the output written once; of a cache's help or of reading twice they say nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from profiling_lab.analysis.kineto_columns import InputShape

# What Kineto calls the types of tensors: the name in `profiling_lab.devices`, and bytes an element.
_TYPES = {
    "double": ("float64", 8),
    "float": ("float32", 4),
    "c10::BFloat16": ("bfloat16", 2),
    "c10::Half": ("float16", 2),
    "c10::Float8_e4m3fn": ("float8", 1),
    "c10::Float8_e5m2": ("float8", 1),
    "signed char": ("int8", 1),
    "unsigned char": ("", 1),
    "bool": ("", 1),
    "int": ("", 4),
    "long int": ("", 8),
}
# The first of the two matrices among the arguments.
_PRODUCTS = {"mm": 0, "bmm": 0, "addmm": 1, "baddbmm": 1, "_scaled_mm": 0}
# Queries, keys and values come first; (whether sequences stand before heads, which argument says "causal").
_ATTENTION = {
    "_flash_attention_forward": (True, 8),
    "_scaled_dot_product_cudnn_attention": (False, 6),
}
_CONVOLUTIONS = ("cudnn_convolution",)  # (input, weight, padding, stride, dilation, groups, …)
# Read all inputs, write one output as large as they are together (broadcast).
_POINTWISE = {
    *("add", "sub", "rsub", "mul", "div", "pow", "sqrt", "rsqrt", "exp", "log", "neg", "abs"),
    *("relu", "gelu", "silu", "sigmoid", "tanh", "clamp_min", "where", "eq", "gt", "lt", "clone"),
    *("gelu_backward", "silu_backward", "tanh_backward", "sigmoid_backward", "threshold_backward"),
    *("_softmax", "_log_softmax", "native_layer_norm", "bitwise_and", "masked_fill", "cos", "sin"),
}
_COPIES = ("copy_",)  # (to, from): one is written, the other read
_FILLS = ("fill_", "zero_")


@dataclass(frozen=True)
class Work:
    """Of one call. operations: None where they are not counted here. bytes: the least. dtype: "" of no one type."""

    operations: float | None
    bytes: float | None
    dtype: str


def of(name: str, shape: InputShape) -> Work | None:
    """What a call of an operator stands for; None where it is not known here."""
    kind = name.removeprefix("aten::")
    tensors = [
        (tuple(dims), *_TYPES[told])
        for dims, told in zip(shape.dims, shape.types, strict=False)
        if told in _TYPES and _are_sizes(dims)
    ]
    try:
        if kind in _PRODUCTS:
            return _product(tensors[_PRODUCTS[kind] :][:2], tensors)
        if kind in _ATTENTION:
            return _attention(tensors, shape.values, *_ATTENTION[kind])
        if kind in _CONVOLUTIONS:
            return _convolution(tensors, shape.values)
    except (IndexError, ValueError, TypeError, ZeroDivisionError):
        return None
    moved = sum(math.prod(dims) * size for dims, _, size in tensors)
    base = kind.removesuffix("_") if kind not in (*_COPIES, *_FILLS) else kind
    if not moved or not tensors:
        return None
    largest = max(tensors, key=lambda one: math.prod(one[0]) * one[2])
    written = math.prod(largest[0]) * largest[2]
    if base in _POINTWISE:
        return Work(None, moved + written, largest[1])
    if base in (*_COPIES, *_FILLS):
        return Work(None, moved, largest[1])
    return None


def _are_sizes(dims: Any) -> bool:
    return isinstance(dims, list) and all(type(size) is int and size >= 0 for size in dims)


def _product(pair: Sequence[Any], tensors: Sequence[Any]) -> Work | None:
    (a, dtype, size), (b, _, _) = pair
    if len(a) != len(b) or len(a) < 2 or a[-1] != b[-2]:
        return None
    batch, (m, k), n = math.prod(a[:-2]), a[-2:], b[-1]
    moved = sum(math.prod(dims) * each for dims, _, each in tensors) + batch * m * n * size
    return Work(2.0 * batch * m * n * k, moved, dtype)


def _attention(
    tensors: Sequence[Any], values: Sequence[Any], rows_first: bool, causal: int
) -> Work | None:
    (q, dtype, size), (k, _, _), (v, _, _) = tensors[:3]
    if not len(q) == len(k) == len(v) == 4:
        return None
    row, head = (1, 2) if rows_first else (2, 1)
    pairs = q[0] * q[head] * q[row] * k[row]
    if str(values[causal]) == "True":
        pairs /= 2  # the lower half alone, and half of the diagonal
    moved = (math.prod(q) + math.prod(k) + math.prod(v) + math.prod(q)) * size
    return Work(2.0 * pairs * (q[3] + v[3]), moved, dtype)


def _convolution(tensors: Sequence[Any], values: Sequence[Any]) -> Work | None:
    (x, dtype, size), (w, _, _) = tensors[:2]
    padding, stride, dilation = (
        [int(number) for number in str(values[at]).strip("[]").split(",")] for at in (2, 3, 4)
    )
    out = [
        (length + 2 * pad - hop * (kernel - 1) - 1) // step + 1
        for length, kernel, pad, step, hop in zip(
            x[2:], w[2:], padding, stride, dilation, strict=True
        )
    ]
    outputs = x[0] * w[0] * math.prod(out)
    moved = (math.prod(x) + math.prod(w) + outputs) * size
    return Work(2.0 * outputs * math.prod(w[1:]), moved, dtype)
