"""Checks of `torch_ex02`: recorded snapshots of PyTorch's allocator, and made-up ones."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from grading.checks import task
from grading.checks.assertions import (
    alike,
    call_words,
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
from profiling_lab.errors import CaptureError

FRAGMENTS = recordings(
    "memory_fragments_other", "memory_fragments_expandable", holding="snapshot.json"
)
FIXED = recordings("memory_fragments_other", "memory_fragments_full", holding="snapshot.json")
LEAKS = recordings("memory_leak_seldom", "memory_leak_bounded", holding="snapshot.json")
MIB = 1 << 20
STATES = ("active_allocated", "active_pending_free", "inactive")


def load(capture: str, name: str = "snapshot.json") -> dict[str, Any]:
    """A snapshot of a capture."""
    return json.loads(captures.text(capture, name))


def save(folder: Path, snapshot: dict[str, Any], name: str = "snapshot.json") -> str:
    """Write a snapshot; returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(json.dumps(snapshot), encoding="utf-8")
    return str(folder)


def own_with_phases(capture: str) -> None:
    """A learner's own snapshot need not hold phases; what needs them is not judged then."""
    if not load(capture).get("phases"):
        raise NotGraded("not run", f"{Path(capture).name} holds no phases")


# -- segments -----------------------------------------------------------------------------------------


def segment(kind: str, blocks: list[tuple[int, int, str]], grows: bool = False) -> dict[str, Any]:
    """A segment of blocks (size, requested size, state)."""
    return {
        "device": 0,
        "address": 1 << 40,
        "total_size": sum(size for size, _, _ in blocks),
        "segment_type": kind,
        "is_expandable": grows,
        "blocks": [
            {"size": size, "requested_size": asked, "state": state} for size, asked, state in blocks
        ],
    }


def made_segments(chance: random.Random) -> list[dict[str, Any]]:
    """Segments of both pools, some of them without a block in use."""
    out = []
    for kind, step, count in (("small", 512, 5), ("large", 512 * 1024, 6)):
        for number in range(count):
            blocks = []
            for _ in range(chance.randrange(1, 6)):
                size = step * chance.randrange(1, 60)
                asked = size - chance.randrange(step)
                state = "inactive" if number % 3 == 0 else chance.choice(STATES)
                blocks.append((size, asked, state))
            out.append(segment(kind, blocks))
    chance.shuffle(out)
    return out


def history_of_one() -> list[list[dict[str, Any]]]:
    """A history that holds something."""
    return [[{"action": "alloc", "addr": 1, "size": 1, "time_us": 1, "frames": []}]]


def take_apart(snapshot: dict[str, Any]) -> dict[str, dict[str, int]]:
    """What reserved_memory is to find, summed key by key."""
    out = {}
    for kind in dict.fromkeys(one["segment_type"] for one in snapshot["segments"]):
        mine = [one for one in snapshot["segments"] if one["segment_type"] == kind]
        blocks = [block for one in mine for block in one["blocks"]]
        used = [block for block in blocks if block["state"] != "inactive"]
        out[kind] = {
            "reserved_bytes": sum(one["total_size"] for one in mine),
            "requested_bytes": sum(block["requested_size"] for block in used),
            "rounding_bytes": sum(block["size"] - block["requested_size"] for block in used),
            "free_bytes": sum(block["size"] for block in blocks if block["state"] == "inactive"),
            "releasable_bytes": sum(
                one["total_size"]
                for one in mine
                if {block["state"] for block in one["blocks"]} <= {"inactive"}
            ),
        }
    return out


def judge_reserved(stub: Any, capture: str, *name: str) -> None:
    want = take_apart(load(capture, *name))
    call = call_words("reserved_memory", capture, *name)
    got = stub.reserved_memory(capture, *name)
    require(
        isinstance(got, dict) and got.keys() == want.keys(),
        f"{call} returned {show(got)}, expected a dict by pool: {', '.join(want)}",
    )
    for pool, sums in want.items():
        judge(
            f"{call}[{pool!r}]",
            got[pool],
            sums,
            "bytes",
            {
                "requested_bytes": "Only blocks in use count, and one that is pending is in use; an unused "
                "one may still carry its last size",
                "rounding_bytes": "By how much blocks in use are larger than their requests",
                "free_bytes": "A block is free when its state is inactive; one that is pending is in use",
                "releasable_bytes": "A segment goes back only as a whole, and only if no block in it is in use",
            },
        )


