"""What is run beside the learner's `model_optimized.py`: spies, counters, a stand-in for CUDA graphs.

Every function takes the learner's module first, and gives plain values that the checks judge.
"""

from __future__ import annotations

import contextlib
import copy
import gc
import io
import logging
import statistics
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from profiling_lab.mine.functions import load_once

HERE = Path(__file__).resolve().parent
SLOW = HERE.parents[3] / "week07" / "day3_pytorch_profiler" / "model_slow.py"


torch.set_num_threads(1)  # small tensors: more threads only wait for each other


counted_work = load_once(HERE / "counted_work.py", "grading_probe_counted_work")
stand_in = load_once(HERE / "graph_stand_in.py", "grading_probe_graph_stand_in")
slow_programs = load_once(SLOW, "grading_probe_model_slow")


@contextlib.contextmanager
def _fresh_dynamo() -> Iterator[None]:
    """TorchDynamo without anything compiled, and without its log."""
    import torch._dynamo

    log = logging.getLogger("torch._dynamo")
    level = log.level
    log.setLevel(logging.CRITICAL)
    torch._dynamo.reset()
    try:
        yield
    finally:
        log.setLevel(level)
        torch._dynamo.reset()


def _plain(tensor: torch.Tensor | None) -> Any:
    return None if tensor is None else tensor.detach().double().cpu().numpy()


# -- graph breaks -----------------------------------------------------------------------------------


def check_of_repair_graph_breaks(
    module: ModuleType, watched: str, seed: int, rows: int, inputs: int, outputs: int
) -> dict[str, Any]:
    """Of the learner's code on seven inputs, beside what is expected, what is `watched`.

    "results" with gradients, "reads", or "graphs": breaks, graphs, results of what was compiled.
    """
    import torch._dynamo

    generator = torch.Generator().manual_seed(seed)
    weight = torch.randn(inputs, outputs, generator=generator)
    weight[0] = weight[0].abs() + 0.1
    base = torch.randn(rows, inputs, generator=generator)
    largest = float(torch.relu(base @ weight).max())
    limit = 0.5 * largest if largest > 0 else 1.0
    dead = base.clone()
    dead[0] = 0.0
    cut = base.clone()
    cut[1] = 0.0
    cut[1, 0] = -2.0  # all its products are negative
    alone = torch.zeros_like(base)
    alone[-1] = base[int(torch.relu(base @ weight).sum(dim=1).argmax())]
    cases = {
        "nothing is scaled": base * (0.9 * limit / max(largest, 1e-6)),
        "scaled": base,
        "scaled, a row all zero": dead * 2,
        "scaled, a row that relu makes zero": cut,
        "small numbers": base * 1e-3,
        "one row used": alone,
        "all rows zero": torch.zeros_like(base),
    }
    out: dict[str, Any] = {"limit": limit, "cases": {}, "reads": []}
    if watched == "reads":
        for name, x in cases.items():
            out["cases"][name] = {}
            _, work = counted_work.count(
                lambda x=x: module.repair_graph_breaks(x.clone(), weight.clone(), limit)
            )
            out["reads"] += work["reads"]
        return out
    expect, repaired = slow_programs.clipped_mean, module.repair_graph_breaks
    for name, x in cases.items():
        out["cases"][name] = {"expected": _with_gradients(expect, x, weight, limit)}
    if watched == "results":
        for name, x in cases.items():
            out["cases"][name]["found"] = _with_gradients(repaired, x, weight, limit)
        tiny = base * (1e-5 / max(largest, 1e-6)), weight, 5e-6
        precise = alone.double(), weight.double(), limit
        for name, given in (
            ("scaled, all numbers below 0.00001", tiny),
            ("one row used, float64", precise),
        ):
            out["cases"][name] = {
                "expected": _with_gradients(expect, *given),
                "found": _with_gradients(repaired, *given),
            }
        return out

    graphs: list[int] = []

    def backend(graph: torch.fx.GraphModule, _: list[torch.Tensor]) -> Callable[..., Any]:
        graphs.append(len(graph.graph.nodes))
        return graph.forward

    with _fresh_dynamo(), contextlib.redirect_stdout(io.StringIO()):
        explained = torch._dynamo.explain(module.repair_graph_breaks)(base, weight, limit)
        out["breaks"] = explained.graph_break_count
        out["at"] = [reason.user_stack[-1].line for reason in explained.break_reasons]
        torch._dynamo.reset()
        compiled = torch.compile(module.repair_graph_breaks, backend=backend, dynamic=False)
        for name, x in cases.items():
            mean, top = compiled(x, weight, limit)
            out["cases"][name]["compiled"] = [_plain(mean), _plain(top)]
    out["graphs"] = len(graphs)
    return out


