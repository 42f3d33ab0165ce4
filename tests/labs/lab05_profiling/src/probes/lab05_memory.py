"""Runs `measure_memory_usage` beside the learner's code, on functions whose memory is known."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import torch

from profiling_lab.mine.functions import load_once

timing = load_once(Path(__file__).with_name("lab05_timing.py"), "grading_probe_lab05_timing")

MIB_WORDS = (
    "Tried to allocate 96.25 MiB. GPU 0 has a total capacity of 2.00 GiB of which 7.50 MiB is free."
)


def on_cpu(module: ModuleType, what: str, n: int, times: int = 1) -> list[dict[str, Any]]:
    """Measure a function of tensors of `n` floats, `times` times; what came back, inner results too."""
    kept: list[Any] = []
    before = torch.ones(5 * n)
    weight = torch.full((n,), 0.5, requires_grad=True)
    inner: list[Any] = []

    def chain(x: torch.Tensor) -> torch.Tensor:
        return x * 2 + 1

    def freed_on_the_way(x: torch.Tensor) -> torch.Tensor:
        a = torch.zeros(3 * n)
        b = a + 1
        del a
        c = b[:n] + x
        del b
        return torch.cat([c, c])

    def views_and_in_place(x: torch.Tensor) -> torch.Tensor:
        return x.view(2, -1).t().add_(1).flatten()[:3]

    def nothing(x: torch.Tensor) -> torch.Tensor:
        return x.view(-1, 2).t()

    def no_operators(x: torch.Tensor) -> int:
        return 3

    def part_of_a_whole(x: torch.Tensor) -> torch.Tensor:
        return torch.zeros(4 * n)[:1]

    def keeps(x: torch.Tensor) -> None:
        kept.append(x + 1)

    def works_on_what_was_there(x: torch.Tensor) -> None:
        before.mul_(2)
        before[:n].add_(x)

    def saves_for_backward(x: torch.Tensor) -> torch.Tensor:
        return (weight.exp() + x).sin().sum()

    def nested(x: torch.Tensor) -> torch.Tensor:
        a = torch.zeros(2 * n)
        inner.append(module.measure_memory_usage(freed_on_the_way, (x,)))
        b = a + 1
        del a
        return b[: n // 2].clone()

    def result_in_a_dict(x: torch.Tensor) -> dict[str, Any]:
        return {"one": [x + 1, (x + 2,)], "two": 3}

    functions = {
        function.__name__: function
        for function in (
            chain, freed_on_the_way, views_and_in_place, nothing, no_operators, part_of_a_whole, keeps,
            works_on_what_was_there, saves_for_backward, nested, result_in_a_dict,
        )
    }  # fmt: skip
    out = []
    for _ in range(times):
        x = torch.ones(n)
        out.append(module.measure_memory_usage(functions[what], (x,)))
    return [*out, *inner]


class _Allocator:
    """A CUDA device's memory, and the one peak that the driver keeps of it."""

    def __init__(self, before: int) -> None:
        self.now = self.peak = before
        self.calls: list[str] = []

    def allocate(self, size: int) -> None:
        self.now += size
        self.peak = max(self.peak, self.now)

    def reset(self) -> None:
        self.calls.append("reset")
        self.peak = self.now

    @contextlib.contextmanager
    def active(self, of: Callable[..., _Allocator] | None = None) -> Iterator[None]:
        """Install it as the memory of torch.cuda; with `of`, which tells the allocator of a device, those."""
        of = of or (lambda device=None: self)

        def stats(device: Any = None) -> dict[str, int]:
            it = of(device)
            return {"allocated_bytes.all.current": it.now, "allocated_bytes.all.peak": it.peak}

        def reset(device: Any = None) -> None:
            of(device).reset()

        def note(name: str) -> Any:
            return lambda *args: self.calls.append(name)

        with contextlib.ExitStack() as stack:
            stack.enter_context(timing.Devices())
            for name, value in (
                ("memory_allocated", lambda device=None: of(device).now),
                ("max_memory_allocated", lambda device=None: of(device).peak),
                ("reset_peak_memory_stats", reset),
                ("reset_max_memory_allocated", reset),
                ("current_device", lambda: 0),
                ("memory_stats", stats),
                ("empty_cache", note("empty_cache")),
                ("synchronize", note("synchronize")),
                ("is_initialized", lambda: True),
                ("mem_get_info", lambda device=None: (7_864_320, 2**31)),
            ):
                stack.enter_context(mock.patch.object(torch.cuda, name, value))
            yield


def on_cuda(module: ModuleType, before: int, steps: list[list[Any]]) -> dict[str, Any]:
    """Measure a function of allocations on a device where `before` bytes are allocated.

    steps: [bytes] to allocate (negative: to free), or [steps] of a call that is measured in between.
    Returns "results", the innermost calls first, and the "calls" of the allocator.
    """
    allocator = _Allocator(before)
    allocator.peak = before * 3 + 1000  # what an earlier program part left
    tensor = timing.on_device()
    results: list[Any] = []

    def run(some: list[list[Any]]) -> None:
        for step in some:
            if isinstance(step[0], list):
                measure(step)
            else:
                allocator.allocate(step[0])

    def measure(some: list[list[Any]]) -> None:
        results.append(module.measure_memory_usage(lambda given: run(some), ([tensor],)))

    with allocator.active():
        measure(steps)
    return {"results": results, "calls": allocator.calls}


