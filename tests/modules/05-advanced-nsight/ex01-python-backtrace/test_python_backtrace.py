"""Checks of `advanced_ex01`: recorded stacks, and drawn ones with threads that have no Python."""

from __future__ import annotations

import json
import random
import re
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

from grading.checks import task
from grading.checks.assertions import (
    agree,
    judge,
    judge_finding,
    judge_recommendation,
    require,
    show,
)
from grading.checks.fixtures import recordings
from grading.runner.scoring import NotGraded
from profiling_lab import captures
from profiling_lab.errors import EmptyCapture, MissingTable

STACKS = recordings("backtrace_masking", "backtrace_clean", "backtrace_logging")
FILE = "backtrace_training.py"
PROCESS = (1 << 48) + (1_001 << 24)
WAITS = {"cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize", "cudaMemcpy"}


class Stacks:
    """What is true of a recording, joined in SQL by its own way: row by row from the kernel."""

    def __init__(self, capture: str) -> None:
        file = captures.path(capture).resolve()
        connection = sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)
        try:
            self.words = dict(connection.execute("SELECT id, value FROM StringIds"))
            self.kernels = connection.execute(
                'SELECT k."end" - k.start, r.globalTid, r.start, r.callchainId'
                " FROM CUPTI_ACTIVITY_KIND_KERNEL k LEFT JOIN CUPTI_ACTIVITY_KIND_RUNTIME r"
                " ON r.eventClass = 67 AND r.correlationId = k.correlationId"
                " AND r.globalTid / 16777216 = k.globalPid / 16777216"
            ).fetchall()
            self.waits = [
                (start, end, tid)
                for start, end, tid, name in connection.execute(
                    'SELECT start, "end", globalTid, nameId FROM CUPTI_ACTIVITY_KIND_RUNTIME'
                    " WHERE eventClass = 67"
                )
                if re.sub(r"_v\d+$", "", self.words[name]) in WAITS
            ]
            known = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
            self.operations = []
            for kind in ("KERNEL", "MEMCPY", "MEMSET"):
                if f"CUPTI_ACTIVITY_KIND_{kind}" in known:
                    query = f'SELECT start, "end" FROM CUPTI_ACTIVITY_KIND_{kind}'
                    self.operations += connection.execute(query).fetchall()
            self.chains: dict[int, list[str]] = {}
            for chain, symbol in connection.execute(
                "SELECT id, symbol FROM CUDA_CALLCHAINS ORDER BY stackDepth"
            ):
                self.chains.setdefault(chain, []).append(self.words[symbol])
            self.frames = {
                (tid, start): json.loads(text)["Python Backtrace on CUDA"]["Frames"]
                for tid, start, text in connection.execute(
                    "SELECT globalTid, start, jsonText FROM NVTX_EVENTS"
                    " WHERE eventType = 34 AND jsonText LIKE '%Python Backtrace on CUDA%'"
                )
            }
        finally:
            connection.close()
        self.operations.sort()

    def lines(self, tid: int | None, start: int | None, file: str) -> list[int]:
        return [
            int(frame["Line"])
            for frame in self.frames.get((tid or 0, start or 0), [])
            if Path(self.words[frame["File"]]).name == file
        ]

    def coverage(self) -> dict[str, int]:
        return {
            "kernel_count": len(self.kernels),
            "kernel_ns": sum(length for length, *_ in self.kernels),
            "native_ns": sum(
                length for length, _, _, chain in self.kernels if chain in self.chains
            ),
            "python_ns": sum(
                length for length, tid, start, _ in self.kernels if self.frames.get((tid, start))
            ),
        }

    def operators(self) -> dict[str, int]:
        found: Counter[str] = Counter()
        for length, _, _, chain in self.kernels:
            names = [
                symbol.split("::")[2]
                for symbol in self.chains.get(chain, [])
                if symbol.startswith("at::_ops::")
                and symbol.split("(")[0].split("::")[3:] in (["call"], ["redispatch"])
            ]
            found[names[-1] if names else ""] += length
        return dict(found)

    def by_line(self, file: str) -> dict[int, dict[str, int]]:
        stacks = [(length, self.lines(tid, start, file)) for length, tid, start, _ in self.kernels]
        return {
            line: {
                "self_ns": sum(length for length, own in stacks if own and own[0] == line),
                "inclusive_ns": sum(length for length, own in stacks if line in own),
                "kernel_count": sum(line in own for _, own in stacks),
            }
            for line in {line for _, own in stacks for line in own}
        }

    def waiting(self, file: str) -> list[dict[str, int]]:
        rows: dict[int, dict[str, int]] = {}
        ends = sorted(end for _, end, _ in self.waits)
        for start, end, tid in self.waits:
            line = [*self.lines(tid, start, file), 0][0]
            row = rows.setdefault(
                line, {"line": line, "wait_count": 0, "blocked_ns": 0, "idle_ns": 0}
            )
            row["wait_count"] += 1
            row["blocked_ns"] += end - start
            # The device has nothing to do from here to the next start, unless something still runs.
            pending = [begin for begin, stop in self.operations if stop > end]
            # What another wait ends in is that one's, from its end on.
            until = min([min(pending, default=end), *(later for later in ends if later > end)])
            row["idle_ns"] += max(0, until - end)
        return sorted(rows.values(), key=lambda row: (-row["idle_ns"], row["line"]))


