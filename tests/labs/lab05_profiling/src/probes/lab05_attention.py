"""Runs `profile_attention_components` and `optimize_attention` beside the learner's code.

Operators are seen on their way, and where a clock matters it moves by the operators' work alone.
"""

from __future__ import annotations

import contextlib
import functools
import math
import weakref
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from profiling_lab.mine.functions import load_once

timing = load_once(Path(__file__).with_name("lab05_timing.py"), "grading_probe_lab05_timing")

# Seconds: of an operation of a product, of an element of anything else, of any call.
PRODUCT_S, ELEMENT_S, CALL_S = 1e-9, 2e-8, 1e-9
PRODUCTS = ("mm", "bmm", "addmm", "baddbmm")
# What moves no data, or only prepares: takes no time here.
FREE = {
    "empty", "randn", "rand", "normal_", "ones", "zeros", "full", "uniform_", "_to_copy", "copy_",
    "clone", "div", "mul", "_unsafe_view", "empty_like", "zeros_like", "lift_fresh", "detach",
    "randn_like", "ones_like", "empty_strided", "arange", "fill_",
}  # fmt: skip


class _Mode(TorchDispatchMode):
    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # else the first operator imports all of torch.compile, which takes seconds


class _Operators(_Mode):
    """Moves a machine's clock by what operators do; refuses results that are too large."""

    def __init__(self, machine: Any, room_bytes: float = math.inf) -> None:
        super().__init__()
        self.machine, self.room_bytes = machine, room_bytes
        self.flops = self.softmaxes = 0
        self.not_over_rows = 0
        self.made: list[weakref.ref] = []
        self.products: list[tuple[torch.Tensor, ...]] = []  # left, right and result, in order

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with self:  # in inference mode matmul and its like come here in one piece
            result = func.decompose(*args, **(kwargs or {}))
        if result is not NotImplemented:
            return result
        result = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        for tensor in tree_leaves(result):
            if isinstance(tensor, torch.Tensor):
                self.made.append(weakref.ref(tensor))
                if tensor.numel() * tensor.element_size() > self.room_bytes:
                    raise torch.OutOfMemoryError(
                        "CUDA out of memory. Tried to allocate 64.25 MiB. GPU 0 has a total capacity "
                        "of 1.00 GiB of which 12.75 MiB is free."
                    )
        if name in PRODUCTS:
            left, right = [a for a in args if isinstance(a, torch.Tensor)][-2:]
            self.products.append(tuple(t.detach().double().clone() for t in (left, right, result)))
            flops = 2 * left.numel() * right.shape[-1]
            self.flops += flops
            self.machine.work(CALL_S + PRODUCT_S * flops)
        elif name in ("_softmax", "_safe_softmax"):
            self.softmaxes += 1
            self.not_over_rows += args[1] % args[0].dim() != args[0].dim() - 1
            self.machine.work(CALL_S + 5 * ELEMENT_S * result.numel())
        else:
            sizes = [t.numel() for t in tree_leaves([args, result]) if hasattr(t, "numel")]
            returns = func._schema.returns
            work = name not in FREE and returns and not returns[0].alias_info
            if work or max(sizes, default=0) == 1:  # one element: a call for its own sake
                self.softmaxes += name == "exp"
                self.machine.work(CALL_S + ELEMENT_S * max(sizes))
        return result


def profiled(
    module: ModuleType, sizes: list[int], options: dict[str, Any], room_bytes: float | None = None
) -> dict[str, Any]:
    """profile_attention_components on the clock of operators.

    Returns "result"; "flops" of all products that were done, "softmaxes", and how many of these did not go
    over the last axis, "not_over_rows"; or what was "raised", with the number of tensors still "alive" while the exception is.
    """
    machine = timing.Machine()
    operators = _Operators(machine, math.inf if room_bytes is None else room_bytes)
    out: dict[str, Any] = {"result": None, "raised": None}
    with timing.running(machine, module, cuda=False):
        try:
            with operators:
                named = dict(zip(("seq_len", "d_model", "num_heads"), sizes, strict=True))
                out["result"] = module.profile_attention_components(**named, **options)
        except Exception as error:  # noqa: BLE001 -- told to the check
            alive = sum(ref() is not None for ref in operators.made)
            out |= {"raised": type(error).__name__, "message": str(error), "alive": alive}
    counted = {name: getattr(operators, name) for name in ("flops", "softmaxes", "not_over_rows")}
    return {**out, **counted}


