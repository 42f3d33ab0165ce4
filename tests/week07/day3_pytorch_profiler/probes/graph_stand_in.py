"""A stand-in for `torch.cuda` where there is no GPU: streams in name only, and CUDA graphs.

Like the real one, a capture notes operators with the addresses that they read and write, and runs
nothing: what in-place operators did is undone at its end, and what others gave holds NaN until the
first replay. A replay runs the same operators on the same memory. Reading a number on the host
during a capture is an error. Not like the real one, `record` and `wait` order nothing: everything
runs at once, and the log of events tells what was asked for.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

NOT_PERMITTED = "CUDA error: operation not permitted when stream is capturing"


class _Recorder(TorchDispatchMode):
    def __init__(self, graph: _Graph, work: ModuleType) -> None:
        super().__init__()
        self.graph = graph
        self.work = work
        self.before: list[tuple[torch.Tensor, torch.Tensor]] = []
        self.made: list[torch.Tensor] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func.overloadpacket.__name__
        if self.work.reads(name, args):
            raise RuntimeError(f"{NOT_PERMITTED} (aten::{name} reads a number)")
        mutable = func._schema.is_mutable
        given = self.work.tensors([args, kwargs])
        if mutable:
            self.before += [(tensor, tensor.clone()) for tensor in given]
        result = func(*args, **kwargs)
        made = self.work.tensors(result)
        known = {self.work.storage(tensor) for tensor in given}
        if mutable or not all(self.work.storage(tensor) in known for tensor in made):
            self.graph.operators.append((func, args, kwargs, [] if mutable else made))
            if not mutable:
                self.made += made
        return result


class _Graph:
    """What `torch.cuda.CUDAGraph` is."""

    def __init__(self, cuda: StandIn) -> None:
        self._cuda = cuda
        self.operators: list[tuple[Any, Any, Any, list[torch.Tensor]]] = []
        self.captured = False

    def replay(self) -> None:
        if not self.captured:
            raise RuntimeError("called CUDAGraph::replay without a preceding successful capture")
        self._cuda.log.append(("replay",))
        with torch.no_grad():
            for func, args, kwargs, made in self.operators:
                again = self._cuda.work.tensors(func(*args, **kwargs))
                for old, new in zip(made, again, strict=False):
                    old.copy_(new)


class _Stream:
    """What `torch.cuda.Stream` is."""

    def __init__(self, cuda: StandIn, name: str) -> None:
        self._cuda = cuda
        self.name = name

    def wait_stream(self, other: _Stream) -> None:
        self._cuda.log.append(("wait", self.name, other.name))

    def synchronize(self) -> None:
        self._cuda.log.append(("synchronize",))


class StandIn:
    """What `torch.cuda` is, as far as capturing a graph needs it. log: what was asked for, in order.

    work: the module counted_work.
    """

    def __init__(self, work: ModuleType) -> None:
        self.work = work
        self.log: list[tuple[str, ...]] = []
        self.capturing = False
        self._streams = 0
        self._current = _Stream(self, "current")

    def Stream(self, *_: Any, **__: Any) -> _Stream:  # noqa: N802 -- as in torch.cuda
        self._streams += 1
        return _Stream(self, f"side {self._streams}")

    def CUDAGraph(self, *_: Any, **__: Any) -> _Graph:  # noqa: N802 -- as in torch.cuda
        return _Graph(self)

    def current_stream(self, *_: Any) -> _Stream:
        return self._current

    def synchronize(self, *_: Any) -> None:
        if self.capturing:
            raise RuntimeError(NOT_PERMITTED)
        self.log.append(("synchronize",))

    def is_available(self) -> bool:
        return True

    @contextlib.contextmanager
    def stream(self, stream: _Stream) -> Iterator[None]:
        before, self._current = self._current, stream
        try:
            yield
        finally:
            self._current = before

    @contextlib.contextmanager
    def graph(self, graph: _Graph, **_: Any) -> Iterator[None]:
        recorder = _Recorder(graph, self.work)
        self.log.append(("capture",))
        self.capturing = True
        try:
            with recorder:
                yield
        finally:
            self.capturing = False
        self.log.append(("captured",))
        graph.captured = True
        with torch.no_grad():
            for tensor, old in reversed(recorder.before):
                tensor.copy_(old)
            for tensor in recorder.made:
                if tensor.is_floating_point():
                    tensor.fill_(float("nan"))

    def step_called(self, address: int) -> None:
        """Note a call of the step: where it ran, and with which memory."""
        where = "capture" if self.capturing else self._current.name
        self.log.append(("step", where, str(address)))

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"this stand-in for torch.cuda has no {name}; it has Stream, stream, current_stream, "
            "CUDAGraph, graph and synchronize"
        )
