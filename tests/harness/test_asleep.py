"""What a thread slept for: others of its process that fetched, sent or compiled meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from grading.checks.generate.drawn_timeline import Timeline
from profiling_lab import captures
from profiling_lab.analysis import asleep, order
from profiling_lab.analysis.nsys_columns import Export
from profiling_lab.diagnosis.engine import Verdict
from tests.harness.drawn_run import MS, US, judge

MAIN, POOL = 1, 2
STEPS = 12


class Steps(Timeline):
    """Thread 1 gives the device a graph in each step; thread 2, or one of several, works while it sleeps."""

    def __init__(self, file: Path) -> None:
        super().__init__(file)
        self.now = 1_000 * MS
        self.slept: dict[int, int] = {}  # thread → since when

    def graph_of_step(self, us: int) -> int:
        """The graph's end; the host goes on 60 µs later, when it has put a function behind."""
        end = self.now + (20 + us) * US
        self.graph(self.now + 20 * US, end, call=(self.now, self.now + 15 * US), thread=MAIN)
        self.api("cuLaunchHostFunc", self.now + 20 * US, self.now + 30 * US, thread=MAIN)
        self.now += 30 * US
        return end

    def pool_wakes(self, thread: int, at: int) -> None:
        self.os_call("futex", self.slept.get(thread, self.now - 5 * MS), at, thread=thread)

    def verdict(self) -> Verdict:
        return judge(self.save())


def fetched(file: Path, copy_us: int, size: int, after_us: int, threads: int = 1) -> Verdict:
    """Each step's result is brought to the host by a thread of a pool; the main thread sleeps until it is there."""
    run = Steps(file)
    for step in range(STEPS):
        thread = POOL + step % threads
        done = run.graph_of_step(400)
        run.now += 50 * US
        since = run.now
        run.pool_wakes(thread, done + 50 * US)
        at = done + 60 * US
        end = at + (10 + copy_us) * US
        run.copy(
            at + 10 * US,
            end,
            "D2H",
            bytes=size,
            api="cuMemcpyDtoHAsync_v2",
            call=(at, at + 9 * US),
            thread=thread,
            stream=17,
        )
        run.api("cuLaunchHostFunc", at + 12 * US, at + 20 * US, thread=thread)
        run.slept[thread] = at + 25 * US
        run.now = end + after_us * US
        run.os_call("futex", since, run.now, thread=MAIN)
        run.now += 300 * US
    for thread, since in run.slept.items():
        run.os_call("futex", since, run.now + 5 * MS, thread=thread)
    run.graph_of_step(400)
    return run.verdict()


@pytest.mark.parametrize("threads", [1, 3])
def test_who_sleeps_while_another_thread_fetches_a_number_waits_for_it(
    tmp_path: Path, threads: int
) -> None:
    verdict = fetched(tmp_path / "read.sqlite", 2, 4, 200, threads)
    seen = verdict.seen[0]
    assert seen.spent[0].classes["unexplained"] < 0.02 * seen.judged_ns
    # Of a step of 1.1 ms: the wait behind the graph, some 0.3 ms, and what launching could hide behind it.
    assert verdict.findings[0].category == "sync_bound"
    assert 0.2 < verdict.findings[0].evidence["recoverable_ratio"] < 0.65


def test_who_sleeps_while_another_thread_fetches_much_waits_for_the_copy(tmp_path: Path) -> None:
    # 32 MB: 640 µs on the link, and 5 ms in the host's memory.
    verdict = fetched(tmp_path / "fetched.sqlite", 640, 32_000_000, 5_000)
    main = verdict.findings[0]
    assert main.category == "transfer_bound"
    step = 30 + 50 + 330 + 60 + 10 + 640 + 5_000 + 300
    assert main.evidence["recoverable_ratio"] == pytest.approx(1 - 420 / step, abs=0.06)


