"""A small discrete-event simulation of programs that use CUDA devices.

A `Program` is written down call by call, as a host program would make them, and then simulated:
host threads take time for their own code and for each API call, devices run what was submitted in
stream order, copies queue for their engine, and a blocking call returns when what it waits for is
done. The recording of such a run is causally right, and because the same program can be simulated
again with one cause taken away, the answer to "what would be saved?" is known.

The model, in the terms of the CUDA programming guide:

- operations of one stream run in order, those of different streams may overlap; there is no limit
  on concurrent kernels, and no limit on how many launches may be pending;
- each device has one copy engine a direction, which serves copies in the order they become ready;
- an asynchronous copy of pinned memory returns at once; a copy to pageable memory returns when the
  data has arrived, one from pageable memory when it has been staged (a little before it has reached
  the device), and one of at most 64 KiB from pageable memory at once;
- cudaFree waits until the device is idle; cudaMalloc takes time and does not wait.

The costs are of the size seen in recordings of an H200, with jitter drawn from the seed when the
program is written down: simulating it again gives the same costs.
"""

# Long because a program, its threads and its simulation name each other, which modules must not.

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

CAUSES = ("waits", "launch_cost", "copies", "allocation", "host_code")
"""What `Program.simulate` can take away; see there for what each means."""

DISPATCH_LIMIT_NS = 100_000
"""Host code between two CUDA calls up to this length counts as the cost of issuing work."""

PAGEABLE_STAGED_BYTES = 64 * 1024
BYTES_PER_NS = {
    ("H2D", True): 52.0,
    ("D2H", True): 50.0,
    ("H2D", False): 9.0,
    ("D2H", False): 17.0,
    ("D2D", True): 1700.0,
    ("P2P", True): 290.0,
}
NULL_STREAM = 7  # what Nsight Systems calls the default stream of the first context
HARDWARE_ID = 0x1000000000000


@dataclass(frozen=True)
class Stream:
    """A stream of one process on one device. `id` is unique within the process and the device."""

    process: Process = field(repr=False)
    device: int
    id: int


@dataclass(frozen=True)
class Event:
    """A CUDA event, recorded once."""

    id: int
    sync_id: int
    node: int = field(repr=False)
    thread: HostThread = field(repr=False)


@dataclass(eq=False)
class Process:
    """A process: its streams, its threads and its own count of correlation ids."""

    program: Program = field(repr=False)
    pid: int
    correlation: int
    streams: dict[int, list[Stream]] = field(default_factory=dict)
    events: int = 0

    @property
    def global_pid(self) -> int:
        return HARDWARE_ID + (self.pid << 24)

    def default_stream(self, device: int = 0) -> Stream:
        """The default stream of a device."""
        return self.streams.setdefault(device, [Stream(self, device, NULL_STREAM)])[0]

    def stream(self, device: int = 0, *, id: int | None = None) -> Stream:
        """Create a (non-blocking) stream on a device."""
        self.default_stream(device)
        made = self.streams[device]
        stream = Stream(self, device, id or made[-1].id + self.program.rng.randint(1, 7))
        made.append(stream)
        return stream

    def thread(self) -> HostThread:
        """Create a host thread; it starts with the program, or a little later."""
        return HostThread(self)


@dataclass
class Kernel:
    """What is launched: names, launch configuration and how much of the device it uses."""

    name: str
    demangled_name: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    registers: int
    static_shared_bytes: int
    dynamic_shared_bytes: int
    sm_active_pct: float
    dram_pct: float


@dataclass
class Operation:
    """Something that runs on a device, or (kind "marker") an event or a wait in a stream."""

    index: int
    kind: str  # kernel, graph, copy, memset, marker
    stream: Stream
    correlation: int
    duration_ns: int
    dispatch_ns: int  # from submission until it could start on an idle stream
    gap_ns: int  # after the previous operation of its stream
    after: int | None = None  # an operation of another stream to wait for, besides stream order
    kernel: Kernel | None = None
    copy: str = ""  # H2D, D2H, D2D, P2P
    bytes: int = 0
    pinned: bool = True
    peer: int | None = None
    graph: int = 0
    graph_exec: int = 0
    nodes: tuple[tuple[Kernel, int], ...] = ()