@task("torch_ex02.reserved_memory")
@FRAGMENTS
def test_what_is_reserved_in_a_recording(stub: Any, recording: str) -> None:
    judge_reserved(stub, recording)


@task("torch_ex02.reserved_memory")
def test_what_is_reserved_in_made_up_segments(stub: Any, seed: int, tmp_path: Path) -> None:
    for number in range(4):
        chance = random.Random(f"segments {seed} {number}")
        document = {"segments": made_segments(chance), "device_traces": history_of_one()}
        judge_reserved(stub, save(tmp_path / str(number), document))
    large = [segment("large", [(4 * MIB, 4 * MIB - 9, "active_allocated")])]
    save(tmp_path / "0", {"segments": large, "device_traces": history_of_one()}, "after.json")
    judge_reserved(stub, str(tmp_path / "0"), "after.json")


@task("torch_ex02.reserved_memory")
def test_nothing_reserved_and_no_snapshot(stub: Any, tmp_path: Path) -> None:
    empty = save(tmp_path / "empty", {"segments": [], "device_traces": [[]]})
    with stub.raises(CaptureError, why="the snapshot has no segments"):
        stub.reserved_memory(empty)
    with stub.raises(CaptureError, why="its segments are no list"):
        stub.reserved_memory(save(tmp_path / "dict", {"segments": {}, "device_traces": [[]]}))
    one = [segment("large", [(MIB, MIB, "inactive")])]
    with stub.raises(CaptureError, why="there is no device in the history"):
        stub.reserved_memory(save(tmp_path / "none", {"segments": one, "device_traces": []}))
    (tmp_path / "empty" / "snapshot.json").write_text("[1, 2", encoding="utf-8")
    with stub.raises(CaptureError, why="the file is cut off"):
        stub.reserved_memory(empty)


# -- explain_request ----------------------------------------------------------------------------------


