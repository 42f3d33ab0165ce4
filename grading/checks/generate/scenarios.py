"""Ready programs, each written as a capture together with what is true of it.

Every function takes a seed and a folder, and returns a `Scenario`. Sizes, counts, stream numbers
and offsets come from the seed, so that no number of one capture is right for another.
"""

# Long because it is a list of scenarios.

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grading.checks.generate import truth
from grading.checks.generate.export import graph_nodes, metric_samples, plain_name, write
from grading.checks.generate.program import CAUSES, OperationRecord, Program, Run, Stream

Window = tuple[int, int]
LAUNCH_APIS = (
    "cudaLaunchKernel_v7000",
    "cudaLaunchKernel_v7000",
    "cudaLaunchKernelExC_v11060",
    "cuLaunchKernel",
)
SYNCHRONIZING = ("cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaEventSynchronize")


@dataclass
class Scenario:
    """A capture and the truth about it. All times are ns as in the file; a window is (start, end)."""

    name: str
    seed: int
    path: Path
    program: Program
    start_ns: int
    graph_trace: str = "graph"
    expected: str = ""
    """The cause of `CAUSES` that costs most, "none" for a healthy program, "" where none is meant."""
    steady: str | None = None
    """The NVTX range to judge, where the whole capture should not be."""
    notes: dict[str, Any] = field(default_factory=dict)

    @property
    def run(self) -> Run:
        """The simulated run; its times count from the program's beginning, not from `start_ns`."""
        return self.program.run()

    @property
    def devices(self) -> list[int]:
        """Numbers of the devices that an operation ran on."""
        return sorted({r.operation.stream.device for r in self.run.device_operations()})

    def span(self) -> Window:
        """First start to last end of any device operation."""
        first, last = self.run.span()
        return first + self.start_ns, last + self.start_ns

    def nvtx_window(self, name: str) -> Window:
        """First start to last end of the ranges of this name."""
        first, last = self.run.window(name)
        return first + self.start_ns, last + self.start_ns

    def busy_ns(
        self, window: Window | None = None, *, kernels_only: bool = False
    ) -> dict[int, int]:
        """Per device, time with at least one operation; kernels_only leaves out copies, memsets."""
        kinds = ("kernel", "graph") if kernels_only else ("kernel", "graph", "copy", "memset")
        window = window or self.span()
        return {d: truth.covered_ns(self._intervals(d, kinds), window) for d in self.devices}

    def idle_gaps(
        self, window: Window | None = None, min_gap_ns: int = 0
    ) -> list[tuple[int, int, int]]:
        """(device, start, end) of each stretch without an operation, of at least 1 ns."""
        window = window or self.span()
        return [
            (device, start, end)
            for device in self.devices
            for start, end in truth.uncovered(
                self._intervals(device, ("kernel", "graph", "copy", "memset")), window
            )
            if end - start >= max(min_gap_ns, 1)
        ]

    def kernel_exec(self) -> list[dict[str, int]]:
        """Per launched kernel (not those of graphs), ordered by kernel start and end.

        process, correlation, api_ns, queue_ns (0 if it started before the call returned),
        kernel_start_ns, execution_ns.
        """
        calls = {id(call.step): call for call in self.run.calls}
        issued = {
            call.step.submits: calls[id(call.step)]
            for call in self.run.calls
            if call.step.submits is not None
        }
        rows = []
        for record in self.run.operations:
            if record.operation.kind == "kernel":
                call = issued[record.operation.index]
                rows.append(
                    {
                        "process": record.operation.stream.process.global_pid,
                        "correlation": record.operation.correlation,
                        "api_ns": call.end - call.start,
                        "queue_ns": max(0, record.start - call.end),
                        "kernel_start_ns": record.start + self.start_ns,
                        "execution_ns": record.end - record.start,
                    }
                )
        return sorted(rows, key=lambda r: (r["kernel_start_ns"], r["execution_ns"]))

    def blocking_ns(self, window: Window | None = None) -> dict[str, int]:
        """Per CUDA call, host time in synchronising calls and in copies that hold the host.

        Those are cudaMemcpy and every copy to or from pageable memory. The sum over threads, inside
        the window, of names with more than 0 ns.
        """
        low, high = window or self.span()
        total: dict[str, int] = {}
        for call in self.run.calls:
            name = plain_name(call.step.name)
            operation = None
            if call.step.submits is not None:
                operation = self.program.operations[call.step.submits]
            pageable = operation is not None and operation.kind == "copy" and not operation.pinned
            if name in SYNCHRONIZING or name == "cudaMemcpy" or pageable:
                start, end = call.start + self.start_ns, call.end + self.start_ns
                inside = min(end, high) - max(start, low)
                if inside > 0:
                    total[name] = total.get(name, 0) + inside
        return total

    def copy_overlap(self, window: Window | None = None) -> dict[int, dict[str, int]]:
        """Per device: copies between host and device against kernels and graphs.

        copy_only_ns, kernel_only_ns, both_ns.
        """
        window = window or self.span()
        found = {}
        for device in self.devices:
            copies = [
                (record.start + self.start_ns, record.end + self.start_ns)
                for record in self.run.device_operations()
                if record.operation.stream.device == device
                and record.operation.copy in ("H2D", "D2H")
            ]
            kernels = self._intervals(device, ("kernel", "graph"))
            found[device] = truth.overlap_ns(copies, kernels, window)
        return found

    def gpu_metric_means(self, window: Window | None = None) -> dict[int, dict[str, float]]:
        """Per device and metric, the mean of the samples with start < timestamp <= end."""
        low, high = window or self.span()
        values: dict[int, dict[str, list[int]]] = {}
        for timestamp, device, name, value in metric_samples(self.program, self.start_ns):
            if low < timestamp <= high:
                values.setdefault(device, {}).setdefault(name, []).append(value)
        return {
            device: {name: sum(found) / len(found) for name, found in metrics.items()}
            for device, metrics in values.items()
        }

    def overhead_ns(self, window: Window | None = None) -> int:
        """Time during which the profiler was at work on at least one thread."""
        records = self.run.overhead
        intervals = [(r.start + self.start_ns, r.end + self.start_ns) for r in records]
        return truth.covered_ns(intervals, window or self.span())

    def savings_ns(self, *, inside: str | None = None) -> dict[str, int]:
        """Per cause, how much shorter first to last device operation is in a real run without it.

        What the program did before its first device operation (setting up, say) does not count.
        """

        def length(run: Run) -> int:
            first, last = run.span()
            return last - first

        whole = length(self.run)
        return {
            cause: max(0, whole - length(self.program.simulate(cause, inside=inside)))
            for cause in CAUSES
        }

    def _intervals(self, device: int, kinds: tuple[str, ...]) -> list[Window]:
        found: list[Window] = []
        for record in self.run.device_operations():
            operation = record.operation
            if operation.stream.device == device and operation.kind in kinds:
                found += self._parts(record)
        return [(start + self.start_ns, end + self.start_ns) for start, end in found]

    def _parts(self, record: OperationRecord) -> list[Window]:
        if record.operation.kind == "graph" and self.graph_trace == "node":
            return [(start, end) for _, start, end in graph_nodes(record)]
        return [(record.start, record.end)]


