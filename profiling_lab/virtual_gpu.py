"""A GPU and its host on a clock of their own, to try benchmarks on: it shows what they do not see.

    machine = VirtualGpu(seed=1, call_ns=200_000)
    gpu = machine.gpu              # what a benchmark gets: functions, no secrets
    x = gpu.random()
    before = gpu.clock_ns()
    gpu.call(x)                    # comes back before the device is done
    gpu.sync()
    gpu.clock_ns() - before        # ns
    machine.log()                  # what really happened, on the host and on the device

Nothing here takes real time: every step moves the clock by as much as it would take, so that the right
answer of a measurement is known. Times are whole ns. Calls vary by `NOISE` (0.3 %) to either side.

It is a model, with the properties that benchmarks trip over and no others: calls are asynchronous and
in order within a stream; streams do not slow each other down; the L2 cache holds each input since its
first use, until it is flushed.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

NOISE = 0.003
FLUSH_NS = 400_000
FILL_NS = 60_000  # the device writes an input
SLOW_SHARE, SLOW_RATIO, FAST_SHARE, FAST_RATIO = 0.08, 5.0, 0.05, 0.6  # with uneven=True


@dataclass(frozen=True)
class Gpu:
    """What a benchmark can do. Inputs, outputs and events are numbers that stand for them.

    clock_ns()               the host's clock
    random(), zeros()        a new input in the device's memory (made by the device, in stream 0)
    on_host()                a new random input in the host's memory
    to_device(input)         a copy of it in the device's memory; the host waits for the copy
    call(input, stream=0, kernel=0)
                             issue the work in question; returns its output, before it is done
    ok(output)               whether the device accepted that call; says so at once
    evaluate(output)         on a lazy machine: issue a call that was only noted down
    sync()                   wait until all streams are done
    flush()                  issue, in stream 0, what empties the L2 cache
    record(stream=0)         an event: the device notes the time when it gets there
    elapsed_ns(start, end)   device time between two events; only after the host waited for them
    """

    clock_ns: Callable[[], int]
    random: Callable[[], int]
    zeros: Callable[[], int]
    on_host: Callable[[], int]
    to_device: Callable[[int], int]
    call: Callable[..., int]
    ok: Callable[[int], bool]
    evaluate: Callable[[int], None]
    sync: Callable[[], None]
    flush: Callable[[], None]
    record: Callable[..., int]
    elapsed_ns: Callable[[int, int], int]


class VirtualGpu:
    """The machine behind a `Gpu`.

    call_ns: time of one call on the device, for each kernel if there are two (a number or a tuple).
    launch_ns, sync_ns: what issuing a call, and a wait, cost the host.
    queued_ns: work of somebody else that the device still has to do. compile_ns: host time before a
    kernel's first call. copy_ns: time of a copy to the device.
    slow_calls: the first call takes twice as long, then less and less, until so many have run.
    drift_ratio: every call is by this share of `call_ns` slower than the one before.
    cold_ratio: how many times as long a call takes if its input is not in the L2 cache.
    zeros_ratio: the same if its input is zeros. uneven: few calls take far longer, fewer less.
    lazy: calls are only noted down. remembers: a second call on the same input gives the first
    one's output. failing: this share of the calls is refused (and no exception says so).
    """

    def __init__(
        self,
        seed: int,
        call_ns: int | tuple[int, ...],
        *,
        launch_ns: int = 4_000,
        sync_ns: int = 8_000,
        queued_ns: int = 0,
        compile_ns: int = 0,
        copy_ns: int = 0,
        slow_calls: int = 0,
        drift_ratio: float = 0.0,
        cold_ratio: float = 1.0,
        zeros_ratio: float = 1.0,
        uneven: bool = False,
        lazy: bool = False,
        remembers: bool = False,
        failing: float = 0.0,
    ) -> None:
        self._chance = random.Random(seed)
        self._call_ns = call_ns if isinstance(call_ns, tuple) else (call_ns,)
        self._launch_ns, self._sync_ns = launch_ns, sync_ns
        self._compile_ns, self._copy_ns = compile_ns, copy_ns
        self._slow_calls, self._drift_ratio = slow_calls, drift_ratio
        self._cold_ratio, self._zeros_ratio = cold_ratio, zeros_ratio
        self._uneven, self._lazy, self._remembers = uneven, lazy, remembers
        self._failing = failing

        self._now_ns = self._chance.randrange(10**6, 10**8)
        self._free_ns: dict[int, int] = {0: self._now_ns}  # by stream
        self._data: list[str] = []  # of each input
        self._cached: set[int] = set()
        self._known: set[int] = set()  # inputs whose result is remembered
        self._compiled: set[int] = set()
        self._calls_run = 0
        self._outputs: list[dict[str, Any]] = []
        self._events: list[int] = []
        self._operations: list[dict[str, Any]] = []
        self._stamps: list[int] = []
        if queued_ns:
            self._on_device("queued", queued_ns, 0)
        self.gpu = Gpu(
            clock_ns=self._read_clock,
            random=lambda: self._new_input("random"),
            zeros=lambda: self._new_input("zeros"),
            on_host=self._on_host,
            to_device=self._to_device,
            call=self._call,
            ok=self._ok,
            evaluate=self._evaluate,
            sync=self._sync,
            flush=self._flush,
            record=self._record,
            elapsed_ns=self._elapsed_ns,
        )

    def log(self) -> dict[str, list]:
        """What happened: {"regions": [...], "operations": [...]}, in order.

        A region is what a benchmark measured: from its first reading of the clock, or event, to the
        second, from the third to the fourth, and so on: {"start_ns", "end_ns"}.

        An operation: {"kind": "call", "compile", "copy", "fill", "flush" or "queued"; "region": number
        of the region that was open when the host issued it (on a lazy machine: noted the call down), or
        None; "stream"; "input", "data" ("random" or "zeros") of a call, else None; "start_ns", "end_ns":
        when it ran, None if it never did}. A compilation runs on the host and has no stream; all others
        run on the device.
        """
        pairs = zip(self._stamps[::2], self._stamps[1::2], strict=False)
        regions = [{"start_ns": start, "end_ns": end} for start, end in pairs]
        return {
            "regions": regions,
            "operations": [
                entry | {"region": None if entry["region"] == len(regions) else entry["region"]}
                for entry in self._operations
            ],
        }

    # --- what a benchmark calls --------------------------------------------------------------------

    def _read_clock(self) -> int:
        self._stamps.append(self._now_ns)
        return self._now_ns

    def _new_input(self, data: str) -> int:
        self._now_ns += self._launch_ns
        self._on_device("fill", FILL_NS, 0)
        self._data.append(data)
        return len(self._data) - 1

    def _on_host(self) -> int:
        self._data.append("host")
        return len(self._data) - 1

    def _to_device(self, input: int) -> int:
        self._known_input(input)
        operation = self._on_device("copy", self._copy_ns, 0)
        self._now_ns = operation["end_ns"]
        self._data.append("random")
        return len(self._data) - 1

    def _call(self, input: int, stream: int = 0, kernel: int = 0) -> int:
        if self._known_input(input) == "host":
            raise ValueError(f"input {input} is in the host's memory: copy it with to_device first")
        if kernel not in range(len(self._call_ns)):
            raise ValueError(f"there is no kernel {kernel!r} on this machine")
        if kernel not in self._compiled:
            self._compiled.add(kernel)
            if self._compile_ns:
                operation = self._note("compile", None)
                operation |= {"start_ns": self._now_ns, "end_ns": self._now_ns + self._compile_ns}
                self._now_ns += self._compile_ns
        operation = self._note("call", stream, input)
        operation["data"] = self._data[input]
        output = {"operation": operation, "kernel": kernel, "pending": self._lazy, "ok": True}
        self._outputs.append(output)
        if not self._lazy:
            self._issue(output)
        return len(self._outputs) - 1

    def _ok(self, output: int) -> bool:
        return self._known_output(output)["ok"]

    def _evaluate(self, output: int) -> None:
        found = self._known_output(output)
        if found["pending"]:
            found["pending"] = False
            self._issue(found)

    def _sync(self) -> None:
        self._now_ns = max(self._now_ns, *self._free_ns.values()) + self._sync_ns

    def _flush(self) -> None:
        self._now_ns += self._launch_ns
        self._on_device("flush", FLUSH_NS, 0)
        self._cached.clear()

    def _record(self, stream: int = 0) -> int:
        self._events.append(max(self._now_ns, self._free_ns.get(stream, 0)))
        self._stamps.append(self._events[-1])
        return len(self._events) - 1

    def _elapsed_ns(self, start: int, end: int) -> int:
        for event in (start, end):
            if type(event) is not int or event not in range(len(self._events)):
                raise ValueError(f"there is no event {event!r}")
            if self._events[event] > self._now_ns:
                raise RuntimeError("the device has not reached that event yet: wait for it first")
        return self._events[end] - self._events[start]

    # --- the device --------------------------------------------------------------------------------

    def _known_input(self, input: int) -> str:
        if type(input) is not int or input not in range(len(self._data)):
            raise ValueError(f"there is no input {input!r}: make one with random() or to_device()")
        return self._data[input]

    def _known_output(self, output: int) -> dict[str, Any]:
        if type(output) is not int or output not in range(len(self._outputs)):
            raise ValueError(f"there is no output {output!r}: call() returns one")
        return self._outputs[output]

    def _note(self, kind: str, stream: int | None, input: int | None = None) -> dict[str, Any]:
        count = len(self._stamps)
        operation = {
            "kind": kind,
            "region": count // 2 if count % 2 else None,
            "stream": stream,
            "input": input,
            "data": None,
            "start_ns": None,
            "end_ns": None,
        }
        self._operations.append(operation)
        return operation

    def _issue(self, output: dict[str, Any]) -> None:
        """Let a call run, if nothing keeps it from it."""
        self._now_ns += self._launch_ns
        operation = output["operation"]
        input = operation["input"]
        if self._chance.random() < self._failing:
            output["ok"] = False
        elif not (self._remembers and input in self._known):
            self._known.add(input)
            self._run(operation, self._duration_ns(output["kernel"], operation))
            self._cached.add(input)
            self._calls_run += 1

    def _duration_ns(self, kernel: int, operation: dict[str, Any]) -> int:
        ratio = 1 + self._chance.uniform(-NOISE, NOISE) + self._drift_ratio * self._calls_run
        if self._calls_run < self._slow_calls:
            ratio *= 2 - self._calls_run / self._slow_calls
        if operation["input"] not in self._cached:
            ratio *= self._cold_ratio
        if operation["data"] == "zeros":
            ratio *= self._zeros_ratio
        if self._uneven:
            luck = self._chance.random()
            if luck < SLOW_SHARE:
                ratio *= SLOW_RATIO
            elif luck > 1 - FAST_SHARE:
                ratio *= FAST_RATIO
        return round(self._call_ns[kernel] * ratio)

    def _on_device(self, kind: str, duration_ns: int, stream: int) -> dict[str, Any]:
        operation = self._note(kind, stream)
        self._run(operation, duration_ns)
        return operation

    def _run(self, operation: dict[str, Any], duration_ns: int) -> None:
        stream = operation["stream"]
        start = max(self._now_ns, self._free_ns.get(stream, 0))
        operation["start_ns"], operation["end_ns"] = start, start + duration_ns
        self._free_ns[stream] = start + duration_ns
