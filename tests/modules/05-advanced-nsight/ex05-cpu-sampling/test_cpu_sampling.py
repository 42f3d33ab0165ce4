"""Checks of `advanced_ex05`: recorded and drawn samples, counted in SQL and moment by moment."""

from __future__ import annotations

import itertools
import json
import random
import sqlite3
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from grading.checks import task
from grading.checks.assertions import (
    agree,
    judge_finding,
    judge_recommendation,
    near,
    require,
    show,
)
from grading.checks.fixtures import recordings
from grading.runner.scoring import NotGraded
from profiling_lab import captures
from profiling_lab.errors import EmptyCapture, MissingTable

SAMPLED = recordings("host_samples_native", "host_samples_device", "host_samples_python")
PROCESS = (1 << 48) + (1_001 << 24)
KINDS = ("native", "python")


class Sampled:
    """What is true of a recording, from its tables."""

    def __init__(self, capture: str) -> None:
        file = captures.path(capture).resolve()
        connection = sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)
        try:
            known = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
            words = dict(connection.execute("SELECT id, value FROM StringIds"))
            # A learner's own recording may lack what another kind of sampling would have written.
            absent = "SELECT 0, 0, 0 WHERE 0"
            sampled = {"SAMPLING_CALLCHAINS", "COMPOSITE_EVENTS"} <= known
            chains = defaultdict(dict)
            for number, depth, symbol in connection.execute(
                "SELECT id, stackDepth, symbol FROM SAMPLING_CALLCHAINS" if sampled else absent
            ):
                chains[number][depth] = words[symbol]
            rows = connection.execute(
                "SELECT id, start, globalTid % 16777216 FROM COMPOSITE_EVENTS"
                if sampled
                else absent
            )
            self.native = [
                (start, thread, [chains[number][depth] for depth in sorted(chains[number])])
                for number, start, thread in rows
                if number in chains
            ]
            columns = {row[1] for row in connection.execute("PRAGMA table_info(NVTX_EVENTS)")}
            rows = connection.execute(
                "SELECT start, globalTid % 16777216, jsonText FROM NVTX_EVENTS"
                " WHERE eventType = 34 AND jsonText LIKE '%Python Periodic Sampling%'"
                if "jsonText" in columns
                else absent
            )
            self.python = [
                (
                    start,
                    thread,
                    [
                        words[frame["Function"]].replace("&lt;", "<").replace("&gt;", ">")
                        + f" ({Path(words[frame['File']]).name})"
                        for frame in json.loads(text)["Python Periodic Sampling"]["Frames"]
                    ],
                )
                for start, thread, text in rows
            ]
            self.python = [sample for sample in self.python if sample[2]]
            self.switches = connection.execute(
                "SELECT globalTid % 16777216, start, isSchedIn FROM SCHED_EVENTS"
                if "SCHED_EVENTS" in known
                else absent
            ).fetchall()
            self.operations = []
            for kind in ("KERNEL", "MEMCPY", "MEMSET"):
                if f"CUPTI_ACTIVITY_KIND_{kind}" in known:
                    query = f'SELECT start, "end" FROM CUPTI_ACTIVITY_KIND_{kind}'
                    self.operations += connection.execute(query).fetchall()
            launching = connection.execute(
                absent
                if "CUPTI_ACTIVITY_KIND_KERNEL" not in known
                else "SELECT r.globalTid % 16777216 FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN"
                " CUPTI_ACTIVITY_KIND_RUNTIME r ON r.correlationId = k.correlationId"
                " AND r.globalTid / 16777216 = k.globalPid / 16777216 AND r.eventClass IS NOT 67"
                " GROUP BY 1 ORDER BY count(*) DESC LIMIT 1"
            ).fetchone()
            self.launching = launching[0] if launching else None
        finally:
            connection.close()

    def of(self, kind: str, thread: int | None = None) -> list[list[str]]:
        rows = self.native if kind == "native" else self.python
        return [stack for _, tid, stack in rows if thread is None or tid == thread]

    def functions(self, kind: str, thread: int | None) -> list[dict[str, Any]]:
        stacks = self.of(kind, thread)
        leaves = Counter(stack[0] for stack in stacks)
        within = Counter(name for stack in stacks for name in set(stack))
        rows = [
            {"function": name, "self_count": leaves[name], "inclusive_count": number}
            for name, number in within.items()
        ]
        return sorted(
            rows, key=lambda row: (-row["self_count"], -row["inclusive_count"], row["function"])
        )

    def threads(self) -> dict[int, dict[str, int]]:
        first = min(time for _, time, _ in self.switches)
        last = max(time for _, time, _ in self.switches)
        found = {}
        for thread in {tid for tid, _, _ in self.switches}:
            own = sorted((time, state) for tid, time, state in self.switches if tid == thread)
            edges = [(first, 1 - bool(own[0][1])), *own, (last, 0)]
            on = sum(
                later - time for (time, state), (later, _) in itertools.pairwise(edges) if state
            )
            count = sum(tid == thread for _, tid, _ in self.native)
            found[thread] = {"on_ns": on, "off_ns": last - first - on, "sample_count": count}
        return found

    def lines(self, kind: str, thread: int | None) -> list[str]:
        stacks = Counter(
            ";".join(name.replace(";", ",") for name in stack[::-1])
            for stack in self.of(kind, thread)
        )
        return sorted(f"{stack} {number}" for stack, number in stacks.items())

    def busy_at(self, time: int) -> bool:
        return any(start <= time < end for start, end in self.operations)

    def idle(self) -> tuple[dict[str, float], str]:
        first = min(start for start, _ in self.operations)
        last = max(end for _, end in self.operations)
        edges = sorted({edge for pair in self.operations for edge in pair})
        idle = sum(
            later - edge for edge, later in itertools.pairwise(edges) if not self.busy_at(edge)
        )
        names = [
            stack[0]
            for time, thread, stack in self.python
            if thread == self.launching and first <= time < last and not self.busy_at(time)
        ]
        hot, hits = min(
            Counter(names).items(), key=lambda item: (-item[1], item[0]), default=("", 0)
        )
        return {
            "recoverable_ns": idle * hits / len(names) if names else 0,
            "window_ns": last - first,
            "idle_ns": idle,
            "sample_count": len(names),
            "hot_count": hits,
            "low_ratio": wilson(hits, len(names))[0] if names else 0,
        }, hot