Build = Callable[[Program, random.Random], dict[str, Any] | None]
SCENARIOS: dict[str, Callable[..., Scenario]] = {}


def _scenario(
    *, devices: int = 1, expected: str = "", steady: str | None = None
) -> Callable[[Build], Callable[..., Scenario]]:
    """Make a scenario of a function that writes a program down."""

    def decorate(build: Build) -> Callable[..., Scenario]:
        name = build.__name__

        def make(seed: int, folder: str | Path, **options: Any) -> Scenario:
            program = Program(seed, devices=devices)
            notes = build(program, random.Random(seed * 7919 + 11)) or {}
            start_ns = options.pop("start_ns", None)
            start_ns = program.default_start_ns if start_ns is None else start_ns
            path = Path(folder) / f"{name}_{seed}.sqlite"
            write(program, path, start_ns=start_ns, **options)
            return Scenario(
                name=name,
                seed=seed,
                path=path,
                program=program,
                start_ns=start_ns,
                graph_trace=options.get("graph_trace", "graph"),
                expected=expected,
                steady=steady,
                notes=notes,
            )

        make.__name__ = name
        make.__doc__ = (
            f"{build.__doc__}\n\n    `options` go to `export.write` (shuffle_rows, start_ns, "
            "drop_tables, schema, graph_trace)."
        )
        SCENARIOS[name] = make
        return make

    return decorate


def _names(rng: random.Random, count: int) -> list[str]:
    words = ("gemm_tile", "scale_rows", "bias_gelu", "softmax", "layer_norm", "add_residual")
    more = ("gather_rows", "reduce_sum", "rope", "attention_scores", "transpose", "top_k")
    return rng.sample(words + more, count)