def layer_values(
    module: ModuleType, sizes: tuple[int, int, int], options: dict[str, Any]
) -> dict[str, Any]:
    """How far the numbers of a layer are from attention in float64.

    Returns "found": whether a call did all five parts one after another; then, by the operands of its products, the
    largest distances of "parts" (Q, K and V of a token from the numbers of its row of x @ W), of the "weights" that
    meet V, and of the "heads" that go into the output projection; "timed": how many functions benchmark_function got;
    "alone": by component, how far the nearest of their results is from what that part gives in the whole; "made_up":
    which times benchmark_function did not return.
    """
    machine = timing.Machine()
    operators = _Operators(machine)
    results: list[list[torch.Tensor]] = []
    seconds: list[float] = []
    noting = _noting(module, results, seconds)
    with timing.running(machine, module, cuda=False), noting, operators:
        named = dict(zip(("seq_len", "d_model", "num_heads"), sizes, strict=True))
        profile = module.profile_attention_components(**named, **options)
    chain = _whole_layer(operators.products, *sizes, options["batch"])
    if chain is None:
        return {"found": False}
    found = [_distances(chain, *sizes, options["batch"], first) for first in (True, False)]
    distances, values = min(found, key=lambda both: sum(both[0].values()))
    # The whole gives what the output projection gives, so there are two functions that do.
    alone = {
        name: _gaps(value, results)[name == "output_projection"] for name, value in values.items()
    }
    told = {part["name"]: part["time_s"] for part in profile["components"]}
    told |= {key: profile[key] for key in ("whole_s", "call_floor_s")}
    made_up = [name for name, time_s in told.items() if time_s not in seconds]
    return {
        "found": True,
        **distances,
        "timed": len(results),
        "alone": alone,
        "made_up": made_up,
    }


@contextlib.contextmanager
def _noting(
    module: ModuleType, results: list[list[torch.Tensor]], seconds: list[float]
) -> Iterator[None]:
    """Note what the last call of each function that benchmark_function gets has returned, and its time."""
    timed = module.benchmark_function

    def noting(fn: Any, args: Any, *counts: Any, **named: Any) -> float:
        last: list[Any] = []

        @functools.wraps(fn)
        def noted(*given: Any, **more: Any) -> Any:
            last[:] = [fn(*given, **more)]
            return last[0]

        took_s = timed(noted, args, *counts, **named)
        seconds.append(took_s)
        tensors = [leaf for leaf in tree_leaves(last) if isinstance(leaf, torch.Tensor)]
        results.append([tensor.detach().double().clone() for tensor in tensors])
        return took_s

    with mock.patch.object(module, "benchmark_function", noting):
        yield


def _gaps(wanted: list[torch.Tensor], results: list[list[torch.Tensor]]) -> list[float]:
    """The distances of some values, in one of their orders, from the results of each function, the least first."""
    gaps = [math.inf] * max(len(results), 2)
    for want in wanted:
        for place, tensors in enumerate(results):
            if sum(tensor.numel() for tensor in tensors) != want.numel():
                continue
            if [tensor.shape for tensor in tensors] == [part.shape for part in want]:
                got, right = torch.stack(tensors), want  # Q, K and V
            elif len(tensors) == 1 and (want.dim() < 5 or tensors[0].shape == want.shape):
                got, right = tensors[0].reshape(want.shape), want
            else:  # Q, K and V in other tensors
                got = torch.cat([tensor.flatten() for tensor in tensors]).sort().values
                right = want.flatten().sort().values
            gap = float((got - right).abs().max() / want.abs().max())
            gaps[place] = min(gaps[place], gap)
    return sorted(gaps)