def simulate(snapshot: dict[str, Any], asked: int, limit: int) -> dict[str, Any]:
    """The allocator, step by step, on a copy of its segments."""
    block = max(512, (asked + 511) // 512 * 512)
    small = block <= MIB
    new = 2 * MIB if small else 20 * MIB if block < 10 * MIB else (block + 2 * MIB - 1) // (2 * MIB)
    new = new * 2 * MIB if not small and block >= 10 * MIB else new
    pool = [s for s in snapshot["segments"] if s["segment_type"] == ("small" if small else "large")]
    free = sorted(b["size"] for s in pool for b in s["blocks"] if b["state"] == "inactive")
    reserved = sum(s["total_size"] for s in snapshot["segments"])
    kept = sum(
        s["total_size"]
        for s in snapshot["segments"]
        if any(b["state"] != "inactive" for b in s["blocks"])
    )
    if free and free[-1] >= block:
        outcome = "cached"
    elif reserved + new <= limit:
        outcome = "new_segment"
    elif kept + new <= limit:
        outcome = "after_release"
    elif sum(free) + limit - reserved >= block:
        outcome = "fragmented"
    else:
        outcome = "exhausted"
    return {
        "outcome": outcome,
        "block_bytes": block,
        "free_bytes": sum(free),
        "largest_free_bytes": free[-1] if free else 0,
        "unreserved_bytes": limit - reserved,
    }


def judge_request(stub: Any, capture: str, asked: int, limit: int) -> str:
    want = simulate(load(capture), asked, limit)
    outcome = want["outcome"]
    judge(
        call_words("explain_request", capture, asked, limit),
        stub.explain_request(capture, asked, limit),
        want,
        "bytes, or a name",
        {
            "outcome": f"The largest free block of the pool has {want['largest_free_bytes']} bytes, all "
            f"of them together {want['free_bytes']}, and {want['unreserved_bytes']} are not reserved",
            "free_bytes": "Only free blocks of the pool that serves the request count",
        },
    )
    return outcome


@task("torch_ex02.explain_request")
@FIXED
def test_the_last_request_of_a_recording(stub: Any, recording: str, own_recording: bool) -> None:
    if any(one.get("is_expandable") for one in load(recording)["segments"]):
        raise NotGraded("not run", f"{Path(recording).name}: its segments can grow")
    measured = load(recording).get("measured", {})
    asked, limit = measured.get("asked_bytes", 1 << 30), measured.get("limit_bytes", 1 << 38)
    outcome = judge_request(stub, recording, asked, limit)
    if not own_recording:  # what the allocator did is what its rules say
        assert (outcome in ("fragmented", "exhausted")) == (not measured["fits"])
    judge_request(stub, recording, 1000, limit)
    judge_request(stub, recording, 64 * MIB, limit)
    judge_request(stub, recording, asked, limit + asked)


@task("torch_ex02.explain_request")
def test_each_outcome(stub: Any, tmp_path: Path) -> None:
    used, free = "active_allocated", "inactive"
    segments = [
        segment("large", [(40 * MIB, 40 * MIB, used), (60 * MIB, 0, free)]),
        segment("large", [(50 * MIB, 9, free), (30 * MIB, 30 * MIB, "active_pending_free")]),
        segment("large", [(24 * MIB, 24 * MIB, free)]),
        segment("small", [(MIB // 2, 5, used), (MIB, 0, free), (MIB // 2, 0, used)]),
        segment("small", [(2 * MIB, 0, free)]),
    ]
    folder = save(tmp_path, {"segments": segments, "device_traces": history_of_one()})
    reserved = sum(one["total_size"] for one in segments)
    seen = set()
    for asked, more in (
        (60 * MIB, 0),
        (60 * MIB - 511, 0),
        (60 * MIB + 1, 62 * MIB),
        (61 * MIB, 62 * MIB),
        (61 * MIB, 61 * MIB),
        (64 * MIB, 38 * MIB),
        (65 * MIB, 40 * MIB),
        (66 * MIB, 39 * MIB),
        (134 * MIB, 0),
        (134 * MIB + 1, 0),
        (150 * MIB, 16 * MIB),
        (150 * MIB, 16 * MIB - 1),
        (MIB, 0),
        (MIB + 1, 0),
        (2 * MIB, 100 * MIB),
        (1, 0),
    ):
        seen.add(judge_request(stub, folder, asked, reserved + more))
    assert seen == {"cached", "new_segment", "after_release", "fragmented", "exhausted"}
    full = [segment("large", [(64 * MIB, 64 * MIB, used)]), segment("small", [(2 * MIB, 9, used)])]
    folder = save(tmp_path / "full", {"segments": full, "device_traces": history_of_one()})
    for asked, more in (
        (5 * MIB, 20 * MIB),
        (5 * MIB, 20 * MIB - 1),
        (10 * MIB - 1, 10 * MIB),
        (10 * MIB, 10 * MIB),
        (10 * MIB + 1, 12 * MIB),
        (10 * MIB - 512, 20 * MIB),
        (MIB, 2 * MIB),
        (MIB, 2 * MIB - 1),
        (9, 511),
    ):
        judge_request(stub, folder, asked, 66 * MIB + more)


@task("torch_ex02.explain_request")
def test_requests_of_made_up_segments(stub: Any, seed: int, tmp_path: Path) -> None:
    for number in range(3):
        chance = random.Random(f"requests {seed} {number}")
        document = {"segments": made_segments(chance), "device_traces": history_of_one()}
        folder = save(tmp_path / str(number), document)
        reserved = sum(one["total_size"] for one in document["segments"])
        for _ in range(4):
            asked = chance.choice((chance.randrange(1, 2 * MIB), chance.randrange(MIB, 90 * MIB)))
            judge_request(stub, folder, asked, reserved + chance.randrange(60 * MIB))


@task("torch_ex02.explain_request")
def test_requests_that_make_no_sense(stub: Any, tmp_path: Path) -> None:
    one = segment("large", [(4 * MIB, 4 * MIB, "inactive")])
    folder = save(tmp_path / "one", {"segments": [one], "device_traces": history_of_one()})
    judge_request(stub, folder, 1, 4 * MIB)
    with stub.raises(ValueError, why="0 bytes are asked for"):
        stub.explain_request(folder, 0, 8 * MIB)
    with stub.raises(ValueError, why="the limit is below what is reserved"):
        stub.explain_request(folder, 5, 4 * MIB - 1)
    grows = [one, segment("large", [(4 * MIB, 4 * MIB, "inactive")], grows=True)]
    folder = save(tmp_path / "grows", {"segments": grows, "device_traces": history_of_one()})
    with stub.raises(CaptureError, why="a segment that can grow follows other rules"):
        stub.explain_request(folder, 5, 100 * MIB)


# -- a made-up history --------------------------------------------------------------------------------


class History:
    """A training run by hand: allocations with their lines and times, in phases."""

    def __init__(self) -> None:
        self.entries: list[dict[str, Any]] = []
        self.phases: list[dict[str, Any]] = []
        self.tensors: list[dict[str, Any]] = []
        self.now, self.address = 1_700_000_000_000_000, 1 << 40
        self.released: list[int] = []

    def alloc(self, line: int | None, size: int) -> dict[str, Any]:
        """A tensor, allocated inside torch on behalf of a line of train.py (None: of nobody)."""
        frames = [{"filename": "site-packages/torch/nn/functional.py", "line": 7, "name": "linear"}]
        frames += [{"filename": "python3.12/contextlib.py", "line": 81, "name": "inner"}]
        if line is not None:
            frames.append({"filename": "train.py", "line": line, "name": f"part_{line}"})
            frames.append({"filename": "main.py", "line": 1, "name": "main"})
        self.address += 1 << 20
        address = self.released.pop() if self.released else self.address
        where = f"train.py:{line} part_{line}" if line is not None else None
        tensor = {
            "addr": address, "bytes": size, "where": where, "born": self.tick(), "died": None
        }  # fmt: skip
        self._entry("alloc", tensor, frames)
        self.tensors.append(tensor)
        return tensor

    def free(self, tensor: dict[str, Any]) -> None:
        """Released, and at once; its address is used again."""
        self.request(tensor)
        self.complete(tensor)

    def request(self, tensor: dict[str, Any]) -> None:
        """Released by the program; another stream may still use it."""
        self.tick()
        self._entry("free_requested", tensor, [])

    def complete(self, tensor: dict[str, Any]) -> None:
        """The release takes effect."""
        tensor["died"] = self.tick()
        self._entry("free_completed", tensor, [])
        self.released.append(tensor["addr"])

    def tick(self) -> int:
        self.now += 10
        return self.now

    def phase(self, name: str, step: int) -> Any:
        """Everything in the block belongs to it."""
        history = self

        class Phase:
            def __enter__(self) -> None:
                self.start = history.tick()

            def __exit__(self, *_: object) -> None:
                end = history.tick()
                history.phases.append(
                    {"name": name, "step": step, "start_us": self.start, "end_us": end}
                )

        return Phase()

    def _entry(self, action: str, tensor: dict[str, Any], frames: list) -> None:
        self.entries.append(
            {"action": action, "addr": tensor["addr"], "size": tensor["bytes"], "time_us": self.now,
             "frames": frames}
        )  # fmt: skip

    def document(self) -> dict[str, Any]:
        """The snapshot."""
        return {
            "segments": [segment("large", [(MIB, MIB, "active_allocated")])],
            "device_traces": [self.entries],
            "phases": self.phases,
        }


def made_run(seed: object, leak: int = 0, steps: int = 7) -> History:
    """Steps of training, with a cache that fills up, and a leak of so many bytes a step."""
    chance = random.Random(f"run {seed}")
    run = History()
    size = chance.randrange(20, 60) * 1000
    run.alloc(3, 777)  # before every phase
    with run.phase("setup", -1):
        for _ in range(3):
            run.alloc(10, size)
    gradients: list[dict[str, Any]] = []
    recent: list[dict[str, Any]] = []
    for step in range(steps):
        between = run.alloc(99, 555)  # between two phases
        with run.phase("forward", step):
            activations = [run.alloc(20 + i, size * 3 + i) for i in range(3)]
            run.free(run.alloc(None, chance.randrange(1000, 9000)))
            recent.append(run.alloc(31, 2 * size))
            if leak:
                run.alloc(30, leak)
        with run.phase("backward", step):
            for gradient in gradients:
                run.free(gradient)
            gradients = [run.alloc(40, size) for _ in range(3)]
            for activation in reversed(activations[1:]):
                run.free(activation)
            run.request(activations[0])
        run.free(between)
        with run.phase("optimizer", step):
            run.complete(activations[0])
            if step == 0:
                run.alloc(50, 2 * size)
            if len(recent) > 2:
                run.free(recent.pop(0))
    run.alloc(98, 10 * size)  # after the last step
    unknown = {"addr": 5, "bytes": 10}
    run._entry("free_completed", unknown, [])
    return run


class Tensors:
    """The history of a capture, matched by going back from each release to its allocation."""

    def __init__(self, capture: str) -> None:
        self.document = load(capture)
        entries = self.document["device_traces"][0]
        last: dict[int, int] = {}
        died: dict[int, int] = {}
        for place, entry in enumerate(entries):
            if entry["action"] == "alloc":
                last[entry["addr"]] = place
            elif entry["action"] == "free_completed" and entry["addr"] in last:
                died[last.pop(entry["addr"])] = entry["time_us"]
        self.all = [
            (entry["size"], entry["time_us"], died.get(place), line_of(entry["frames"]))
            for place, entry in enumerate(entries)
            if entry["action"] == "alloc"
        ]
        self.phases = self.document.get("phases", [])

    def held(self, at: int) -> dict[str | None, int]:
        """By line, what is in use at a time."""
        out: dict[str | None, int] = {}
        for size, born, died, where in self.all:
            if born <= at and (died is None or died > at):
                out[where] = out.get(where, 0) + size
        return out

    def ends(self) -> list[int]:
        """The end of each step."""
        numbers = sorted({phase["step"] for phase in self.phases} - {-1})
        return [max(p["end_us"] for p in self.phases if p["step"] == n) for n in numbers]

    def growing(self) -> list[dict[str, Any]]:
        """What growing_lines is to find."""
        ends = self.ends()
        middle = len(ends) // 2
        early, late = self.held(ends[middle]), self.held(ends[-1])
        rows = [
            {
                "where": where,
                "growth_bytes": (held - early.get(where, 0)) / (len(ends) - 1 - middle),
                "held_bytes": held,
            }
            for where, held in late.items()
            if held > early.get(where, 0)
        ]
        return sorted(
            rows, key=lambda r: (-r["growth_bytes"], r["where"] is None, r["where"] or "")
        )


def line_of(frames: list[dict[str, Any]]) -> str | None:
    """The program's own line."""
    own = [
        f
        for f in frames
        if f["filename"].endswith(".py")
        and "-packages/" not in f["filename"]
        and "python3." not in f["filename"]
        and "<" not in f["filename"]
    ]
    return f"{own[0]['filename']}:{own[0]['line']} {own[0]['name']}" if own else None


def judge_rows(call: str, got: Any, want: list[dict[str, Any]], unit: str, why: str) -> None:
    """Hold a list of dicts against another, and name the first that differs."""
    require(isinstance(got, list), f"{call} returned {show(got)}, expected a list of dicts")
    for place, (one, other) in enumerate(zip(got, want, strict=False)):
        require(
            alike(one, other),
            f"{call}: entry {place} is {show(one)}, expected {show(other)} ({unit}). {why}",
        )
    require(
        len(got) == len(want),
        f"{call} returned {len(got)} entries, expected {len(want)}. {why}",
    )


# -- requests_by_line ---------------------------------------------------------------------------------


def judge_requests(stub: Any, capture: str) -> None:
    rows: dict[str | None, list[int]] = {}
    for size, _, died, where in Tensors(capture).all:
        row = rows.setdefault(where, [0, 0, 0, 0])
        row[0] += size
        row[1] += 1
        row[2] += size if died is None else 0
        row[3] += died is None
    names = ("asked_bytes", "asked_count", "held_bytes", "held_count")
    want: list[dict[str, Any]] = []
    want += [{"where": where} | dict(zip(names, row, strict=True)) for where, row in rows.items()]
    want.sort(key=lambda r: (-r["asked_bytes"], r["where"] is None, r["where"] or ""))
    judge_rows(
        call_words("requests_by_line", capture),
        stub.requests_by_line(capture),
        want,
        "bytes and counts",
        "Every alloc counts as asked for; held is what no later free_completed releases. The largest "
        "asked_bytes comes first",
    )


@task("torch_ex02.requests_by_line")
@LEAKS
def test_requests_of_a_recording(stub: Any, recording: str) -> None:
    judge_requests(stub, recording)


@task("torch_ex02.requests_by_line")
def test_requests_of_a_made_up_run(stub: Any, seed: int, tmp_path: Path) -> None:
    document = made_run(seed, leak=4000).document()
    document["device_traces"].append([])  # a second device
    judge_requests(stub, save(tmp_path, document))


@task("torch_ex02.requests_by_line")
def test_a_history_without_requests(stub: Any, tmp_path: Path) -> None:
    folder = save(tmp_path, {"segments": [], "device_traces": [[]]})
    with stub.raises(CaptureError, why="the history holds no allocation"):
        stub.requests_by_line(folder)


@task("torch_ex02.requests_by_line")
def test_lines_that_ask_for_as_much(stub: Any, tmp_path: Path) -> None:
    run = History()
    for line in (8, None, 5, 8):
        run.free(run.alloc(line, 100 if line == 8 else 200))
    run.alloc(5, 1)
    run.alloc(5, 2)
    run.alloc(8, 3)
    run.alloc(None, 3)
    run.request(run.alloc(8, 4))  # another stream still uses it
    judge_requests(stub, save(tmp_path, run.document()))


# -- lifetimes ----------------------------------------------------------------------------------------


def judge_lifetimes(stub: Any, capture: str) -> None:
    read = Tensors(capture)

    def at(time_us: int) -> dict[str, Any] | None:
        found = [p for p in read.phases if p["start_us"] <= time_us < p["end_us"]]
        return found[0] if found else None

    sums: dict[tuple, list[int]] = {}
    for size, born_us, died_us, _ in read.all:
        born, died = at(born_us), at(died_us) if died_us is not None else None
        if born and (died or died_us is None):
            later = died["step"] - born["step"] if died else None
            sums.setdefault((born["name"], died and died["name"], later), []).append(size)
    want = [
        {"born": b, "died": d, "steps_later": n, "bytes": sum(sizes), "count": len(sizes)}
        for (b, d, n), sizes in sums.items()
    ]
    want.sort(
        key=lambda r: (
            -r["bytes"],
            r["born"],
            r["died"] is None,
            r["died"] or "",
            r["steps_later"] or 0,
        )
    )
    judge_rows(
        call_words("lifetimes", capture),
        stub.lifetimes(capture),
        want,
        "bytes and counts",
        "A tensor is born in the phase of its alloc and dies in that of its free_completed; outside of "
        "all phases it is left out; what is in use in the end has died None",
    )


@task("torch_ex02.lifetimes")
@LEAKS
def test_lifetimes_in_a_recording(stub: Any, recording: str) -> None:
    own_with_phases(recording)
    judge_lifetimes(stub, recording)


@task("torch_ex02.lifetimes")
def test_lifetimes_in_a_made_up_run(stub: Any, seed: int, tmp_path: Path) -> None:
    judge_lifetimes(stub, save(tmp_path, made_run(seed, leak=3000).document()))


@task("torch_ex02.lifetimes")
def test_lifetimes_of_as_many_bytes(stub: Any, tmp_path: Path) -> None:
    run = History()
    with run.phase("one", 0):
        two, one, three, four, late = (run.alloc(1, 50) for _ in range(5))
    with run.phase("one", 1):
        run.free(late)
        again = run.alloc(1, 50)
        run.alloc(1, 50)
        run.free(run.alloc(1, 50))
    with run.phase("two", 2):
        run.free(two)
    with run.phase("three", 2):
        run.free(three)
    with run.phase("one", 3):
        run.free(one)
        run.free(again)
    with run.phase("four", 4):
        run.free(four)
    judge_lifetimes(stub, save(tmp_path, run.document()))


@task("torch_ex02.lifetimes")
def test_lifetimes_at_the_edges_of_phases(stub: Any, tmp_path: Path) -> None:
    run = History()
    with run.phase("one", 0):
        first = run.alloc(1, 50)
    with run.phase("two", 1):
        run.free(first)
        run.alloc(2, 50)
        second = run.alloc(2, 50)
    with run.phase("two", 2):
        third = run.alloc(3, 50)
        run.free(second)
    with run.phase("one", 3):
        run.free(third)
        for size in (25, 25):
            run.free(run.alloc(3, size))
    document = run.document()
    # the first is born when its phase begins, and the second dies when one begins
    document["device_traces"][0][0]["time_us"] = run.phases[0]["start_us"]
    document["phases"][2]["start_us"] = second["died"]
    judge_lifetimes(stub, save(tmp_path / "start", document))
    document["phases"][1]["end_us"] = second["born"]
    judge_lifetimes(stub, save(tmp_path / "end", document))
    del document["phases"]
    with stub.raises(CaptureError, why="the snapshot holds no phases"):
        stub.lifetimes(save(tmp_path / "none", document))


# -- growing_lines ------------------------------------------------------------------------------------


def judge_growing(stub: Any, capture: str) -> list[dict[str, Any]]:
    want = Tensors(capture).growing()
    judge_rows(
        call_words("growing_lines", capture),
        stub.growing_lines(capture),
        want,
        "bytes a step, and bytes",
        "A line's growth is what it holds at the end of the last step, minus what it held at the end of the "
        "middle step, over the steps between. The end alone is not enough: memory may be filled only once",
    )
    return want


@task("torch_ex02.growing_lines")
@LEAKS
def test_growth_in_a_recording(stub: Any, recording: str) -> None:
    own_with_phases(recording)
    judge_growing(stub, recording)


@task("torch_ex02.growing_lines")
@pytest.mark.parametrize("steps", [4, 5, 7, 10])
def test_growth_in_a_made_up_run(stub: Any, seed: int, tmp_path: Path, steps: int) -> None:
    leak = 1000 + seed % 5000
    found = judge_growing(stub, save(tmp_path / "leak", made_run(seed, leak, steps).document()))
    assert [row["where"] for row in found] == ["train.py:30 part_30"]
    assert near(found[0]["growth_bytes"], float(leak))
    healthy = made_run(seed, 0, steps).document()
    healthy["phases"].reverse()  # in any order
    assert judge_growing(stub, save(tmp_path / "healthy", healthy)) == []


@task("torch_ex02.growing_lines")
def test_growth_of_several_lines(stub: Any, tmp_path: Path) -> None:
    run = History()
    kept = []
    for step in range(6):
        with run.phase("work", step):
            run.alloc(7, 100)
            run.alloc(None, 100)
            run.alloc(5, 100)
            run.alloc(9, 50 * step)
            kept.append(run.alloc(11, 1000))
            if step == 5:
                for one in kept[:3]:
                    run.free(one)
        with run.phase("rest", step):
            run.alloc(6, 1 if step == 5 else 0)
            run.free(run.alloc(6, 70))
    document = run.document()
    document["phases"].reverse()  # a step ends with the last of its phases, in whatever order
    found = judge_growing(stub, save(tmp_path / "many", document))
    assert len(found) == 5
    document = run.document()
    document["phases"][7]["end_us"] = document["device_traces"][0][-1]["time_us"] - 200
    edge = [e for e in document["device_traces"][0] if e["action"] == "alloc"][-2]["time_us"]
    document["phases"][-1]["end_us"] = document["phases"][-2]["end_us"] = edge
    judge_growing(stub, save(tmp_path / "edge", document))
    last = document["device_traces"][0][-1]
    document["phases"][-1]["end_us"] = last["time_us"]
    judge_growing(stub, save(tmp_path / "death", document))


def at_the_end() -> dict[str, Any]:
    """A tensor that is born, and one that dies, at the very end of the last step."""
    run = History()
    for step in range(4):
        with run.phase("work", step):
            run.alloc(7, MIB)
            last = run.alloc(8, 2 * MIB)
            dying = run.alloc(9, 3 * MIB)
            run.free(dying)
    document = run.document()
    document["phases"][-1]["end_us"] = last["born"]
    for entry in document["device_traces"][0]:
        if entry["addr"] == dying["addr"] and entry["time_us"] >= dying["born"]:
            entry["time_us"] = last["born"]
    return document


@task("torch_ex02.growing_lines")
def test_growth_at_the_end_of_a_step(stub: Any, tmp_path: Path) -> None:
    assert len(judge_growing(stub, save(tmp_path, at_the_end()))) == 2


@task("torch_ex02.memory_verdict")
def test_verdict_at_the_end_of_a_step(stub: Any, tmp_path: Path) -> None:
    assert judge_verdict(stub, save(tmp_path, at_the_end())) == "memory_growth"


@task("torch_ex02.growing_lines")
def test_growth_needs_steps(stub: Any, tmp_path: Path) -> None:
    document = made_run(1, 50, 3).document()
    with stub.raises(CaptureError, why="three steps and set-up are too few"):
        stub.growing_lines(save(tmp_path / "three", document))
    del document["phases"]
    with stub.raises(CaptureError, why="the snapshot holds no phases"):
        stub.growing_lines(save(tmp_path / "none", document))
    empty = made_run(1, 50, 4).document() | {"device_traces": [[]]}
    with stub.raises(CaptureError, why="the history holds no allocation"):
        stub.growing_lines(save(tmp_path / "empty", empty))


# -- memory_verdict -----------------------------------------------------------------------------------


def judge_verdict(stub: Any, capture: str) -> str:
    """Hold a verdict against the history; returns the category that is expected."""
    read = Tensors(capture)
    lines = read.growing()
    growth = float(sum(row["growth_bytes"] for row in lines))
    floor = MIB // 4
    category = "memory_growth" if growth > floor else "healthy"
    got = stub.memory_verdict(capture)
    call = call_words("memory_verdict", capture)
    start, end = min(p["start_us"] for p in read.phases), max(p["end_us"] for p in read.phases)
    late = f"late in the run lines grow by {growth:.0f} bytes a step, and the floor is {floor}"
    judge_finding(
        *(call, got, category, "device:0"),
        {
            "growth_bytes": growth,
            "held_bytes": float(sum(read.held(read.ends()[-1]).values())),
            "steps_count": float(len(read.ends())),
            "recoverable_ns": 0.0,
            "window_ns": (end - start) * 1000.0,
        },
        late,
        why={"held_bytes": "By all lines at the end of the last step, whether they grow or not"},
    )
    where = next((row["where"] for row in lines if row["where"]), "unknown line")
    judge_recommendation(
        call,
        got,
        f"{late}; within a tenth of it a verdict is borderline",
        borderline=abs(growth - floor) <= floor / 10,
        anywhere=True,
        names=(
            where,
            f"the line that grows fastest: of the {len(lines)} that grow, the one that you find in "
            "growing_lines first",
        ),
    )
    return category


@task("torch_ex02.memory_verdict")
@LEAKS
def test_verdict_on_a_recording(stub: Any, recording: str) -> None:
    own_with_phases(recording)
    judge_verdict(stub, recording)


@task("torch_ex02.memory_verdict")
@pytest.mark.parametrize(
    ("leak", "category"),
    [
        (0, "healthy"),
        (MIB // 20, "healthy"),
        (MIB // 4, "healthy"),
        (MIB // 4 - 26_214, "healthy"),
        (MIB // 4 - 26_215, "healthy"),
        (MIB // 4 + 1, "memory_growth"),
        (MIB // 4 + 26_215, "memory_growth"),
        (MIB, "memory_growth"),
    ],
)
def test_verdict_on_a_made_up_run(
    stub: Any, seed: int, tmp_path: Path, leak: int, category: str
) -> None:
    expected = judge_verdict(stub, save(tmp_path, made_run(seed, leak, 8).document()))
    assert expected == category


@task("torch_ex02.memory_verdict")
def test_verdict_on_several_lines(stub: Any, tmp_path: Path) -> None:
    run = History()
    for step in range(6):
        with run.phase("work", step):
            run.alloc(None, 3 * MIB)
            run.alloc(21, MIB)
            run.alloc(22, 2 * MIB)
    with run.phase("set-up of a test", -1):
        run.alloc(23, MIB)
    run.phases.reverse()
    assert judge_verdict(stub, save(tmp_path / "named", run.document())) == "memory_growth"
    run = History()
    for step in range(4):
        with run.phase("work", step):
            run.alloc(None, 3 * MIB)
    document = run.document()
    assert judge_verdict(stub, save(tmp_path / "unknown", document)) == "memory_growth"
    with stub.raises(CaptureError, why="three steps are too few"):
        stub.memory_verdict(save(tmp_path / "three", made_run(1, 50, 3).document()))