@dataclass
class Step:
    """One step of a host thread."""

    kind: str  # call, host, overhead, push, pop, start, end, mark
    ranges: frozenset[str]  # names of the NVTX ranges open around it, on its thread
    ns: int = 0
    name: str = ""
    glue_ns: int = 0  # host code between API calls that is always there
    correlation: int = 0
    cause: str = ""  # what its own cost belongs to: one of CAUSES, or none
    glue_cause: str = ""
    submits: int | None = None
    submit_offset_ns: int = 0
    wait: str = ""  # "", operation, staged, stream, device, event
    wait_cause: str = "waits"
    stream: Stream | None = None
    device: int = 0
    target: int = -1
    return_ns: int = 0
    event: Event | None = None
    bytes: int = 0
    address: int = 0
    range_key: int = 0
    domain: int = 0
    registered: bool = False
    blocking: bool = False


@dataclass(frozen=True)
class CallRecord:
    step: Step
    thread: HostThread
    start: int
    end: int


@dataclass(frozen=True)
class OperationRecord:
    operation: Operation
    start: int
    end: int


@dataclass(frozen=True)
class RangeRecord:
    """An NVTX range or mark: kind "push_pop", "start_end" or "mark"; `end` is None if never closed."""

    kind: str
    name: str
    thread: HostThread
    start: int
    end: int | None
    domain: int
    registered: bool
    key: int


@dataclass
class Run:
    """What happened in one simulation; times in ns since the program began."""

    end_ns: int = 0
    operations: list[OperationRecord] = field(default_factory=list)
    calls: list[CallRecord] = field(default_factory=list)
    ranges: list[RangeRecord] = field(default_factory=list)
    overhead: list[CallRecord] = field(default_factory=list)
    os_calls: list[CallRecord] = field(default_factory=list)
    # The order of dependencies, by operation index: what another simulation of it must keep.
    engine_order: dict[tuple[int, str], list[int]] = field(default_factory=dict)
    previous: dict[int, int | None] = field(default_factory=dict)
    targets: dict[int, list[int]] = field(default_factory=dict)  # by the step's id()

    @property
    def device_end_ns(self) -> int:
        """When the last device operation ended."""
        return self.span()[1]

    def device_operations(self) -> list[OperationRecord]:
        """The operations that take the device: all but markers."""
        return [record for record in self.operations if record.operation.kind != "marker"]

    def span(self) -> tuple[int, int]:
        """First start and last end of any device operation."""
        records = self.device_operations()
        return min(r.start for r in records), max(r.end for r in records)

    def last_event(self) -> int:
        """The last end of anything recorded: where a range that was never closed ends."""
        ends = [record.end for record in (*self.device_operations(), *self.calls)]
        return max([*ends, *(r.start if r.end is None else r.end for r in self.ranges)])

    def window(self, name: str) -> tuple[int, int]:
        """First start to last end of the NVTX ranges of this name."""
        found = [r for r in self.ranges if r.name == name and r.kind != "mark"]
        ends = [self.last_event() if r.end is None else r.end for r in found]
        return min(r.start for r in found), max(ends)