def _with_gradients(
    function: Callable[..., Any], x: torch.Tensor, weight: torch.Tensor, limit: float
) -> dict[str, Any]:
    x, weight = x.clone().requires_grad_(), weight.clone().requires_grad_()
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        mean, largest = function(x, weight, limit)
    found: dict[str, Any] = {
        "printed": printed.getvalue(),
        "types": [type(mean).__name__, type(largest).__name__],
        "dtypes": [str(getattr(value, "dtype", "")) for value in (mean, largest)],
        "mean": _plain(mean) if isinstance(mean, torch.Tensor) else None,
        "largest": _plain(largest) if isinstance(largest, torch.Tensor) else None,
        "needs_graph": isinstance(largest, torch.Tensor) and largest.requires_grad,
    }
    if isinstance(mean, torch.Tensor) and mean.requires_grad:
        (mean * torch.arange(1.0, mean.numel() + 1)).sum().backward()
    for name, tensor in (("x", x), ("weight", weight)):
        gradient = tensor.grad if tensor.grad is not None else torch.zeros_like(tensor)
        found[f"gradient of {name}"] = _plain(gradient)
    return found


# -- recompilation ----------------------------------------------------------------------------------


PRODUCTS = {"mv", "mm", "bmm", "addmv", "dot"}
SOFTMAX = {"_softmax", "_safe_softmax", "_log_softmax", "exp"}


def check_of_repair_recompilations(
    module: ModuleType, seed: int, buckets: list[int], rows: list[int], width: int
) -> dict[str, Any]:
    """Call the learner's pooling with each number of rows in turn; compilations, runs, results.

    Later calls repeat the rows and the step of the first ones, with other numbers. The last two calls are two rows,
    one of them all zeros, and one row whose score is far below that of a row of zeros.
    """
    generator = torch.Generator().manual_seed(seed)
    query = torch.randn(width, generator=generator).requires_grad_()
    compilations: list[list[list[int]]] = []
    ran: list[str] = []
    sizes: list[int] = []
    handed_over = 0

    def backend(graph: torch.fx.GraphModule, examples: list[Any]) -> Callable[..., Any]:
        shapes = [list(item.shape) for item in examples if isinstance(item, torch.Tensor)]
        compilations.append(shapes)

        def run(*args: Any) -> Any:
            operators = counted_work._Operators()
            with operators:
                result = graph.forward(*args)
            ran.extend(operators.names)
            given = [arg for arg in args if isinstance(arg, torch.Tensor)]
            sizes.extend(arg.shape[0] for arg in given if list(arg.shape[1:]) == [width])
            return result

        return run

    def compile_function(function: Callable[..., Any] | None = None, **_: Any) -> Any:
        nonlocal handed_over
        if function is None:
            return compile_function
        handed_over += 1
        return torch.compile(function, backend=backend, dynamic=False)

    calls = []
    with _fresh_dynamo():
        pool = module.repair_recompilations(query, buckets, compile_function)
        with torch.no_grad():
            low = -1e35 * query / (query @ query)
        drawn = [
            (step, torch.randn(count, width, generator=generator) * 2)
            for step, count in [*enumerate(rows), *enumerate(rows[:3])]
        ]
        zero_row = torch.cat([torch.zeros(1, width), torch.randn(1, width, generator=generator)])
        for step, x in [*drawn, (0, zero_row), (0, low[None])]:
            count = len(x)
            mine, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
            expected = slow_programs.pool(mine, query, step)
            before = len(ran)
            sizes.clear()
            result = pool(theirs, step)
            sizes_now = list(sizes)
            of_query = []
            for value in (expected, result):
                query.grad = None
                with contextlib.suppress(RuntimeError):  # a graph that was given back before
                    (value * torch.arange(1.0, width + 1)).sum().backward()
                of_query.append(_plain(query.grad))
            ran_now = ran[before:]
            calls.append(
                {
                    "rows": count,
                    "step": step,
                    "zero_row": not bool(x.any(dim=1).all()),
                    "low": float((x @ query.detach()).min()) < -1e34,
                    "sizes": sizes_now,
                    "expected": _plain(expected),
                    "found": _plain(result),
                    "expected gradient": _plain(mine.grad),
                    "found gradient": _plain(theirs.grad),
                    "expected gradient of query": of_query[0],
                    "found gradient of query": of_query[1],
                    "compiled": not SOFTMAX.isdisjoint(ran_now)
                    and not PRODUCTS.isdisjoint(ran_now),
                }
            )
    return {"compilations": compilations, "handed_over": handed_over, "calls": calls}