_known: dict[str, Sampled] = {}


def truth(capture: str) -> Sampled:
    """What is true of a capture; that of a recorded one is kept."""
    if capture in _known:
        return _known[capture]
    found = Sampled(capture)
    if capture in captures.names():
        _known[capture] = found
    return found


NEEDED = {
    "native": "CPU samples with their stacks (--sample=process-tree)",
    "python": "samples of Python (--python-sampling=true, exported with --include-json=true)",
    "switches": "switches of threads (--cpuctxsw=process-tree)",
    "launching": "kernel with the call that launched it",
}


def needs(capture: str, *parts: str) -> Sampled:
    """What is true of a capture; of a learner's own one that lacks a part the check is not run."""
    found = truth(capture)
    for part in parts:
        if getattr(found, part) in (None, []) and capture not in captures.names():
            raise NotGraded("not run", f"{Path(capture).name} has no {NEEDED[part]}")
    return found


def wilson(hits: int, count: int) -> tuple[float, float]:
    """The interval's ends, as the roots of (p - share)² = z² p (1 - p) / n, found by halving."""
    share = hits / count

    def inside(p: float) -> bool:
        return (p - share) ** 2 <= 1.96**2 * p * (1 - p) / count

    ends = []
    for limit in (0.0, 1.0):
        outside, within = limit, share
        if inside(limit):
            within = limit
        else:
            for _ in range(80):
                middle = (outside + within) / 2
                outside, within = (outside, middle) if inside(middle) else (middle, within)
        ends.append(within)
    return ends[0], ends[1]