_known: dict[str, Stacks] = {}


def truth(capture: str) -> Stacks:
    """What is true of a capture; that of a recorded one is kept."""
    if capture in _known:
        return _known[capture]
    try:
        found = Stacks(capture)
    except sqlite3.OperationalError as error:
        if capture in captures.names() or "no such table" not in str(error):
            raise
        missing = f"{error}".rpartition(" ")[2]
        raise NotGraded("not run", f"{Path(capture).name} has no table {missing}") from None
    if capture in captures.names():
        _known[capture] = found
    return found


def file_of(capture: str) -> str:
    """The program's file; of a learner's own recording the one with the most frames."""
    stacks = truth(capture)
    files = Counter(
        Path(stacks.words[frame["File"]]).name
        for frames in stacks.frames.values()
        for frame in frames
    )
    return FILE if FILE in files or not files else files.most_common(1)[0][0]


class Drawing:
    """A timeline with stacks, and threads with and without Python."""

    def __init__(self, draw: Any, seed: int) -> None:
        self.timeline = draw()
        self.chance = random.Random(f"stacks {seed}")
        self.chains: list[list[str]] = []
        self.python: list[tuple[int, int, list[tuple[str, str, int]]]] = []

    def call(
        self, name: str, start: int, end: int, native: list[str], lines: list, thread: int = 1
    ) -> int:
        """A call with its own row, the row of its backtrace and, with lines, Python's mark."""
        correlation = self.timeline.api(f"{name}_v7000", start + 90, end - 40, thread=thread)
        place = self.timeline._rows["CUPTI_ACTIVITY_KIND_RUNTIME"]
        row = {"start": start, "end": end, "globalTid": PROCESS + thread, "eventClass": 67}
        chain = {"callchainId": len(self.chains)} if native else {}
        place.append(
            row | chain | {"correlationId": correlation, "nameId": self.timeline._string(name)}
        )
        if native:
            self.chains.append(native)
            for symbol in native:
                self.timeline._string(symbol)
        for function, file, _ in lines:
            self.timeline._string(function)
            self.timeline._string(f"folder/{file}")
        if lines:
            self.python.append((start, PROCESS + thread, lines))
        return correlation

    def save(self) -> str:
        self.timeline.nvtx("a mark", 1, 1, kind="mark")
        path = self.timeline.save()
        connection = sqlite3.connect(path)
        try:
            connection.execute(
                "CREATE TABLE CUDA_CALLCHAINS (id INTEGER, symbol INTEGER, module INTEGER,"
                " unresolved INTEGER, originalIP INTEGER, stackDepth INTEGER)"
            )
            words = {text: number for number, text in connection.execute("SELECT * FROM StringIds")}
            rows = [
                (number, words[symbol], 0, None, None, depth)
                for number, chain in enumerate(self.chains)
                for depth, symbol in enumerate(chain)
            ]
            self.chance.shuffle(rows)
            connection.executemany("INSERT INTO CUDA_CALLCHAINS VALUES (?, ?, ?, ?, ?, ?)", rows)
            for start, thread, lines in self.python:
                frames = [
                    {"Function": words[function], "File": words[f"folder/{file}"], "Line": line}
                    for function, file, line in lines
                ]
                payload = {"Thread state": "Running", "Frames count": len(frames), "Frames": frames}
                connection.execute(
                    "INSERT INTO NVTX_EVENTS (start, eventType, globalTid, domainId, jsonText)"
                    " VALUES (?, 34, ?, 1, ?)",
                    (start, thread, json.dumps({"Python Backtrace on CUDA": payload})),
                )
            connection.execute(
                "INSERT INTO NVTX_EVENTS (start, eventType, globalTid, jsonText)"
                ' VALUES (?, 34, ?, \'{"a payload": {"of": "another"}}\')',
                (77, PROCESS + 1),
            )
            connection.commit()
        finally:
            connection.close()
        return path