def outside_of_repair_recompilations(module: ModuleType, rows: int, width: int) -> list[str]:
    """Scores, softmax and products that run outside of what was handed to compile_function."""
    inside, everything = counted_work._Operators(), counted_work._Operators()

    def compile_function(function: Callable[..., Any] | None = None, **_: Any) -> Any:
        if function is None:
            return compile_function

        def run(*args: Any, **more: Any) -> Any:
            with inside:
                return function(*args, **more)

        return run

    pool = module.repair_recompilations(torch.ones(width), [rows + 1], compile_function)
    with everything:
        pool(torch.ones(rows, width), 1)
    outside = Counter(everything.names) - Counter(inside.names)
    return sorted(outside.keys() & (PRODUCTS | SOFTMAX | {"div"}))


# -- memory that grows ------------------------------------------------------------------------------


class _Once:
    """Batches that can be read once, like a generator's; the second time it says so."""

    def __init__(self, batches: Iterator) -> None:
        self.batches: Iterator | None = batches

    def __iter__(self) -> Iterator:
        batches, self.batches = self.batches, None
        if batches is None:
            raise RuntimeError("batches may be a generator: read it once")
        return batches


def _bytes(held: object) -> int:
    return held.untyped_storage().nbytes() if type(held) is torch.Tensor else 0


