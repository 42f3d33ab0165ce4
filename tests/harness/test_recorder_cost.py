"""What the recorder cost is no saving, and what comes from elsewhere comes when it came."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiling_lab.analysis import recorder_cost
from tests.harness.drawn_run import US, Drawn, of

# A launching call takes so long that the recorder takes just COSTS, and these are far more than half of it.
CALL_US = (recorder_cost.LAUNCH_ALONE_NS + recorder_cost.DEAR_NS) / US
COST_NS = recorder_cost.COSTS["nsys"].call_ns + recorder_cost.COSTS["nsys"].operation_ns


class Run(Drawn):
    def os_wait(self, us: int) -> None:
        self.os_call("pthread_cond_wait", self.now, self.now + us * US)
        self.now += us * US


def launches(
    file: Path, count: int, kernel_us: int, code_us: int = 6, call_us: float = CALL_US
) -> Run:
    run = Run(file)
    for _ in range(count):
        start = max(run.now + int((call_us + 2) * US), run.free + US)
        end = start + kernel_us * US
        run.kernel(start, end, call=(run.now, run.now + int(call_us * US)))
        run.now, run.free = run.now + int((call_us + code_us) * US), end
    return run


def test_a_host_that_issues_pays_for_each_call(tmp_path: Path) -> None:
    seen = of(launches(tmp_path / "launches.sqlite", 1_000, 2)).seen[0]
    assert seen.saved.recorder_ns == pytest.approx(1_000 * COST_NS, rel=0.02)
    # What remains of a step without the recorder, but for the kernel, is issuing.
    step_ns = (CALL_US + 6) * US - COST_NS
    assert seen.judged_ns == pytest.approx(1_000 * step_ns, rel=0.02)
    assert seen.saved.causes["launch_cost"] < 1_000 * (step_ns - 2 * US)


@pytest.mark.parametrize(("call_us", "times"), [(3.5, 0.0), (4.8, 0.5), (9.8, 3.0)])
def test_what_a_launching_call_takes_shows_how_dear_the_recorder_is(
    tmp_path: Path, call_us: float, times: float
) -> None:
    run = launches(tmp_path / "dear.sqlite", 1_000, 2, code_us=30, call_us=call_us)
    recorder_ns = of(run).seen[0].saved.recorder_ns
    assert recorder_ns == pytest.approx(1_000 * times * COST_NS, rel=0.02, abs=5 * US)


def test_a_stretch_pays_for_all_its_calls(tmp_path: Path) -> None:
    run = Run(tmp_path / "asking.sqlite")
    for _ in range(500):
        run.now += 30 * US
        for _ in range(4):
            run.api("cudaGetDevice", run.now, run.now + 200)
            run.now += 300
        start = max(run.now + int((CALL_US + 2) * US), run.free + US)
        run.kernel(start, start + 2 * US, call=(run.now, run.now + int(CALL_US * US)))
        run.now, run.free = run.now + int(CALL_US * US), start + 2 * US
    cost_ns = COST_NS + 4 * recorder_cost.COSTS["nsys"].call_ns
    assert of(run).seen[0].saved.recorder_ns == pytest.approx(500 * cost_ns, rel=0.02)


def test_a_long_call_bears_no_more_than_its_cost(tmp_path: Path) -> None:
    run = launches(tmp_path / "long.sqlite", 1, 2)
    for _ in range(200):
        run.now += 10 * US
        run.call("cudaMalloc", 90)
        start = max(run.now + int((CALL_US + 2) * US), run.free + US)
        run.kernel(start, start + 2 * US, call=(run.now, run.now + int(CALL_US * US)))
        run.now, run.free = run.now + int(CALL_US * US), start + 2 * US
    saved = of(run).seen[0].saved
    assert saved.causes["allocation"] > 199 * (90 * US - 2 * recorder_cost.COSTS["nsys"].call_ns)


def test_tracing_the_system_costs_more(tmp_path: Path) -> None:
    run = launches(tmp_path / "traced.sqlite", 1_000, 2, code_us=12)
    run.os_call("read", run.now, run.now + US)
    traced = recorder_cost.COSTS["nsys and the operating system"]
    cost_ns = traced.call_ns + traced.operation_ns
    assert of(run).seen[0].saved.recorder_ns == pytest.approx(1_000 * cost_ns, rel=0.02)
    assert cost_ns > 1.5 * COST_NS


def test_a_busy_device_hides_what_the_recorder_costs(tmp_path: Path) -> None:
    verdict = of(launches(tmp_path / "busy.sqlite", 200, 100))
    assert verdict.findings[0].category == "healthy"
    assert verdict.seen[0].saved.recorder_ns < 0.01 * verdict.seen[0].spent[0].length_ns
    assert not any("recorder" in line for line in verdict.rests_on)


def test_never_more_than_half_is_the_recorders(tmp_path: Path) -> None:
    run = launches(tmp_path / "quick.sqlite", 500, 1, code_us=0)
    for _ in range(500):
        run.call("cudaGetDevice", 1)
    seen = of(run).seen[0]
    window_ns = seen.spent[0].length_ns
    assert 0.4 * window_ns < seen.saved.recorder_ns <= 0.5 * window_ns


def test_the_verdict_says_so(tmp_path: Path) -> None:
    verdict = of(launches(tmp_path / "said.sqlite", 1_000, 2))
    assert sum("the recorder itself cost about 4.50 ms" in line for line in verdict.rests_on) == 1


def _fed(file: Path, os_calls: bool) -> Run:
    """A thread that waits until a reader's next batch comes, whatever it does itself meanwhile."""
    run = Run(file)
    due = run.now
    for _ in range(40):
        if os_calls:
            run.os_wait((due - run.now) // US if due > run.now else 0)
        run.now = max(run.now, due)
        due = run.now + 4_000 * US
        run.blocking_copy("H2D", 100, 5_000_000, pinned=True, api="cudaMemcpy_v3020")
        for _ in range(100):
            run.launch(2)
            run.now += 6 * US
    return run


@pytest.mark.parametrize("os_calls", [True, False])
def test_input_from_elsewhere_comes_when_it_came(tmp_path: Path, os_calls: bool) -> None:
    seen = of(_fed(tmp_path / "fed.sqlite", os_calls)).seen[0]
    # The recorder lengthened the last step alone: before the others the thread waits for the reader.
    assert seen.saved.recorder_ns < 0.01 * seen.spent[0].length_ns
    assert seen.saved.causes["input"] > 0.5 * seen.judged_ns
    if os_calls:
        # Nor does it come earlier where launches cost nothing.
        assert seen.saved.causes["launch_cost"] < 0.02 * seen.judged_ns
