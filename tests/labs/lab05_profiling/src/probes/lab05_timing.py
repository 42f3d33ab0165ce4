"""Runs the timing functions of Lab 05 beside the learner's code, on a clock that moves only by work.

The machine has a host and a device. Work on the host moves the clock; work that is issued to the
device is done in order, while the host goes on; waiting moves the clock to the end of what was waited
for. So the time that a benchmark should find is known exactly.
"""

from __future__ import annotations

import contextlib
import types
import warnings
from collections.abc import Iterator
from types import ModuleType
from typing import Any
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode

KINDS = ("plain", "cuda result", "cuda argument", "cuda behind", "cuda other", "jax")


DEVICE, IS_CUDA = (getattr(torch.Tensor, name).__get__ for name in ("device", "is_cuda"))


class OnDevice(torch.Tensor):
    """A tensor that says it is on a CUDA device, while `Devices` is active."""

    number = 0


class Devices(TorchFunctionMode):
    """Answers where a tensor is."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if args and isinstance(args[0], OnDevice):
            if func == DEVICE:
                return torch.device("cuda", args[0].number)
            if func == IS_CUDA:
                return True
            if func == torch.Tensor.get_device:
                return args[0].number
        return func(*args, **(kwargs or {}))


def on_device(number: int = 0) -> torch.Tensor:
    """A small tensor on the device of this number."""
    tensor = torch.ones(2).as_subclass(OnDevice)
    tensor.number = number
    return tensor


class Machine:
    """log: what happened, in order: "call", "wait", "clock", "flush"."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.ready = 0.0
        self.log: list[str] = []
        self.number = 0  # of the CUDA device; 0 is the current one

    def work(self, seconds: float) -> None:
        """The host works."""
        self.now += seconds

    def issue(self, seconds: float) -> float:
        """The device works when it has done what came before; when it will have done this."""
        self.ready = max(self.ready, self.now) + seconds
        return self.ready

    def wait(self, until: float | None = None) -> None:
        """The host waits for the device, or for one moment of it."""
        self.log.append("wait")
        self.now = max(self.now, self.ready if until is None else until)

    def clock(self) -> float:
        self.log.append("clock")
        return self.now


class Array:
    """What JAX returns: there at once, with numbers in it later."""

    def __init__(self, machine: Machine, ready: float) -> None:
        self._machine, self._ready = machine, ready

    def block_until_ready(self) -> Array:
        """Wait for this array alone."""
        self._machine.wait(self._ready)
        return self


@contextlib.contextmanager
def running(machine: Machine, module: ModuleType, cuda: bool) -> Iterator[None]:
    """The machine's clock in place of time's; with cuda, torch's waiting is the machine's."""

    def clock_ns() -> int:
        return round(machine.clock() * 1e9)

    def wait(device: Any = None) -> None:
        number = device if isinstance(device, int) else device and torch.device(device).index
        if (number or 0) == machine.number:
            machine.wait()
        else:
            machine.log.append("wait for an idle device")

    with contextlib.ExitStack() as stack:
        for name, clock in (("perf_counter", machine.clock), ("perf_counter_ns", clock_ns)):
            stack.enter_context(mock.patch(f"time.{name}", clock))
            if hasattr(module, name):
                stack.enter_context(mock.patch.object(module, name, clock))
        if cuda:
            stack.enter_context(Devices())
        stream = types.SimpleNamespace(synchronize=wait, wait_stream=wait)
        for name, value in (
            ("synchronize", wait),
            ("current_stream", lambda device=None: stream),
            ("default_stream", lambda device=None: stream),
            ("is_available", lambda: cuda),
            ("is_initialized", lambda: cuda),
            ("device_count", lambda: 2 * cuda),
            ("current_device", lambda: 0),
        ):
            stack.enter_context(mock.patch.object(torch.cuda, name, value))
        yield