def check_of_repair_memory_growth(
    module: ModuleType, seed: int, batches: int, grad_before: bool, fail_at: int | None = None
) -> dict[str, Any]:
    """Evaluate batches of several sizes; what stayed alive, whether graphs were built, what was read."""
    generator = torch.Generator().manual_seed(seed)
    weight = torch.randn(5, 3, generator=generator, requires_grad=True)
    data = [
        (torch.randn(2 + n % 4, 5, generator=generator), torch.randn(1, generator=generator))
        for n in range(batches)
    ]
    graphs: list[str] = []
    born: list[list[weakref.ref]] = []
    alive: list[int] = []
    held_bytes: list[int] = []

    def model(inputs: torch.Tensor) -> torch.Tensor:
        result = torch.tanh(inputs @ weight)
        if result.requires_grad or torch.is_grad_enabled():
            graphs.append("model")
        born[-1].append(weakref.ref(result))
        return result

    def loss(result: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        if fail_at is not None and len(born) > fail_at:
            raise ArithmeticError("the loss is not finite")
        value = ((result - target) ** 2).mean() * len(result)
        if value.requires_grad or torch.is_grad_enabled():
            graphs.append("loss")
        born[-1].append(weakref.ref(value))
        return value

    def read() -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        for inputs, target in data:
            # Variables of a loop still hold the last batch; anything older was kept.
            alive.append(sum(ref() is not None for refs in born[:-1] for ref in refs))
            held_bytes.append(sum(map(_bytes, gc.get_objects())))
            inputs, target = inputs.clone(), target.clone()
            born.append([weakref.ref(inputs), weakref.ref(target)])
            yield inputs, target
            del inputs, target

    before = torch.is_grad_enabled()
    raised, value = None, None
    work: dict[str, Any] = {"reads": []}
    try:
        torch.set_grad_enabled(grad_before)
        gc.freeze()  # what is there already is not counted
        try:
            value, work = counted_work.count(
                lambda: module.repair_memory_growth(model, loss, _Once(read()))
            )
        except ArithmeticError as error:
            raised = str(error)
        after = torch.is_grad_enabled()
    finally:
        gc.unfreeze()
        torch.set_grad_enabled(before)
    with torch.no_grad():
        parts = [float(((torch.tanh(x @ weight) - t) ** 2).mean() * len(x)) for x, t in data]
    return {
        "value": value if isinstance(value, int | float) else f"a {type(value).__name__}",
        "expected": statistics.fmean(parts) if parts else None,
        "weighted": sum(p * len(x) for p, (x, _) in zip(parts, data, strict=True))
        / max(sum(len(x) for x, _ in data), 1),
        "sum": sum(parts),
        "alive": alive,
        "held_bytes": held_bytes,
        "graphs": graphs,
        "reads": work["reads"],
        "grad_after": after,
        "raised": raised,
    }


# -- CUDA graphs ------------------------------------------------------------------------------------


class _Steps:
    """Steps to capture; `calls` counts calls, whoever makes them."""

    def __init__(self, kind: str, width: int, generator: torch.Generator, device: str) -> None:
        self.kind = kind
        self.weight = torch.randn(width, width, generator=generator).to(device) / width**0.5
        self.mean = torch.zeros(width, device=device)
        self.state = {"plain": [], "statistics": [self.mean], "training": [self.weight]}[kind]
        if kind == "training":
            self.weight.requires_grad_()
        self.note: Callable[[torch.Tensor], None] | None = None

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        if self.note is not None:
            self.note(x)
        if self.kind == "training":
            loss = ((x @ self.weight) ** 2).mean()
            (gradient,) = torch.autograd.grad(loss, self.weight)
            with torch.no_grad():
                self.weight -= 0.1 * gradient
            return loss.detach()
        y = torch.relu(x @ self.weight).T.contiguous().T
        if self.kind == "statistics":
            self.mean.mul_(0.5).add_(x.mean(dim=0))
            y = y + self.mean
        for _ in range(3):
            y = torch.cat([y[:, 1:], y[:, :1]], dim=1) * 1.01
        return y


def check_of_capture_step(
    module: ModuleType,
    seed: int,
    kind: str,
    rows: int,
    width: int,
    warm_up: int,
    live: bool = False,
) -> dict[str, Any]:
    """Capture a step, replay it on fresh inputs; what was asked of CUDA, and the results."""
    device = "cuda" if live else "cpu"
    generator = torch.Generator().manual_seed(seed)
    steps = _Steps(kind, width, generator, device)
    oracle = copy.deepcopy(steps)
    example = torch.randn(rows, width, generator=generator).to(device)
    inputs = [torch.randn(rows, width, generator=generator).to(device) for _ in range(4)]
    example_before = example.clone()
    state_before = [tensor.detach().clone() for tensor in steps.state]

    cuda: Any = torch.cuda if live else stand_in.StandIn(counted_work)
    calls = 0

    def note(x: torch.Tensor) -> None:
        nonlocal calls
        calls += 1
        if not live:
            cuda.step_called(x.data_ptr())

    steps.note = note
    given = () if warm_up is None else (warm_up,)
    replay = module.capture_step(cuda, steps, example, steps.state, *given)
    calls_before = calls
    state_after = [_plain(tensor) for tensor in steps.state]
    log_before = [] if live else [list(entry) for entry in cuda.log]
    results, kept = [], []
    for x in inputs:
        result = replay(x)
        kept.append(result)
        results.append({"found": _plain(result), "expected": _plain(oracle(x))})
    for result, tensor in zip(results, kept, strict=True):
        result["later"] = _plain(tensor)
    return {
        "log": log_before,
        "example_address": str(example.data_ptr()),
        "example_kept": bool(torch.equal(example, example_before)),
        "state_before": [_plain(tensor) for tensor in state_before],
        "state_after": state_after,
        "state_in_the_end": [_plain(tensor) for tensor in steps.state],
        "state_expected": [_plain(tensor) for tensor in oracle.state],
        "calls_before": calls_before,
        "calls_while_replaying": calls - calls_before,
        "replays": None if live else sum(entry[0] == "replay" for entry in cuda.log),
        "results": results,
    }


def bad_input_of_capture_step(module: ModuleType, what: str) -> int:
    """Capture with a bad argument, or replay with a bad input; the number of replays, if it returns."""
    cuda = stand_in.StandIn(counted_work)
    warm_up = {"no warm-up": 0, "negative warm-up": -2}.get(what, 1)
    replay = module.capture_step(cuda, lambda x: x * 2.0, torch.ones(4, 3), (), warm_up)
    bad = {
        "one row": torch.ones(1, 3),
        "more rows": torch.ones(5, 3),
        "no rows dimension": torch.ones(3),
        "double": torch.ones(4, 3, dtype=torch.float64),
        "whole numbers": torch.ones(4, 3, dtype=torch.int64),
        "another device": torch.ones(4, 3, device="meta"),
    }
    try:
        replay(bad[what])
    except ValueError:
        if any(entry[0] == "replay" for entry in cuda.log):
            raise RuntimeError("the graph was replayed before the input was refused") from None
        raise
    return sum(entry[0] == "replay" for entry in cuda.log)


# -- the model --------------------------------------------------------------------------------------


def _model(seed: int, shape: dict[str, int], device: str = "cpu") -> Any:
    torch.manual_seed(seed)
    model = slow_programs.SlowModel(
        shape["vocabulary"], shape["width"], shape["heads"], shape["layers"]
    )
    with torch.no_grad():  # gains and biases of their own, so that a missing one shows
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) * 0.1)
    return model.to(device)