def _launch(program: Any, rng: random.Random, stream: Stream, name: str, ns: float, **more: Any):
    return program.launch(stream, name, ns, api=rng.choice(LAUNCH_APIS), **more)


@_scenario()
def concurrent_kernels(program: Program, rng: random.Random) -> None:
    """Kernels, copies and memsets on three to six streams that overlap a good deal."""
    streams = [program.stream() for _ in range(rng.randint(3, 6))]
    names = _names(rng, 5)
    for _ in range(rng.randint(40, 90)):
        stream = rng.choice(streams)
        for _ in range(rng.randint(1, 4)):
            _launch(program, rng, stream, rng.choice(names), rng.uniform(8_000, 160_000))
        if rng.random() < 0.25:
            program.copy(stream, rng.choice(("H2D", "D2H", "D2D")), rng.randint(2**12, 2**24))
        if rng.random() < 0.15:
            program.memset(stream, rng.randint(2**10, 2**24))
        if rng.random() < 0.2:
            program.stream_wait(rng.choice(streams), program.record_event(stream))
        if rng.random() < 0.1:
            program.synchronize(stream)
        if rng.random() < 0.2:
            program.host(rng.uniform(20_000, 400_000))
    program.synchronize(0)


@_scenario(devices=2)
def two_devices(program: Program, rng: random.Random) -> None:
    """Two devices with the same stream numbers, one much busier; copies from one to the other."""
    number = rng.randint(13, 40)
    streams = [program.stream(device, id=number) for device in (0, 1)]
    names = _names(rng, 4)
    weights = rng.choice(((0.8, 0.2), (0.25, 0.75)))
    for _ in range(rng.randint(60, 120)):
        device = rng.choices((0, 1), weights)[0]
        _launch(program, rng, streams[device], rng.choice(names), rng.uniform(15_000, 120_000))
        if rng.random() < 0.12:
            program.copy(streams[device], "P2P", rng.randint(2**16, 2**25), peer=1 - device)
        if rng.random() < 0.15:
            program.copy(streams[device], "H2D", rng.randint(2**12, 2**22))
        if rng.random() < 0.1:
            program.synchronize(rng.choice((0, 1)))
        if rng.random() < 0.3:
            program.host(rng.uniform(10_000, 300_000))
    program.synchronize(0)
    program.synchronize(1)


@_scenario()
def two_processes_same_correlation(program: Program, rng: random.Random) -> None:
    """Two processes share a device; their stream numbers and correlation ids are the same."""
    names = _names(rng, 4)
    second = program.process()
    for thread, share in ((program.main, 1.0), (second.thread(), rng.uniform(2.0, 4.0))):
        stream = thread.process.stream(id=19)
        with thread.nvtx("worker"):
            for _ in range(rng.randint(40, 70)):
                ns = share * rng.uniform(10_000, 60_000)
                _launch(thread, rng, stream, rng.choice(names), ns, api_ns=5_000 * share)
                if rng.random() < 0.2:
                    thread.copy(stream, "D2H", rng.randint(2**10, 2**22), pinned=rng.random() < 0.6)
                if rng.random() < 0.2:
                    thread.host(rng.uniform(20_000, 300_000))
            thread.synchronize(stream)


@_scenario()
def graphs_only(program: Program, rng: random.Random) -> None:
    """All compute is in replayed CUDA graphs: at graph granularity there is no kernel table."""
    stream = program.stream()
    second = program.stream()
    lengths = [rng.uniform(60_000, 900_000) for _ in range(rng.randint(2, 3))]
    kernels = [program.kernel(name) for name in _names(rng, 5)]
    graphs = [
        [(rng.choice(kernels), rng.uniform(1, 9)) for _ in range(rng.randint(2, 6))]
        for _ in lengths
    ]
    copies = rng.random() < 0.5
    for _ in range(rng.randint(25, 60)):
        which = rng.randrange(len(lengths))
        chosen = second if rng.random() < 0.2 else stream
        if copies:
            program.copy(chosen, "H2D", rng.randint(2**12, 2**22))
        program.graph_launch(chosen, lengths[which], nodes=graphs[which], graph=1 + 2 * which)
        if rng.random() < 0.25:
            program.synchronize(chosen)
            program.host(rng.uniform(50_000, 700_000))
    program.synchronize(0)