def _whole_layer(products: list, tokens: int, width: int, heads: int, batch: int) -> Any:
    """Of the last call of the whole layer: x @ W, Q of all heads, K, the weights, V, their products, what goes
    into the output projection and what comes out; each of the heads' with all pairs of batch and head first. None
    without such a call.
    """
    head_dim = width // heads
    kinds = []
    for left, right, _ in products:
        inner, columns = left.shape[-1], right.shape[-1]
        if (inner, columns) == (head_dim, tokens) and left.numel() // inner % tokens == 0:
            kinds.append("scores")
        elif (inner, columns) == (tokens, head_dim):
            kinds.append("summed")
        else:
            kinds.append("projection")
    for last in reversed(range(len(products))):
        start = last
        while start and kinds[start - 1] != "projection":
            start -= 1
        between = range(start, last)
        scores = [products[i] for i in between if kinds[i] == "scores"]
        summed = [products[i] for i in between if kinds[i] == "summed"]
        pairs = sum(left.numel() for left, _, _ in scores) // (tokens * head_dim)
        is_last = kinds[last] == "projection" and products[last][2].shape[-1] == width
        if not is_last or pairs != batch * heads or len(summed) != len(scores):
            continue
        first, columns = start, 0
        while first and columns < 3 * width and kinds[first - 1] == "projection":
            first -= 1
            columns += products[first][2].shape[-1]
        if columns != 3 * width:
            continue
        rows = [result.reshape(batch, tokens, -1) for _, _, result in products[first:start]]

        def stacked(items: list, place: int) -> torch.Tensor:
            return torch.cat([item[place].reshape(-1, *item[place].shape[-2:]) for item in items])

        return (
            torch.cat(rows, dim=-1),
            *(stacked(scores, 0), stacked(scores, 1).mT),
            *(stacked(summed, 0), stacked(summed, 1), stacked(summed, 2)),
            products[last][0].reshape(batch, tokens, width),
            products[last][2].reshape(batch, tokens, width),
        )
    return None


