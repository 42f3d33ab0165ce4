"""A real GPU with the functions of `profiling_lab.virtual_gpu.Gpu`, so that the same benchmarks run on it.

    import torch
    from profiling_lab.real_gpu import RealGpu

    gpu = RealGpu(lambda x: x + 1, (4 * 2**20,), "float32").gpu

Needs PyTorch and an NVIDIA GPU.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from profiling_lab.virtual_gpu import Gpu

FLUSH_BYTES = 512 * 2**20  # more than eight times the L2 cache of an H200 (devices.toml)
FLUSH_READS = 4


class RealGpu:
    """The GPU that PyTorch uses, doing `work(x)` at each call.

    shape, dtype: of the inputs, which are random numbers or zeros; they are kept as long as the machine.
    Outputs are not: `ok` is true of every output that there is, because a call that fails raises, and
    `evaluate` does nothing, because PyTorch is not lazy. There is one kernel. `flush` reads a large
    buffer some times, which takes half a millisecond on an H200.
    """

    def __init__(self, work: Callable[[Any], Any], shape: tuple[int, ...], dtype: str) -> None:
        import torch

        self._torch, self._work = torch, work
        self._shape, self._dtype = shape, getattr(torch, dtype)
        self._large = torch.ones(FLUSH_BYTES // 4, device="cuda")
        self._sum = torch.zeros((), device="cuda")
        self._inputs: list[Any] = []
        self._events: list[Any] = []
        self._streams: dict[int, Any] = {0: torch.cuda.current_stream()}
        self._calls = 0
        self.gpu = Gpu(
            clock_ns=time.perf_counter_ns,
            random=lambda: self._keep(self._made("randn", "cuda")),
            zeros=lambda: self._keep(self._made("zeros", "cuda")),
            on_host=lambda: self._keep(self._made("randn", "cpu")),
            to_device=lambda input: self._keep(self._inputs[input].cuda()),
            call=self._call,
            ok=lambda output: 0 <= output < self._calls,
            evaluate=lambda output: None,
            sync=torch.cuda.synchronize,
            flush=self._flush,
            record=self._record,
            elapsed_ns=self._elapsed_ns,
        )

    def _made(self, how: str, device: str) -> Any:
        return getattr(self._torch, how)(*self._shape, device=device, dtype=self._dtype)

    def _keep(self, tensor: Any) -> int:
        self._inputs.append(tensor)
        return len(self._inputs) - 1

    def _stream(self, stream: int) -> Any:
        if stream not in self._streams:
            self._streams[stream] = self._torch.cuda.Stream()
        return self._streams[stream]

    def _call(self, input: int, stream: int = 0, kernel: int = 0) -> int:
        if kernel != 0:
            raise ValueError(f"there is no kernel {kernel!r} on this machine")
        with self._torch.cuda.stream(self._stream(stream)):
            self._work(self._inputs[input])
        self._calls += 1
        return self._calls - 1

    def _flush(self) -> None:
        for _ in range(FLUSH_READS):
            self._torch.sum(self._large, dim=0, out=self._sum)

    def _record(self, stream: int = 0) -> int:
        event = self._torch.cuda.Event(enable_timing=True)
        event.record(self._stream(stream))
        self._events.append(event)
        return len(self._events) - 1

    def _elapsed_ns(self, start: int, end: int) -> int:
        return round(self._events[start].elapsed_time(self._events[end]) * 1e6)