class HostThread:
    """A host thread: every method appends to what it will do, in order."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.program = process.program
        same = [t for t in self.program.threads if t.process is process]
        self.tid = process.pid + sum(self.program.rng.randint(1, 9) for _ in same)
        self.steps: list[Step] = []
        self.begin_ns = self.program.rng.randint(2_000, 60_000) if self.program.threads else 0
        self._open: list[tuple[str, int]] = []
        self._started: dict[int, str] = {}
        self.program.threads.append(self)

    @property
    def global_tid(self) -> int:
        return self.process.global_pid | self.tid

    # -- host code ------------------------------------------------------------------------------

    def host(self, ns: float, *, os_call: str = "") -> None:
        """Run host code for `ns`; `os_call` records it as an operating-system call too."""
        self._add(kind="host", ns=self._jitter(ns, 0.08), name=os_call)

    def overhead(
        self, ns: float, name: str = "CUPTI Buffer flush", *, blocking: bool = True
    ) -> None:
        """Time the profiler itself takes; not blocking = recorded on a thread of the profiler."""
        self._add(kind="overhead", ns=self._jitter(ns, 0.1), name=name, blocking=blocking)

    # -- work for the device --------------------------------------------------------------------

    def launch(
        self,
        stream: Stream,
        kernel: Kernel | str,
        duration_ns: float,
        *,
        api_ns: float = 5_000,
        api: str = "cudaLaunchKernel_v7000",
        **configuration: Any,
    ) -> Operation:
        """Launch a kernel; returns without waiting. `configuration` as for `Program.kernel`."""
        if isinstance(kernel, str):
            kernel = self.program.kernel(kernel, **configuration)
        operation = self._operation(
            stream,
            "kernel",
            duration_ns=self._jitter(duration_ns, 0.03),
            dispatch_ns=self._jitter(2_600, 0.25),
            kernel=kernel,
        )
        self._submit(operation, api, api_ns, cause="launch_cost")
        return operation

    def graph_launch(
        self,
        stream: Stream,
        duration_ns: float,
        *,
        nodes: Sequence[tuple[Kernel, float]] = (),
        graph: int = 1,
        api_ns: float = 14_000,
    ) -> Operation:
        """Replay a CUDA graph of kernels; `nodes` are its kernels and their durations, in order.

        Without `nodes` the duration is divided among three kernels.
        """
        total = self._jitter(duration_ns, 0.03)
        if not nodes:
            nodes = [(self.program.kernel(f"graph_node_{i}"), s) for i, s in enumerate((5, 2, 3))]
        # Between the kernels of a graph recordings show a tenth to two microseconds of nothing.
        between = min(1_000, total // (10 * len(nodes)))
        shares = sum(share for _, share in nodes)
        working = total - between * (len(nodes) - 1)
        lengths = [int(working * share / shares) for _, share in nodes]
        lengths[-1] += working - sum(lengths)
        operation = self._operation(
            stream,
            "graph",
            duration_ns=total,
            dispatch_ns=self._jitter(6_000, 0.25),
            graph=graph,
            graph_exec=graph + 1,
            nodes=tuple(
                (kernel, length) for (kernel, _), length in zip(nodes, lengths, strict=True)
            ),
        )
        self._submit(operation, "cudaGraphLaunch_v10000", api_ns, cause="launch_cost")
        return operation

    def copy(
        self,
        stream: Stream,
        kind: str,
        bytes: int,
        *,
        pinned: bool = True,
        blocking: bool = False,
        peer: int | None = None,
    ) -> Operation:
        """Copy memory: kind "H2D", "D2H", "D2D" or "P2P" (to device `peer`).

        In the default stream a blocking copy is cudaMemcpy; in another stream it is what
        frameworks do: cudaMemcpyAsync and then cudaStreamSynchronize.
        """
        host_side = kind in ("H2D", "D2H")
        pinned = pinned or not host_side
        speed = BYTES_PER_NS[kind, pinned]
        operation = self._operation(
            stream,
            "copy",
            duration_ns=self._jitter(1_200 + bytes / speed, 0.02),
            dispatch_ns=self._jitter(2_000, 0.25),
            copy=kind,
            bytes=bytes,
            pinned=pinned,
            peer=peer,
        )
        default = stream.id == NULL_STREAM
        wait, return_ns = "", 0
        if blocking and default:
            wait, return_ns = "operation", self._jitter(3_000, 0.2)
        elif not pinned and kind == "D2H":
            # The host moves the data from the staging buffer to where it was wanted.
            wait, return_ns = "operation", self._jitter(2_000 + bytes / 40, 0.1)
        elif not pinned and bytes > PAGEABLE_STAGED_BYTES:
            wait = "staged"
        self._submit(
            operation,
            "cudaMemcpy_v3020" if blocking and default else "cudaMemcpyAsync_v3020",
            4_500 if pinned else 9_000,
            cause="copies" if host_side else "",
            wait=wait,
            wait_cause="",
            target=operation.index,
            return_ns=return_ns,
        )
        if blocking and not default:
            self.synchronize(stream)
        return operation

    def memset(self, stream: Stream, bytes: int) -> Operation:
        """Fill device memory, asynchronously."""
        operation = self._operation(
            stream,
            "memset",
            duration_ns=self._jitter(900 + bytes / 2_500, 0.03),
            dispatch_ns=self._jitter(2_000, 0.25),
            bytes=bytes,
        )
        self._submit(operation, "cudaMemsetAsync_v3020", 4_000, cause="")
        return operation

    # -- order and waiting ----------------------------------------------------------------------

    def record_event(self, stream: Stream) -> Event:
        """Record a new event into a stream."""
        self.process.events += 1
        operation = self._operation(stream, "marker", duration_ns=0, dispatch_ns=0)
        event = Event(
            id=self.process.events + 24,
            sync_id=self.process.events,
            node=operation.index,
            thread=self,
        )
        name = self.program.rng.choice(("cudaEventRecordWithFlags_v11010", "cudaEventRecord_v3020"))
        self._submit(operation, name, 2_500, cause="", event=event)
        return event

    def stream_wait(self, stream: Stream, event: Event) -> None:
        """Make later work of `stream` wait for `event`; the host does not wait."""
        if event.thread is not self:
            raise ValueError("an event is waited for by the thread that recorded it")
        operation = self._operation(stream, "marker", duration_ns=0, dispatch_ns=0)
        operation.after = event.node
        self._submit(operation, "cudaStreamWaitEvent_v3020", 1_800, cause="", event=event)

    def synchronize(self, target: Stream | Event | int = 0) -> None:
        """Wait on the host for a stream, an event, or (its number) a device."""
        common: dict[str, Any] = {
            "ns": self._jitter(2_500, 0.2),
            "return_ns": self._jitter(4_000, 0.3),
        }
        if isinstance(target, Stream):
            common |= {"name": "cudaStreamSynchronize_v3020", "wait": "stream", "stream": target}
            common["device"] = target.device
        elif isinstance(target, Event):
            node = self.program.operations[target.node]
            common |= {"name": "cudaEventSynchronize_v3020", "wait": "event", "event": target}
            common |= {"target": target.node, "stream": node.stream, "device": node.stream.device}
        else:
            common |= {"name": "cudaDeviceSynchronize_v3020", "wait": "device", "device": target}
        self._call(cause="waits", **common)

    # -- memory ---------------------------------------------------------------------------------

    def malloc(self, bytes: int, *, device: int = 0, api_ns: float = 180_000) -> int:
        """cudaMalloc; returns the address."""
        address = self.program.next_address(bytes)
        self._call(
            name="cudaMalloc_v3020",
            ns=self._jitter(api_ns, 0.25),
            cause="allocation",
            device=device,
            bytes=bytes,
            address=address,
        )
        return address

    def free(self, address: int, *, device: int = 0, api_ns: float = 90_000) -> None:
        """cudaFree: waits until the device is idle, then releases."""
        self._call(
            name="cudaFree_v3020",
            ns=self._jitter(3_000, 0.2),
            cause="allocation",
            wait="device",
            wait_cause="allocation",
            return_ns=self._jitter(api_ns, 0.25),
            device=device,
            bytes=self.program.allocations[address],
            address=address,
        )

    # -- NVTX -----------------------------------------------------------------------------------

    def push(self, name: str, *, domain: int = 0, registered: bool = False) -> None:
        """Open a push/pop range; a registered name is stored in StringIds instead of the row."""
        key = self.program.next_key()
        self._open.append((name, key))
        self._add(kind="push", name=name, range_key=key, domain=domain, registered=registered)

    def pop(self) -> None:
        """Close the innermost push/pop range."""
        _, key = self._open.pop()
        self._add(kind="pop", range_key=key)

    def start(self, name: str, *, domain: int = 0) -> int:
        """Open a start/end range, which need not nest; returns its key."""
        key = self.program.next_key()
        self._started[key] = name
        self._add(kind="start", name=name, range_key=key, domain=domain)
        return key

    def end(self, key: int) -> None:
        """Close a start/end range."""
        del self._started[key]
        self._add(kind="end", range_key=key)

    def mark(self, name: str) -> None:
        """Record an NVTX mark, which is a moment and no range."""
        self._add(kind="mark", name=name, range_key=self.program.next_key())

    @contextmanager
    def nvtx(self, name: str, *, registered: bool = False) -> Iterator[None]:
        """A push/pop range around the block."""
        self.push(name, registered=registered)
        yield
        self.pop()

    # -- internals ------------------------------------------------------------------------------

    def _jitter(self, ns: float, spread: float) -> int:
        return max(0, round(ns * self.program.rng.lognormvariate(0, spread)))

    def _add(self, **fields: Any) -> Step:
        names = [name for name, _ in self._open] + list(self._started.values())
        step = Step(ranges=frozenset(names), **fields)
        self.steps.append(step)
        return step

    def _call(self, **fields: Any) -> Step:
        process = self.process
        # Calls that are not traced use up correlation ids too.
        process.correlation += self.program.rng.choice((1, 1, 1, 2, 3, 9))
        glue_ns = self._jitter(400, 0.4)
        between = list(takewhile(lambda step: step.kind != "call", reversed(self.steps)))
        long = sum(step.ns for step in between) + glue_ns > DISPATCH_LIMIT_NS
        cause = "host_code" if long else "launch_cost"
        for step in between:
            step.cause = cause
        return self._add(
            kind="call",
            correlation=process.correlation,
            glue_ns=glue_ns,
            glue_cause=cause,
            **fields,
        )

    def _submit(self, operation: Operation, name: str, api_ns: float, **fields: Any) -> None:
        ns = self._jitter(api_ns, 0.2)
        step = self._call(
            name=name,
            ns=ns,
            submits=operation.index,
            submit_offset_ns=round(ns * self.program.rng.uniform(0.45, 0.9)),
            stream=operation.stream,
            device=operation.stream.device,
            **fields,
        )
        operation.correlation = step.correlation

    def _operation(self, stream: Stream, kind: str, **fields: Any) -> Operation:
        if stream.process is not self.process:
            raise ValueError("a stream belongs to the process that made it")
        operation = Operation(
            index=len(self.program.operations),
            kind=kind,
            stream=stream,
            correlation=0,
            gap_ns=0 if kind == "marker" else self._jitter(1_000, 0.15),
            **fields,
        )
        self.program.operations.append(operation)
        return operation


class Program:
    """A program to be simulated and written as a capture; see the module for the model.

    The methods of `HostThread` are those of the first thread of the first process too:

        program = Program(seed=3)
        stream = program.stream()
        program.launch(stream, "scale_rows", 40_000)
        program.synchronize(stream)
        write(program, path)  # of the module export
    """

    def __init__(self, seed: int, *, devices: int = 1) -> None:
        self.rng = random.Random(seed)
        self.seed = seed
        self.devices = devices
        self.threads: list[HostThread] = []
        self.processes: list[Process] = []
        self.operations: list[Operation] = []
        self.allocations: dict[int, int] = {}
        self.kernels: dict[str, Kernel] = {}
        self.metrics_interval_ns = 0
        self._keys = 0
        self._base: Run | None = None
        self._first_correlation = self.rng.randint(20, 900)
        self._pid = self.rng.randint(300, 60_000)
        self.default_start_ns = self.rng.randint(3_000_000, 4_000_000_000)
        self.main = self.process().thread()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(HostThread, name):
            raise AttributeError(name)
        return getattr(self.main, name)

    def process(self) -> Process:
        """Add a process. Its correlation ids start where those of the first process start."""
        self._pid += self.rng.randint(1, 40)
        process = Process(self, self._pid, self._first_correlation)
        self.processes.append(process)
        return process

    def stream(self, device: int = 0, *, id: int | None = None) -> Stream:
        """Create a stream of the first process."""
        return self.processes[0].stream(device, id=id)

    def default_stream(self, device: int = 0) -> Stream:
        """The default stream of the first process."""
        return self.processes[0].default_stream(device)

    def thread(self) -> HostThread:
        """Add a thread to the first process."""
        return self.processes[0].thread()

    def sample_metrics(self, interval_ns: int = 100_000) -> None:
        """Record GPU metrics every `interval_ns`."""
        self.metrics_interval_ns = interval_ns

    def kernel(
        self,
        name: str,
        *,
        blocks: int | None = None,
        sm_active_pct: float | None = None,
        dram_pct: float | None = None,
    ) -> Kernel:
        """The kernel of this name, made on first use with a random launch configuration.

        A device has 132 multiprocessors: a kernel of fewer blocks keeps only so many active.
        """
        if name not in self.kernels:
            rng = self.rng
            x = blocks or rng.randint(132, 4_000)
            self.kernels[name] = Kernel(
                name=name,
                demangled_name=f"void {name}<float, (int){rng.choice((1, 2, 4, 8))}>(const T1 *, T1 *, int)",
                grid=(x, 1, 1),
                block=(rng.choice((64, 128, 256, 512)), 1, 1),
                registers=rng.randrange(16, 128, 2),
                static_shared_bytes=rng.choice((0, 0, 1024, 4096)),
                dynamic_shared_bytes=rng.choice((0, 0, 0, 16_384)),
                sm_active_pct=min(100.0, 100 * x / 132) if sm_active_pct is None else sm_active_pct,
                dram_pct=rng.uniform(5, 70) if dram_pct is None else dram_pct,
            )
        return self.kernels[name]

    def next_key(self) -> int:
        """A number not used before by this program."""
        self._keys += 1
        return self._keys

    def next_address(self, bytes: int) -> int:
        """An address for an allocation of this size."""
        address = 0x7F0000000000 + 0x200000 * self.rng.randint(1, 4_000_000)
        while address in self.allocations:
            address += 0x200000
        self.allocations[address] = bytes
        return address

    def run(self) -> Run:
        """The program as it is: what `write` records."""
        if self._base is None:
            self._base = _Simulation(self).run()
        return self._base

    def simulate(self, without: str | None = None, *, inside: str | None = None) -> Run:
        """Run the program again with one cause taken away.

        - "waits": synchronising calls take no time and do not wait (blocking copies still do);
        - "launch_cost": launches of kernels and graphs, and stretches of host code of at most
          DISPATCH_LIMIT_NS between two CUDA calls, take the host no time;
        - "copies": copies between host and device take no time, nor do the calls that issue them;
        - "allocation": cudaMalloc and cudaFree take no time and do not wait;
        - "host_code": longer stretches of host code take no time.

        `inside` limits this to what the program does while an NVTX range of this name is open.
        The order of dependencies is that of the unchanged run: copy engines serve in the same order
        and calls wait for the same work, so taking a cause away never makes the program end later.
        """
        if without is None:
            return self.run()
        if without not in CAUSES:
            raise ValueError(f"{without!r} is not one of {', '.join(CAUSES)}")
        return _Simulation(self, without, inside, self.run()).run()


class _Simulation:
    """One run. Everything happens as an event at a time, in order of time."""

    def __init__(
        self,
        program: Program,
        without: str | None = None,
        inside: str | None = None,
        base: Run | None = None,
    ) -> None:
        self.program = program
        self.without = without
        self.inside = inside
        self.base = base
        self.now = 0
        self.heap: list[tuple[int, int, Callable[[], None]]] = []
        self.count = 0
        self.result = Run()
        self.tail: dict[Stream, int] = {}  # the last operation submitted to each stream
        # By operation:
        self.pending: dict[int, int] = {}  # how many dependencies have not finished
        self.arrival: dict[int, int] = {}
        self.gap: dict[int, int] = {}
        self.length: dict[int, int] = {}
        self.started: dict[int, int] = {}
        self.finished: dict[int, int] = {}
        self.on_start: dict[int, list[Callable[[], None]]] = {}
        self.on_finish: dict[int, list[Callable[[], None]]] = {}
        self.open_ranges: dict[int, tuple[Step, HostThread, int]] = {}
        self.engine_busy: dict[tuple[int, str], bool] = {}
        self.engine_queue: dict[tuple[int, str], list[int]] = {}
        self.engine_left = {
            engine: list(reversed(order))
            for engine, order in (base.engine_order if base else {}).items()
        }
        # Copies that take no time need no engine.
        self.free_copies = without == "copies" and inside is None

    def run(self) -> Run:
        for thread in self.program.threads:
            self.at(thread.begin_ns, lambda t=thread: self.step(t, 0))  # type: ignore[misc]
        while self.heap:
            self.now, _, action = heapq.heappop(self.heap)
            action()
        left = len(self.arrival) - len(self.finished)
        if left:
            raise RuntimeError(f"{left} operations never finished")
        for step, thread, start in self.open_ranges.values():
            self.close(step, thread, start, None)
        self.result.end_ns = self.now
        return self.result

    def at(self, time: int, action: Callable[[], None]) -> None:
        self.count += 1
        heapq.heappush(self.heap, (max(time, self.now), self.count, action))

    def gone(self, cause: str, step: Step) -> bool:
        return (
            bool(cause)
            and cause == self.without
            and (self.inside is None or self.inside in step.ranges)
        )

    # -- host -----------------------------------------------------------------------------------

    def step(self, thread: HostThread, index: int) -> None:
        if index == len(thread.steps):
            return
        step = thread.steps[index]

        def next_step() -> None:
            self.step(thread, index + 1)

        if step.kind == "call":
            start = self.now + (0 if self.gone(step.glue_cause, step) else step.glue_ns)
            self.at(start, lambda: self.call(thread, step, next_step))
            return
        start = end = self.now
        if step.kind in ("host", "overhead") and not self.gone(step.cause, step):
            end += step.ns if step.kind == "host" or step.blocking else 0
        if step.kind == "host" and step.name and end > start:
            self.result.os_calls.append(CallRecord(step, thread, start, end))
        elif step.kind == "overhead":
            self.result.overhead.append(CallRecord(step, thread, start, start + step.ns))
        elif step.kind in ("push", "start"):
            self.open_ranges[step.range_key] = (step, thread, start)
        elif step.kind in ("pop", "end"):
            self.close(*self.open_ranges.pop(step.range_key), end)
        elif step.kind == "mark":
            self.close(step, thread, start, start)
        self.at(end, next_step)

    def close(self, step: Step, thread: HostThread, start: int, end: int | None) -> None:
        kind = {"push": "push_pop", "start": "start_end", "mark": "mark"}[step.kind]
        self.result.ranges.append(
            RangeRecord(
                kind,
                step.name,
                thread,
                start,
                end,
                step.domain,
                step.registered,
                step.range_key,
            )
        )

    def call(self, thread: HostThread, step: Step, next_step: Callable[[], None]) -> None:
        start = self.now
        free = self.gone(step.cause, step)
        cost = 0 if free else step.ns
        waits = step.wait if not self.gone(step.wait_cause, step) else ""

        def finish(end: int) -> None:
            self.result.calls.append(CallRecord(step, thread, start, end))
            self.at(end, next_step)

        def wait() -> None:
            if waits == "staged":
                self.when_started(step.target, lambda end: finish(max(start + cost, end)))
                return
            targets = self.targets(thread, step)
            open_targets = {target for target in targets if target not in self.finished}
            return_ns = 0 if step.cause == "copies" and free else step.return_ns

            def all_done() -> None:
                done = max((self.finished[target] for target in targets), default=0)
                if step.cause == "allocation":  # what is left to do comes after the wait
                    finish(max(start + cost, done) + return_ns)
                else:
                    finish(max(start + cost, done + return_ns if targets else 0))

            def one_done(target: int) -> None:
                open_targets.discard(target)
                if not open_targets:
                    all_done()

            if not open_targets:
                all_done()
            for target in tuple(open_targets):
                self.on_finish.setdefault(target, []).append(
                    lambda target=target: one_done(target)  # type: ignore[misc]
                )

        def after_submission() -> None:
            if waits:
                wait()
            else:
                finish(start + cost)

        if step.submits is None:
            after_submission()
            return
        operation = self.program.operations[step.submits]

        def submit() -> None:
            self.submit(operation, step)
            after_submission()

        self.at(start + (0 if free else min(step.submit_offset_ns, cost)), submit)

    def targets(self, thread: HostThread, step: Step) -> list[int]:
        """The operations that a blocking call waits for."""
        if self.base is not None:
            return self.base.targets[id(step)]
        if step.wait in ("operation", "event"):
            targets = [step.target]
        elif step.wait == "stream":
            targets = [tail for stream, tail in self.tail.items() if stream == step.stream]
        else:
            targets = [
                tail
                for stream, tail in self.tail.items()
                if stream.process is thread.process and stream.device == step.device
            ]
        self.result.targets[id(step)] = targets
        return targets

    def when_started(self, target: int, action: Callable[[int], None]) -> None:
        """Call `action` with the time at which a pageable source may be reused."""

        def ready() -> None:
            length = self.length[target]
            action(self.started[target] + length - min(12_000, length // 4))

        if target in self.started:
            ready()
        else:
            self.on_start.setdefault(target, []).append(ready)

    # -- device ---------------------------------------------------------------------------------

    def submit(self, operation: Operation, step: Step) -> None:
        index = operation.index
        copy = step.cause == "copies" and self.gone("copies", step)
        self.arrival[index] = self.now + (0 if copy else operation.dispatch_ns)
        self.gap[index] = 0 if copy else operation.gap_ns
        self.length[index] = 0 if copy else operation.duration_ns
        previous = self.base.previous[index] if self.base else self.tail.get(operation.stream)
        self.result.previous[index] = previous
        self.tail[operation.stream] = index
        before = {b for b in (previous, operation.after) if b is not None}
        waiting = [b for b in before if b not in self.finished]
        self.pending[index] = len(waiting)

        def all_done() -> None:
            done = max((self.finished[b] + self.gap[index] for b in before), default=0)
            self.at(max(self.arrival[index], done), lambda: self.ready(index))

        def one_done() -> None:
            self.pending[index] -= 1
            if not self.pending[index]:
                all_done()

        if not waiting:
            all_done()
        for dependency in waiting:
            self.on_finish.setdefault(dependency, []).append(one_done)

    def engine(self, operation: Operation) -> tuple[int, str] | None:
        if operation.kind != "copy":
            return None
        if self.free_copies and operation.copy in ("H2D", "D2H"):
            return None
        return operation.stream.device, operation.copy

    def ready(self, index: int) -> None:
        engine = self.engine(self.program.operations[index])
        if engine is None:
            self.begin(index)
            return
        self.engine_queue.setdefault(engine, []).append(index)
        self.serve(engine)

    def serve(self, engine: tuple[int, str]) -> None:
        queue = self.engine_queue.get(engine)
        if self.engine_busy.get(engine) or not queue:
            return
        if self.base is None:
            index = queue.pop(0)
        else:
            index = self.engine_left[engine][-1]
            if index not in queue:
                return
            queue.remove(index)
            self.engine_left[engine].pop()
        self.engine_busy[engine] = True
        self.result.engine_order.setdefault(engine, []).append(index)
        self.begin(index)

    def begin(self, index: int) -> None:
        self.started[index] = self.now
        for action in self.on_start.pop(index, ()):
            action()
        self.at(self.now + self.length[index], lambda: self.finish(index))

    def finish(self, index: int) -> None:
        operation = self.program.operations[index]
        self.finished[index] = self.now
        self.result.operations.append(OperationRecord(operation, self.started[index], self.now))
        engine = self.engine(operation)
        if engine is not None:
            self.engine_busy[engine] = False
            self.serve(engine)
        for action in self.on_finish.pop(index, ()):
            action()