def _batch(
    generator: torch.Generator, shape: dict[str, int], batch: int, tokens: int, device: str = "cpu"
) -> tuple[torch.Tensor, torch.Tensor]:
    lengths = torch.randint(1, tokens + 1, (batch,), generator=generator)
    lengths[0] = tokens
    values = torch.randint(shape["vocabulary"], (batch, tokens), generator=generator)
    return values.to(device), lengths.to(device)


def _pass(model: Any, slow: Any, batch: tuple[torch.Tensor, torch.Tensor]) -> Any:
    """Forward and backward; scores and the gradients of the slow model's parameters."""
    for parameter in slow.parameters():
        parameter.grad = None
    scores = model(*batch)
    factors = torch.linspace(-1.0, 1.0, scores.shape[-1], device=scores.device)
    try:
        (torch.log_softmax(scores, dim=-1) * factors).sum().backward()
    except RuntimeError as error:
        if "a second time" in str(error):
            raise RuntimeError("optimized_model keeps a result for a later call") from None
        raise
    return scores.detach(), {name: p.grad for name, p in slow.named_parameters()}


def _state(slow: Any) -> dict[str, Any]:
    """What is to stay: the mode of each module, the numbers and the gradient of each parameter."""
    kept: dict[str, Any] = {f"{n or 'slow'}.training": m.training for n, m in slow.named_modules()}
    for name, p in slow.named_parameters():
        kept[name] = p.detach().numpy().tobytes()
        kept[f"{name}.grad"] = None if p.grad is None else p.grad.numpy().tobytes()
    return kept


