"""What `profiling_lab.captures.torch_trace` and `torch_memory` give Day 3's learners: every number as written, and nothing of what is damaged or hostile."""

from __future__ import annotations

import gzip
import pickle
import random
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from grading.checks.generate import kineto as made
from profiling_lab import captures
from profiling_lab.captures import torch_memory, torch_trace
from profiling_lab.errors import CaptureError

KINDS = {
    "cpu_op": "operator",
    "user_annotation": "range",
    "python_function": "python",
    "cuda_runtime": "call",
    "kernel": "kernel",
    "gpu_memcpy": "copy",
    "gpu_memset": "memset",
}


@pytest.fixture
def draw(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], made.Trace]:
    """`draw()`: an empty trace to put events into."""
    return lambda: made.Trace(tmp_path_factory.mktemp("drawn"))


class Touch:
    """A pickle that writes a file when it is loaded by a careless loader."""

    def __init__(self, file: str) -> None:
        self.file = file

    def __reduce__(self) -> tuple[Any, ...]:
        return open, (self.file, "w")


def plain_snapshot() -> dict[str, Any]:
    return {
        "segments": [{"address": 1, "blocks": [], "pool": (0, 0), "name": "x", "f": 0.5}],
        "device_traces": [[{"action": "alloc", "size": 512, "none": None, "yes": True}], []],
        "allocator_settings": {"a": 1},
    }


def hostile(how: str, folder: Path) -> tuple[bytes, str]:
    """A pickle that asks for more than plain values, and what it asks for."""
    file = str(folder / "was_here")
    snapshot: Any = plain_snapshot()
    if how == "open":
        snapshot["segments"].append(Touch(file))
        return pickle.dumps(snapshot, 4), r"(_?io|builtins)\.open"
    if how == "open, protocol 0":
        snapshot["segments"].append(Touch(file))
        return pickle.dumps(snapshot, 0), r"(_?io|__builtin__|builtins)\.open"
    if how == "os.system":
        return b"cos\nsystem\n(S'touch " + file.encode() + b"'\ntR.", r"os\.system"
    if how == "a harmless class":
        snapshot["segments"].append(Decimal(1))
        return pickle.dumps(snapshot, 4), r"decimal\.Decimal"
    if how == "torch":
        return b"ctorch.storage\n_load_from_bytes\n(Vx\ntR.", r"torch\.storage\._load_from_bytes"
    if how == "a class that is not used":
        return b"cbuiltins\neval\n0" + pickle.dumps(snapshot, 2), r"builtins\.eval"
    import io

    class Persistent(pickle.Pickler):
        def persistent_id(self, obj: Any) -> Any:
            return "elsewhere" if obj == 512 else None

    target = io.BytesIO()
    Persistent(target, 4).dump(snapshot)
    return target.getvalue(), "elsewhere"


