"""Checks of `advanced_ex02`: recorded and drawn loops, a queue of batches by events, copies by count."""

from __future__ import annotations

import heapq
import random
import sqlite3
import statistics
from pathlib import Path
from typing import Any

from grading.checks import task
from grading.checks.assertions import (
    judge,
    judge_finding,
    judge_recommendation,
    near,
    require,
    show,
)
from grading.checks.fixtures import recordings
from grading.runner.scoring import NotGraded
from profiling_lab import captures
from profiling_lab.errors import EmptyCapture

PROBE = Path(__file__).resolve().with_name("probes") / "data_prefetch.py"
LOADERS = recordings("loader_few", "loader_enough", "loader_single")
DEVICE = ("KERNEL", "MEMCPY", "MEMSET", "GRAPH_TRACE")


class Loop:
    """What is true of a recorded loop, counted instant by instant."""

    def __init__(self, capture: str) -> None:
        connection = sqlite3.connect(
            f"{captures.path(capture).resolve().as_uri()}?mode=ro", uri=True
        )
        try:
            named = "SELECT 1 FROM sqlite_master WHERE name = 'NVTX_EVENTS'"
            if not connection.execute(named).fetchone():
                raise NotGraded("not run", f"{Path(capture).name} has no NVTX ranges")
            query = (
                'SELECT start, "end" FROM NVTX_EVENTS WHERE COALESCE(text, (SELECT value FROM'
                " StringIds WHERE id = textId)) = ?"
                " AND eventType IN (59, 60)"
            )
            self.steps = connection.execute(query, ("step",)).fetchall()
            self.waits = connection.execute(query, ("next_batch",)).fetchall()
            for name, found in (("step", self.steps), ("next_batch", self.waits)):
                if not found:
                    raise NotGraded(
                        "not run", f"{Path(capture).name} has no NVTX range named {name!r}"
                    )
                if any(end is None for _, end in found):
                    raise NotGraded("not run", f"{Path(capture).name} ends inside a range {name!r}")
            known = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
            if not known & {f"CUPTI_ACTIVITY_KIND_{kind}" for kind in ("KERNEL", "GRAPH_TRACE")}:
                raise NotGraded("not run", f"{Path(capture).name} has no kernels")
            self.device, self.inputs, self.kernels = [], [], []
            for kind in DEVICE:
                table = f"CUPTI_ACTIVITY_KIND_{kind}"
                if table in known:
                    self.device += connection.execute(
                        f'SELECT start, "end" FROM {table}'
                    ).fetchall()
                if table in known and kind != "MEMCPY":
                    self.kernels += connection.execute(
                        f'SELECT start, "end" FROM {table}'
                    ).fetchall()
            if "CUPTI_ACTIVITY_KIND_MEMCPY" in known:
                self.inputs = connection.execute(
                    'SELECT start, "end" FROM CUPTI_ACTIVITY_KIND_MEMCPY WHERE copyKind = 1'
                ).fetchall()
        finally:
            connection.close()
        # A sweep over all edges: between two of them nothing begins and nothing ends.
        lists = (self.steps, self.waits, self.device, self.inputs, self.kernels)
        edges = [
            (at, which, change)
            for which, intervals in enumerate(lists)
            for start, end in intervals
            for at, change in ((start, 1), (end, -1))
        ]
        self.step_ns = self.data_wait_ns = self.busy_ns = self.starved_ns = self.exposed_ns = 0
        running, before = [0] * len(lists), 0
        for at, which, change in sorted(edges):
            step, wait, device, copy, kernel = (number > 0 for number in running)
            length = at - before
            self.step_ns += length * step
            self.data_wait_ns += length * (step and wait)
            self.busy_ns += length * (step and device)
            self.starved_ns += length * (step and wait and not device)
            self.exposed_ns += length * (step and copy and not kernel)
            running[which] += change
            before = at
        self.window_ns = max(end for _, end in self.steps) - min(start for start, _ in self.steps)

    def split(self) -> dict[str, int]:
        return {
            "step_count": len(self.steps),
            "step_ns": self.step_ns,
            "data_wait_ns": self.data_wait_ns,
            "device_busy_ns": self.busy_ns,
            "starved_ns": self.starved_ns,
        }