@_scenario()
def copies_and_kernels(program: Program, rng: random.Random) -> None:
    """Batches copied in and results out, pinned and pageable, on two streams: some copies overlap."""
    streams = [program.stream(), program.stream()]
    names = _names(rng, 3)
    for index in range(rng.randint(25, 50)):
        stream = streams[index % 2] if rng.random() < 0.7 else streams[0]
        with program.nvtx(f"batch {index}"):
            pinned = rng.random() < 0.6
            program.copy(stream, "H2D", rng.choice((4_096, 2**20, 2**22, 2**24)), pinned=pinned)
            for name in names:
                _launch(program, rng, stream, name, rng.uniform(20_000, 200_000))
            program.copy(stream, "D2H", rng.choice((64, 2**18, 2**22)), pinned=rng.random() < 0.6)
            if rng.random() < 0.2:
                program.copy(stream, "D2D", rng.randint(2**20, 2**26))
        if rng.random() < 0.2:
            event = program.record_event(stream)
            program.host(rng.uniform(5_000, 50_000))
            program.synchronize(event)
        if rng.random() < 0.2:
            program.copy(program.default_stream(), "H2D", 2**20, pinned=False, blocking=True)
    program.synchronize(0)


@_scenario()
def nested_gaps(program: Program, rng: random.Random) -> None:
    """Long kernels that begin before and end after short ones on other streams, and real gaps.

    A reader that looks only at the row before sees gaps inside the long kernels.
    """
    outer, *inner = (program.stream() for _ in range(rng.randint(3, 5)))
    names = _names(rng, 4)
    for _ in range(rng.randint(15, 30)):
        count = rng.randint(3, 9)
        long_ns = rng.uniform(1.2, 3.0) * count * 40_000
        _launch(program, rng, outer, names[0], long_ns)
        for _ in range(count):
            _launch(
                program, rng, rng.choice(inner), rng.choice(names[1:]), rng.uniform(3_000, 15_000)
            )
            program.host(rng.uniform(2_000, 30_000))
        program.synchronize(0)
        program.host(rng.uniform(20_000, 500_000), os_call=rng.choice(("", "poll", "read")))


def _steps(program: Program, rng: random.Random, stream: Stream, sick: str, count: int) -> None:
    """`count` steps of a program whose only trouble is `sick`."""
    names = _names(rng, 6)
    kernels = rng.randint(4, 9)
    kernel_ns = rng.uniform(50_000, 120_000)
    buffer_bytes = rng.randint(2**20, 2**26)
    if sick == "launch_cost":
        kernels, kernel_ns = kernels * 4, rng.uniform(1_800, 4_000)
    elif sick == "waits":
        kernels = rng.randint(3, 5)
        kernel_ns = rng.uniform(8_000, 15_000)
    elif sick == "host_code":
        kernels = rng.randint(1, 3)
    host_ns = kernels * kernel_ns * rng.uniform(1.2, 2.5) + 130_000
    api_ns = rng.uniform(6_000, 11_000) if sick == "launch_cost" else rng.uniform(3_000, 5_000)
    batch_bytes = int(kernels * kernel_ns * rng.uniform(0.5, 0.8) * 50)
    for _ in range(count):
        program.push("step", registered=rng.random() < 0.5)
        address = None
        if sick == "host_code":
            program.host(host_ns, os_call=rng.choice(("", "read")))
        if sick == "copies":
            program.copy(stream, "H2D", batch_bytes)
        if sick == "allocation":
            address = program.malloc(buffer_bytes, api_ns=240_000)
        for index in range(kernels):
            _launch(program, rng, stream, names[index % len(names)], kernel_ns, api_ns=api_ns)
            if sick == "waits":
                program.synchronize(stream)
        if sick == "copies":
            program.copy(stream, "D2H", batch_bytes)
        if address is not None:
            program.free(address, api_ns=140_000)
        program.pop()


def _sick(program: Program, rng: random.Random, sick: str, count: tuple[int, int]) -> None:
    stream = program.stream()
    buffers = (
        [program.malloc(rng.randint(2**20, 2**28)) for _ in range(2)] if sick != "waits" else []
    )
    _steps(program, rng, stream, sick, rng.randint(*count))
    program.synchronize(0)
    for buffer in buffers:
        program.free(buffer)


@_scenario(expected="waits")
def sync_bound(program: Program, rng: random.Random) -> None:
    """A stream is waited for after every short kernel, so the device waits for each launch."""
    _sick(program, rng, "waits", (40, 80))


@_scenario(expected="launch_cost")
def launch_bound(program: Program, rng: random.Random) -> None:
    """Kernels shorter than the call that launches them."""
    _sick(program, rng, "launch_cost", (15, 30))


@_scenario(expected="copies")
def transfer_bound(program: Program, rng: random.Random) -> None:
    """Batches copied in and out on the stream that computes: nothing overlaps."""
    _sick(program, rng, "copies", (25, 50))