def sent(file: Path, move_us: int, size: int) -> Verdict:
    """A pool's thread moves a batch to pinned memory and sends it; the main thread sleeps, then launches what needs it."""
    run = Steps(file)
    for _ in range(STEPS):
        run.now += 40 * US
        woke = run.now
        run.pool_wakes(POOL, woke)
        at = woke + move_us * US
        end = at + (10 + 400) * US
        run.copy(
            at + 10 * US,
            end,
            bytes=size,
            api="cuMemcpyHtoDAsync_v2",
            call=(at, at + 9 * US),
            thread=POOL,
        )
        run.api("cuLaunchHostFunc", at + 12 * US, at + 20 * US, thread=POOL)
        run.slept[POOL] = at + 25 * US
        run.os_call("futex", woke + 500 * US, at + 40 * US, thread=MAIN)
        run.now = max(end, at + 60 * US)
        run.graph_of_step(800)
    run.os_call("futex", run.slept[POOL], run.now + 5 * MS, thread=POOL)
    return run.verdict()


def test_what_a_thread_moves_and_sends_while_another_sleeps_is_the_copys(tmp_path: Path) -> None:
    main = sent(tmp_path / "sent.sqlite", 5_000, 24_000_000).findings[0]
    assert main.category == "transfer_bound"
    assert main.evidence["recoverable_ratio"] > 0.75
    # Twice as long as moving it takes: that is made, not moved.
    main = sent(tmp_path / "made.sqlite", 12_000, 24_000_000).findings[0]
    assert main.category in ("host_bound", "input_bound")


def compiled(file: Path, again: bool) -> Verdict:
    """Code is compiled by pool threads, which try it on the device; then the main thread loads it and launches a graph."""
    run = Steps(file)
    for step in range(STEPS):
        run.now += 50 * US
        if again or step == 0:
            since = run.now
            for turn in range(4):
                thread = POOL + turn % 2
                run.now += 5 * MS  # nobody calls CUDA: a compiler at work
                run.pool_wakes(thread, run.now)
                for _ in range(3):
                    run.now += 20 * US
                    run.api("cuModuleLoadData", run.now, run.now + 60 * US, thread=thread)
                    run.now += 80 * US
                    start = run.now + 10 * US
                    call = (run.now, run.now + 8 * US)
                    run.kernel(start, start + 20 * US, name="tried", call=call, thread=thread)
                    run.now += 10 * US
                    run.api(
                        "cuStreamSynchronize",
                        run.now,
                        run.now + 25 * US,
                        thread=thread,
                        waits_for_stream=7,
                    )
                    run.now += 30 * US
                run.slept[thread] = run.now
            run.now += 2 * MS
            run.os_call("futex", since, run.now, thread=MAIN)
            run.now += 30 * US
            for _ in range(5):
                run.api("cuModuleLoadData", run.now, run.now + 40 * US, thread=MAIN)
                run.now += 60 * US
        run.graph_of_step(300)
    for thread, since in run.slept.items():
        run.os_call("futex", since, run.now + 5 * MS, thread=thread)
    return run.verdict()


def test_what_is_compiled_again_while_a_thread_sleeps_is_compiled(tmp_path: Path) -> None:
    main = compiled(tmp_path / "again.sqlite", True).findings[0]
    assert main.category == "recompilation"
    assert main.evidence["recoverable_ratio"] > 0.85
    assert compiled(tmp_path / "once.sqlite", False).findings[0].category != "recompilation"


def test_a_thread_with_work_of_its_own_works_for_no_sleeper(tmp_path: Path) -> None:
    run = Steps(tmp_path / "own.sqlite")
    for _ in range(STEPS):
        run.graph_of_step(40)
        since = run.now
        for _ in range(25):  # it never sleeps
            start = run.now + 12 * US
            call = (run.now, run.now + 8 * US)
            run.kernel(start, start + 30 * US, call=call, thread=POOL, stream=9)
            run.now += 60 * US
        run.os_call("futex", since + 10 * US, run.now, thread=MAIN)
        run.now += 20 * US
    run.os_call("read", run.now, run.now + US, thread=POOL)
    recording = Export(captures.open(run.save())).recording
    alone, told = order.read(recording, pauses_tell=False), asleep.read(recording)
    assert len(told) == len(alone) and (told.lead == alone.lead).all()