_known: dict[str, Loop] = {}


def truth(capture: str) -> Loop:
    """What is true of a capture; that of a recorded one is kept."""
    if capture in _known:
        return _known[capture]
    found = Loop(capture)
    if capture in captures.names():
        _known[capture] = found
    return found


def drawn_loop(draw: Any, seed: int, wait: int = 400, copy: int = 60) -> str:
    """A loop whose device is still busy with the last step while the next batch is waited for."""
    chance = random.Random(f"loop {seed} {wait}")
    timeline, at = draw(), 1_000_000
    for _ in range(chance.randrange(4, 8)):
        waited = chance.randrange(wait // 2, wait + 2) * 1_000
        copied, computed = (
            copy * chance.randrange(900, 1_100),
            chance.randrange(500, 700) * 1_000,
        )
        timeline.nvtx("next_batch", at + 2_000, at + waited)
        timeline.copy(at + waited + 10_000, at + waited + 10_000 + copied)
        start = at + waited + 10_000 + copied
        timeline.kernel(start + 500, start + computed)
        timeline.kernel(start + 900, start + computed // 2, stream=8)
        timeline.graph(start + computed + 200, start + computed + 2_000)
        # The host does not wait: the step ends, and the next begins, while kernels run.
        end = at + waited + 30_000 + copied + computed // 2
        timeline.nvtx("step", at, end)
        timeline.copy(start + computed + 3_000, start + computed + 9_000, "D2H")
        # The last bytes of the copy have a memset beside them, which is no waiting for a copy.
        timeline.memset(start - copied // 40, start)
        # Another thread waits for a batch of its own meanwhile, and is in the step a little longer.
        timeline.nvtx("next_batch", at + 3_000, at + waited // 2, thread=3)
        timeline.nvtx("step", end - 12_000, end + 2_000, thread=3)
        timeline.nvtx("next_batch", end - 1_000, end + 3_000, thread=3)
        at = end + 5_000
    # A batch that is asked for beside any step, as another thread does, belongs to none.
    timeline.nvtx("next_batch", at + 4_000_000, at + 5_000_000, thread=2)
    timeline.kernel(100_000, 500_000)
    timeline.copy(at + 4_000_000, at + 4_900_000)
    return timeline.save()


WHY = {
    "step_ns": "Time in which several threads are in such a range counts once.",
    "data_wait_ns": "It is what lies inside both a range `next_batch` and a range `step`.",
    "device_busy_ns": "Operations that overlap count once, and only inside steps.",
    "starved_ns": "While the device still works on the step before, waiting for data costs nothing.",
}


@task("advanced_ex02.step_split")
@LOADERS
def test_split_of_a_recording(stub: Any, recording: str) -> None:
    want = truth(recording).split()
    judge(f"step_split({recording!r})", stub.step_split(recording), want, "ns", WHY)


@task("advanced_ex02.step_split")
def test_split_of_a_drawn_loop(stub: Any, draw: Any, seed: int) -> None:
    for case, wait in enumerate((400, 900)):
        path = drawn_loop(draw, seed + case, wait)
        judge(f"step_split({path!r})", stub.step_split(path), truth(path).split(), "ns", WHY)


@task("advanced_ex02.step_split")
def test_a_loop_without_its_ranges(stub: Any, draw: Any) -> None:
    for present, missing in (("step", "next_batch"), ("next_batch", "step")):
        timeline = draw()
        timeline.nvtx(present, 0, 1_000)
        timeline.kernel(100, 200)
        path = timeline.save()
        with stub.raises(EmptyCapture, missing, why=f"the recording has no range {missing}"):
            stub.step_split(path)


# -- sample_costs -------------------------------------------------------------------------------------


def judge_costs(stub: Any, call: str, read: list, decode: list, stored: int) -> None:
    got = stub.sample_costs(read, decode, stored)
    middle_read, middle_decode = statistics.median(read), statistics.median(decode)
    want = {
        "sample_ns": float(statistics.median([a + b for a, b in zip(read, decode, strict=True)])),
        "read_ratio": middle_read / (middle_read + middle_decode),
        "read_gb_s": stored / middle_read,
        "larger": "read" if middle_read > middle_decode else "decode",
    }
    if isinstance(got, dict) and type(got.get("sample_ns")) is int:
        got = got | {"sample_ns": float(got["sample_ns"])}
    why = {
        "sample_ns": "First both parts of each sample together, then the median over samples.",
        "read_gb_s": "Bytes over the median time to read alone: a first read from the disk is no rule.",
    }
    judge(call, got, want, "ns, a ratio, GB/s", why)


@task("advanced_ex02.sample_costs")
@LOADERS
def test_costs_of_a_recorded_sample(stub: Any, recording: str) -> None:
    told = captures.provenance_beside(captures.path(recording)).get("reported_by_program") or {}
    if "read_ns" not in told:
        raise NotGraded("not run", f"{recording} comes without times of single samples")
    call = f"sample_costs(…) of the samples that {recording!r} timed"
    stored = told["stored_bytes_per_sample"]
    judge_costs(stub, call, told["read_ns"], told["decode_ns"], stored)


@task("advanced_ex02.sample_costs")
def test_costs_of_made_up_samples(stub: Any, seed: int) -> None:
    chance = random.Random(f"costs {seed}")
    for base in (50_000, 2_000_000):
        count = chance.randrange(5, 12)
        read = [base + chance.randrange(40_000) for _ in range(count)]
        read[0] *= 40  # from the disk
        decode = [chance.randrange(600_000, 900_000) for _ in range(count)]
        stored = chance.randrange(50_000, 90_000)
        judge_costs(stub, f"sample_costs({read}, {decode}, {stored})", read, decode, stored)
    judge_costs(stub, "sample_costs([7], [7], 21)", [7], [7], 21)
    judge_costs(stub, "sample_costs([1], [1], 1)", [1], [1], 1)
    for wrong in (([], [], 5), ([1], [1, 2], 5), ([1, 0], [1, 2], 5), ([1], [0], 5), ([1], [1], 0)):
        with stub.raises(ValueError, why="such samples tell nothing"):
            stub.sample_costs(*wrong)


# -- workers_needed -----------------------------------------------------------------------------------


def judge_workers(stub: Any, compute: float, batch: float, processors: int) -> None:
    steps = [max(compute, batch / workers) for workers in range(1, processors + 1)]
    best = min(steps)
    want = {"workers_count": steps.index(best) + 1, "step_ns": float(best)}
    got = stub.workers_needed(compute, batch, processors)
    if isinstance(got, dict) and type(got.get("step_ns")) is int:
        got = got | {"step_ns": float(got["step_ns"])}
    why = {
        "workers_count": f"With 1 … {processors} workers the model's steps are {show(steps)} ns.",
        "step_ns": "A step takes as long as the slower of computing and being delivered a batch.",
    }
    judge(f"workers_needed({compute}, {batch}, {processors})", got, want, "ns", why)


@task("advanced_ex02.workers_needed")
def test_workers_of_the_model(stub: Any, seed: int) -> None:
    chance = random.Random(f"workers {seed}")
    for _ in range(6):
        compute = chance.randrange(1_000_000, 9_000_000)
        judge_workers(stub, compute, compute * chance.uniform(0.2, 9.5), 12)
    for compute, batch, processors in ((100, 400, 8), (100, 401, 8), (100, 900, 4), (100, 30, 4)):
        judge_workers(stub, compute, batch, processors)
    judge_workers(stub, 5, 5, 1)
    judge_workers(stub, 1, 1, 2)
    for wrong in ((0, 1, 1), (1, 0, 1), (1, 1, 0)):
        with stub.raises(ValueError, why="the model needs times and a processor"):
            stub.workers_needed(*wrong)


# -- prefetch_waits -----------------------------------------------------------------------------------


def waits_by_events(costs: list, compute: float, workers: int, factor: int) -> list[float]:
    """The same rules, played by events: worker processes with a queue each, and one loop."""
    queues: list[list[int]] = [[] for _ in range(workers)]
    working = [False] * workers
    ready: set[int] = set()
    events: list[tuple[float, int, str, int]] = []
    waits: list[float] = []
    state = {"given": 0, "free_at": 0.0, "free": True}

    def give(now: float) -> None:
        if state["given"] < len(costs):
            queues[state["given"] % workers].append(state["given"])
            begin(state["given"] % workers, now)
            state["given"] += 1

    def begin(worker: int, now: float) -> None:
        if queues[worker] and not working[worker]:
            working[worker] = True
            number = queues[worker].pop(0)
            heapq.heappush(events, (now + costs[number], 0, "made", number))

    def take(now: float) -> None:
        if state["free"] and len(waits) in ready:
            waits.append(now - state["free_at"])
            state["free"] = False
            give(now)
            heapq.heappush(events, (now + compute, 1, "computed", 0))

    for _ in range(workers * factor):
        give(0.0)
    while events:
        now, _, what, number = heapq.heappop(events)
        if what == "made":
            ready.add(number)
            working[number % workers] = False
            begin(number % workers, now)
        else:
            state["free"], state["free_at"] = True, now
        take(now)
    return waits


def judge_waits(stub: Any, costs: list, compute: int, workers: int, factor: int) -> None:
    want = waits_by_events(costs, compute, workers, factor)
    got = stub.prefetch_waits(costs, compute, workers, factor)
    call = f"prefetch_waits({show(costs)}, {compute}, {workers}, {factor})"
    require(
        isinstance(got, list | tuple) and len(got) == len(want),
        f"{call} returned {show(got)}, expected a list of {len(want)} waits, one a batch",
    )
    for place, (mine, right) in enumerate(zip(got, want, strict=True)):
        require(
            near(mine, right, absolute=1e-6),
            f"{call}: the loop waits {show(mine)} ns for batch {place}, expected {show(right)} ns. "
            f"Worker {place % workers} makes it, after its batch {place - workers}, and has known of it "
            f"since {'the start' if place < workers * factor else f'batch {place - workers * factor} was taken'}.",
        )


@task("advanced_ex02.prefetch_waits")
def test_waits_of_even_batches(stub: Any, seed: int) -> None:
    chance = random.Random(f"even {seed}")
    cost = chance.randrange(300, 400)
    for compute, workers, factor in ((100, 1, 2), (100, 2, 2), (100, 8, 1), (900, 1, 1)):
        judge_waits(stub, [cost] * 14, compute, workers, factor)
    judge_waits(stub, [], 100, 1, 1)
    judge_waits(stub, [cost] * 5, 0, 2, 1)


@task("advanced_ex02.prefetch_waits")
def test_waits_for_a_slow_batch(stub: Any, seed: int) -> None:
    chance = random.Random(f"slow {seed}")
    for workers, factor in ((2, 1), (3, 2), (4, 4)):
        costs = [chance.randrange(80, 300) for _ in range(30)]
        costs[chance.randrange(12, 20)] = 4_000
        judge_waits(stub, costs, 90, workers, factor)
    for wrong in (([1], 1, 0, 1), ([1], 1, 1, 0), ([1], -1, 1, 1), ([1, -1], 1, 1, 1)):
        with stub.raises(ValueError, why="no such loader"):
            stub.prefetch_waits(*wrong)


# -- prefetched ---------------------------------------------------------------------------------------


def judge_order(stub: Any, count: int, depth: int | None, most: int | None = None) -> None:
    found = stub.probe(PROBE, "order", count, depth, None, None, most)
    ahead = 1 if depth is None else depth
    call = f"prefetched({count} batches, copy_in{'' if depth is None else f', {depth}'})"
    require(not found["error"], f"{call} raised {found['error']}, expected {count} items")
    values = [item["value"] for item in found["items"]]
    want = [f"copy of {number}" for number in range(count)][:most]
    require(values == want, f"{call} gave {show(values)}, expected {show(want)}: copies, in order")
    for place, item in enumerate(found["items"]):
        begun = min(count, place + 1 + ahead)
        require(
            item["copied"] == begun,
            f"{call}: when item {place} was handed out, {item['copied']} copies had begun, expected "
            f"{begun}: its own and those of the next {ahead}, as far as there are so many. Too few, and "
            "the device waits for its copy; too many, and batches fill its memory",
        )
        require(
            item["asked"] <= begun,
            f"{call}: when item {place} was handed out, the source had been asked for {item['asked']} "
            f"batches, expected at most {begun}: batches that nobody copies yet fill the host's memory",
        )


@task("advanced_ex02.prefetched")
def test_copies_run_ahead(stub: Any, seed: int) -> None:
    count = random.Random(f"ahead {seed}").randrange(6, 12)
    for depth in (None, 0, 2, 20):
        judge_order(stub, count, depth)
    judge_order(stub, 0, 1)
    judge_order(stub, count, 1, most=3)


@task("advanced_ex02.prefetched")
def test_a_failure_comes_in_its_turn(stub: Any) -> None:
    for place, what in ((3, "source_fails"), (4, "copy_fails")):
        given = {"source_fails": None, "copy_fails": None} | {what: place}
        found = stub.probe(PROBE, "order", 8, 2, given["source_fails"], given["copy_fails"])
        call = f"prefetched(8 batches of which batch {place} fails, copy_in, 2)"
        require(
            len(found["items"]) == place,
            f"{call} handed out {len(found['items'])} items before it failed, expected {place}: batches "
            "that were read and copied before the failure are good",
        )
        require(
            f"batch {place} cannot" in found["error"],
            f"{call} ended with {found['error'] or 'no exception'!r}, expected the one of batch {place}: "
            "a loop that ends early without an error trains on part of its data",
        )
    with stub.raises(ValueError, why="no copies can be a negative number ahead"):
        stub.probe(PROBE, "order_or_raise", 2, -1)


# -- data_verdict -------------------------------------------------------------------------------------


def judge_verdict(stub: Any, capture: str, floor: float | None = None) -> str:
    given = () if floor is None else (floor,)
    loop = truth(capture)
    got = stub.data_verdict(capture, *given)
    call = f"data_verdict({capture!r}{'' if floor is None else f', {floor}'})"
    starved, exposed = loop.starved_ns, loop.exposed_ns
    evidence = {
        "recoverable_ns": max(starved, exposed),
        "window_ns": loop.window_ns,
        "starved_ns": starved,
        "exposed_copy_ns": exposed,
        "starved_ratio": starved / loop.window_ns,
    }
    why = {
        "window_ns": "From the start of the first step to the end of the last.",
        "exposed_copy_ns": "It is what copies from the host take inside steps, while no kernel, graph "
        "launch or memset runs.",
    }
    saved = max(starved, exposed) / loop.window_ns
    slow = (
        ("host_bound", "range:next_batch")
        if starved >= exposed
        else ("transfer_bound", "range:step")
    )
    category, subject = ("healthy", "range:step") if saved < (floor or 0.05) else slow
    facts = (
        f"the device starves for {starved:,} ns and copies in without computing for {exposed:,} ns of "
        f"{loop.window_ns:,} ns ({saved:.1%} of the window, the floor is {floor or 0.05:.0%})"
    )
    judge_finding(call, got, category, subject, evidence, facts, why=why, about=facts)
    judge_recommendation(call, got, facts)
    return got.category


@task("advanced_ex02.data_verdict")
@LOADERS
def test_verdict_on_a_recording(stub: Any, recording: str) -> None:
    judge_verdict(stub, recording)


@task("advanced_ex02.data_verdict")
def test_verdict_on_drawn_loops(stub: Any, draw: Any, seed: int) -> None:
    cases = ((900, 20, "host_bound"), (20, 300, "transfer_bound"), (20, 3, "healthy"))
    for wait, copy, kind in cases:
        path = drawn_loop(draw, seed, wait, copy)
        made = judge_verdict(stub, path)
        require(made == kind, f"the check drew no {kind} loop but a {made} one: tell the authors")
    path = drawn_loop(draw, seed, 900, 20)
    judge_verdict(stub, path, 0.9)
    timeline = draw()  # both causes save the same, and that is just the floor
    timeline.nvtx("step", 0, 1_000)
    timeline.nvtx("next_batch", 0, 100)
    timeline.copy(200, 300)
    timeline.kernel(300, 1_000)
    judge_verdict(stub, timeline.save(), 0.1)
    for wrong in (0, 1):
        with stub.raises(ValueError, why="a share of the window lies between"):
            stub.data_verdict(path, wrong)