@_scenario(expected="host_code")
def host_bound(program: Program, rng: random.Random) -> None:
    """Long host code before every step, in which nothing is issued."""
    _sick(program, rng, "host_code", (30, 60))


@_scenario(expected="allocation")
def allocation_bound(program: Program, rng: random.Random) -> None:
    """A buffer allocated and freed in every step."""
    _sick(program, rng, "allocation", (25, 50))


def _healthy_steps(program: Program, rng: random.Random, count: int) -> None:
    compute, load = program.stream(), program.stream()
    names = _names(rng, 5)
    kernels = rng.randint(4, 8)
    kernel_ns = rng.uniform(80_000, 200_000)
    # The copies of the next batch hide behind the kernels of this one.
    batch_bytes = int(kernels * kernel_ns * rng.uniform(0.3, 0.6) * 50)
    program.copy(load, "H2D", batch_bytes // 20)
    loaded = program.record_event(load)
    for _ in range(count):
        with program.nvtx("step"):
            program.stream_wait(compute, loaded)
            for index in range(kernels):
                _launch(program, rng, compute, names[index % len(names)], kernel_ns)
            program.copy(load, "H2D", batch_bytes)
            loaded = program.record_event(load)


@_scenario(expected="none")
def healthy(program: Program, rng: random.Random) -> None:
    """Work is issued ahead, copies hide behind kernels, the host waits once, at the end."""
    _healthy_steps(program, rng, rng.randint(30, 60))
    program.synchronize(0)


@_scenario(expected="none", steady="steady")
def warmup_then_steady(program: Program, rng: random.Random) -> dict[str, Any]:
    """A warm-up with a trouble of its own, then a healthy NVTX range "steady".

    The note "warmup" names the cause that the whole capture shows.
    """
    sick = rng.choice(("allocation", "host_code", "waits"))
    stream = program.stream()
    with program.nvtx("warmup"):
        # A step that waits too much is short: more of them are needed to mislead.
        _steps(program, rng, stream, sick, rng.randint(40, 60) * (4 if sick == "waits" else 1))
        program.synchronize(0)
        program.host(rng.uniform(300_000, 900_000))
    program.push("steady")
    _healthy_steps(program, rng, rng.randint(12, 20))
    program.synchronize(0)
    program.pop()
    return {"warmup": sick}


@_scenario()
def gpu_metrics_low_sm(program: Program, rng: random.Random) -> None:
    """The device is busy nearly all the time with kernels of one to four blocks: few SMs work."""
    program.sample_metrics(rng.choice((50_000, 100_000, 200_000)))
    stream = program.stream()
    names = _names(rng, 3)
    for name in names:
        program.kernel(name, blocks=rng.randint(1, 4), dram_pct=rng.uniform(0.5, 3))
    with program.nvtx("steady"):
        for _ in range(rng.randint(150, 300)):
            _launch(program, rng, stream, rng.choice(names), rng.uniform(60_000, 180_000))
        program.synchronize(stream)
    program.host(rng.uniform(400_000, 2_000_000))
    program.kernel("wide_copy", blocks=4_000, dram_pct=80.0)
    for _ in range(rng.randint(2, 6)):
        _launch(program, rng, stream, "wide_copy", rng.uniform(100_000, 300_000))
    program.synchronize(0)


@_scenario()
def with_overhead(program: Program, rng: random.Random) -> None:
    """The profiler's own work on the program's threads and on its own, partly at the same time."""
    stream = program.stream()
    names = _names(rng, 3)
    second = program.thread()
    theirs = program.stream()
    for thread, where in ((program.main, stream), (second, theirs)):
        thread.push("work")
        for index in range(rng.randint(30, 60)):
            _launch(thread, rng, where, rng.choice(names), rng.uniform(20_000, 90_000))
            if rng.random() < 0.15:
                thread.overhead(rng.uniform(30_000, 200_000), "CUPTI Buffer flush", blocking=False)
            if rng.random() < 0.12:
                thread.overhead(rng.uniform(20_000, 120_000), "TLS allocation")
            if rng.random() < 0.2:
                thread.host(rng.uniform(10_000, 90_000))
            if index == 10:
                thread.mark("warm")
        if thread is program.main:
            thread.synchronize(where)
            thread.pop()  # the other thread's range stays open when recording stops
    program.overhead(
        rng.uniform(500_000, 3_000_000), "CUDA profiling data flush on cudaProfilerStop"
    )
