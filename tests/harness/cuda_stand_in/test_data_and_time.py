"""The stand-in for the CUDA runtime: what the batches hold and how long they take, on records written by hand."""

from __future__ import annotations

import pytest

from grading.checks.cuda.schedule import Schedule
from grading.checks.cuda.simulation import Costs, simulate
from tests.harness.cuda_stand_in.written_records import BYTES, ELEMENTS, Host

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
