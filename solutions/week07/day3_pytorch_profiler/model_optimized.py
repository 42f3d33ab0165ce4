"""Day 3, repairs: the same results from less work.

`model_slow.py`, beside this file, holds programs that are right and slow. Here you write them again.

    uv run lab check ex_32

runs both on fresh inputs, compares the results, and counts: graph breaks, compilations, numbers read
from the device, operators, bytes, floating-point operations. All of that needs no GPU; with one,
`--live` also compares times. The lesson is `README.md`, hints are in `hints.md`.
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

    Arguments and results are those of `clipped_mean`, printing apart: x [rows, inputs], weight
    [inputs, outputs]; the mean of the used rows, [outputs], and the largest number before scaling, a
    tensor of no dimension. Gradients with respect to x and weight are the same too: there the factor
    that scales is a mere number, and so is the largest one that is returned.

    `torch.compile(…, fullgraph=True)` must take it, the same graph must serve inputs that are scaled
    and inputs that are not, and no operator may read a number from the device or give a result whose
    shape depends on the numbers in it.
    """
    hidden = torch.relu(x @ weight)
    largest = hidden.detach().max()
    factor = torch.where(largest > limit, limit / largest, torch.ones_like(largest))
    hidden = hidden * factor
    count = (hidden.sum(dim=1) > 0).sum()
    return hidden.sum(dim=0) / count.clamp(min=1), largest


def repair_recompilations(
    query: torch.Tensor, buckets: Sequence[int], compile_function: Callable[..., Any]
) -> Callable[[torch.Tensor, int], torch.Tensor]:
    """`pool` of model_slow.py for rows in any number, compiled at most once for each bucket.

    query: [width]. buckets: numbers of rows, in any order, one to eight of them (TorchDynamo gives a
    function up after eight versions, `torch._dynamo.config.recompile_limit`), each at least 1.
    compile_function: `torch.compile` for exact shapes (dynamic=False), with a backend that counts; use
    it once, on a function of yours. Whatever that function is called with, exact shapes and the values
    of Python numbers included, is part of what TorchDynamo guards.

    Returns a function (x, step) that gives what `pool(x, query, step)` gives, with both gradients, for x of
    1 row up to as many as the largest bucket has (all x contiguous, of one dtype, and alike in whether
    they ask for gradients: these are guarded, too). The rows go through the compiled function in the
    smallest bucket that holds them; the rows that fill it up must not change the result. However many
    different row counts and steps there are, there is no more than one compilation for each bucket in
    use, and every call runs compiled code.
    Raises ValueError if buckets is empty or holds a number below 1; the returned function does if x
    has no row, or more rows than the largest bucket (the message names both numbers).
    """
    if not buckets or min(buckets) < 1:
        raise ValueError(f"buckets must be numbers of at least 1, not {list(buckets)}")
    sizes = sorted(buckets)

    @compile_function
    def padded_pool(x: torch.Tensor, used: torch.Tensor, step: torch.Tensor) -> torch.Tensor:
        scores = (x @ query) / (1.0 + step)
        return torch.softmax(scores.masked_fill(~used, float("-inf")), dim=0) @ x

    def pool(x: torch.Tensor, step: int) -> torch.Tensor:
        rows = x.shape[0]
        if not 1 <= rows <= sizes[-1]:
            raise ValueError(f"x has {rows} rows; from 1 to {sizes[-1]} fit into the buckets")
        size = next(size for size in sizes if size >= rows)
        used = torch.arange(size, device=x.device) < rows
        padded = F.pad(x, (0, 0, 0, size - rows))
        return padded_pool(padded, used, torch.tensor(step, dtype=x.dtype, device=x.device))

    return pool


def repair_memory_growth(
    model: Callable[[torch.Tensor], torch.Tensor],
    loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    batches: Iterable[tuple[torch.Tensor, torch.Tensor]],
) -> float:
    """`mean_loss` of model_slow.py in memory that does not grow with the number of batches.

    batches: any iterable, read once. Returns the mean of the losses of all batches as a float, each
    batch counting the same.

    No graph for a backward pass is built: neither `model` nor `loss` is called with gradients
    enabled. When a batch is read, nothing of the batches before the last one is alive, inputs, results
    and losses: what is kept is a sum. A number is read from the device once, at the end. Whether
    gradients are enabled is afterwards as it was before, after an exception too.
    Raises ValueError if there is no batch.
    """
    count = 0
    total: torch.Tensor | None = None
    with torch.no_grad():
        for inputs, targets in batches:
            part = loss(model(inputs), targets)
            total = part if total is None else total + part
            count += 1
    if total is None:
        raise ValueError("there is no batch to take the mean of")
    return total.item() / count