class Work:
    """The function to time, of one of KINDS, with the times of `plan`:

    host_s: of a call on the host; device_s: list, of call i on the device (or the host, if plain);
    first_s: what the first call takes on the host beyond that.
    """

    def __init__(self, machine: Machine, kind: str, plan: dict[str, Any]) -> None:
        self.machine, self.kind, self.plan = machine, kind, plan
        self.calls = 0
        self.args: tuple[Any, ...] = (3,)
        tensor = on_device()
        self.tensor = tensor
        if kind == "cuda argument":
            self.args = ([tensor],)
        if kind == "cuda other":
            self.tensor, machine.number = on_device(1), 1

    def seconds(self, call: int) -> float:
        """Of call number `call` on the device."""
        return self.plan["device_s"][call % len(self.plan["device_s"])]

    def __call__(self, given: Any) -> Any:
        machine = self.machine
        machine.log.append("call")
        machine.work(self.plan["host_s"] + (self.plan["first_s"] if self.calls == 0 else 0.0))
        seconds = self.seconds(self.calls)
        self.calls += 1
        if self.kind == "plain":
            machine.work(seconds)
            return {"sum": given}
        if self.kind == "jax":
            first = Array(machine, machine.issue(seconds * 0.25))
            last = Array(machine, machine.issue(seconds * 0.5))
            other = Array(machine, machine.issue(seconds * 0.25))
            return {"loss": first, "grads": [(last, {"w": other}), 3]}
        machine.issue(seconds)
        return {"out": [self.tensor]} if self.kind in ("cuda result", "cuda other") else None


def timed(
    module: ModuleType, function: str, kind: str, plan: dict[str, Any], *counts: int
) -> dict[str, Any]:
    """Time work of a kind with a function of the module.

    Returns what it returned, the calls, and the log in short: runs of the same thing as [what, times].
    """
    machine = Machine()
    work = Work(machine, kind, plan)
    with running(machine, module, cuda=kind.startswith("cuda")):
        result = getattr(module, function)(work, work.args, *counts)
    return {"result": result, "calls": work.calls, "log": _short(machine.log)}


def _short(log: list[str]) -> list[list[Any]]:
    short: list[list[Any]] = []
    for what in log:
        if short and short[-1][0] == what:
            short[-1][1] += 1
        else:
            short.append([what, 1])
    return short[:200]


def cold_warm(
    module: ModuleType, plan: dict[str, float], samples: int, lazy: bool = False
) -> dict[str, Any]:
    """cold_and_warm of a call on the device with a cache, and a compilation at the first call.

    plan: first_s (compilation, on the host), host_s, cold_s and warm_s (a call on the device after a
    flush, and after another call), flush_s. Every fourth call of either kind takes ten times as long,
    every fifth half as long; the median of five in a row is right, and of five that alternate.
    lazy: work and flush return arrays of JAX, and there is no CUDA.
    """
    machine = Machine()
    log: list[str] = []
    tensor = on_device()

    def work(given: Any) -> Any:
        kind = "first" if not log else "cold" if log[-1] == "flush" else "warm"
        machine.work(plan["host_s"] + (plan["first_s"] if kind == "first" else 0.0))
        seconds = plan["warm_s" if kind == "warm" else "cold_s"]
        count = -1 if kind == "first" else log.count(kind)
        ready = machine.issue(seconds * (10 if count % 4 == 2 else 0.5 if count % 5 == 3 else 1))
        log.append(kind)
        return [Array(machine, ready)] if lazy else [given]

    def flush() -> Any:
        log.append("flush")
        ready = machine.issue(plan["flush_s"])
        return Array(machine, ready) if lazy else None

    with running(machine, module, cuda=not lazy):
        result = module.cold_and_warm(work, (tensor,), flush, samples)
    return {"result": result, "log": log}


def refused(module: ModuleType, function: str, what: str, counts: list[Any]) -> dict[str, Any]:
    """Call a timing function with bad input; what it raised, and how often it called.

    For cold_and_warm a flush stands before the counts.
    """
    calls: list[str] = []

    def fine(x: Any) -> Any:
        calls.append("call")
        return x

    def generator(x: Any) -> Any:
        yield x

    async def awaitable(x: Any) -> Any:
        return x

    def flush() -> None:
        calls.append("flush")

    fn, args, flushing = {
        "fine": (fine, (1,), flush),
        "a result instead of a function": (fine(1), (1,), flush),
        "a tensor instead of a tuple": (fine, torch.ones(1), flush),
        "too few arguments": (fine, (), flush),
        "too many arguments": (fine, (1, 2), flush),
        "a generator": (generator, (1,), flush),
        "a map": (lambda x: map(fine, [x]), (1,), flush),
        "a coroutine": (awaitable, (1,), flush),
        "no flush": (fine, (1,), None),
    }[what]
    calls.clear()
    more = [flushing] if function == "cold_and_warm" else []
    out: dict[str, Any] = {"raised": None, "message": "", "returned": None}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # coroutines that nobody awaits
        try:
            out["returned"] = repr(getattr(module, function)(fn, args, *more, *counts))[:80]
        except Exception as error:  # noqa: BLE001 -- told to the check
            out |= {"raised": type(error).__name__, "message": str(error)[:300]}
    return {**out, "calls": len(calls)}