def check_of_optimized_model(
    module: ModuleType,
    seed: int,
    shape: dict[str, int],
    batches: list[list[int]],
    small: float = 1.0,
) -> dict[str, Any]:
    """Both models on batches [batch, tokens] one after the other: results, gradients.

    small: a factor for what the first layer reads.
    """
    slow = _model(seed, shape)
    with torch.no_grad():
        slow.embedding.mul_(small)
        slow.position.mul_(small)
        for parameter in slow.parameters():
            parameter.grad = torch.ones_like(parameter)
    before = _state(slow)
    fast = module.optimized_model(slow)
    fast(torch.zeros(2, 3, dtype=torch.int64), torch.tensor([3, 2]))
    after = _state(slow)
    changed = [name for name in before | after if before.get(name) != after.get(name)]
    generator = torch.Generator().manual_seed(seed + 1)
    out: dict[str, Any] = {"changed": changed, "batches": []}
    for number, (size, tokens) in enumerate(batches):
        if number == len(batches) - 1:
            with torch.no_grad():  # an optimizer's step
                for parameter in slow.parameters():
                    parameter.mul_(0.8)
        batch = _batch(generator, shape, size, tokens)
        expected, gradients = _pass(slow, slow, batch)
        kept = [tensor.clone() for tensor in batch]
        found, own = _pass(fast, slow, batch)
        for name, tensor, old in zip(("tokens", "lengths"), batch, kept, strict=True):
            if not torch.equal(tensor, old) and name not in changed:
                changed.append(name)
        worst = []
        for name, gradient in gradients.items():
            other = own[name]
            scale = float(gradient.abs().max())
            if other is None:
                worst.append([name, None, scale])
            else:
                worst.append([name, float((gradient - other).abs().max()), scale])
        out["batches"].append(
            {
                "batch": size,
                "tokens": tokens,
                "lengths": batch[1].tolist(),
                "updated": number == len(batches) - 1,
                "expected": _plain(expected),
                "found": _plain(found),
                "gradients": worst,
            }
        )
    return out


def work_of_optimized_model(
    module: ModuleType, seed: int, shape: dict[str, int], batch: int, tokens: int
) -> dict[str, Any]:
    """What one forward and backward pass of either model does, and how their times compare."""
    slow = _model(seed, shape)
    fast = module.optimized_model(slow)
    generator = torch.Generator().manual_seed(seed + 2)
    _pass(fast, slow, _batch(generator, shape, batch, tokens))  # what is prepared once is prepared
    given = _batch(generator, shape, batch, tokens)
    _, before = counted_work.count(lambda: _pass(slow, slow, given))
    _, after = counted_work.count(lambda: _pass(fast, slow, given))
    times: dict[str, list[float]] = {"before": [], "after": []}
    for _ in range(3):
        for name, model in (("before", slow), ("after", fast)):
            start = time.perf_counter()
            _pass(model, slow, given)
            times[name].append(time.perf_counter() - start)
    return {
        "before": {key: value for key, value in before.items() if key != "names"},
        "after": {key: value for key, value in after.items() if key != "names"},
        "lengths": given[1].tolist(),
        "ratio": statistics.median(times["before"]) / statistics.median(times["after"]),
    }


# -- another device ---------------------------------------------------------------------------------