def awaited(file: Path, later_us: int) -> Verdict:
    """Each step's graph is waited for in a sleep: a function behind it ends this."""
    run = Steps(file)
    for _ in range(STEPS):
        done, since = run.graph_of_step(200), run.now + 20 * US
        run.now = done + later_us * US
        run.os_call("futex", since, run.now, thread=MAIN)
        run.now += 90 * US
    run.graph_of_step(200)
    return run.verdict()


def test_who_wakes_right_after_an_operation_with_a_function_behind_it_waits_for_it(
    tmp_path: Path,
) -> None:
    main = awaited(tmp_path / "soon.sqlite", 150).findings[0]
    assert main.category == "sync_bound"
    # Without the wait the device does one graph after the other: 200 of the 470 us from one to the next.
    assert 0.4 < main.evidence["recoverable_ratio"] < 0.6
    # Somebody else ended this sleep.
    assert awaited(tmp_path / "late.sqlite", 5_000).findings[0].category == "host_bound"


def jitted(file: Path, names: list[str]) -> Verdict:
    """A module is compiled by XLA in each step, while helpers sleep or work; then its graph runs three times."""
    run = Steps(file)
    for step in range(STEPS):
        begun = run.now + 2 * MS  # the function is traced and lowered
        run.now = begun + 10 * MS
        run.nvtx(f"XlaCompile:#module={names[step % len(names)]}#", begun, run.now, thread=MAIN)
        run.now += 100 * US
        for _ in range(3):
            run.graph_of_step(300)
    return run.verdict()


def test_what_xla_compiles_again_under_one_name_is_compiled_again(tmp_path: Path) -> None:
    main = jitted(tmp_path / "again.sqlite", ["jit_step"]).findings[0]
    assert main.category == "recompilation"
    assert main.evidence["recoverable_ratio"] > 0.8
    # Functions that are compiled once each are no habit.
    names = [f"jit_{number}" for number in range(STEPS)]
    found = jitted(tmp_path / "each.sqlite", names).findings
    assert "recompilation" not in [one.category for one in found]


@pytest.mark.parametrize(
    ("room_us", "category"), [(10_000, "transfer_bound"), (40_000, "host_bound")]
)
def test_who_takes_room_for_what_a_helper_fetches_does_so_for_the_copy(
    tmp_path: Path, room_us: int, category: str
) -> None:
    """24 MB in new pages take the host 16 ms; longer than that, it does something else, too."""
    run = Steps(tmp_path / "room.sqlite")
    for _ in range(STEPS):
        done = run.graph_of_step(400)
        run.now = max(run.now, done) + room_us * US
        since = run.now
        run.pool_wakes(POOL, since)
        at = since + 20 * US
        end = at + 450 * US
        call = (at, at + 9 * US)
        run.copy(
            at + 10 * US,
            end,
            "D2H",
            bytes=24_000_000,
            api="cuMemcpyDtoHAsync_v2",
            call=call,
            thread=POOL,
            stream=17,
        )
        run.api("cuLaunchHostFunc", at + 12 * US, at + 20 * US, thread=POOL)
        run.slept[POOL] = at + 25 * US
        run.now = end + 100 * US
        run.os_call("futex", since + 5 * US, run.now, thread=MAIN)
        run.now += 100 * US
    run.os_call("futex", run.slept[POOL], run.now + 5 * MS, thread=POOL)
    run.graph_of_step(400)
    main = run.verdict().findings[0]
    assert main.category == category
    assert main.evidence["recoverable_ratio"] > 0.85