def drawn_training(draw: Any, seed: int, gap: int = 300) -> str:
    """Steps whose forward pass has Python frames, whose backward pass has a thread without."""
    drawing = Drawing(draw, seed)
    chance, timeline = drawing.chance, drawing.timeline
    first = chance.randrange(20, 60)
    at, free, stacked = 1_000_000, 0, 0
    native: list[str] = []
    main = ("main", "train_it.py", first + 90)
    for _ in range(chance.randrange(3, 6)):
        for operator, inner, line in (("linear", "addmm", first), ("relu", "clamp_min", first + 3)):
            native = [
                "cudaLaunchKernel",
                f"at::native::{inner}_kernel(int)",
                f"at::_ops::{inner}::redispatch(c10::Key)",
                f"at::_ops::{operator}::call(at::Tensor const&)",
                "at::_ops::helper(int)",
                "_PyEval_EvalFrameDefault",
            ]
            lines = [
                (operator, "functional.py", 12),
                ("forward", "train_it.py", line),
                ("walk", "train_it.py", first + 50),
                ("walk", "train_it.py", first + 50),
                main,
            ]
            correlation = drawing.call("cudaLaunchKernel", at, at + 9_000, native, lines)
            length = chance.randrange(100, 400) * 1_000
            free = max(free, at + 12_000)
            timeline.kernel(free, free + length, correlation=correlation)
            free += length + 500
            at += chance.randrange(12, 20) * 1_000
        stacked = correlation
        native = ["cuLaunchKernel", "at::_ops::mm::call(int)", "torch::autograd::Engine::run(int)"]
        correlation = drawing.call("cuLaunchKernel", at, at + 5_000, native, [], thread=9)
        timeline.kernel(free, free + 150_000, correlation=correlation)
        free += 150_500
        timeline.kernel(free, free + 40_000, call=(at + 6_000, at + 8_000))
        correlation = drawing.call("cudaLaunchKernel", at + 9_000, at + 9_900, [], [main])
        timeline.kernel(free + 41_000, free + 60_000, correlation=correlation)
        free += 60_000
        done = free + (4_000 if gap else -9_000)  # of a quiet program the wait ends while work runs
        native = ["cudaStreamSynchronize", "at::_ops::item::call(int)"]
        lines = [("item", "tensor.py", 7), ("log", "train_it.py", first + 70), main]
        drawing.call("cudaStreamSynchronize", at + 12_000, done, native, lines)
        # A second wait, with nothing launched between: its own idle time is what comes after it.
        lines = [("save", "train_it.py", first + 75), main]
        drawing.call("cudaDeviceSynchronize", done + 2_000, done + 7_000, native, lines)
        at = done + gap * chance.randrange(800, 1_200)
    drawing.call("cudaEventSynchronize", at, at + 2_000, native, [], thread=9)
    timeline.copy(at + 1_000, at + 400_000, "D2H")
    other = [("poll", "pretrain_it.py", 3)]
    drawing.call("cudaEventSynchronize", at + 3_000, at + 90_000, native, other)
    end = [("finish", "train_it.py", first + 80)]
    drawing.call("cudaDeviceSynchronize", at + 91_000, at + 400_000, native, end)
    timeline.copy(at + 403_000, at + 460_000, "D2H")
    timeline.copy(at + 404_000, at + 409_000)  # starts last, and is not the last to end
    # Another process on the device, whose launch has the number of one in this process, and no stack.
    timeline.kernel(at + 405_000, at + 425_000, process=2, correlation=stacked)
    return drawing.save()


