# ruff: noqa: N802 - the stand-ins have the names of torch
from __future__ import annotations

import gzip
import itertools
import json
import sys
import threading
import types

import pytest

from grading.runner.scoring import installed
from profiling_lab.tools import call_times
from profiling_lab.tools.easy_profiler import Phases, auto_profile, timed, trace

SECOND_NS = 1_000_000_000


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still until it is told to go on, in seconds."""
    now = [0]
    monkeypatch.setattr(call_times.time, "perf_counter_ns", lambda: now[0])

    def sleep(seconds: float) -> None:
        now[0] += round(seconds * SECOND_NS)

    return sleep


# -- auto_profile ---------------------------------------------------------------------------------


def test_a_stateful_step_is_called_once_a_call(clock):
    lines, state = [], []

    @auto_profile(warmup=2, iterations=3, report=lines.append)
    def step(amount, *, scale=1):
        clock(amount * scale)
        state.append(amount)
        return amount * scale

    results = [step(n, scale=2) for n in (9, 9, 1, 2, 3, 50)]
    assert results == [18, 18, 2, 4, 6, 100]
    assert state == [9, 9, 1, 2, 3, 50], "each call of the program is one call of the function"
    summary = step.profile.get_summary()
    assert summary.host_ns == (2 * SECOND_NS, 4 * SECOND_NS, 6 * SECOND_NS)
    assert (summary.skipped_count, summary.failed_count) == (2, 0)
    assert len(lines) == 1, "the summary is reported once, after the last measured call"
    assert (
        "4.00 s" in lines[0] and "3 measured" in lines[0] and "2 before them left out" in lines[0]
    )
    assert step.__name__ == "step"


def test_repeat_is_asked_for(clock):
    calls = []

    @auto_profile(warmup=2, iterations=3, repeat=True, report=None)
    def pure(value):
        clock(1)
        calls.append(value)
        return len(calls)

    assert pure("a") == 5, "the last of 2 + 3 calls"
    assert pure("b") == 6 and calls == ["a"] * 5 + ["b"], "once it is measured a call is a call"


def test_a_call_that_raises_counts_as_failed_and_raises_on(clock):
    @auto_profile(warmup=0, iterations=1, report=None)
    def step(good):
        clock(1)
        if not good:
            raise KeyError("the step's own")

    with pytest.raises(KeyError, match="the step's own"):
        step(False)
    step(True)
    summary = step.profile.get_summary()
    assert (len(summary.host_ns), summary.failed_count) == (1, 1)


@pytest.mark.parametrize("repeat", [False, True])
def test_a_call_inside_of_a_measured_one_belongs_to_it(clock, repeat):
    @auto_profile(warmup=0, iterations=2, repeat=repeat, report=None)
    def factorial(n):
        clock(1)
        return 1 if n < 2 else n * factorial(n - 1)

    assert factorial(4) == 24
    assert factorial.profile.get_summary().host_ns[0] == 4 * SECOND_NS


def test_a_method_and_a_thread_are_measured_like_a_function(clock):
    class Model:
        @auto_profile(warmup=0, iterations=4, report=None)
        def step(self, value):
            return self, value

    model = Model()
    assert model.step(1) == (model, 1)
    thread = threading.Thread(target=model.step, args=(2,))
    thread.start()
    thread.join()
    assert len(Model.step.profile.get_summary().host_ns) == 2


def test_switched_off_it_only_calls(clock, monkeypatch):
    lines = []
    off = auto_profile(warmup=0, iterations=1, enabled=False, report=lines.append)(lambda: clock(1))
    monkeypatch.setenv("AUTO_PROFILE", "0")
    by_environment = auto_profile(lambda: clock(1))
    for function in (off, by_environment):
        function()
        assert function.profile.get_summary().host_ns == ()
    assert not lines
    off.profile.reset()
    off()
    assert len(lines) == 1, "reset starts it"


@pytest.mark.parametrize(
    ("options", "says"),
    [({"warmup": -1}, "warmup"), ({"iterations": 0}, "iterations"), ({"iterations": 2.5}, "2.5")],
)
def test_options_that_make_no_sense(options, says):
    with pytest.raises(ValueError, match=says):
        auto_profile(**options)


def test_what_returns_before_it_runs_is_refused():
    def generator():
        yield 1

    async def coroutine():
        return 1

    async def both():
        yield 1

    for function in (generator, coroutine, both):
        with pytest.raises(TypeError, match="returns before it has run"):
            auto_profile(function)
    with pytest.raises(TypeError, match="decorates a function"):
        auto_profile(warmup=1)(3)  # type: ignore[bad-specialization]


@pytest.mark.parametrize("kind", [staticmethod, classmethod, property])
def test_what_binds_a_function_belongs_above_it(clock, kind):
    with pytest.raises(TypeError, match=f"put @{kind.__name__} above @auto_profile"):
        auto_profile(kind(lambda *_: 1))

    class Model:
        step = kind(auto_profile(warmup=0, iterations=1, report=None)(lambda *_: 1))

    assert (Model().step if kind is property else Model().step()) == 1


class FakeCuda:
    """torch.cuda with a stream whose time is told; notes what is called."""

    def __init__(self) -> None:
        self.now_ms, self.log, self.capturing = 0.0, [], False
        self.nvtx = types.SimpleNamespace(
            range_push=lambda name: self.log.append(f"push {name}"),
            range_pop=lambda: self.log.append("pop"),
        )

    def is_initialized(self):
        return True

    def is_current_stream_capturing(self):
        return self.capturing

    def current_stream(self):
        return "stream"

    def Event(self, enable_timing):
        cuda, event = self, types.SimpleNamespace(at_ms=None)

        def record(stream):
            event.at_ms = cuda.now_ms

        event.record = record
        event.synchronize = lambda: cuda.log.append("wait")
        event.elapsed_time = lambda other: other.at_ms - event.at_ms
        return event


def test_device_time_comes_from_events_and_nothing_waits_before_the_summary(clock, monkeypatch):
    cuda = FakeCuda()
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(cuda=cuda))

    @auto_profile(warmup=1, iterations=2, report=None)
    def step(milliseconds):
        clock(0.001)
        cuda.now_ms += milliseconds

    for milliseconds in (100, 5, 7):
        step(milliseconds)
    assert "wait" not in cuda.log
    summary = step.profile.get_summary()
    assert summary.device_ns == (5_000_000, 7_000_000) and "device" in str(summary)
    assert cuda.log[:2] == [
        "push test_device_time_comes_from_events_and_nothing_waits_before_the_summary.step",
        "pop",
    ]


def test_no_event_is_recorded_while_a_graph_is_captured(clock, monkeypatch):
    cuda = FakeCuda()
    cuda.capturing = True
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(cuda=cuda))
    step = auto_profile(warmup=0, iterations=1, report=None)(lambda: clock(1))
    step()
    assert step.profile.get_summary().device_ns == ()


def test_results_of_jax_are_waited_for(clock, monkeypatch):
    waited = []

    def block(result):
        clock(3)
        waited.append(result)

    monkeypatch.setitem(sys.modules, "jax", types.SimpleNamespace(block_until_ready=block))
    step = auto_profile(warmup=0, iterations=1, report=None)(lambda: "array")
    assert step() == "array" and waited == ["array"]
    assert step.profile.get_summary().host_ns == (3 * SECOND_NS,)


# -- blocks ---------------------------------------------------------------------------------------


def test_a_block_is_timed_also_when_it_raises(clock):
    lines = []
    with pytest.raises(RuntimeError), timed("epoch", report=lines.append) as block:
        clock(2)
        raise RuntimeError
    assert block.get_summary().host_ns == (2 * SECOND_NS,) and lines[0].startswith(
        "epoch: host 2.00 s"
    )


def test_phases_inside_phases_have_paths(clock):
    phases = Phases()
    assert str(phases) == "no phase measured yet"
    for seconds in (1, 3):
        with phases("step"):
            with phases("forward"):
                clock(seconds)
            clock(1)
    summary = phases.get_summary()
    assert list(summary) == ["step", "step/forward"]
    assert summary["step"].host_ns == (2 * SECOND_NS, 4 * SECOND_NS)
    assert summary["step/forward"].host_ns == (SECOND_NS, 3 * SECOND_NS)
    json.dumps(summary["step"].to_dict())


def test_a_trace_holds_the_active_steps_and_survives_an_error(tmp_path):
    torch = installed("torch")
    matrix = torch.ones(8, 8)

    def products(file):
        events = json.loads(gzip.decompress(file.read_bytes()))["traceEvents"]
        return sum(event.get("name") == "aten::mm" for event in events)

    with trace(tmp_path / "new" / "whole.json.gz", wait=1, warmup=1, active=2) as steps:
        for _ in range(6):
            matrix @ matrix
            steps.step()
    assert products(tmp_path / "new" / "whole.json.gz") == 2

    broken = tmp_path / "broken.json.gz"
    with pytest.raises(KeyError), trace(broken, wait=0, warmup=1, active=4) as steps:
        for index in itertools.count():
            matrix @ matrix
            steps.step()
            if index == 2:
                raise KeyError
    assert products(broken) == 2

    with pytest.raises(RuntimeError, match="more than 2 times"), trace(tmp_path / "none.json.gz"):
        pass
