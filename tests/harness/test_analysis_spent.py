"""Where the time went and what would be saved, on drawn recordings whose answers are sums of a few numbers.

Each recording is a loop of STEPS steps that lose time in one way. All times are µs here and whole, so the
answers are exact; the classes always add up to the window.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from grading.checks.generate import SCENARIOS
from grading.checks.generate.drawn_timeline import Timeline
from profiling_lab import captures
from profiling_lab.analysis import host_time, order, recorder_cost, savings, spent
from profiling_lab.analysis.nsys_columns import Export
from profiling_lab.analysis.recorder_cost import Cost
from profiling_lab.analysis.savings import Saved
from profiling_lab.analysis.spent import Spent
from profiling_lab.captures import inputs
from profiling_lab.diagnosis import engine

STEPS = 200
US = 1_000


@pytest.fixture(autouse=True)
def _free_recorder(monkeypatch: pytest.MonkeyPatch) -> None:
    """What these loops cost is drawn; what a recorder adds is tested by itself."""
    monkeypatch.setattr(recorder_cost, "COSTS", dict.fromkeys(recorder_cost.COSTS, Cost(0, 0, 0)))


def analysed(path: str) -> tuple[list[Spent], Saved]:
    time = host_time.read(order.read(Export(captures.open(path)).recording))
    where = spent.read(time)
    return where, savings.read(time, where)


class Loop(Timeline):
    """A thread that calls, runs its own code, launches and waits; a stream that runs what it is given."""

    def __init__(self, file: Path) -> None:
        super().__init__(file)
        self.now = 1_000_000
        self.device_free = 0

    def code(self, us: int, name: str = "") -> None:
        """Own code, in an NVTX range if that has a name."""
        if name:
            self.nvtx(name, self.now, self.now + us * US)
        self.now += us * US

    def call(self, name: str, us: int) -> None:
        self.api(name, self.now, self.now + us * US)
        self.now += us * US

    def launch(self, us: int, *, call_us: int = 5, lag_us: int = 2, **more) -> None:
        """A kernel; it starts 2 µs after its call returned, or 1 µs after what its stream has to do."""
        start = max(self.now + (call_us + lag_us) * US, self.device_free + US)
        self.kernel(start, start + us * US, call=(self.now, self.now + call_us * US), **more)
        self.now += call_us * US
        self.device_free = start + us * US

    def upload(self, us: int, *, call_us: int = 5, bytes: int = 10_000_000) -> None:
        start = max(self.now + (call_us + 2) * US, self.device_free + US)
        self.copy(start, start + us * US, bytes=bytes, call=(self.now, self.now + call_us * US))
        self.now += call_us * US
        self.device_free = start + us * US

    def wait(self, name: str = "cudaStreamSynchronize_v3020", back_us: int = 4) -> None:
        end = max(self.now + US, self.device_free + back_us * US)
        self.api(name, self.now, end, waits_for_stream=7 if "Stream" in name else None)
        self.now = end


def own_code(loop: Loop) -> None:
    loop.launch(300)
    loop.wait()
    loop.code(500)


def issuing(loop: Loop) -> None:
    loop.launch(2)
    loop.code(3)


def input_waited_for(loop: Loop) -> None:
    loop.code(800, "load batch")
    loop.launch(300)
    loop.wait()


def allocating(loop: Loop) -> None:
    loop.call("cudaMalloc_v3020", 200)
    loop.launch(100)
    loop.wait("cudaFree_v3020", back_us=50)


def copying(loop: Loop) -> None:
    loop.upload(200)
    loop.launch(300)


def copying_in_turn(loop: Loop) -> None:
    """cudaMemcpy of a batch: its call returns 40 µs after the copy."""
    start = loop.device_free + US
    end = start + 200 * US
    call = loop.now, end + 40 * US
    loop.copy(start, end, bytes=10_000_000, api="cudaMemcpy_v3020", call=call)
    loop.now, loop.device_free = end + 40 * US, end
    loop.launch(300)


def reading_back(loop: Loop) -> None:
    """cudaMemcpy of a few bytes: its call waits for the kernel."""
    loop.launch(300)
    start = loop.device_free + US
    end = start + 2 * US
    loop.copy(start, end, "D2H", bytes=4, api="cudaMemcpy_v3020", call=(loop.now, end + 4 * US))
    loop.now, loop.device_free = end + 4 * US, end
    loop.code(80)


def compiling(loop: Loop) -> None:
    loop.launch(300)
    loop.wait()
    loop.code(400, "_compile.compile_inner")


def copying_beside(loop: Loop) -> None:
    """The next batch comes on a stream of its own while a kernel runs."""
    start = max(loop.now + 7 * US, loop.device_free + US)
    loop.copy(start, start + 120 * US, bytes=10_000_000, stream=9, call=(loop.now, loop.now + US))
    loop.now += US
    loop.launch(300)


def talking(loop: Loop) -> None:
    loop.launch(300)
    loop.launch(150, name="ncclDevKernel_AllReduce")


def migrating(loop: Loop) -> None:
    """Pages come for half of the kernel that touches them."""
    loop.launch(200)
    end = loop.device_free
    loop.copy(end - 100 * US, end, "UVM H2D", migration=2, stream=0)


def unexplained(loop: Loop) -> None:
    """Now and then a kernel starts 300 µs late."""
    loop.launch(
        300, lag_us=302 if len(loop._rows.get("CUPTI_ACTIVITY_KIND_KERNEL", ())) % 4 == 0 else 2
    )
    loop.wait()


# Per recording and step: µs of a step by class, and what each cause saves of it. Steps but the last lose it.
Answer = tuple[Callable[[Loop], None], dict[str, int], dict[str, float]]
ANSWERS: list[Answer] = [
    # Back from the wait 4, the launch 5, its way to the device 2.
    (own_code, {"waiting for results": 11, "own host code": 500}, {"host_code": 500}),
    # Without launching, kernels follow each other as in a graph.
    (issuing, {"issuing": 6}, {"launch_cost": 8 - 2 - savings.GRAPH_GAP_NS / US}),
    (input_waited_for, {"waiting for results": 11, "input": 800}, {"input": 800}),
    (allocating, {"waiting for results": 7, "allocation": 250}, {"allocation": 256}),
    # The device goes from one operation to the next in 1 µs, twice a step.
    (copying, {"copies alone": 200, "issuing": 2}, {"copies": 201}),
    # Without the copy and what its call takes, kernels follow each other by 1 µs.
    (
        copying_in_turn,
        {"copies alone": 200, "copy calls": 40, "issuing": 8},
        {"copies": 200 + 40 + 7},
    ),
    (
        reading_back,
        {"waiting for results": 80 + 11, "issuing": 1, "copies alone": 2},
        {"waits": 80 + 11},
    ),
    (compiling, {"waiting for results": 11, "compiling": 400}, {"compilation": 400}),
    (copying_beside, {"beside copies": 119, "issuing": 1}, {}),
    (talking, {"communication alone": 150, "issuing": 2}, {}),
    (migrating, {"page migration": 100, "issuing": 1}, {}),
    (unexplained, {"waiting for results": 11, "unexplained": 75}, {"waits": 11}),
]


@pytest.mark.parametrize(
    ("step", "classes", "saved"), ANSWERS, ids=lambda v: getattr(v, "__name__", "")
)
def test_each_class_and_cause_has_its_closed_form(
    step: Callable[[Loop], None], classes: dict[str, int], saved: dict[str, float], tmp_path: Path
) -> None:
    loop = Loop(tmp_path / "loop.sqlite")
    for _ in range(STEPS):
        step(loop)
    (where,), found = analysed(loop.save())
    window = where.length_ns
    told = {name: ns for name, ns in where.classes.items() if ns and name != spent.KERNELS_ALONE}
    for name in {*told, *classes}:
        expected = classes.get(name, 0) * STEPS * US
        assert told.get(name, 0) == pytest.approx(expected, abs=0.02 * window), (name, told)
    if step is not unexplained:
        assert where.classes[spent.UNEXPLAINED] < 0.01 * window
    for cause, us in saved.items():
        assert found.causes[cause] == pytest.approx(us * STEPS * US, abs=0.02 * window), (
            found.causes
        )


@pytest.mark.parametrize(("above", "told"), [(1, "issuing"), (3, "own host code")])
def test_stretches_about_as_long_as_the_limit_are_what_most_of_them_are(
    above: int, told: str, tmp_path: Path
) -> None:
    """Of five launches some come 130 us after the last, the others 80: the limit is 100."""
    loop = Loop(tmp_path / "loop.sqlite")
    for number in range(STEPS):
        loop.launch(2)
        loop.code(130 if number % 5 < above else 80)
    (where,), _ = analysed(loop.save())
    of_these = where.classes["own host code"] / where.length_ns
    assert (of_these < 0.01) if told == "issuing" else (of_these > 0.5), where.classes


def test_every_class_has_a_closed_form() -> None:
    """A peer, set-up and kernels alone are in tests of their own (below, test_once.py; what is left is kernels)."""
    told = {name for _, classes, _ in ANSWERS for name in classes}
    assert told | {spent.PEER, spent.SETUP, spent.KERNELS_ALONE} == set(spent.CLASSES)


def test_waiting_for_a_late_peer_has_its_closed_form(tmp_path: Path) -> None:
    """Two ranks: a kernel of 300 and of 500 µs, then a collective that takes 50 µs once both are there."""
    timeline = Timeline(tmp_path / "ranks.sqlite")
    for step in range(STEPS):
        begin = 1_000_000 + step * 552 * US
        for rank, us in ((0, 300), (1, 500)):
            where = {"process": rank + 1, "thread": rank + 1, "device": rank}
            call = begin - 800 * US + rank, begin - 799 * US
            timeline.kernel(begin, begin + us * US, call=call, **where)
            start, end = begin + (us + 1) * US, begin + 551 * US
            timeline.kernel(start, end, name="ncclDevKernel_AllReduce", call=call, **where)
    (seen,) = engine.judge(inputs.read([timeline.save()])).seen
    for one, peer in zip(seen.spent, (200, 0), strict=True):
        for name, us in ((spent.PEER, peer), (spent.COMMUNICATION_ALONE, 50)):
            assert one.classes[name] == pytest.approx(us * STEPS * US, abs=0.02 * one.length_ns)
        assert one.classes[spent.UNEXPLAINED] < 0.01 * one.length_ns


@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_simulated_programs_have_nothing_unexplained_and_add_up(name: str, tmp_path: Path) -> None:
    scenario = SCENARIOS[name](seed=5, folder=tmp_path)
    where, found = analysed(str(scenario.path))
    for one in where:
        assert sum(one.classes.values()) == one.length_ns
        assert min(one.classes.values()) >= 0
        assert one.classes[spent.UNEXPLAINED] < 0.01 * one.length_ns, one.classes
        busy = scenario.busy_ns()[one.device]
        assert one.idle_ns == one.length_ns - busy
    for cause, ns in found.causes.items():
        assert ns <= min(one.total_ns(*savings.EXPOSED[cause]) for one in where)


@pytest.mark.parametrize("name", captures.names())
def test_recordings_add_up(name: str) -> None:
    where, found = analysed(name)
    for one in where:
        assert sum(one.classes.values()) == one.length_ns
        assert min(one.classes.values()) >= 0
    assert min(found.causes.values()) >= 0
