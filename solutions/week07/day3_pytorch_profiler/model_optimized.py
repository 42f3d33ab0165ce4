"""Day 3, repairs: the same results from less work.

`model_slow.py`, next to this file, has programs that are right but slow. Here you write faster versions of them.

    uv run lab check ex_32

runs both on fresh inputs, compares the results, and counts: graph breaks, compilations, numbers read
from the device, operators, bytes, floating-point operations. All of that needs no GPU; with one,
`--live` also compares times. The same code must run on a GPU, so make each new tensor on the device of the tensors that
you are given. The lesson is `README.md`, hints are in `hints.md`.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn


def repair_graph_breaks(
    x: torch.Tensor, weight: torch.Tensor, limit: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """`clipped_mean` of model_slow.py as one graph: nothing in it needs a number on the host.

    Returns what `clipped_mean` returns, up to rounding and without printing: the mean of the used rows and the largest
    number before scaling, both tensors of x's dtype (float32 or float64). limit is above 0. Gradients with respect to x
    and weight are the same too: the scaling factor and the largest number count as constants, without a gradient.

    `torch.compile(…, fullgraph=True)` must accept it. One graph serves inputs that are scaled and inputs that are not. No
    operator reads a number from the device, or gives a result whose shape depends on values.

    Example: x [[2.0], [-1.0]], weight [[1.0]], limit 1.0: the rows become 2 and 0, scaled 1 and 0, and only the first is
    used: the mean is [1.0], the largest 2.0.
    """
    hidden = torch.relu(x @ weight)
    largest = hidden.detach().max()
    factor = torch.where(largest > limit, limit / largest, torch.ones_like(largest))
    hidden = hidden * factor
    count = (hidden.sum(dim=1) > 0).sum()
    return hidden.sum(dim=0) / count.clamp(min=1), largest


def in_bucket(x: torch.Tensor, buckets: Sequence[int]) -> torch.Tensor:
    """x with rows of zeros added, up to the smallest bucket that holds its rows. Given."""
    rows = x.shape[0]
    return F.pad(x, (0, 0, 0, min(size for size in buckets if size >= rows) - rows))


def repair_recompilations(
    query: torch.Tensor, buckets: Sequence[int], compile_function: Callable[..., Any]
) -> Callable[[torch.Tensor, int], torch.Tensor]:
    """`pool` of model_slow.py for any number of rows, compiled at most once for each bucket.

    query: [width]. buckets: numbers of rows, in any order. compile_function: `torch.compile` for exact shapes. Call it
    once, with your own function. Other shapes, or another Python number among the arguments, compile again.

    Returns a function (x, step) that gives what `pool(x, query, step)` gives, within rounding, however large or small scores are,
    with the same gradients of x and query. x has from 1 row to as many as the largest bucket. The scores, the softmax and
    the weighted sum run compiled, on `in_bucket(x, buckets)`; its added rows must not change the result. You may make tensors of
    the step and of the number of rows before the compiled call, on x's device. Whatever rows and steps come, each bucket
    in use is compiled at most once.

    Example: buckets [8, 4], and calls with 3, 4, 5 and 1 rows in the steps 0 to 3: two compilations, for 4 and 8 rows.
    """

    @compile_function
    def padded_pool(x: torch.Tensor, used: torch.Tensor, step: torch.Tensor) -> torch.Tensor:
        scores = (x @ query) / (1.0 + step)
        return torch.softmax(scores.masked_fill(~used, float("-inf")), dim=0) @ x

    def pool(x: torch.Tensor, step: int) -> torch.Tensor:
        padded = in_bucket(x, buckets)
        used = torch.arange(len(padded), device=x.device) < len(x)
        return padded_pool(padded, used, torch.tensor(step, dtype=x.dtype, device=x.device))

    return pool


def repair_memory_growth(
    model: Callable[[torch.Tensor], torch.Tensor],
    loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    batches: Iterable[tuple[torch.Tensor, torch.Tensor]],
) -> float:
    """`mean_loss` of model_slow.py in memory that does not grow with the number of batches.

    batches: any iterable, read once. Returns the mean of their losses as a float, in which each batch counts the same.

    Call `model` and `loss` only with gradients disabled. When a batch is fetched, tensors of the one before may be
    alive, of earlier ones none, nor anything whose size grows with the number of batches. Do not add in place to a tensor that
    `loss` returned. Read one number from the device, at the end. Afterwards gradients are enabled or disabled as they were
    before, also after an exception.

    Example: two batches with losses 1.0 and 2.0, of 8 rows and of 2: 1.5, after one read.
    """
    count, total = 0, torch.zeros(())
    with torch.no_grad():
        for inputs, targets in batches:
            total = total + loss(model(inputs), targets)
            count += 1
    return total.item() / count


def capture_step(
    cuda: Any,
    step: Callable[[torch.Tensor], torch.Tensor],
    example: torch.Tensor,
    state: Sequence[torch.Tensor] = (),
    warm_up: int = 3,
) -> Callable[[torch.Tensor], torch.Tensor]:
    """Put a step into a CUDA graph: the host then issues one call, however many kernels the step has.

    cuda: `torch.cuda`, or without a GPU a stand-in for it with Stream, stream, current_stream,
    CUDAGraph and graph. The stand-in records what a capture would, and replays it on the same addresses.
    step: takes one tensor and returns one. It may change the tensors in `state` in place (for example
    parameters and an optimizer's buffers), and nothing else.
    example: an input, with the shape, dtype and device of all later inputs. Leave it unchanged.

    Before the capture, run `step` `warm_up` times on a stream that is not the current one. That stream
    first waits for the current stream, and afterwards the current stream waits for it (source: "CUDA
    Graphs" in PyTorch's "CUDA semantics"). Then run it once under `cuda.graph`. Allocate one
    tensor of your own and pass it to all these calls: a graph replays addresses, not values. At the end the
    tensors in `state` have the values that they had before the call.

    Returns a function of one input. It replays the graph for this input without calling `step`, and
    returns the result as a new tensor, so results of earlier calls do not change.
    Raises ValueError if warm_up is less than 1. The returned function raises it, before it replays
    anything, if the input's shape, dtype or device differs from the example's; the message names both.
    """
    if warm_up < 1:
        raise ValueError(f"warm_up must be at least 1, not {warm_up}")
    given = example.detach().clone()
    before = [tensor.detach().clone() for tensor in state]
    side = cuda.Stream()
    side.wait_stream(cuda.current_stream())
    with cuda.stream(side):
        for _ in range(warm_up):
            step(given)
    cuda.current_stream().wait_stream(side)
    graph = cuda.CUDAGraph()
    with cuda.graph(graph):
        result = step(given)
    with torch.no_grad():
        for tensor, old in zip(state, before, strict=True):
            tensor.copy_(old)

    def replay(x: torch.Tensor) -> torch.Tensor:
        for name in ("shape", "dtype", "device"):
            asked, captured = getattr(x, name), getattr(given, name)
            if asked != captured:
                raise ValueError(f"the graph was captured for {name} {captured}, not {asked}")
        with torch.no_grad():
            given.copy_(x)
        graph.replay()
        return result.detach().clone()

    return replay


def capture_step_live(
    step: Callable[[torch.Tensor], torch.Tensor], example: torch.Tensor
) -> dict[str, float]:
    """What a CUDA graph saves on this machine's GPU: the step as it is, and captured.

    step, example: as in capture_step, on the GPU. The step changes nothing.

    Returns "before_ns" and "after_ns", the times of one call of `step` and of one replay, and "ratio",
    before over after. First call each of the two 3 times without measuring. Then measure each 5
    times, alternately (before, after, before, …), and take the medians. A measurement is the time
    between two CUDA events around 20 calls, divided by 20.
    """
    replay = capture_step(torch.cuda, step, example)
    return _measured(lambda: step(example), lambda: replay(example))


def attention_inputs(layer: Any, x: torch.Tensor) -> list[torch.Tensor]:
    """Query, key and value of a layer for all its heads, [batch, heads, tokens, width / heads] each. Given."""
    normal = F.layer_norm(x, x.shape[-1:], layer.gain_1, layer.bias_1)
    linears = (layer.query, layer.key, layer.value)
    return [linear(normal).unflatten(-1, (layer.heads, -1)).transpose(1, 2) for linear in linears]


def after_attention(layer: Any, x: torch.Tensor, mixed: torch.Tensor) -> torch.Tensor:
    """What a layer computes after its attention, of its input x and what its heads mixed. Given.

    mixed: [batch, heads, tokens, width / heads].
    """
    x = x + layer.out(mixed.transpose(1, 2).flatten(-2))
    normal = F.layer_norm(x, x.shape[-1:], layer.gain_2, layer.bias_2)
    return x + layer.down(F.gelu(layer.up(normal), approximate="tanh"))


def optimized_model(slow: Any) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """`SlowModel` of model_slow.py with less work in a forward and backward pass.

    slow: a SlowModel of any size. Returns a function, or module, of (tokens, lengths) that gives the same scores and,
    for all parameters of `slow`, the same gradients, within rounding (2e-5 of the largest). It computes with these
    same parameters, changes neither `slow` nor its inputs, and keeps no result for a later call. Given for each layer: what
    comes before the attention (`attention_inputs`), and what comes after it (`after_attention`).

    One forward and backward pass may take at most 25 % of the operators that PyTorch dispatches for `slow`
    (views not counted), 30 % of the bytes that they read and write, and 60 % of the floating-point operations. It must not
    read a number from the device.

    Example: for one of 20 tokens in each row, the head takes 5 % of the slow head's operations.
    """

    def forward(tokens: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        batch, count = tokens.shape
        x = F.embedding(tokens, slow.embedding) + slow.position[:count]
        mask = torch.arange(count, device=tokens.device) < lengths[:, None, None, None]
        for layer in slow.layers:
            query, key, value = attention_inputs(layer, x)
            mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
            x = after_attention(layer, x, mixed)
        return slow.head(x[torch.arange(batch, device=x.device), lengths - 1])

    return forward


def optimized_model_live(
    slow: nn.Module, tokens: torch.Tensor, lengths: torch.Tensor
) -> dict[str, float]:
    """What the optimized model saves on this machine's GPU, forward and backward.

    slow: a SlowModel on the GPU. tokens, lengths: a batch, on the GPU. One call computes the scores and
    the gradients of their sum, and then clears the gradients.

    Returns "before_ns", "after_ns" and "ratio" like capture_step_live, measured in the same way but with
    3 calls in a measurement. On the batches of the check, the ratio must be at least 3.
    """
    fast = optimized_model(slow)

    def call(model: Callable[..., torch.Tensor]) -> None:
        model(tokens, lengths).sum().backward()
        slow.zero_grad(set_to_none=True)

    return _measured(lambda: call(slow), lambda: call(fast), calls=3)


def _measured(
    before: Callable[[], Any], after: Callable[[], Any], calls: int = 20
) -> dict[str, float]:
    found: dict[str, list[float]] = {"before_ns": [], "after_ns": []}
    for run in (before, after):
        for _ in range(3):
            run()
    for _ in range(5):
        for name, run in (("before_ns", before), ("after_ns", after)):
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            for _ in range(calls):
                run()
            end.record()
            end.synchronize()
            found[name].append(start.elapsed_time(end) * 1e6 / calls)
    out = {name: statistics.median(times) for name, times in found.items()}
    return {**out, "ratio": out["before_ns"] / out["after_ns"]}
