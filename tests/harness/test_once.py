"""Once is not always: what a recording holds once is set-up, what comes again is a cost of steps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from grading.checks.generate.kineto import Trace
from profiling_lab.analysis.once import beyond_recurring
from profiling_lab.captures import inputs
from profiling_lab.diagnosis import where
from profiling_lab.reports import from_verdict
from profiling_lab.reports.places import places_of
from tests.harness.drawn_run import MS, US, Drawn, judge, of


@pytest.mark.parametrize(
    ("lengths", "beyond"),
    [
        ([], []),
        ([70], [70]),  # alone: nothing like it comes again
        ([70, 40, 50], [0, 0, 0]),  # 50 is at least half of 70
        ([500, 50, 60, 55], [440, 0, 0, 0]),
        ([500, 249, 100, 50], [400, 149, 0, 0]),  # neither has another half as long
    ],
)
def test_a_length_recurs_if_another_is_half_as_long(lengths: list[int], beyond: list[int]) -> None:
    one = np.array(lengths, dtype=np.int64)
    assert beyond_recurring(one, np.zeros(len(one), dtype=np.int64)).tolist() == beyond
    # Of two groups at once, each for itself.
    both, groups = np.concatenate([one, 2 * one]), np.repeat([0, 1], len(one))
    assert beyond_recurring(both, groups).tolist() == [*beyond, *(2 * ns for ns in beyond)]


def test_what_happens_once_is_set_up(tmp_path: Path) -> None:
    drawn = Drawn(tmp_path / "once.sqlite")
    drawn.launch(10, name="fill")
    drawn.call("cudaMallocHost_v3020", 30_000)
    drawn.launch(100, call_us=20_000)  # its module is loaded
    for _ in range(50):
        drawn.launch(100)
    verdict = of(drawn)
    assert verdict.findings[0].category == "healthy"
    assert verdict.seen[0].setup_ns == pytest.approx(50_000 * US, rel=0.02)
    assert any("set-up" in line for line in verdict.rests_on)


def _own_code(drawn: Drawn, us: int) -> None:
    drawn.now += us * US


def _loading(drawn: Drawn, us: int) -> None:
    drawn.nvtx("DataLoader.__next__", drawn.now, drawn.now + us * US)
    drawn.now += us * US


def _compiling(drawn: Drawn, us: int) -> None:
    drawn.nvtx("_compile.compile_inner", drawn.now, drawn.now + us * US)
    drawn.now += us * US


def _allocating(drawn: Drawn, us: int) -> None:
    drawn.call("cudaMalloc_v3020", us)


def _calling(drawn: Drawn, us: int) -> None:
    drawn.call("cudaStreamCreate_v3020", us)


def _launching(drawn: Drawn, us: int) -> None:
    drawn.launch(10)  # the first call after a wait belongs to the wait
    drawn.launch(10, call_us=us)


def _bringing(drawn: Drawn, us: int) -> None:
    drawn.blocking_copy("H2D", us, 9_000 * us, pinned=True, api="cudaMemcpy_v3020")


def _talking(drawn: Drawn, us: int) -> None:
    drawn.launch(us, name="ncclDevKernel_AllReduce")


EVENTS: dict[Callable[[Drawn, int], None], str] = {
    _own_code: "host_bound", _loading: "input_bound", _compiling: "recompilation",
    _allocating: "allocation_bound", _calling: "host_bound", _launching: "launch_bound",
    _bringing: "transfer_bound", _talking: "communication_bound",
}  # fmt: skip


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.__name__[1:])
@pytest.mark.parametrize("times", [1, 50])
def test_a_cost_is_one_of_steps_only_if_it_comes_again(
    event: Callable[[Drawn, int], None], times: int, tmp_path: Path
) -> None:
    """The same 50 ms: once, before the steps go on, or a millisecond in each of them."""
    drawn = Drawn(tmp_path / "steps.sqlite")
    if event is not _bringing:  # what is brought once comes before all steps
        drawn.launch(500)
        drawn.launch(500)
    for number in range(50):
        if number % (50 // times) == 0:
            event(drawn, 50_000 // times)
        drawn.launch(500)
        drawn.wait()
    verdict = of(drawn)
    main = verdict.findings[0]
    if times == 1:
        assert main.category == "healthy", verdict.findings
        assert verdict.seen[0].setup_ns == pytest.approx(
            50_000 * US, abs=0.02 * verdict.seen[0].spent[0].length_ns
        )
        assert "% of the window is set-up. In the other 2" in verdict.headline
        assert ", kernels keep the GPU busy" in verdict.headline
    else:
        assert main.category == EVENTS[event] and main.evidence["recoverable_ratio"] > 0.4
        assert verdict.seen[0].setup_ns < 0.05 * verdict.seen[0].spent[0].length_ns


@pytest.mark.parametrize(("number", "category"), [(0, "healthy"), (7, "host_bound")])
def test_what_happens_once_in_the_one_step_recorded_may_happen_in_each(
    number: int, category: str, tmp_path: Path
) -> None:
    """20 ms of host code in a step of 25: the program's first step, or a later one, others of which ran before."""
    trace = Trace(tmp_path / "step")
    trace.step(number, 0, 25 * MS)
    for place in range(10):
        at = place * 500 * US + (20 * MS if place > 4 else 0)
        trace.kernel(at + 20 * US, at + 500 * US, call=(at, at + 10 * US))
    verdict = judge(str(trace.save()))
    assert verdict.findings[0].category == category
    assert any("one step was recorded" in line for line in verdict.rests_on) is (number > 0)


def test_where_to_look_is_not_in_set_up(tmp_path: Path) -> None:
    """50 ms of host code once, and 300 µs in each step: terminal and page lead to a step."""
    drawn = Drawn(tmp_path / "steps.sqlite")
    drawn.launch(100)
    _own_code(drawn, 50_000)
    for _ in range(50):
        drawn.launch(100)
        drawn.wait()
        _own_code(drawn, 300)
    path = drawn.save()
    verdict = judge(path)
    main = verdict.findings[0]
    assert main.category == "host_bound"
    assert [text.split(":")[1].split(" at ")[0] for text in where.of(verdict.seen[0], main)] == [
        " 300 µs",
        " 311 µs",
    ]
    (section,) = from_verdict.sections(verdict, inputs.read([path]))
    assert [p.end_ns - p.start_ns for p in places_of(section, main)] == [311 * US]


def test_where_results_are_read_back_is_shown(tmp_path: Path) -> None:
    drawn = Drawn(tmp_path / "items.sqlite")
    for us in (20, 20, 40, 20):
        drawn.launch(300)
        drawn.blocking_copy("D2H", us, 4, pinned=True, api="cudaMemcpy_v3020")
        drawn.now += 200 * US
    verdict = of(drawn)
    assert verdict.findings[0].category == "sync_bound"
    first, *_ = where.of(verdict.seen[0], verdict.findings[0])
    assert first.startswith("Longest reading back of a few bytes: cudaMemcpy")