def _two_devices() -> tuple[_Allocator, _Allocator, Callable[..., _Allocator]]:
    """Device 0, the current one, device 1, and what tells which one is meant."""
    current, other = _Allocator(1024), _Allocator(2048)
    other.peak = 10**9

    def of(device: Any = None) -> _Allocator:
        number = device if isinstance(device, int) else device and torch.device(device).index
        return other if number == 1 else current

    return current, other, of


def nested_on_two_devices(module: ModuleType, a: int, b: int, c: int) -> list[dict[str, Any]]:
    """Measure a call on device 0 (a), inside one on device 1 (b for a while, then c after it)."""
    current, other, of = _two_devices()
    inner: list[dict[str, Any]] = []

    def outer(given: Any) -> None:
        other.allocate(b)
        other.allocate(-b)
        inner.append(module.measure_memory_usage(lambda: current.allocate(a), (), "cuda:0"))
        other.allocate(c)

    with current.active(of):
        return [module.measure_memory_usage(outer, (timing.on_device(1),)), *inner]


def on_two_devices(
    module: ModuleType, device: str | None, a: int, b: int, c: int
) -> dict[str, Any]:
    """Measure a call that allocates a, then c for a while, on device 1, and b on device 0."""
    current, other, of = _two_devices()

    def call(given: Any) -> None:
        for allocator, size in ((other, a), (other, c), (current, b), (other, -c)):
            allocator.allocate(size)

    tensors = {"first": [timing.on_device(1)], "second": timing.on_device(0)}
    with current.active(of):
        return module.measure_memory_usage(call, (tensors,), device)


def on_cpu_beside_cuda(module: ModuleType, n: int) -> dict[str, Any]:
    """Measure work of the CPU while one of the arguments is a CUDA tensor."""
    x, tensor = torch.ones(n), timing.on_device()
    with _Allocator(0).active():
        return module.measure_memory_usage(lambda given, there: given + 1, (x, tensor), "cpu")


def raising(module: ModuleType, kind: str, n: int) -> dict[str, Any]:
    """Measure functions that raise, then one that does not; what was raised and what is still alive.

    kind: "value" (a ValueError), "cuda" (torch.OutOfMemoryError), "cpu" (a real allocation that no
    machine has room for), "runtime" (a RuntimeError of another kind).
    """
    made: list[weakref.ref] = []

    def fails(x: torch.Tensor) -> torch.Tensor:
        big = x + 1
        made.append(weakref.ref(big))
        if kind == "value":
            raise ValueError("the batch is empty")
        if kind == "runtime":
            raise RuntimeError("shapes do not fit")
        if kind == "cuda":
            raise torch.OutOfMemoryError(f"CUDA out of memory. {MIB_WORDS}")
        return big + torch.empty(2**58)

    x = torch.ones(n)
    out: dict[str, Any] = {"raised": None, "message": ""}
    try:
        module.measure_memory_usage(fails, (x,))
    except Exception as error:  # noqa: BLE001 -- told to the check
        alive = sum(ref() is not None for ref in made)
        out = {"raised": type(error).__name__, "message": str(error), "alive": alive}
    out["later"] = module.measure_memory_usage(lambda given: given + 1, (x,))
    return out


def raising_on_cuda(module: ModuleType) -> list[Any]:
    """A nested call that raises inside a measured one that goes on, then another measurement."""
    allocator = _Allocator(100)
    tensor = timing.on_device()
    results: list[Any] = []

    def fails(given: Any) -> None:
        allocator.allocate(900)
        allocator.allocate(-900)
        raise ValueError("no")

    def outer(given: Any) -> None:
        allocator.allocate(50)
        with contextlib.suppress(ValueError):
            module.measure_memory_usage(fails, (given,))
        allocator.allocate(10)

    with allocator.active():
        results.append(module.measure_memory_usage(outer, (tensor,)))
        results.append(module.measure_memory_usage(lambda given: allocator.allocate(70), (tensor,)))
    return results


def refused(module: ModuleType, what: str) -> dict[str, Any]:
    """measure_memory_usage with bad input."""
    fn, args, device = {
        "a result instead of a function": (torch.ones(1), (), None),
        "a tensor instead of a tuple": (torch.neg, torch.ones(1), None),
        "too many arguments": (lambda x: x, (1, 2), None),
        "device 'gpu'": (lambda: None, (), "gpu"),
        "device 'mps'": (lambda: None, (), "mps"),
    }[what]
    try:
        result = module.measure_memory_usage(fn, args, device)
    except Exception as error:  # noqa: BLE001 -- told to the check
        return {"raised": type(error).__name__, "message": str(error)}
    return {"raised": None, "message": f"returned {result!r}"}
