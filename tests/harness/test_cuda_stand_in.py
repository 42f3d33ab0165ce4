"""The recording stand-in for the CUDA runtime, and the analysis of what it records.

The rules of order and of time are tested on records written by hand, the recorder on small programs.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from grading.checks.cuda import recording, toolchain
from grading.checks.cuda.schedule import Operation, Schedule
from grading.checks.cuda.simulation import Costs, simulate

ROOT = Path(__file__).resolve().parents[2]
GIVEN = ROOT / "week07" / "day1_nsight_systems" / "cuda"
REFERENCE = ROOT / "solutions" / "week07" / "day1_nsight_systems" / "cuda" / "pipeline_improved.cu"
ELEMENTS = 1000
BYTES = 4 * ELEMENTS


def compiles(test):
    """A test that runs the compilers: only the proof waits for that, where they are."""
    return pytest.mark.proof(pytest.mark.needs("nvcc", "cxx", "linux")(test))


class Host:
    """Writes a record as the stand-in does. Buffers: p, q pinned, a, b on the device; h pageable."""

    def __init__(self) -> None:
        self.lines: list[dict] = []
        self.inside = -1
        for number, (name, memory) in enumerate(
            {"p": "pinned", "q": "pinned", "a": "device", "b": "device"}.items()
        ):
            setattr(self, name, {"memory": memory, "buffer": number, "offset": 0})
            self.add(
                "allocate",
                function="cudaMalloc",
                buffer=number,
                memory=memory,
                bytes=BYTES,
                stream=-1,
            )
        self.h = {"memory": "pageable", "buffer": -1, "offset": 70_000}

    def add(self, kind: str, **rest) -> int:
        line = {"line": len(self.lines), "kind": kind, "thread": 0, "host_function": self.inside}
        self.lines.append({**line, **rest})
        return line["line"]

    def stream(self, number: int, blocking: bool = False) -> None:
        self.add("create_stream", stream=number, blocking=blocking, priority=0)

    def copy(self, to, source, stream=0, *, size=BYTES, wait=False) -> None:
        ends = ["D" if x["memory"] == "device" else "H" for x in (source, to)]
        self.add(
            "copy",
            function="cudaMemcpy" if wait else "cudaMemcpyAsync",
            direction="2".join(ends),
            stream=stream,
            **{"async": not wait},
            bytes=size,
            source=source,
            destination=to,
        )

    def kernel(self, name, read, write, stream=0, elements=ELEMENTS) -> None:
        arguments = [
            {"type": "float const*", "pointer": read},
            {"type": "float*", "pointer": write},
            {"type": "int", "value": elements},
        ]
        self.add(
            "kernel", name=name, stream=stream, grid=[1] * 3, block=[1] * 3, arguments=arguments
        )

    def record(self, event, stream) -> None:
        self.add("record", event=event, stream=stream)

    def wait(self, event, stream) -> None:
        self.add("wait", event=event, stream=stream)

    def load(self, at, batch=0) -> None:
        self.add("host_access", what="load_batch", batch=batch, bytes=BYTES, write=True, at=at)

    def consume(self, at, batch=0) -> None:
        self.add("host_access", what="consume_batch", batch=batch, bytes=BYTES, write=False, at=at)

    def synchronize(self, *, stream=None, event=None) -> None:
        if stream is not None:
            self.add("synchronize_stream", function="cudaStreamSynchronize", stream=stream)
        elif event is not None:
            self.add("synchronize_event", function="cudaEventSynchronize", event=event)
        else:
            self.add("synchronize_device", function="cudaDeviceSynchronize")

    def marker(self, name) -> None:
        self.add("marker", name=name)

    def batch(self, stream, batch=0) -> None:
        """A whole batch in one stream."""
        self.load(self.p, batch)
        self.copy(self.a, self.p, stream)
        self.kernel("normalise", self.a, self.b, stream)
        self.kernel("infer", self.b, self.a, stream)
        self.kernel("postprocess", self.a, self.b, stream)
        self.copy(self.q, self.b, stream)

    def schedule(self) -> Schedule:
        return Schedule(self.lines, ELEMENTS)

    def pairs(self) -> list[tuple[str, str]]:
        """The unordered accesses, as (kind or kernel, kind or kernel)."""
        races = self.schedule().races()

        def name(operation: Operation) -> str:
            return operation.kernel or operation.direction or operation.kind

        return [(name(race.first), name(race.second)) for race in races]


@pytest.fixture
def host() -> Host:
    return Host()


# -- order ------------------------------------------------------------------------------------------


def test_one_stream_is_ordered(host):
    host.stream(1)
    host.batch(1)
    host.synchronize(stream=1)
    host.consume(host.q)
    assert host.pairs() == []
    assert host.schedule().wrong_batches(1, 0) == []


@pytest.mark.parametrize("wait", ["stream", "event", "device"])
def test_host_waits(host, wait):
    host.stream(1)
    host.batch(1)
    host.record(5, 1)
    host.synchronize(
        **({} if wait == "device" else {"stream": 1} if wait == "stream" else {"event": 5})
    )
    host.consume(host.q)
    assert host.pairs() == []


def test_host_does_not_wait(host):
    host.stream(1)
    host.batch(1)
    host.consume(host.q)
    host.load(host.p, 1)
    assert host.pairs() == [("D2H", "host_access"), ("H2D", "host_access")]


def test_waiting_for_another_stream_does_not_help(host):
    host.stream(1)
    host.stream(2)
    host.batch(1)
    host.synchronize(stream=2)
    host.consume(host.q)
    assert host.pairs() == [("D2H", "host_access")]


def test_event_orders_two_streams(host):
    host.stream(1)
    host.stream(2)
    host.copy(host.a, host.p, 1)
    host.record(1, 1)
    host.wait(1, 2)
    host.kernel("normalise", host.a, host.b, 2)
    assert host.pairs() == []


def test_event_stands_for_what_was_there_when_recorded(host):
    host.stream(1)
    host.stream(2)
    host.record(1, 1)
    host.copy(host.a, host.p, 1)
    host.wait(1, 2)
    host.kernel("normalise", host.a, host.b, 2)
    assert host.pairs() == [("H2D", "normalise")]


def test_wait_takes_the_event_as_it_was_at_the_call(host):
    host.stream(1)
    host.stream(2)
    host.wait(1, 2)  # not recorded yet: waits for nothing
    host.copy(host.a, host.p, 1)
    host.record(1, 1)
    host.kernel("normalise", host.a, host.b, 2)
    assert host.pairs() == [("H2D", "normalise")]


def test_order_passes_through_a_third_stream(host):
    for number in (1, 2, 3):
        host.stream(number)
    host.copy(host.a, host.p, 1)
    host.record(1, 1)
    host.wait(1, 2)
    host.record(2, 2)
    host.wait(2, 3)
    host.kernel("normalise", host.a, host.b, 3)
    assert host.pairs() == []


@pytest.mark.parametrize(("blocking", "races"), [(True, []), (False, [("H2D", "normalise")])])
def test_default_stream_waits_for_blocking_streams(host, blocking, races):
    host.stream(1, blocking)
    host.copy(host.a, host.p, 1)
    host.kernel("normalise", host.a, host.b, 0)
    assert host.pairs() == races


@pytest.mark.parametrize(("blocking", "races"), [(True, []), (False, [("normalise", "D2H")])])
def test_blocking_streams_wait_for_the_default_stream(host, blocking, races):
    host.stream(1, blocking)
    host.kernel("normalise", host.a, host.b, 0)
    host.copy(host.q, host.b, 1)
    assert host.pairs() == races


def test_reads_need_no_order(host):
    host.stream(1)
    host.stream(2)
    host.copy(host.p, host.a, 1)
    host.copy(host.q, host.a, 2)
    assert host.pairs() == []


def test_other_bytes_need_no_order(host):
    host.stream(1)
    host.stream(2)
    half = BYTES // 2
    host.copy(host.a, host.p, 1, size=half)
    far = {**host.a, "offset": half}
    host.copy(far, {**host.p, "offset": half}, 2, size=half)
    assert host.pairs() == []
    host.copy({**far, "offset": half - 4}, {**host.p, "offset": half}, 2, size=half)
    assert host.pairs() == [("H2D", "H2D")]


def test_blocking_copy_from_pinned_memory_is_complete_on_return(host):
    host.stream(1)
    host.copy(host.a, host.p, wait=True)
    host.load(host.p, 1)
    host.kernel("normalise", host.a, host.b, 1)
    assert host.pairs() == []


def test_copy_from_pageable_memory_has_read_its_source_on_return_and_no_more(host):
    host.stream(1)
    host.copy(host.a, host.h, wait=True)
    host.load(host.h, 1)
    assert host.pairs() == []
    host.kernel("normalise", host.a, host.b, 1)
    assert host.pairs() == [("H2D", "normalise")]


def test_copy_to_pageable_memory_is_complete_on_return(host):
    host.stream(1)
    host.copy(host.h, host.b, 1)
    host.consume(host.h)
    assert host.pairs() == []


def test_release_in_flight_is_found(host):
    host.stream(1)
    host.copy(host.a, host.p, 1)
    host.add("release", function="cudaFreeHost", buffer=0, bytes=BYTES, stream=-1)
    assert host.pairs() == [("H2D", "release")]


def test_memory_of_a_stream_is_not_there_earlier_in_another(host):
    host.stream(1)
    host.stream(2)
    host.add(
        "allocate", function="cudaMallocAsync", buffer=9, memory="device", bytes=BYTES, stream=1
    )
    own = {"memory": "device", "buffer": 9, "offset": 0}
    host.copy(own, host.p, 2)
    assert host.pairs() == [("allocate", "H2D")]


def test_host_function_runs_in_its_stream(host):
    host.stream(1)
    host.batch(1)
    host.inside = host.add("host_function", stream=1)
    host.consume(host.q)
    host.inside = -1
    assert host.pairs() == []
    host.load(host.q, 1)
    assert host.pairs() == [("D2H", "host_access"), ("host_access", "host_access")]


def test_race_names_both_operations_and_counts(host):
    host.stream(1)
    host.stream(2)
    host.load(host.p, 7)
    for _ in range(3):
        host.copy(host.a, host.p, 1)
        host.kernel("normalise", host.a, host.b, 2)
    races = host.schedule().races()
    first = races[0]
    assert str(first.first) == "copy in (cudaMemcpyAsync) of batch 7 in stream 1"
    assert str(first.second) == "kernel normalise of batch 7 in stream 2"
    assert sum(r.count for r in races) == 9, "3 copies against 3 kernels"


# -- data -------------------------------------------------------------------------------------------


def wrong(host: Host, batches: int = 1) -> str:
    host.synchronize()
    return " | ".join(host.schedule().wrong_batches(batches, 0))


def test_a_step_left_out_is_found(host):
    host.load(host.p)
    host.copy(host.a, host.p)
    host.kernel("normalise", host.a, host.b)
    host.copy(host.q, host.b)
    host.consume(host.q)
    assert "are only normalised" in wrong(host)


def test_steps_in_another_order_are_found(host):
    host.load(host.p)
    host.copy(host.a, host.p)
    host.kernel("infer", host.a, host.b)
    host.copy(host.q, host.b)
    host.consume(host.q)
    assert "kernel infer ran on data as loaded, it expects data normalised" in wrong(host)


def test_another_batch_is_found(host):
    host.batch(0, batch=0)
    host.consume(host.q, 0)
    host.consume(host.q, 1)
    assert "consume_batch(1) read a wrong result: elements 0 to 999 belong to batch 0" in wrong(
        host, 2
    )


def test_part_of_a_batch_is_found(host):
    host.load(host.p)
    host.copy(host.a, host.p)
    host.kernel("normalise", host.a, host.b)
    host.kernel("infer", host.b, host.a, elements=600)
    host.kernel("postprocess", host.a, host.b)
    host.copy(host.q, host.b)
    host.consume(host.q)
    assert "elements 600 to 999 are no result of any batch" in wrong(host)


def test_batch_in_two_chunks_is_whole(host):
    host.load(host.p)
    size = BYTES // 2
    for offset in (0, size):
        p, q, a, b = ({**x, "offset": offset} for x in (host.p, host.q, host.a, host.b))
        host.copy(a, p, size=size)
        host.kernel("normalise", a, b, elements=ELEMENTS // 2)
        host.kernel("infer", b, b, elements=ELEMENTS // 2)  # in place
        host.kernel("postprocess", b, a, elements=ELEMENTS // 2)
        host.copy(q, a, size=size)
    host.consume(host.q)
    assert wrong(host) == ""


def test_chunks_put_back_in_the_wrong_place_are_found(host):
    host.batch(0)
    size = BYTES // 2
    host.copy({**host.q, "offset": size}, host.b, size=size)
    host.consume(host.q)
    assert "elements 500 to 999 hold the batch's elements from 0 on" in wrong(host)


def test_missing_and_repeated_batches_are_found(host):
    host.batch(0)
    host.consume(host.q)
    host.consume(host.q)
    text = wrong(host, 2)
    assert "1 of 2 batches never reached consume_batch: [1]" in text
    assert "more than once for the batches [0]" in text


def test_kernel_of_ones_own_writes_what_it_may_write(host):
    host.batch(0)
    host.kernel("mine", host.b, host.a)
    host.consume(host.q)
    assert wrong(host) == "", "its input is const"
    host.copy(host.q, host.a)
    host.consume(host.q, 1)
    assert "kernel mine, which is none of the three given ones, wrote there" in wrong(host, 2)


def test_kernel_given_host_memory_is_found(host):
    host.kernel("normalise", host.p, host.b)
    host.kernel("normalise", host.a, host.b, elements=ELEMENTS + 1)
    found = host.schedule().misplaced
    assert "kernel normalise was given pinned host memory" in found[0]
    assert "was told 1001 elements; its input has room for 1000" in found[1]


# -- time -------------------------------------------------------------------------------------------

FREE_HOST = {"host_access_ns": 0.0, "call_ns": 0.0}


def costs(copy_in=100.0, copy_out=100.0, kernels=100.0, **rest) -> Costs:
    return Costs(BYTES, copy_in, copy_out, kernels, **{**FREE_HOST, **rest})


def measured(host: Host, issue) -> Schedule:
    host.marker("begin")
    issue()
    host.synchronize()
    host.marker("end")
    return host.schedule()


def test_one_stream_takes_the_sum(host):
    host.stream(1)
    schedule = measured(host, lambda: [host.batch(1, i) for i in range(3)])
    simulation = simulate(schedule, costs(100, 50, 200))
    assert simulation.makespan_ns == pytest.approx(3 * 350)
    assert simulation.busy_ns("copies in", "kernels") == 0
    assert simulation.busy_ns("kernels") == pytest.approx(600)


def test_streams_take_the_ideal_bound(host):
    for number in range(1, 6):
        host.stream(number)
    schedule = measured(host, lambda: [host.batch(1 + i, i) for i in range(5)])
    for durations in ((100, 50, 200), (300, 50, 200), (100, 250, 200)):
        simulation = simulate(schedule, costs(*durations))
        assert simulation.makespan_ns == pytest.approx(costs(*durations).ideal_ns(5))


def test_an_engine_takes_the_operation_that_is_ready_first(host):
    for number in (1, 2):
        host.stream(number)

    def issue():
        host.kernel("infer", host.b, host.a, 1)  # 90
        host.copy(host.q, host.a, 1)  # ready at 90
        host.copy(host.p, host.b, 2)  # ready at 0, issued later

    simulation = simulate(measured(host, issue), costs())
    starts = [t.start for t in simulation.timed if t.engine == "copies out"]
    assert starts == pytest.approx([100, 0])


def test_waiting_for_an_event_costs_time(host):
    host.stream(1)
    host.stream(2)

    def issue():
        host.copy(host.a, host.p, 1)
        host.record(1, 1)
        host.wait(1, 2)
        host.kernel("infer", host.a, host.b, 2)

    simulation = simulate(measured(host, issue), costs())
    assert simulation.makespan_ns == pytest.approx(190)
    assert simulation.waits_ns("kernels") == {"copy in (cudaMemcpyAsync) in stream 1": 100}


def test_pageable_copy_holds_up_the_host(host):
    host.stream(1)
    host.stream(2)

    def issue():
        host.copy(host.a, host.h, 1)
        host.copy(host.q, host.b, 2)

    simulation = simulate(measured(host, issue), costs(pageable_ratio=4))
    assert simulation.makespan_ns == pytest.approx(500)
    assert simulation.host_blocked_ns["cudaMemcpyAsync of pageable memory"] == pytest.approx(400)


def test_default_stream_serialises_blocking_streams(host):
    for number in (1, 2):
        host.stream(number, blocking=True)

    def issue():
        for number in (1, 2):
            host.copy(host.a, host.p, number)
            host.kernel("infer", host.a, host.b, 0)

    assert simulate(measured(host, issue), costs()).makespan_ns == pytest.approx(2 * 190)


def test_host_time_and_waiting_are_counted(host):
    host.stream(1)

    def issue():
        host.copy(host.a, host.p, 1)  # call 5, then 100
        host.synchronize(stream=1)  # call 5, waits until 105
        host.load(host.p)  # 20, until 125

    simulation = simulate(measured(host, issue), costs(call_ns=5.0, host_access_ns=20.0))
    assert simulation.makespan_ns == pytest.approx(5 + 100 + 20 + 5)
    assert simulation.host_blocked_ns["cudaStreamSynchronize"] == pytest.approx(95)


def test_allocation_in_the_measured_part_waits_and_costs(host):
    host.stream(1)

    def issue():
        host.copy(host.a, host.p, 1)
        host.add("release", function="cudaFree", buffer=3, bytes=BYTES, stream=-1)
        host.copy(host.a, host.p, 1)

    simulation = simulate(measured(host, issue), costs(allocation_ns=1000.0))
    assert simulation.makespan_ns == pytest.approx(100 + 1000 + 100)


# -- the recorder -----------------------------------------------------------------------------------


@compiles
def test_reference_is_near_the_bound_and_baseline_is_not():
    chance = random.Random(1)
    for _ in range(10):
        batches, elements = chance.randint(14, 22), chance.randint(3_000, 12_000)
        ratios = []
        for source in (REFERENCE, GIVEN / "pipeline_baseline.cu"):
            schedule = recording.record(
                source, GIVEN, batches=batches, elements=elements, warmup_batches=1
            )
            assert schedule.races() == []
            assert schedule.wrong_batches(batches, 1) == schedule.wrong_batches(1, 0) == []
            assert schedule.unreleased() == schedule.misplaced == schedule.refused == []
            steps = [680_000.0 * chance.uniform(0.93, 1.07) for _ in range(3)]
            prices = Costs(4 * elements, *steps)
            ratios.append(simulate(schedule, prices).makespan_ns / prices.ideal_ns(batches))
        assert ratios[0] < 1.1
        assert ratios[1] > 5


PROGRAM = """
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
namespace deep {
template <typename T>
__global__ void scale(const T* in, T* out, int n, unsigned long m, float f) { out[0] = in[0] * f; }
}
static void later(void* data) { *static_cast<int*>(data) = 7; }
static void calls_back(void*) { cudaDeviceSynchronize(); }
int main() {
    cudaStream_t s, t;
    cudaStreamCreate(&s);
    cudaStreamCreateWithFlags(&t, cudaStreamNonBlocking);
    float *d, *h, *u = static_cast<float*>(std::malloc(64));
    cudaMalloc(&d, 64);
    cudaMallocHost(&h, 64);
    deep::scale<float><<<dim3(2, 3), 32, 48, t>>>(d + 4, d, 5, 6ul, 1.0f);
    cudaMemsetAsync(d, 0, 64, s);
    cudaMemcpyAsync(h, d, 64, cudaMemcpyDefault, s);
    int value = 0;
    cudaLaunchHostFunc(s, later, &value);
    cudaLaunchHostFunc(s, calls_back, nullptr);
    // refused, one after the other
    cudaMemcpy(d, u, 65, cudaMemcpyHostToDevice);
    cudaMemcpy(d, u, 64, cudaMemcpyDeviceToHost);
    deep::scale<float><<<1, 2048>>>(d, d, 1, 1, 1.0f);
    cudaFree(h);
    cudaFreeHost(h);
    cudaFreeHost(h);
    cudaStreamDestroy(s);
    cudaStreamSynchronize(s);
    cudaHostRegister(u, 64, 0);
    cudaMemcpyAsync(u, d, 64, cudaMemcpyDeviceToHost, cudaStreamPerThread);
    cudaHostUnregister(u);
    const bool kept = cudaGetLastError() == cudaErrorInvalidResourceHandle;
    const bool cleared = cudaGetLastError() == cudaSuccess;
    return kept && cleared && value == 7 ? 0 : 1;
}
"""


@compiles
def test_recorder(tmp_path):
    (tmp_path / "program.cu").write_text(PROGRAM)
    lines = recording.record(
        tmp_path / "program.cu", tmp_path, batches=1, elements=1, warmup_batches=0
    ).lines
    kernel = next(line for line in lines if line["kind"] == "kernel")
    assert kernel["name"] == "void deep::scale<float>"
    assert (kernel["grid"], kernel["block"], kernel["stream"]) == ([2, 3, 1], [32, 1, 1], 2)
    assert kernel["arguments"] == [
        {"type": "float const*", "pointer": {"memory": "device", "buffer": 0, "offset": 16}},
        {"type": "float*", "pointer": {"memory": "device", "buffer": 0, "offset": 0}},
        {"type": "int", "value": 5},
        {"type": "unsigned long", "value": 6},
        {"type": "float", "value": 1.0},
    ]
    assert kernel["symbol"].startswith("_ZN4deep5scale") and kernel["shared_bytes"] == 48
    streams = [line for line in lines if line["kind"] == "create_stream"]
    assert [s["blocking"] for s in streams] == [True, False]
    copies = [line for line in lines if line["kind"] == "copy"]
    assert [(c["direction"], c["stream"], c["async"]) for c in copies] == [
        ("D2H", 1, True),
        ("D2H", 1000, True),
    ]
    assert copies[1]["destination"]["memory"] == "pinned", "registered"
    refused = [(line["function"], line["error"]) for line in lines if line["kind"] == "refused"]
    assert refused == [
        ("cudaDeviceSynchronize", "cudaErrorNotPermitted"),
        ("cudaMemcpy", "cudaErrorInvalidValue"),
        ("cudaMemcpy", "cudaErrorInvalidValue"),
        ("cudaLaunchKernel", "cudaErrorInvalidConfiguration"),
        ("cudaFree", "cudaErrorInvalidValue"),
        ("cudaFreeHost", "cudaErrorInvalidValue"),
        ("cudaStreamSynchronize", "cudaErrorInvalidResourceHandle"),
    ]


@compiles
@pytest.mark.parametrize(
    ("body", "says"),
    [
        (
            "cudaGraph_t g; cudaGraphCreate(&g, 0); void* m; cudaMallocManaged(&m, 4);",
            "cudaGraphCreate, cudaMallocManaged, which the recording stand-in",
        ),
        ("void elsewhere(); elsewhere();", "leaves undefined: elsewhere()"),
        ("cudaMalloc(3);", "program.cu(2): error"),
    ],
    ids=["not in the stand-in", "not defined", "not C++"],
)
def test_what_cannot_be_built_is_named(tmp_path, body, says):
    source = tmp_path / "program.cu"
    source.write_text(f"#include <cuda_runtime.h>\nint main() {{ {body} }}\n")
    for _ in range(2):  # the second time from what is kept
        with pytest.raises(toolchain.BuildError) as caught:
            toolchain.build(source, tmp_path)
        assert says in str(caught.value)


@compiles
def test_how_a_program_ended_is_named(tmp_path):
    source = tmp_path / "program.cu"
    source.write_text(
        "#include <cuda_runtime.h>\n#include <cstdio>\n"
        'int main() { cudaFree((void*)8); std::fprintf(stderr, "gone wrong"); return 3; }\n'
    )
    with pytest.raises(recording.RunError) as caught:
        recording.record(source, tmp_path, batches=1, elements=1, warmup_batches=0)
    text = str(caught.value)
    assert "ended with exit code 3" in text
    assert "cudaFree refused: cudaErrorInvalidValue" in text
    assert "gone wrong" in text


def test_no_compiler_is_named(monkeypatch):
    monkeypatch.setattr(toolchain.doctor, "find_nvcc", lambda: None)
    toolchain.nvcc.cache_clear()
    with pytest.raises(toolchain.ToolchainError, match="nvidia-cuda-nvcc"):
        toolchain.nvcc()
    toolchain.nvcc.cache_clear()
