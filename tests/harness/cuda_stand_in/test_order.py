"""The stand-in for the CUDA runtime: what is ordered and what is not, on records written by hand."""

from __future__ import annotations

import pytest

from tests.harness.cuda_stand_in.written_records import BYTES


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
