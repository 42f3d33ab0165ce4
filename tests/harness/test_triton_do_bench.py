"""What the course says of `triton.testing.do_bench` is what the installed Triton does."""

from __future__ import annotations

import types
from pathlib import Path
from unittest import mock

import pytest

from grading.runner.scoring import installed
from profiling_lab.course import manifest as course
from profiling_lab.mine.functions import load_once

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.needs("torch", "triton")


class Device:
    """A device on which a call takes as long as it says; clearing its cache takes no time."""

    def __init__(self, call_ms: float) -> None:
        self.call_ms = call_ms
        self.now_ms = 0.0
        self.calls = self.clears = 0

    def call(self) -> None:
        self.calls += 1
        self.now_ms += self.call_ms

    # What do_bench asks of the driver and of the device.

    def get_device_interface(self) -> types.SimpleNamespace:
        return types.SimpleNamespace(synchronize=lambda: None, Event=lambda **_: Event(self))

    def get_empty_cache_for_benchmark(self) -> object:
        return object()

    def clear_cache(self, cache: object) -> None:
        self.clears += 1


class Event:
    """A mark on the device's clock."""

    def __init__(self, device: Device) -> None:
        self.device = device

    def record(self) -> None:
        self.at_ms = self.device.now_ms

    def elapsed_time(self, later: Event) -> float:
        return later.at_ms - self.at_ms


@pytest.fixture
def plan():
    known = course.load(ROOT)
    stub = known.exercise("triton_ex05").stub
    return load_once(known.solution(stub), "reference_triton_ex05").do_bench_plan


@pytest.mark.parametrize(
    ("call_ms", "options"),
    [(0.5, {}), (2.0, {}), (0.25, {"warmup": 3, "rep": 8}), (64.0, {}), (512.0, {"rep": 1})],
)
def test_do_bench_calls_as_often_as_the_plan_says(plan, call_ms: float, options: dict) -> None:
    device = Device(call_ms)  # powers of two, so that nothing is rounded on the way
    runtime = types.SimpleNamespace(driver=types.SimpleNamespace(active=device))
    testing = installed("triton.testing")
    with mock.patch.object(testing, "runtime", runtime):
        samples = testing.do_bench(device.call, return_mode="all", **options)
    right = plan(call_ms, **options)
    assert device.calls == right["calls_count"]
    assert device.clears == right["cold_count"]
    assert len(samples) == right["timed_count"]


def test_do_bench_returns_the_mean_of_ms() -> None:
    device = Device(1.0)
    times = iter([1.0] * 200 + [3.0] * 10_000)

    def call() -> None:
        device.call_ms = next(times)
        device.call()

    runtime = types.SimpleNamespace(driver=types.SimpleNamespace(active=device))
    testing = installed("triton.testing")
    with mock.patch.object(testing, "runtime", runtime):
        mean = testing.do_bench(call, warmup=25, rep=200)
    assert 1.0 < mean < 3.0 and mean not in (1.0, 3.0)
    assert not hasattr(testing, "test_perf")