def _distances(
    chain: Any, tokens: int, width: int, heads: int, batch: int, batch_first: bool
) -> tuple[dict[str, float], dict[str, list[torch.Tensor]]]:
    """The distances of `layer_values`, and by component what it gives in the whole, in each order that it may have."""
    rows, *of_heads, merged, result = chain
    if batch_first:
        of_heads = [x.reshape(batch, heads, *x.shape[1:]) for x in of_heads]
    else:
        of_heads = [x.reshape(heads, batch, *x.shape[1:]).transpose(0, 1) for x in of_heads]
    q, k, weights, v, summed = of_heads
    scale = (width // heads) ** -0.5
    parts, right_q, right_k = math.inf, q, k
    # The scale may have gone to Q, to K, or to both before they meet.
    for of_q, of_k in ((1.0, 1.0), (scale, 1.0), (1.0, scale), (scale**0.5, scale**0.5)):
        together = torch.cat([q / of_q, k / of_k, v], dim=-1).transpose(1, 2).flatten(2)
        gap = float((together.sort().values - rows.sort().values).abs().max())
        if gap < parts:
            parts, right_q, right_k = gap, q / of_q, k / of_k
    # In which order the heads of a token lie is the output projection's affair.
    side_by_side = summed.transpose(1, 2).flatten(2).sort().values
    merged = merged.sort().values
    scores = right_q @ right_k.mT * scale
    want = torch.softmax(scores, dim=-1)
    distances = {
        "parts": parts / float(rows.abs().max()),
        "weights": float(((weights - want).abs() / want.amax(dim=-1, keepdim=True)).max()),
        "heads": float((merged - side_by_side).abs().max() / summed.abs().max()),
    }
    of_parts = {"score_computation": scores, "softmax": want, "weighted_sum": want @ v}
    return distances, {
        "qkv_projection": [torch.stack([right_q, right_k, v])],
        **{name: [value, value.transpose(0, 1)] for name, value in of_parts.items()},
        "output_projection": [result],
    }


# -- the ways to compute attention ------------------------------------------------------------------

FLAGS = {"FLASH_ATTENTION": "flash", "EFFICIENT_ATTENTION": "mem_efficient", "MATH": "math"}
FLAGS["CUDNN_ATTENTION"] = "cudnn"
SDPA = "scaled_dot_product_attention"


def enabled() -> list[str]:
    """The backends that scaled_dot_product_attention may choose from now."""
    flags = torch.backends.cuda
    return [name for name, flag in FLAGS.items() if getattr(flags, f"{flag}_sdp_enabled")()]


class _Calls(TorchFunctionMode):
    """Sees calls of scaled_dot_product_attention, and which backends were enabled for each.

    With `times` nothing of PyTorch's runs: the one backend that is enabled takes that long on the
    machine's clock (ten times as long when it is called first), and one that is not in it does not
    exist; with several enabled the first in `times` is taken.
    """

    def __init__(self, machine: Any = None, times: dict[str, float] | None = None) -> None:
        super().__init__()
        self.machine, self.times = machine, times
        self.seen: list[list[str]] = []
        self.gradients: list[bool] = []  # whether they were recorded, at each call
        self.warm: set[str] = set()
        self.error: type[Exception] = RuntimeError

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "") != SDPA:
            return func(*args, **(kwargs or {}))
        self.seen.append(enabled())
        self.gradients.append(torch.is_grad_enabled())
        if self.times is None:
            return func(*args, **(kwargs or {}))
        found = [name for name in self.times if name in self.seen[-1]]
        if not found:
            raise self.error("No available kernel. Aborting execution.")
        first = found[0] not in self.warm
        self.warm.add(found[0])
        self.machine.work(self.times[found[0]] * (10 if first else 1))
        q, k, v = args[:3]
        return torch.softmax((q * q.shape[-1] ** -0.5) @ k.mT, dim=-1) @ v


class _Names(_Mode):
    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


@contextlib.contextmanager
def _compiling(compiled: list[int]) -> Iterator[None]:
    """torch.compile as a spy: compiled[0] counts calls of it, compiled[1] calls of what it gave.

    What it gave may be kept and called in a later probe, so the list is the same for a module's life.
    """

    def compile_spy(function: Any = None, **options: Any) -> Any:
        if function is None:
            return lambda given: compile_spy(given, **options)
        compiled[0] += 1

        def run(*args: Any, **kwargs: Any) -> Any:
            compiled[1] += 1
            return function(*args, **kwargs)

        return run

    with mock.patch.object(torch, "compile", compile_spy):
        yield


def _inputs(shape: list[int], keys: int, dtype: str, seed: int, scale: float) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    batch, heads, queries, head_dim = shape
    return [
        (torch.randn(batch, heads, tokens, head_dim, generator=generator) * size)
        .to(getattr(torch, dtype))
        .requires_grad_()
        for tokens, size in ((queries, scale), (keys, scale), (keys, 1.0))
    ]


def attended(
    module: ModuleType,
    level: int,
    shape: list[int],
    keys: int,
    dtype: str,
    seed: int,
    scale: float,
) -> dict[str, Any]:
    """optimize_attention at a level, twice, on random tensors; Q and K are `scale` times as large.

    Returns in float64 "inputs" [Q, K, V], "result", "factors" and "gradients" of sum(result *
    factors); "seen": the backends enabled at each call of scaled_dot_product_attention, the
    "compilations" so far and "compiled_calls" of this probe, "names" of the operators of the first call, "enabled" backends afterwards, "dtype" of the result.
    """
    given = _inputs(shape, keys, dtype, seed, scale)
    compiled = vars(module).setdefault("_compiled_by_probe", [0, 0])
    ran_before = compiled[1]
    calls, names = _Calls(), _Names()
    with _compiling(compiled), calls:
        with names:
            first = module.optimize_attention(*given, level)
        result = module.optimize_attention(*given, level)
    factors = torch.cos(torch.arange(result.numel(), dtype=torch.float64)).view(result.shape)
    (result.double() * factors).sum().backward()
    return {
        "inputs": [tensor.detach().double().numpy() for tensor in given],
        "result": result.detach().double().numpy(),
        "again": bool(torch.equal(first, result)),
        "factors": factors.numpy(),
        "gradients": [None if t.grad is None else t.grad.double().numpy() for t in given],
        "seen": calls.seen,
        "compilations": compiled[0],
        "compiled_calls": compiled[1] - ran_before,
        "names": names.names,
        "enabled": enabled(),
        "dtype": str(result.dtype),
    }


