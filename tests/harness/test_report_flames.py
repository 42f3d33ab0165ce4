"""The flame graphs of recordings of Nsight Systems: samples, and backtraces of CUDA calls."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

from profiling_lab import captures
from profiling_lab.captures import inputs
from profiling_lab.diagnosis import engine
from profiling_lab.reports import flame, from_verdict, render_report

ROOT = Path(__file__).resolve().parents[2]


def test_samples_of_a_recording_make_a_flame_graph(tmp_path: Path) -> None:
    file = tmp_path / "timeline.sqlite"
    shutil.copyfile(ROOT / "captures/host_samples_python/timeline.sqlite", file)

    def root() -> dict:
        with captures.open(file) as capture:
            return flame.of_stacks(capture, capture.span_ns)

    def leaves(frame: dict) -> Counter:
        inside = frame.get("c", [])
        own = Counter({frame["n"]: frame["v"] - sum(one["v"] for one in inside)})
        for one in inside:
            own += leaves(one)
        return own

    with captures.open(file) as capture:
        window = capture.span_ns
    with closing(sqlite3.connect(file)) as changed:
        words = dict(changed.execute("SELECT id, value FROM StringIds"))
        query = "SELECT jsonText FROM NVTX_EVENTS WHERE start BETWEEN ? AND ? AND jsonText LIKE '%Frames%'"
        told = [json.loads(text) for (text,) in changed.execute(query, window)]
        stacks = [one["Python Periodic Sampling"]["Frames"] for one in told]
        innermost = Counter(words[stack[0]["Function"]] for stack in stacks)
        python = root()
        assert python["u"] == "samples" and python["v"] == len(stacks) > 50
        name, count = innermost.most_common(1)[0]
        found = {n.partition(" (")[0]: v for n, v in leaves(python).items()}
        assert found[name] == count, "the innermost function is not at the end of its path"
        # Without Python's stacks the native ones; an event that was cut off is not counted.
        changed.execute("UPDATE NVTX_EVENTS SET jsonText = '{\"Python' WHERE jsonText IS NOT NULL")
        changed.commit()
        native = root()
        query = (
            "SELECT COUNT(DISTINCT e.id) FROM COMPOSITE_EVENTS e JOIN SAMPLING_CALLCHAINS c ON e.id = c.id "
            "WHERE e.start BETWEEN ? AND ?"
        )
        assert native["v"] == changed.execute(query, window).fetchone()[0]
        assert not any(name.startswith("0x") for name in leaves(native)), "an address for a library"
        changed.execute("DROP TABLE SAMPLING_CALLCHAINS")
        changed.commit()
        assert root() == {}
    (part,) = inputs.read(["host_samples_python"])
    page = render_report(from_verdict.sections(engine.judge([part]), [part]), title="A")
    assert "samples by call path" in page and '"u":"samples"' in page


def test_backtraces_of_cuda_calls_make_a_flame_graph(tmp_path: Path) -> None:
    file = tmp_path / "timeline.sqlite"
    words = [
        *("main", "/home/you/train.py", "step", "at::_ops::mm::call", "0x1", "libtorch.so"),
        *(
            "0x2",
            "libcuda.so.1",
            "cudaLaunchKernel_v7000",
            "cudaLaunchKernel",
            "cudaMemcpy",
            "start",
        ),
    ]
    code = {word: number for number, word in enumerate(words)}

    def python(*functions: str) -> str:
        frames = [{"Function": code[f], "File": code["/home/you/train.py"]} for f in functions]
        return json.dumps({"Python Backtrace on CUDA": {"Frames": frames}})

    def chain(number: int, *frames: tuple[str, str]) -> list[tuple[int, int, int, int]]:
        """The innermost frame first, each with its library."""
        return [(number, code[s], code[m], depth) for depth, (s, m) in enumerate(frames)]

    driver, launch = ("0x2", "libcuda.so.1"), ("cudaLaunchKernel", "libtorch.so")
    operator, unnamed = ("at::_ops::mm::call", "libtorch.so"), ("0x1", "libtorch.so")
    own, stack = 1, 67  # the classes of a call's row, and of the one that has its backtrace
    with closing(sqlite3.connect(file)) as made:
        made.executescript(
            """CREATE TABLE StringIds (id, value);
            CREATE TABLE CUDA_CALLCHAINS (id, symbol, module, stackDepth);
            CREATE TABLE NVTX_EVENTS (start, globalTid, jsonText);
            CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start, "end", eventClass, globalTid, nameId, callchainId);"""
        )
        made.executemany("INSERT INTO StringIds VALUES (?, ?)", enumerate(words))
        rows = [
            *chain(1, driver, launch, operator, unnamed, unnamed),
            *chain(2, driver, ("start", "libtorch.so")),
        ]
        made.executemany("INSERT INTO CUDA_CALLCHAINS VALUES (?, ?, ?, ?)", rows)
        told = [
            (10, 5, python("step", "main")),
            (30, 5, python("main")),
            (10, 6, "{"),
            (50, 5, "[]"),
        ]
        made.executemany("INSERT INTO NVTX_EVENTS VALUES (?, ?, ?)", told)
        calls = [
            (10, 20, own, 5, code["cudaLaunchKernel_v7000"], None),
            (10, 20, stack, 5, code["cudaLaunchKernel_v7000"], 1),
            (30, 60, stack, 5, code["cudaMemcpy"], 2),
            (12, 17, stack, 6, code["cudaLaunchKernel_v7000"], 1),
            (40, 44, own, 6, code["cudaMemcpy"], None),
            (90, 130, stack, 6, code["cudaMemcpy"], 2),
            (200, 300, stack, 5, code["cudaMemcpy"], 2),
        ]
        made.executemany("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, ?, ?, ?, ?)", calls)
        made.commit()
    with captures.open(file) as capture:
        root = flame.of_stacks(capture, (0, 100))

    def paths(frame: dict, above: tuple[str, ...] = ()) -> dict[tuple[str, ...], tuple[int, str]]:
        out = {}
        for one in frame.get("c", ()):
            path = (*above, one["n"])
            out |= {path: (one["v"], one["k"])} | paths(one, path)
        return out

    assert (root["of"], root["v"]) == ("calls", 10 + 30 + 5 + 10)
    train, torch = "main (train.py)", "libtorch.so"
    assert paths(root) == {
        (train,): (40, "python"),
        (train, "cudaMemcpy"): (30, "api"),
        (train, "step (train.py)"): (10, "python"),
        (train, "step (train.py)", "cudaLaunchKernel"): (10, "api"),
        ("start",): (10, "operator"),
        ("start", "cudaMemcpy"): (10, "api"),
        (torch,): (5, "operator"),
        (torch, "at::_ops::mm::call"): (5, "operator"),
        (torch, "at::_ops::mm::call", "cudaLaunchKernel"): (5, "api"),
    }, "a row without a backtrace counts, or a frame is not where it was called from"
    with closing(sqlite3.connect(file)) as made:
        made.execute("DELETE FROM CUDA_CALLCHAINS")
        made.execute("DELETE FROM NVTX_EVENTS")
        made.commit()
    with captures.open(file) as capture:
        assert flame.of_stacks(capture, (0, 100)) == {}
    (part,) = inputs.read(["backtrace_logging"])
    page = render_report(from_verdict.sections(engine.judge([part]), [part]), title="A")
    assert "Host time in CUDA calls by call path" in page and "read (backtrace_training.py)" in page