def drawn_samples(draw: Any, seed: int, host: int = 9, edges: bool = True) -> str:
    """Steps of host code and device work, sampled; a thread that waits; another that only sleeps."""
    chance = random.Random(f"samples {seed} {host}")
    timeline, at = draw(), 10_000_000
    native: list[tuple[int, int, list[str]]] = []
    python: list[tuple[int, int, list[tuple[str, str]]]] = []
    switches = [
        (at - 900_000, 3, 0),
        (at - 600_000, 6, 0),
        (at - 700_000, 1, 1),
        (at - 500_000, 5, 1),
    ]
    main = [("main", "train.py"), ("&lt;module&gt;", "train.py")]
    # Another thread launches once, before all others, and its Python is sampled most.
    timeline.kernel(at - 30_000, at - 20_000, call=(at - 60_000, at - 50_000), thread=2)
    for _ in range(chance.randrange(6, 9)):
        prepared = host * chance.randrange(900_000, 1_100_000)
        for time in range(at + 200_000, at + prepared, 700_000):
            leaf = chance.choice(["hash_string", "hash_string", "0x7f12", "grow;table"])
            walk = ["walk_tree"] * chance.randrange(1, 4)
            native.append((time, 1, [leaf, *walk, "_PyEval_EvalFrameDefault", "_start"]))
            function = chance.choice(["tokens", "tokens", "tokens", "lower"])
            files = [(function, f"lib/{chance.choice(['text', 'text'])}.py"), *main]
            python.append((time + 50_000, 1, files))
            python.append((time + 50_000, 2, [("wait", "threading.py"), ("keep_log", "train.py")]))
        timeline.kernel(
            at + prepared + 9_000,
            at + prepared + 3_000_000,
            call=(at + prepared, at + prepared + 5_000),
        )
        timeline.kernel(at + prepared + 20_000, at + prepared + 400_000, stream=8)
        for time in range(at + prepared + 300_000, at + prepared + 3_000_000, 900_000):
            native.append((time, 1, ["spin_wait", "cuStreamSynchronize"]))
            python.append((time + 10_000, 1, [("item", "tensor.py"), ("read", "train.py"), *main]))
            for later in (10_000, 20_000, 30_000):
                python.append((time + later, 2, [("wait", "threading.py")]))
        if edges:  # as the device begins and as it ends: the first moment is busy, the second idle
            python.append((at + prepared + 9_000, 1, [("begins", "train.py"), *main]))
            python.append((at + prepared + 3_000_000, 1, [("ends", "train.py"), *main]))
        switches += [(at + 100_000, 2, 1), (at + 140_000, 2, 0)]
        off = at + prepared + 1_000_000
        switches += [(off, 1, 0), (off + chance.randrange(9_000, 90_000), 1, 1)]
        at += prepared + 3_000_000 + chance.randrange(20_000, 60_000)
    native.append((at, 5, ["poll"]))
    python.append((at + 1_000, 1, [("exit", "train.py")]))
    switches.append((at + 200_000, 5, 0))
    return save_samples(timeline, chance, native, python, switches)


def save_samples(
    timeline: Any, chance: random.Random, native: list, python: list, switches: list
) -> str:
    """Write a timeline with its samples: (time, thread, stack), innermost first."""
    for _, _, names in native:
        for name in names:
            timeline._string(name)
    for _, _, files in python:
        for function, file in files:
            timeline._string(function)
            timeline._string(f"a/{file}")
    timeline.nvtx("a mark", 5, 5, kind="mark")
    path = timeline.save()
    connection = sqlite3.connect(path)
    try:
        words = {
            text: number for number, text in connection.execute("SELECT id, value FROM StringIds")
        }
        connection.execute("CREATE TABLE COMPOSITE_EVENTS (id, start, cpu, threadState, globalTid)")
        connection.execute("CREATE TABLE SAMPLING_CALLCHAINS (id, symbol, module, stackDepth)")
        connection.execute("CREATE TABLE SCHED_EVENTS (start, cpu, isSchedIn, globalTid)")
        chance.shuffle(native)
        for number, (time, thread, names) in enumerate(native):
            row = (number, time, 0, 1, PROCESS + thread)
            connection.execute("INSERT INTO COMPOSITE_EVENTS VALUES (?, ?, ?, ?, ?)", row)
            frames = [(number, words[name], 0, depth) for depth, name in enumerate(names)]
            connection.executemany(
                "INSERT INTO SAMPLING_CALLCHAINS VALUES (?, ?, ?, ?)", frames[::-1]
            )
        chance.shuffle(switches)
        rows = [(time, 0, state, PROCESS + thread) for time, thread, state in switches]
        connection.executemany("INSERT INTO SCHED_EVENTS VALUES (?, ?, ?, ?)", rows)
        for time, thread, files in python:
            frames = [
                {"Function": words[name], "File": words[f"a/{file}"], "Line": 1}
                for name, file in files
            ]
            payload = {"Thread state": "Running", "Frames count": len(frames), "Frames": frames}
            row = (time, PROCESS + thread, json.dumps({"Python Periodic Sampling": payload}))
            query = "INSERT INTO NVTX_EVENTS (start, eventType, globalTid, jsonText) VALUES (?, 34, ?, ?)"
            connection.execute(query, row)
        connection.commit()
    finally:
        connection.close()
    return path