@task("advanced_ex01.coverage")
@STACKS
def test_coverage_of_a_recording(stub: Any, recording: str) -> None:
    want = truth(recording).coverage()
    judge(f"coverage({recording!r})", stub.coverage(recording), want, "ns", COVER)


COVER = {
    "native_ns": "A kernel has a stack if the row of class 67 with its correlation id and process has "
    "one; each process counts its own correlation ids.",
    "python_ns": "Threads of autograd run no Python, so their calls have native frames alone.",
}


@task("advanced_ex01.coverage")
def test_coverage_of_drawn_stacks(stub: Any, draw: Any, seed: int) -> None:
    path = drawn_training(draw, seed)
    judge(f"coverage({path!r})", stub.coverage(path), truth(path).coverage(), "ns", COVER)
    timeline = draw()
    timeline.kernel(1, 2)
    with stub.raises(MissingTable, "CUDA_CALLCHAINS", why="nobody recorded stacks there"):
        stub.coverage(timeline.save())


@task("advanced_ex01.coverage")
def test_an_export_of_another_version(stub: Any, draw: Any, seed: int) -> None:
    path = drawn_training(draw, seed)
    connection = sqlite3.connect(path)
    connection.execute("ALTER TABLE NVTX_EVENTS DROP COLUMN jsonText")
    connection.commit()
    connection.close()
    with stub.raises(MissingTable, "jsonText", why="such an export has no Python frames"):
        stub.coverage(path)


@task("advanced_ex01.coverage")
def test_stacks_without_kernels(stub: Any, draw: Any, seed: int) -> None:
    drawing = Drawing(draw, seed)
    drawing.call("cudaDeviceSynchronize", 1_000, 2_000, ["cudaDeviceSynchronize"], [])
    drawing.timeline._rows["CUPTI_ACTIVITY_KIND_KERNEL"] = []
    with stub.raises(EmptyCapture, why="there is no device time to explain"):
        stub.coverage(drawing.save())


# -- time_by_operator ---------------------------------------------------------------------------------


def judge_operators(stub: Any, capture: str) -> None:
    want = truth(capture).operators()
    got = stub.time_by_operator(capture)
    call = f"time_by_operator({capture!r})"
    require(
        isinstance(got, dict) and got.keys() == want.keys(),
        f"{call} returned {show(got)}, expected the operators {sorted(want)}: of each stack the "
        "outermost that was entered through at::_ops, and '' where there is none",
    )
    for name, time in want.items():
        require(
            agree(got[name], time),
            f"{call}: {name!r} has {show(got[name])}, expected {time} ns: the kernels' durations",
        )


@task("advanced_ex01.time_by_operator")
@STACKS
def test_operators_of_a_recording(stub: Any, recording: str) -> None:
    judge_operators(stub, recording)


@task("advanced_ex01.time_by_operator")
def test_operators_of_drawn_stacks(stub: Any, draw: Any, seed: int) -> None:
    judge_operators(stub, drawn_training(draw, seed))


# -- time_by_line -------------------------------------------------------------------------------------


def judge_lines(stub: Any, capture: str, file: str) -> None:
    want = truth(capture).by_line(file)
    got = stub.time_by_line(capture, file)
    call = f"time_by_line({capture!r}, {file!r})"
    require(
        isinstance(got, dict) and got.keys() == want.keys(),
        f"{call} returned lines {show(sorted(got) if isinstance(got, dict) else got)}, expected "
        f"{sorted(want)}: those of frames in that file, in stacks of kernels",
    )
    for line, row in want.items():
        require(
            agree(got[line], row),
            f"{call}: line {line} has {show(got[line])}, expected {row} (ns). Self belongs to the innermost "
            "frame in the file, inclusive to every line of the stack, each kernel once",
        )


@task("advanced_ex01.time_by_line")
@STACKS
def test_lines_of_a_recording(stub: Any, recording: str) -> None:
    judge_lines(stub, recording, file_of(recording))
    judge_lines(stub, recording, "module.py")


@task("advanced_ex01.time_by_line")
def test_lines_of_drawn_stacks(stub: Any, draw: Any, seed: int) -> None:
    path = drawn_training(draw, seed)
    judge_lines(stub, path, "train_it.py")
    judge_lines(stub, path, "functional.py")