def capture_step(
    cuda: Any,
    step: Callable[[torch.Tensor], torch.Tensor],
    example: torch.Tensor,
    state: Sequence[torch.Tensor] = (),
    warm_up: int = 3,
) -> Callable[[torch.Tensor], torch.Tensor]:
    """Put a step into a CUDA graph: the host then issues one call, however many kernels it has.

    cuda: `torch.cuda`, or without a GPU a stand-in for it with Stream, stream, current_stream,
    CUDAGraph and graph, that records what a capture would and plays it back on the same addresses.
    step: takes one tensor and returns one. It may change the tensors in `state`, in place (say,
    parameters and an optimizer's buffers), and nothing else.
    example: an input; shape, dtype and device of all that follow. It is left as it is.

    Before the capture `step` runs `warm_up` times on a stream that is not the current one, after that
    stream was told to wait for the current one, and the current one then waits for it (source: "CUDA
    Graphs" in PyTorch's "CUDA semantics"). Then it runs once under `cuda.graph`. All of these calls get
    a tensor of your own, always the same one: a graph replays addresses, not values. In the end the
    tensors in `state` hold what they held before the call.

    Returns a function of one input that replays the graph for it, without calling `step`, and returns
    the result as a new tensor: results of earlier calls stay as they are.
    Raises ValueError if warm_up is less than 1; the returned function does if the input's shape, dtype
    or device is not the example's (the message names both), before anything is replayed.
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

    step, example: as in capture_step, on the GPU; the step changes nothing.

    Returns "before_ns" and "after_ns", times of one call of `step` and of one replay, and "ratio",
    before over after. A time is the median of 5 measurements, taken in turns (before, after, before,
    …), after 3 calls of each that are not measured; a measurement is the time between two CUDA events
    around 20 calls, divided by 20.
    """
    replay = capture_step(torch.cuda, step, example)
    return _measured(lambda: step(example), lambda: replay(example))


def optimized_model(slow: nn.Module) -> nn.Module:
    """`SlowModel` of model_slow.py with less work in a forward and backward pass.

    slow: a SlowModel, of any vocabulary, width, number of heads and layers. Returns a module that is
    called in the same way, on any batch and number of tokens up to `longest`, and gives the same
    scores and, for all parameters of `slow`, the same gradients, within rounding (2e-5 of the largest). It
    computes with these very parameters, not with copies: what an optimizer does to them counts in the
    next call. `slow` itself is not changed.

    Counted over one forward and backward pass, against `slow`: at most 25 % of the operators, 30 % of
    the bytes that operators read and write, 60 % of the floating-point operations, and no number read
    from the device. (Operators are what PyTorch dispatches, views not counted; a matrix product of
    [m, k] and [k, n] is 2·m·k·n operations.) Results are not kept from one call to the next.
    """
    return _Optimized(slow)


class _Optimized(nn.Module):
    def __init__(self, slow: Any) -> None:
        super().__init__()
        self.slow = slow

    def forward(self, tokens: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        slow: Any = self.slow
        count = tokens.shape[1]
        x = F.embedding(tokens, slow.embedding) + slow.position[:count]
        mask = torch.arange(count, device=tokens.device) < lengths[:, None]
        mask = mask[:, None, None, :]
        for layer in slow.layers:
            x = _layer(layer, x, mask)
        last = (lengths - 1)[:, None, None].expand(-1, 1, x.shape[-1])
        return slow.head(x.gather(1, last).squeeze(1))


def _layer(layer: Any, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    batch, count, width = x.shape
    shape = (batch, count, layer.heads, width // layer.heads)
    normal = F.layer_norm(x, (width,), layer.gain_1, layer.bias_1)
    query, key, value = (
        part(normal).view(shape).transpose(1, 2) for part in (layer.query, layer.key, layer.value)
    )
    mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
    x = x + layer.out(mixed.transpose(1, 2).reshape(batch, count, width))
    normal = F.layer_norm(x, (width,), layer.gain_2, layer.bias_2)
    return x + layer.down(F.gelu(layer.up(normal), approximate="tanh"))


def optimized_model_live(
    slow: nn.Module, tokens: torch.Tensor, lengths: torch.Tensor
) -> dict[str, float]:
    """What the optimized model saves on this machine's GPU, forward and backward.

    slow: a SlowModel on the GPU. tokens, lengths: a batch, on the GPU. One call computes the scores and
    the gradients of their sum, and takes the gradients away again.

    Returns "before_ns", "after_ns" and "ratio" as capture_step_live does, measured in the same way, with
    3 calls in a measurement. A ratio of at least 3 is asked for on the batches of the check.
    """
    fast = optimized_model(slow)

    def call(model: nn.Module) -> None:
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