class _OneDevice(TorchDispatchMode):
    """Objects where an operator gets a tensor of the host beside others: each call would copy it."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = counted_work.tensors([args, kwargs])
        name = func.overloadpacket.__name__
        of_host = any(t.device.type == "cpu" and t.dim() for t in given)
        if of_host and len({tensor.device for tensor in given}) > 1:
            raise RuntimeError(f"{name} gets tensors that are not on the same device.")
        if of_host and name == "_to_copy":
            raise RuntimeError(
                "each call copies a tensor of the host, which is not on the same device (an index that is a list or "
                "range is copied, too)."
            )
        return func(*args, **(kwargs or {}))


def device_error(module: ModuleType, function: str) -> str | None:
    """What PyTorch objects to if a repair gets tensors of a GPU: fake ones, which have devices and no numbers."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    def as_it_is(function: Callable[..., Any] | None = None, **_: Any) -> Any:
        if function is None:
            return as_it_is

        def run(*args: Any, **more: Any) -> Any:
            if any(t.device.type == "cpu" for t in counted_work.tensors([args, more])):
                raise RuntimeError(
                    "the compiled function gets tensors that are not on the same device."
                )
            return function(*args, **more)

        return run

    repair = getattr(module, function)
    with FakeTensorMode():
        with torch.device("cuda"):
            matrix, row, tokens = torch.empty(3, 3), torch.empty(3), torch.ones(3, 3).long()
            slow = slow_programs.SlowModel(vocabulary=9, width=4, heads=2, layers=1)
        calls: dict[str, Callable[[], Any]] = {
            "repair_graph_breaks": lambda: repair(matrix, matrix, 1.0),
            "repair_recompilations": lambda: repair(row, [8, 4], as_it_is)(matrix, 0),
            "repair_memory_growth": lambda: repair(torch.tanh, torch.dot, [(row, row)] * 2),
            "optimized_model": lambda: repair(slow)(tokens, tokens[0]),
        }
        try:
            with _OneDevice():
                calls[function]()
        except (AssertionError, RuntimeError, TypeError, ValueError) as error:
            message = str(error).partition("\n")[0]
            return message if "same device" in message or "wrong device" in message else None
    return None


# -- live -------------------------------------------------------------------------------------------


def _measured(before: Callable[[], Any], after: Callable[[], Any], calls: int = 20) -> dict:
    """Medians of five interleaved measurements, ns a call, by CUDA events."""
    found: dict[str, list[float]] = {"before_ns": [], "after_ns": []}
    for run in (before, after):
        for _ in range(3):
            run()
    torch.cuda.synchronize()
    for _ in range(5):
        for name, run in (("before_ns", before), ("after_ns", after)):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            for _ in range(calls):
                run()
            end.record()
            end.synchronize()
            found[name].append(start.elapsed_time(end) * 1e6 / calls)
    return {name: statistics.median(values) for name, values in found.items()}


def check_of_capture_step_live(module: ModuleType, seed: int) -> dict[str, Any]:
    """A step of many small kernels on this machine's GPU, as it is and in a graph."""
    generator = torch.Generator().manual_seed(seed)
    weights = [torch.randn(256, 256, generator=generator).cuda() / 16 for _ in range(40)]

    def step(x: torch.Tensor) -> torch.Tensor:
        for weight in weights:
            x = torch.tanh(x @ weight) + x
        return x

    example = torch.randn(16, 256, generator=generator).cuda()
    replay = module.capture_step(torch.cuda, step, example)
    fresh = torch.randn(16, 256, generator=generator).cuda()
    first = _measured(lambda: step(fresh), lambda: replay(fresh))
    claimed = module.capture_step_live(step, example)
    second = _measured(lambda: step(fresh), lambda: replay(fresh))
    error = float((replay(fresh) - step(fresh)).abs().max())
    return {
        "claimed": claimed,
        "found": [first, second],
        "error": error,
        "scale": float(step(fresh).abs().max()),
    }


def check_of_optimized_model_live(module: ModuleType, seed: int) -> dict[str, Any]:
    """Both models on this machine's GPU."""
    shape = {"vocabulary": 8192, "width": 512, "heads": 8, "layers": 4}
    slow = _model(seed, shape, "cuda")
    fast = module.optimized_model(slow)
    batch = _batch(torch.Generator().manual_seed(seed), shape, 16, 128, "cuda")

    def timed() -> dict:
        return _measured(
            lambda: _pass(slow, slow, batch), lambda: _pass(fast, slow, batch), calls=3
        )

    first = timed()
    claimed = module.optimized_model_live(slow, *batch)
    second = timed()
    expected, gradients = _pass(slow, slow, batch)
    found, own = _pass(fast, slow, batch)
    worst = max(
        float((own[name] - gradient).abs().max()) / max(float(gradient.abs().max()), 1e-12)
        for name, gradient in gradients.items()
    )
    return {
        "claimed": claimed,
        "found": [first, second],
        "error": float((found - expected).abs().max()),
        "scale": float(expected.abs().max()),
        "gradient_error": worst,
    }