# -- waiting_lines ------------------------------------------------------------------------------------


def judge_waits(stub: Any, capture: str, file: str) -> None:
    want = truth(capture).waiting(file)
    got = stub.waiting_lines(capture, file)
    call = f"waiting_lines({capture!r}, {file!r})"
    require(
        isinstance(got, list | tuple) and len(got) == len(want),
        f"{call} returned {show(got)}, expected {len(want)} rows, of the lines "
        f"{[row['line'] for row in want]}",
    )
    for mine, right in zip(got, want, strict=True):
        require(
            agree(mine, right),
            f"{call} has the row {show(mine)}, expected {right} (ns). Idle begins when the wait is over and "
            "ends with the next operation's start, or as another wait ends, so that no moment counts twice; "
            "while an operation runs, on any stream, nothing is idle",
        )


@task("advanced_ex01.waiting_lines")
@STACKS
def test_waits_of_a_recording(stub: Any, recording: str) -> None:
    judge_waits(stub, recording, file_of(recording))


@task("advanced_ex01.waiting_lines")
def test_waits_of_drawn_stacks(stub: Any, draw: Any, seed: int) -> None:
    path = drawn_training(draw, seed)
    judge_waits(stub, path, "train_it.py")
    judge_waits(stub, path, "tensor.py")


# -- line_verdict -------------------------------------------------------------------------------------


def judge_verdict(stub: Any, capture: str, file: str, floor: float | None = None) -> str:
    given = () if floor is None else (floor,)
    got = stub.line_verdict(capture, file, *given)
    call = f"line_verdict({capture!r}, {file!r}{'' if floor is None else f', {floor}'})"
    stacks = truth(capture)
    rows = stacks.waiting(file)
    window = max(end for _, end in stacks.operations) - stacks.operations[0][0]
    saved = sum(row["idle_ns"] for row in rows)
    evidence = {
        "recoverable_ns": saved,
        "window_ns": window,
        "wait_count": sum(row["wait_count"] for row in rows),
        "blocked_ns": sum(row["blocked_ns"] for row in rows),
        "line_ns": rows[0]["idle_ns"] if rows else 0,
    }
    want = "healthy" if saved < (floor or 0.01) * window else "sync_bound"
    facts = f"{saved:,} ns of the device are idle after waits, {saved / window:.2%} of the window"
    why = {
        "recoverable_ns": "A wait costs what the device is idle after it, not what the host is blocked."
    }
    judge_finding(call, got, want, "device:0", evidence, facts, why=why)
    line = f"{file}:{rows[0]['line']}" if rows else "none"
    names = (line, "the line with the most idle time, as FILE:LINE")
    judge_recommendation(call, got, facts, names=names)
    return want


@task("advanced_ex01.line_verdict")
@STACKS
def test_verdict_on_a_recording(stub: Any, recording: str) -> None:
    judge_verdict(stub, recording, file_of(recording))


@task("advanced_ex01.line_verdict")
def test_verdict_on_drawn_stacks(stub: Any, draw: Any, seed: int) -> None:
    path = drawn_training(draw, seed)
    require(
        judge_verdict(stub, path, "train_it.py") == "sync_bound", "the check drew no such program"
    )
    judge_verdict(stub, path, "train_it.py", 0.9)
    for other in (path, drawn_training(draw, seed, 250), drawn_training(draw, seed, 200)):
        stacks = truth(other)
        window = max(end for _, end in stacks.operations) - stacks.operations[0][0]
        saved = sum(row["idle_ns"] for row in stacks.waiting("train_it.py"))
        if saved / window * window == saved:
            judge_verdict(stub, other, "train_it.py", saved / window)  # just the floor is enough
    quiet = drawn_training(draw, seed, 0)
    require(
        judge_verdict(stub, quiet, "train_it.py") == "healthy", "the check drew no such program"
    )
    drawing = Drawing(draw, seed)
    correlation = drawing.call("cudaLaunchKernel", 1_000, 2_000, ["cudaLaunchKernel"], [])
    drawing.timeline.kernel(3_000, 9_000, correlation=correlation)
    judge_verdict(stub, drawing.save(), "train_it.py")
    for wrong in (0, 1):
        with stub.raises(ValueError, why="a share of the window lies between"):
            stub.line_verdict(path, "train_it.py", wrong)