# -- hot_functions ------------------------------------------------------------------------------------


def judge_functions(stub: Any, capture: str, kind: str, thread: int | None) -> None:
    want = truth(capture).functions(kind, thread)
    got = stub.hot_functions(capture, kind, thread)
    call = f"hot_functions({capture!r}, {kind!r}, {thread})"
    require(
        isinstance(got, list | tuple) and len(got) == len(want),
        f"{call} returned {show(got)}, expected {len(want)} rows, a function each",
    )
    for place, (mine, right) in enumerate(zip(got, want, strict=True)):
        require(
            agree(mine, right),
            f"{call}: row {place} is {show(mine)}, expected {show(right)} (samples). Self counts the "
            "innermost frame; inclusive counts a sample once, also where the function called itself",
        )


@task("advanced_ex05.hot_functions")
@SAMPLED
def test_functions_of_a_recording(stub: Any, recording: str) -> None:
    found = needs(recording, *KINDS)
    for kind in KINDS:
        judge_functions(stub, recording, kind, None)
    judge_functions(stub, recording, "native", found.launching)


@task("advanced_ex05.hot_functions")
def test_functions_of_drawn_samples(stub: Any, draw: Any, seed: int) -> None:
    path = drawn_samples(draw, seed)
    for kind in KINDS:
        for thread in (None, 1, 2):
            judge_functions(stub, path, kind, thread)
    timeline = draw()
    timeline.nvtx("a mark", 5, 5, kind="mark")
    timeline.kernel(1, 2)
    empty = timeline.save()
    for kind in KINDS:
        with stub.raises(MissingTable, "record with", why="nobody took samples there"):
            stub.hot_functions(empty, kind)
    with stub.raises(ValueError, why="there are two kinds of samples"):
        stub.hot_functions(path, "kernel")
    connection = sqlite3.connect(path)
    connection.execute("ALTER TABLE NVTX_EVENTS DROP COLUMN jsonText")
    connection.commit()
    connection.close()
    with stub.raises(
        MissingTable, "jsonText", why="an export of another version has no such frames"
    ):
        stub.hot_functions(path, "python")


# -- share_interval -----------------------------------------------------------------------------------


@task("advanced_ex05.share_interval")
def test_interval_of_a_share(stub: Any, seed: int) -> None:
    chance = random.Random(f"share {seed}")
    cases = [(0, 10), (10, 10), (1, 3), (1, 1)]
    for _ in range(4):
        count = chance.randrange(20, 900)
        cases.append((chance.randrange(count), count))
    for hits, count in cases:
        low, high = wilson(hits, count)
        got = stub.share_interval(hits, count)
        call = f"share_interval({hits}, {count})"
        require(
            isinstance(got, dict) and got.keys() == {"ratio", "low_ratio", "high_ratio"},
            f"{call} returned {show(got)}, expected a dict of ratio, low_ratio and high_ratio",
        )
        for key, want in (("ratio", hits / count), ("low_ratio", low), ("high_ratio", high)):
            require(
                near(got[key], want, 1e-6, 1e-9),
                f"{call}: {key} is {show(got[key])}, expected {want:.6f}. Both ends are the shares p for "
                "which these hits are just 1.96 standard deviations of p's own spread away",
            )
    for wrong in ((1, 0), (0, 0), (5, 4), (-1, 4)):
        with stub.raises(ValueError, why="no share follows from these"):
            stub.share_interval(*wrong)


# -- processor_time -----------------------------------------------------------------------------------


def judge_threads(stub: Any, capture: str) -> None:
    got, want = stub.processor_time(capture), truth(capture).threads()
    call = f"processor_time({capture!r})"
    require(
        isinstance(got, dict) and got.keys() == want.keys(),
        f"{call} returned {show(got)}, expected the threads {sorted(want)}: those that were switched",
    )
    for thread, row in want.items():
        require(
            agree(got[thread], row),
            f"{call}: thread {thread} has {show(got[thread])}, expected {row} (ns). A thread's first switch "
            "tells what it was before, its last one what it is to the end of the window",
        )


@task("advanced_ex05.processor_time")
@SAMPLED
def test_threads_of_a_recording(stub: Any, recording: str) -> None:
    needs(recording, "native", "switches")
    judge_threads(stub, recording)