def chosen(
    module: ModuleType, calls: list[dict[str, Any]], repeats: int
) -> list[list[dict[str, Any]]]:
    """Level 4 on a machine where each backend takes a known time: for each of `calls` ({"shape", "keys",
    "dtype", "times"}), in `repeats` rounds over all of them, the backends that were used, and what was
    raised."""
    machine = timing.Machine()
    out = []
    with timing.running(machine, module, cuda=False):
        for _ in range(repeats):
            row = []
            for call in calls:
                given = _inputs(call["shape"], call["keys"], call["dtype"], 1, 1.0)
                mode, raised, words = _Calls(machine, call["times"]), None, ""
                with mode:
                    try:
                        result = module.optimize_attention(*given, 4)
                        words = str(tuple(result.shape))
                    except Exception as error:  # noqa: BLE001 -- told to the check
                        raised, words = type(error).__name__, str(error)
                row.append(
                    {
                        "seen": mode.seen,
                        "gradients": mode.gradients,
                        "raised": raised,
                        "words": words,
                    }
                )
            out.append(row)
    return out


def without_flash(module: ModuleType) -> dict[str, Any]:
    """Level 3 where the flash backend does not exist: what it raised, and what it called."""
    mode = _Calls(timing.Machine(), {"MATH": 1.0})
    given = _inputs([1, 2, 7, 8], 7, "bfloat16", 3, 1.0)
    out: dict[str, Any] = {"raised": None, "message": ""}
    with mode:
        try:
            module.optimize_attention(*given, 3)
        except Exception as error:  # noqa: BLE001 -- told to the check
            out = {"raised": type(error).__name__, "message": str(error)}
    return {**out, "seen": mode.seen, "enabled": enabled()}


def attention_refused(module: ModuleType, what: str) -> dict[str, Any]:
    """optimize_attention with bad input: what it raised."""
    q = torch.ones(2, 3, 5, 4)
    q, k, v, level = {
        "level 5": (q, q, q, 5),
        "level -1": (q, q, q, -1),
        "level '2'": (q, q, q, "2"),
        "level True": (q, q, q, True),
        "Q with three dimensions": (q[0], q, q, 0),
        "V with three dimensions": (q, q, q[0], 0),
        "K of another head_dim": (q, torch.ones(2, 3, 5, 6), torch.ones(2, 3, 5, 6), 0),
        "K with one head": (q, q[:, :1], q[:, :1], 0),
        "K of another batch": (q, q[:1], q[:1], 0),
        "V with fewer tokens than K": (q, q, q[:, :, :1], 0),
        "V of another head_dim": (q, q, torch.ones(2, 3, 5, 6), 0),
        "K in float64": (q, q.double(), q, 0),
        "V in float64": (q, q, q.double(), 0),
        "K on another device": (q, q.to("meta"), q, 0),
        "V on another device": (q, q, q.to("meta"), 0),
        "whole numbers": (q.int(), q.int(), q.int(), 0),
    }[what]
    try:
        result = module.optimize_attention(q, k, v, level)
    except Exception as error:  # noqa: BLE001 -- told to the check
        return {"raised": type(error).__name__, "message": str(error)}
    return {"raised": None, "message": f"returned a tensor of shape {tuple(result.shape)}"}