def broken(draw: Callable[[], made.Trace], how: str) -> str:
    """A damaged trace."""
    trace = draw()
    trace.step(1, 0, 10_000)
    trace.operator("aten::odd_one", 100, 900)
    trace.kernel(1_000, 2_000, name="odd_kernel")
    operator, kernel = trace.events[1], trace.events[2]
    if how == "no time":
        del operator["dur"]
    elif how == "negative":
        operator["dur"] = -1
    elif how == "no name":
        del operator["name"]
    elif how == "no device":
        del kernel["args"]["device"]
    elif how == "no stream":
        del kernel["args"]["stream"]
    elif how == "nothing":
        trace.events = []
        trace.noise(100)
    capture = trace.save(packed=False)
    file = Path(capture) / "trace.json"
    text = file.read_text()
    if how == "cut off":
        file.write_text(text[: len(text) * 2 // 3])
    elif how == "cut off packed":
        file.unlink()
        (Path(capture) / "trace.json.gz").write_bytes(gzip.compress(text.encode())[:-20])
    elif how == "no list":
        file.write_text(text.replace('"traceEvents"', '"events"'))
    elif how == "a list":
        file.write_text("[1, 2]")
    elif how == "a dict of events":
        file.write_text('{"traceEvents": {"a": 1}}')
    elif how == "NaN":
        file.write_text(re.sub(r'"dur": 0.800', '"dur": NaN', text))
        assert "NaN" in file.read_text()
    return capture


WHY_BROKEN = {
    "cut off": "half a trace is no trace",
    "cut off packed": "half a trace is no trace",
    "no list": "there is no list traceEvents",
    "a list": "this JSON is no trace",
    "a dict of events": "traceEvents is no list",
    "nothing": "none of its events is of a category that is asked for",
    "no time": "an operator has no duration",
    "negative": "no operator takes less than no time",
    "no name": "an operator has no name",
    "no device": "a kernel ran on no device",
    "no stream": "a kernel ran on no stream",
    "NaN": "NaN is no time",
}


def mixed(draw: Callable[[], made.Trace], seed: int = 0) -> made.Trace:
    """A trace with an event of every kind, at odd ns."""
    rng = random.Random(seed)
    trace = draw()
    trace.clock_ns += rng.randrange(10**9)
    at = 7
    trace.step(12, 0, 900_001)
    for _ in range(40):
        end = at + rng.randrange(3_000, 9_999)
        operator = trace.operator("aten::addmm", at, end, shapes=[[rng.randint(1, 99)], [4, 4]])
        trace.kernel(end + 5_003, end + 7_777, call=(at + 501, at + 1_499), operator=operator)
        trace.python("train.py(4): step", at - 3, end + 11, called_from="train.py:9")
        at = end + rng.randrange(5_001)
    trace.copy(at, at + 1_001, "D2H", call=(at - 900, at + 1_000))
    trace.memset(at + 2_001, at + 2_999, stream=13, device=1)
    trace.operator("aten::same", 7, 20)
    trace.operator("aten::same", 7, 3_000)
    trace.noise(at)
    return trace


@pytest.mark.parametrize("style", ["new", "old"])
def test_times_and_kinds_are_those_that_were_drawn(draw, style):
    """At odd ns, on a clock that no float holds; and as PyTorch 1.8 spelled it, in whole µs."""
    trace = mixed(draw)
    if style == "old":
        for event in trace.events:
            if "ts" in event:
                event["ts"] = event["ts"] // 1000 * 1000
            if "dur" in event:
                event["dur"] = event["dur"] // 1000 * 1000
    drawn = [e for e in trace.events if e["ph"] == "X" and e["cat"] in KINDS]
    first = min(event["ts"] for event in drawn)
    want = sorted((e["ts"] - first, -e["dur"], KINDS[e["cat"]], e["name"]) for e in drawn)
    read = torch_trace.read_trace(trace.save(style))
    got = [
        (e["start_ns"], e["start_ns"] - e["end_ns"], e["kind"], e["name"]) for e in read["events"]
    ]
    if style == "old":  # ranges were operators
        want = sorted(
            (a, b, {"range": "operator"}.get(kind, kind), name) for a, b, kind, name in want
        )
    assert sorted(got) == want
    assert [event[:2] for event in got] == sorted(event[:2] for event in got)
    assert (read["epoch_ns"] is None) == (style == "old")


def test_memory_events_are_in_order_on_the_clock_of_the_others(draw):
    trace = mixed(draw)
    trace.memory(500_003, 4_096, 90_000_000)
    trace.memory(100_001, -512, 80_000_000, device=None)
    trace.memory(300_009, 512, None, device=1, address=None)
    first = min(e["ts"] for e in trace.events if e["ph"] == "X" and e["cat"] in KINDS)
    got = torch_trace.read_trace(trace.save())["memory"]
    assert [(e["time_ns"] + first, e["device"], e["bytes"], e["allocated_bytes"]) for e in got] == [
        (100_001, None, -512, 80_000_000),
        (300_009, 1, 512, None),
        (500_003, 0, 4_096, 90_000_000),
    ]
    assert got[1]["address"] is None and got[1]["reserved_bytes"] is None


@pytest.mark.parametrize("how", list(WHY_BROKEN))
def test_a_damaged_trace_is_refused(draw, how):
    with pytest.raises(CaptureError, match=r"trace\.json"):
        torch_trace.read_trace(broken(draw, how))


def test_a_trace_without_steps_is_refused(draw):
    trace = draw()
    trace.range("ProfilerStep", 0, 60_000)
    trace.python("ProfilerStep#1", 0, 5_000)
    trace.noise(30_000)  # the steps' shadows on the device are no steps
    with pytest.raises(CaptureError, match=r"step\(\)"):
        torch_trace.steps(trace.save())


@pytest.mark.parametrize("protocol", [2, 5])
@pytest.mark.parametrize("packed", [False, True])
def test_plain_snapshots_are_loaded(tmp_path, protocol, packed):
    want = plain_snapshot()
    capture = made.save_pickle(tmp_path, pickle.dumps(want, protocol), packed)
    assert torch_memory.load_snapshot(capture) == {
        key: want[key] for key in ("segments", "device_traces")
    }


@pytest.mark.parametrize(
    "how",
    [
        "open",
        "open, protocol 0",
        "os.system",
        "a harmless class",
        "torch",
        "a class that is not used",
        "a persistent id",
    ],
)
def test_a_hostile_snapshot_runs_nothing(tmp_path, how):
    data, asks = hostile(how, tmp_path)
    capture = made.save_pickle(tmp_path / "capture", data)
    with pytest.raises(CaptureError, match=asks):
        torch_memory.load_snapshot(capture)
    assert not (tmp_path / "was_here").exists()


@pytest.mark.parametrize(
    "how",
    ["cut off", "cut off packed", "damaged text", "no pickle", "empty", "a list", "no traces"],
)
def test_a_damaged_snapshot_is_refused(tmp_path, how):
    whole = plain_snapshot()
    data = pickle.dumps(whole, 4)
    packed = how.endswith("packed")
    if how == "cut off":
        data = data[: len(data) // 2]
    elif how == "damaged text":
        data = data.replace(b"alloc", b"\xff\xfeloc", 1)
    elif how == "no pickle":
        data = b"\x93NUMPY and something else"
    elif how == "empty":
        data = b""
    elif how == "a list":
        data = pickle.dumps(whole["segments"], 4)
    elif how == "no traces":
        del whole["device_traces"]
        data = pickle.dumps(whole, 4)
    capture = made.save_pickle(tmp_path, data, packed)
    if packed:
        file = tmp_path / "snapshot.pickle.gz"
        file.write_bytes(file.read_bytes()[:-12])
    with pytest.raises(CaptureError, match=r"snapshot\.pickle"):
        torch_memory.load_snapshot(capture)


@pytest.mark.parametrize("seed", range(3))
def test_bytes_in_use_are_those_of_the_allocator(tmp_path, seed):
    """Blocks that come and go, some older than the history, some whose release is only requested."""
    rng = random.Random(seed)
    memory = made.Memory(tmp_path)
    pool = memory.segment(90_000_000)
    live = [memory.alloc(pool, rng.randrange(1, 900_000)) for _ in range(6)]
    memory.begin_history()
    awaiting: list[int] = []
    for _ in range(120):
        choice = rng.random()
        if choice < 0.5 or not live:
            live.append(memory.alloc(pool, rng.randrange(1, 400_000)))
        elif choice < 0.8:
            memory.free(live.pop(rng.randrange(len(live))))
        elif choice < 0.9:
            awaiting.append(live.pop())
            memory.free(awaiting[-1], complete=False)
        elif awaiting:
            memory.complete(awaiting.pop(0))
    memory.segment(5_000_000)
    capture = memory.save()
    assert max(torch_memory.bytes_in_use(capture)) == max(memory.held)
    assert torch_memory.reserved_peak_bytes(capture) == max(memory.reserved)
    with pytest.raises(CaptureError, match="_record_memory_history"):
        torch_memory.memory_blocks(capture, 1)


def test_the_peak_is_what_the_program_was_told():
    """The allocator's own counter of requested bytes, read by the recorded program."""
    told = captures.provenance("torch_memory_peak")["reported_by_program"]
    assert max(torch_memory.bytes_in_use("torch_memory_peak")) == told["peak_requested_bytes"]