@task("advanced_ex05.processor_time")
def test_threads_of_drawn_samples(stub: Any, draw: Any, seed: int) -> None:
    path = drawn_samples(draw, seed)
    judge_threads(stub, path)
    connection = sqlite3.connect(path)
    connection.execute("DELETE FROM SCHED_EVENTS")
    connection.commit()
    with stub.raises(EmptyCapture, why="no thread was ever switched"):
        stub.processor_time(path)
    connection.execute("DROP TABLE SCHED_EVENTS")
    connection.commit()
    connection.close()
    with stub.raises(MissingTable, "SCHED_EVENTS", why="switches were not recorded"):
        stub.processor_time(path)


# -- collapsed_stacks ---------------------------------------------------------------------------------


def judge_stacks(stub: Any, capture: str, kind: str, thread: int | None) -> None:
    want = truth(capture).lines(kind, thread)
    got = stub.collapsed_stacks(capture, kind, thread)
    call = f"collapsed_stacks({capture!r}, {kind!r}, {thread})"
    require(
        isinstance(got, list | tuple) and len(got) == len(want),
        f"{call} returned {show(got)}, expected {len(want)} lines, one for each different stack",
    )
    for mine, right in zip(got, want, strict=True):
        require(
            mine == right,
            f"{call} has the line {show(mine)}, expected {show(right)}: outermost;…;innermost and the count",
        )


@task("advanced_ex05.collapsed_stacks")
@SAMPLED
def test_stacks_of_a_recording(stub: Any, recording: str) -> None:
    needs(recording, *KINDS)
    for kind in KINDS:
        judge_stacks(stub, recording, kind, None)


@task("advanced_ex05.collapsed_stacks")
def test_stacks_of_drawn_samples(stub: Any, draw: Any, seed: int) -> None:
    path = drawn_samples(draw, seed)
    for kind in KINDS:
        for thread in (None, 2):
            judge_stacks(stub, path, kind, thread)


# -- host_verdict -------------------------------------------------------------------------------------


def judge_verdict(stub: Any, capture: str, floor: float | None = None) -> str:
    given = () if floor is None else (floor,)
    got = stub.host_verdict(capture, *given)
    call = f"host_verdict({capture!r}{'' if floor is None else f', {floor}'})"
    evidence, hot = truth(capture).idle()
    saved = evidence["recoverable_ns"] / evidence["window_ns"]
    want = "healthy" if saved < (floor or 0.1) else "host_bound"
    facts = f"{saved:.1%} of the window the device is idle in the hot function"
    judge_finding(
        *(call, got, want, "device:0", evidence, facts),
        why="Only Python samples of the launching thread, taken while the device is idle, tell what the device "
        "waits for",
        rel=1e-6,
        absolute=1e-9,
    )
    judge_recommendation(call, got, facts, names=(hot, "the hot function"))
    return want


@task("advanced_ex05.host_verdict")
@SAMPLED
def test_verdict_on_a_recording(stub: Any, recording: str) -> None:
    needs(recording, "python", "launching")
    judge_verdict(stub, recording)


@task("advanced_ex05.host_verdict")
def test_verdict_on_drawn_samples(stub: Any, draw: Any, seed: int) -> None:
    path = drawn_samples(draw, seed)
    require(judge_verdict(stub, path) == "host_bound", "the check drew no such loop")
    judge_verdict(stub, path, 0.95)
    timeline = draw()  # idle for half of the window, hot in half of its samples: exact numbers
    timeline.kernel(1_000, 1_250, call=(900, 950))
    timeline.kernel(1_750, 2_000, call=(960, 990))
    python = [
        (time, 1, [(name, "train.py")])
        for time, name in ((1_300, "b"), (1_400, "a"), (1_500, "a"), (1_600, "c"))
    ]
    exact = save_samples(timeline, random.Random(seed), [], python, [])
    require(judge_verdict(stub, exact, 0.25) == "host_bound", "the check drew no such loop")
    require(
        judge_verdict(stub, drawn_samples(draw, seed, 0)) == "healthy",
        "the check drew no such loop",
    )
    judge_verdict(stub, drawn_samples(draw, seed, 0, edges=False))  # no sample while it is idle
    connection = sqlite3.connect(path)
    connection.execute("UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET correlationId = 999999")
    connection.commit()
    connection.close()
    with stub.raises(EmptyCapture, why="nothing tells which thread launches"):
        stub.host_verdict(path)
    for wrong in (0, 1):
        with stub.raises(ValueError, why="a share of the window lies between"):
            stub.host_verdict(path, wrong)
