"""Checks of `torch_ex03`.

Operations are read from the traces by a reader of this file's own, and counted piece by piece
(`truth.segments`). Buckets are held against torch's own function and against recorded ones; overlap
against what HolisticTraceAnalysis said of the same recordings (benchmarks/hta_oracle.py).
"""

from __future__ import annotations

import gzip
import hashlib
import json
import math
import random
import re
import sqlite3
from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

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
from grading.checks.generate import truth
from grading.checks.generate.kineto import Trace
from profiling_lab import captures
from profiling_lab.errors import CaptureError, EmptyCapture

ROOT = Path(__file__).resolve().parents[4]
PROBE = Path(__file__).resolve().with_name("probes") / "distributed_profile.py"
GRADED = ("ddp_traces_late_data", "ddp_traces_one_bucket_narrow", "ddp_traces_overlap_wide")
HEALTHY = "ddp_timeline_overlap"  # of Nsight Systems
REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
MIB = 2**20
Interval = tuple[int, int]
Rows = list[dict[str, Any]]

# -- what is in the files -----------------------------------------------------------------------------


def nanoseconds(text: str) -> int:
    """µs as written, in ns, without a float."""
    whole, _, part = text.partition(".")
    return int(whole) * 1000 + int((part + "000")[:3]) * (-1 if text.startswith("-") else 1)


def facts(capture: str) -> dict[int, Rows]:
    """Per rank its device operations: name, kind, start_ns, end_ns."""
    out = {}
    for file in captures.place(capture).glob("trace_rank*"):
        data = file.read_bytes()
        text = (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode()
        trace = json.loads(text, parse_float=str, parse_int=str)
        rows = []
        for event in trace["traceEvents"]:
            category = event.get("cat")
            if event["ph"] != "X" or category not in ("kernel", "gpu_memcpy", "gpu_memset"):
                continue
            own = "communication" if re.match("^nccl.*Kernel", event["name"]) else "compute"
            start = nanoseconds(event["ts"])
            rows.append(
                {
                    "name": event["name"],
                    "kind": own if category == "kernel" else "memory",
                    "start_ns": start,
                    "end_ns": start + nanoseconds(event["dur"]),
                }
            )
        rows.sort(key=lambda row: (row["start_ns"], row["end_ns"]))
        out[int(trace["distributedInfo"]["rank"])] = rows
    return dict(sorted(out.items()))


def spans(rows: Rows, *kinds: str) -> list[Interval]:
    return [(row["start_ns"], row["end_ns"]) for row in rows if row["kind"] in kinds]


def whole(rows: Rows) -> Interval:
    return min(row["start_ns"] for row in rows), max(row["end_ns"] for row in rows)


def parts(ranks: dict[int, Rows]) -> dict[int, list[tuple[int, int, int]]]:
    """Per rank, of each collective: start, end of the waiting, end; on the rank's own clock."""
    own = [spans(rows, "communication") for rows in ranks.values()]
    shortest = [min(end - start for start, end in row) for row in zip(*own, strict=True)]
    return {
        rank: [(s, e - least, e) for (s, e), least in zip(found, shortest, strict=True)]
        for rank, found in zip(ranks, own, strict=True)
    }


# -- drawings -----------------------------------------------------------------------------------------


class Ranks:
    """A folder of traces, drawn by hand; every rank has a clock of its own."""

    def __init__(self, folder: Path, world: int, rng: random.Random | None = None) -> None:
        self.folder, self.world = folder, world
        self.rng = rng or random.Random(3)
        self.traces = [Trace(folder) for _ in range(world)]
        for rank, trace in enumerate(self.traces):
            trace.clock_ns += self.rng.randint(-9_000_000_000, 9_000_000_000) * bool(rank)
            trace.header["distributedInfo"] = {
                "backend": "nccl",
                "rank": rank,
                "world_size": world,
            }

    def save(self, names: dict[int, str] | None = None, without: Iterable[int] = ()) -> str:
        """Write the files; names: rank → what its file is called instead."""
        for rank, trace in enumerate(self.traces):
            if rank not in without:
                name = (names or {}).get(rank, f"trace_rank{rank}.json")
                text = trace.text().encode()
                packed = rank % 2 == 0
                data = gzip.compress(text, mtime=0) if packed else text
                (self.folder / (name + ".gz" * packed)).write_bytes(data)
        return str(self.folder)


def draw_run(folder: Path, rng: random.Random, world: int = 3, steps: int = 5) -> Ranks:
    """A run with all that may stand in a trace beside collectives and compute."""
    ranks = Ranks(folder, world, rng)
    clock = [0] * world
    for step in range(steps):
        arrivals = []
        for rank, trace in enumerate(ranks.traces):
            start = clock[rank] + rng.randint(1_000, 20_000)
            trace.copy(start, start + rng.randint(4_000, 30_000), stream=9)
            length = rng.randint(60_000, 90_000)
            trace.kernel(start + 2_000, start + length, call=(start - 900, start - 200))
            trace.kernel(start + 9_000, start + length // 2, name="void ncclike(int)", stream=11)
            trace.range(f"call {step}", start, start + 30_000)
            arrivals.append(start + length - rng.randint(-9_000, 40_000))
            clock[rank] = start + length
        last = max(arrivals) + rng.randint(15_000, 45_000)
        for rank, trace in enumerate(ranks.traces):
            end = last + rng.randint(-300, 300)
            trace.kernel(arrivals[rank], end, name=REDUCE, stream=20)
            after = max(end - rng.randint(0, 15_000), clock[rank] + 100)
            trace.memset(after, after + 3_000)
            trace.kernel(after + 2_500, after + 20_000)
            trace.events.append(
                {"ph": "X", "cat": "gpu_user_annotation", "name": "nccl:all_reduce", "pid": 0,
                 "tid": 20, "ts": arrivals[rank], "dur": end - arrivals[rank], "args": {}}
            )  # fmt: skip
            clock[rank] = max(after + 20_000, end)
    return ranks


def two_ranks(
    folder: Path, work: Interval = (50_000, 50_000), transfer: int = 10_000, end: int = 100_000
) -> str:
    """Two ranks: work, then one collective, then a memset that ends the window."""
    ranks = Ranks(folder, 2)
    for rank, trace in enumerate(ranks.traces):
        trace.kernel(0, work[rank])
        trace.kernel(work[rank], max(work) + transfer, name=REDUCE, stream=20)
        trace.memset(end - 1_000, end)
    return ranks.save()


def as_traces(timeline: str, folder: Path) -> str:
    """A recording of Nsight Systems with NVTX ranges "rank <number>", written as a trace a rank.

    Kernels, copies and memsets that start inside the ranges, each rank on a clock of its own.
    """
    connection = sqlite3.connect(captures.path(timeline).resolve().as_uri() + "?mode=ro", uri=True)
    try:
        places = {
            int(name.removeprefix("rank ")): (tid & ~0xFFFFFF, start, end)
            for tid, start, end, name in connection.execute(
                'SELECT globalTid, start, "end", COALESCE(text, (SELECT value FROM StringIds'
                " WHERE id = textId)) AS name FROM NVTX_EVENTS WHERE name LIKE 'rank %'"
            )
        }
        ranks = Ranks(folder, len(places))
        for rank, (process, first, last) in places.items():
            trace, where = ranks.traces[rank], (process, first, last)
            for start, end, stream, name in connection.execute(
                'SELECT start, "end", streamId, value FROM CUPTI_ACTIVITY_KIND_KERNEL JOIN StringIds'
                " ON id = demangledName WHERE globalPid = ? AND start >= ? AND start < ?",
                where,
            ):
                trace.kernel(start, end, name=name, stream=stream)
            for kind, add in (("MEMCPY", trace.copy), ("MEMSET", trace.memset)):
                for start, end in connection.execute(
                    f'SELECT start, "end" FROM CUPTI_ACTIVITY_KIND_{kind}'
                    " WHERE globalPid = ? AND start >= ? AND start < ?",
                    where,
                ):
                    add(start, end)
    finally:
        connection.close()
    return ranks.save()


# -- 1. a trace for each rank -----------------------------------------------------------------------------


def judge_alone(stub: Any, plan: dict[str, int], rank: int, world: int, fail_at: int | None = None):
    """Run one rank, and hold what it left behind against the plan."""
    told = stub.probe(PROBE, "alone", plan, rank, world, fail_at)
    warmup, active = plan.get("warmup", 2), plan.get("active", 3)
    shown = ", ".join(f"{key}={value}" for key, value in plan.items())
    call = f"profile_rank(step, folder{', ' if shown else ''}{shown}) on rank {rank} of {world}"
    count = warmup + active if fail_at is None else fail_at + 1
    calls = [f"call {number}" for number in range(count)]
    require(
        told["happened"] == ["barrier", *calls],
        f"{call} did {show(told['happened'])}, expected one barrier and then {count} calls of step: "
        "ranks that do not wait for each other record different steps",
    )
    require(not told["left_on"], f"{call} left the profiler on, which slows down all that follows")
    require(
        told["raised"] == (None if fail_at is None else "ArithmeticError"),
        f"{call} raised {told['raised']}; step "
        + ("raised nothing" if fail_at is None else "raised ArithmeticError, which must go on"),
    )
    name = f"trace_rank{rank}.json"
    require(
        list(told["files"]) == [name],
        f"{call} left the files {list(told['files'])}, expected {name}: the rank's number keeps one "
        "rank from overwriting the trace of another, and a rank that failed is the one to look at",
    )
    if fail_at is None:
        require(
            told["returned"] == name,
            f"{call} returned {told['returned']!r}, not the path of {name}",
        )
    got, want = told["files"][name]["calls"], sorted(calls[warmup:])
    require(
        got == want,
        f"{call}: the trace holds {got}, expected {want}: the first {warmup} warm the profiler up",
    )


@pytest.mark.filterwarnings("ignore:Profiler won't be using warmup")
@task("torch_ex03.profile_rank")
def test_one_rank_of_several(stub, seed) -> None:
    rng = random.Random(seed)
    judge_alone(stub, {}, 0, 4)
    warmup, active = rng.randint(0, 3), rng.randint(1, 4)
    judge_alone(stub, {"warmup": warmup, "active": active}, rng.randint(3, 9), 10)
    judge_alone(stub, {"warmup": 0, "active": 1}, 1, 2)


@task("torch_ex03.profile_rank")
def test_a_rank_that_fails(stub) -> None:
    judge_alone(stub, {"warmup": 1, "active": 4}, 5, 6, fail_at=3)


@task("torch_ex03.profile_rank")
def test_a_rank_that_cannot_begin(stub) -> None:
    for plan, group, kind, why in (
        ({}, False, "RuntimeError", "there is no process group"),
        ({"warmup": -1}, True, "ValueError", "warmup is negative"),
        ({"active": 0}, True, "ValueError", "nothing is to be recorded"),
    ):
        told = stub.probe(PROBE, "alone", plan, 0, 2, None, group)
        require(
            told["raised"] == kind and not told["happened"],
            f"profile_rank(step, folder, {plan}) raised {told['raised']} after {told['happened']}, "
            f"expected {kind} before anything runs: {why}",
        )


@task("torch_ex03.profile_rank")
def test_two_ranks_in_two_processes(stub) -> None:
    told = stub.probe(PROBE, "pair")
    require(not told["errors"], f"profile_rank on two ranks with gloo: {show(told['errors'])}")
    want = {
        f"trace_rank{rank}.json": {
            "calls": ["call of a pair"] * 2, "rank": rank, "world_size": 2, "reduced": 2
        }
        for rank in (0, 1)
    }  # fmt: skip
    require(
        told["files"] == want,
        f"profile_rank(step, folder, warmup=1, active=2) on two ranks left {show(told['files'])}, "
        f"expected {show(want)}: two recorded steps a rank, with an all-reduce in each",
    )


# -- 2. all ranks -----------------------------------------------------------------------------------------


def judge_ranks(stub: Any, capture: str) -> None:
    want, got = facts(capture), stub.read_ranks(capture)
    require(
        isinstance(got, dict) and list(got) == list(want),
        f"read_ranks({capture!r}) returned {show(list(got))}, expected the ranks {list(want)} in order: "
        "distributedInfo tells the rank, whatever the file is called",
    )
    for rank, rows in want.items():
        count = len(got[rank]) if isinstance(got[rank], list) else type(got[rank]).__name__
        require(
            count == len(rows),
            f"read_ranks({capture!r})[{rank}] has {count} operations, expected {len(rows)}: complete "
            "events of the categories kernel, gpu_memcpy and gpu_memset",
        )
        for place, (one, right) in enumerate(zip(got[rank], rows, strict=True)):
            require(
                agree(one, right),
                f"read_ranks({capture!r})[{rank}][{place}] is {show(one)}, expected {show(right)} (ns)",
            )


@task("torch_ex03.read_ranks")
@recordings(*GRADED, holding="trace_rank0.json")
def test_ranks_of_a_recording(stub, recording) -> None:
    judge_ranks(stub, recording)


@task("torch_ex03.read_ranks")
def test_ranks_of_drawn_traces(stub, seed, tmp_path) -> None:
    run = draw_run(tmp_path, random.Random(seed), world=3)
    for trace in run.traces:
        trace.noise(5_000)
    run.traces[1].copy(10, 900)
    run.traces[1].kernel(10, 400, name="also ncclDevKernel_AllReduce")
    run.traces[1].kernel(500, 700, name="ncclKernel_AllReduce_RING_LL_Sum_float")  # an older NCCL's
    run.traces[1].kernel(800, 900, name="nccl_fill(float*)")  # no Kernel behind it
    run.traces[2].events.append(
        {
            "ph": "B",
            "cat": "kernel",
            "name": "begun",
            "pid": 0,
            "tid": 7,
            "ts": 1,
            "dur": 2,
            "args": {},
        }
    )  # not a complete event
    # a file may be named after another rank than it is of
    judge_ranks(stub, run.save(names={0: "trace_rank2.json", 2: "trace_rank0.json"}))
    (tmp_path / "many").mkdir()
    judge_ranks(stub, draw_run(tmp_path / "many", random.Random(seed), world=11, steps=1).save())


@task("torch_ex03.read_ranks")
def test_traces_that_are_not_of_one_whole_run(stub, tmp_path) -> None:
    def drawn(name: str, world: int = 3) -> Ranks:
        (tmp_path / name).mkdir()
        return draw_run(tmp_path / name, random.Random(1), world, steps=2)

    with stub.raises(CaptureError, match="1", why="the trace of rank 1 is missing"):
        stub.read_ranks(drawn("missing").save(without=[1]))
    with stub.raises(CaptureError, match="2", why="the trace of rank 2 is missing"):
        stub.read_ranks(drawn("last").save(without=[2]))
    mixed = drawn("mixed")
    mixed.traces[2].header["distributedInfo"]["world_size"] = 4
    with stub.raises(CaptureError, match="3.*4|4.*3", why="one trace is of a run of 4 ranks"):
        stub.read_ranks(mixed.save())
    twice = drawn("twice")
    twice.traces[2].header["distributedInfo"]["rank"] = 0
    with stub.raises(CaptureError, match=r"rank\w*\W*0", why="two traces are of rank 0"):
        stub.read_ranks(twice.save())
    for rank, share in ((0, 0.7), (1, 0.7)):  # one compressed, one plain
        folder = Path(drawn(f"cut{rank}").save())
        file = next(folder.glob(f"trace_rank{rank}*"))
        file.write_bytes(file.read_bytes()[: int(file.stat().st_size * share)])
        with stub.raises(CaptureError, match=f"rank{rank}", why="the file is cut off: a rank died"):
            stub.read_ranks(str(folder))
    lonely = drawn("lonely")
    del lonely.traces[1].header["distributedInfo"]
    with stub.raises(CaptureError, match="rank1", why="this trace is of no distributed run"):
        stub.read_ranks(lonely.save())
    hollow = drawn("hollow")
    hollow.traces[1].events = [e for e in hollow.traces[1].events if e["cat"] != "kernel"]
    hollow.traces[1].events = [e for e in hollow.traces[1].events if "gpu_mem" not in e["cat"]]
    with stub.raises(EmptyCapture, match="1", why="rank 1 ran nothing on its GPU"):
        stub.read_ranks(hollow.save())
    (tmp_path / "none").mkdir()
    with stub.raises(CaptureError, why="the folder holds no trace"):
        stub.read_ranks(str(tmp_path / "none"))


# -- 3. communication beside computation ------------------------------------------------------------------


def judge_overlap(stub: Any, capture: str) -> None:
    want = {}
    for rank, rows in facts(capture).items():
        groups: dict[str, Iterable[Interval]] = {
            kind: spans(rows, kind) for kind in ("communication", "compute")
        }
        total = both = 0
        for start, end, running in truth.segments(groups, whole(rows)):
            total += (end - start) * (running["communication"] > 0)
            both += (end - start) * (running["communication"] > 0 and running["compute"] > 0)
        want[rank] = {
            "communication_ns": total,
            "overlap_ns": both,
            "overlap_pct": 100 * both / total,
        }
    got = stub.communication_overlap(capture)
    require(
        agree(got, want),
        f"communication_overlap({capture!r}) returned {show(got)}, expected {show(want)} (ns and %): "
        "times in which both run, each counted once; copies and memsets are neither",
    )


@task("torch_ex03.communication_overlap")
@recordings(*GRADED, holding="trace_rank0.json")
def test_overlap_of_a_recording(stub, recording) -> None:
    judge_overlap(stub, recording)


@task("torch_ex03.communication_overlap")
def test_overlap_of_drawn_traces(stub, seed, tmp_path) -> None:
    judge_overlap(stub, draw_run(tmp_path, random.Random(seed + 1)).save())
    (tmp_path / "twice").mkdir()
    run = draw_run(tmp_path / "twice", random.Random(seed + 2), world=2)
    run.traces[0].kernel(3_000, 30_000, name=REDUCE, stream=21)  # two collectives at a time
    run.traces[0].kernel(4_000, 9_000, name=REDUCE, stream=22)
    run.traces[0].kernel(0, 3_500, stream=23)
    judge_overlap(stub, run.save())


@task("torch_ex03.communication_overlap")
def test_overlap_without_communication(stub, tmp_path) -> None:
    ranks = Ranks(tmp_path, 2)
    for trace in ranks.traces:
        trace.kernel(0, 1_000)
    ranks.traces[0].kernel(500, 1_500, name=REDUCE, stream=20)
    with stub.raises(EmptyCapture, match="1", why="rank 1 has no communication"):
        stub.communication_overlap(ranks.save())


@task("torch_ex03.communication_overlap")
def test_overlap_as_holistic_trace_analysis_says(stub) -> None:
    recorded = json.loads((ROOT / "benchmarks" / "results" / "hta_oracle.json").read_text())
    for capture, entry in recorded["captures"].items():
        for name, digest in entry["sha256"].items():
            found = hashlib.sha256(captures.file(capture, name).read_bytes()).hexdigest()
            require(
                found == digest,
                f"{capture}/{name} is another one than HolisticTraceAnalysis was run on; run "
                "benchmarks/hta_oracle.py again",
            )
        got = stub.communication_overlap(capture)
        for rank, percentage in entry["comp_comm_overlap_pctg"].items():
            value = got[int(rank)]["overlap_pct"]
            require(
                near(value, percentage, absolute=0.011),
                f"communication_overlap({capture!r}): rank {rank} has {show(value)} %, and "
                f"HolisticTraceAnalysis {recorded['version']} says {percentage} %",
            )


# -- 4. buckets -------------------------------------------------------------------------------------------


def judge_buckets(stub: Any, sizes: list[int], cap: float | None) -> None:
    import torch
    import torch.distributed as dist

    given = [torch.empty(size, dtype=torch.uint8, device="meta") for size in sizes]
    later = int((25 if cap is None else cap) * MIB)
    first = MIB if cap is None else later
    want, _ = dist._compute_bucket_assignment_by_size(given, [first, later])
    got = stub.plan_buckets(sizes, cap)
    require(
        agree(got, want),
        f"plan_buckets({show(sizes)}, {cap}) returned {show(got)}, expected {show(want)}, as torch's own "
        "reducer has it: a bucket is closed as soon as it is at least as large as the limit",
    )


@task("torch_ex03.plan_buckets")
def test_buckets_as_torch_makes_them(stub, seed) -> None:
    rng = random.Random(seed)
    for cap in (None, 1, 25, rng.uniform(0.01, 3), rng.randint(2, 40)):
        judge_buckets(stub, [rng.randint(1, 12 * MIB) for _ in range(rng.randint(9, 40))], cap)
    judge_buckets(stub, [MIB // 2, MIB // 2, MIB - 1, 1, 24 * MIB, MIB, MIB], None)
    judge_buckets(stub, [40 * MIB, 3, 3, 26 * MIB, 3], None)
    judge_buckets(stub, [2 * MIB, 2 * MIB, 2 * MIB, 1], 4)
    judge_buckets(stub, [0, 3 * MIB, 0], 2)
    judge_buckets(stub, [1_048, 1_047, 1, 5], 0.001)  # 1,048.576 bytes


@task("torch_ex03.plan_buckets")
def test_buckets_of_a_recorded_run(stub) -> None:
    found = json.loads(captures.text("ddp_bucket_sweep", "sweep.json"))
    sizes = found["parameter_bytes"][::-1]
    for row in found["sweep"]:
        if not row["exchange"]:
            continue
        plan = stub.plan_buckets(sizes, row["bucket_cap_mib"])
        got = [sum(sizes[place] for place in bucket) for bucket in plan]
        require(
            got == row["bucket_bytes"],
            f"plan_buckets(the parameters of ddp_bucket_sweep from the last to the first, "
            f"{row['bucket_cap_mib']}) makes buckets of {show(got)} bytes; DDP made {show(row['bucket_bytes'])}",
        )


@task("torch_ex03.plan_buckets")
def test_buckets_that_cannot_be(stub) -> None:
    require(stub.plan_buckets([]) == [], "plan_buckets([]) must be []: no gradients, no buckets")
    for cap in (0, -1.0):
        with stub.raises(ValueError, why="no bucket has a limit of 0 or less"):
            stub.plan_buckets([5], cap)
    with stub.raises(ValueError, why="a gradient cannot have a negative size"):
        stub.plan_buckets([5, -1])


# -- 5. waiting, without a common clock -------------------------------------------------------------------


def judge_split(stub: Any, capture: str) -> None:
    want = {
        rank: {
            "wait_ns": sum(wait - start for start, wait, _ in found),
            "transfer_ns": sum(end - wait for _, wait, end in found),
        }
        for rank, found in parts(facts(capture)).items()
    }
    got = stub.split_by_duration(capture)
    require(
        agree(got, want),
        f"split_by_duration({capture!r}) returned {show(got)}, expected {show(want)} (ns): of each collective "
        "the shortest duration is the transfer, the rest is waiting; do not compare clocks of two ranks",
    )


@task("torch_ex03.split_by_duration")
@recordings(*GRADED, holding="trace_rank0.json")
def test_waiting_of_a_recording(stub, recording) -> None:
    judge_split(stub, recording)


@task("torch_ex03.split_by_duration")
def test_waiting_of_drawn_traces(stub, seed, tmp_path) -> None:
    judge_split(stub, draw_run(tmp_path, random.Random(seed + 3), world=4).save())


@task("torch_ex03.split_by_duration")
def test_collectives_that_do_not_match(stub, tmp_path) -> None:
    for name, counts, kind, words in (
        ("fewer", (3, 2), CaptureError, "3.*2"),
        ("none", (0, 0), EmptyCapture, ()),
    ):
        (tmp_path / name).mkdir()
        ranks = Ranks(tmp_path / name, 2)
        for trace, count in zip(ranks.traces, counts, strict=True):
            trace.kernel(0, 50)
            for place in range(count):
                trace.kernel(100 * place + 100, 100 * place + 180, name=REDUCE, stream=20)
        with stub.raises(kind, match=words, why=f"collectives a rank: {counts}"):
            stub.split_by_duration(ranks.save())


# -- 6. the verdict ---------------------------------------------------------------------------------------

FLOOR, BORDERLINE = 0.10, 0.02


def judge_verdict(stub: Any, capture: str) -> None:
    ranks = facts(capture)
    split = parts(ranks)
    transfer, wait, hideable, windows = {}, {}, [], []
    for rank, rows in ranks.items():
        groups: dict[str, Iterable[Interval]] = {
            "work": spans(rows, "compute", "memory"),
            "wait": [(start, until) for start, until, _ in split[rank]],
            "transfer": [(until, end) for _, until, end in split[rank]],
        }
        transfer[rank] = wait[rank] = free = 0
        for start, end, running in truth.segments(groups, whole(rows)):
            if running["work"]:
                free += (end - start) * (not running["wait"] + running["transfer"])
            elif running["transfer"]:
                transfer[rank] += end - start
            elif running["wait"]:
                wait[rank] += end - start
        hideable.append(min(transfer[rank], free))
        windows.append(whole(rows)[1] - whole(rows)[0])
    own = [w - transfer[rank] - wait[rank] for rank, w in zip(ranks, windows, strict=True)]
    whole_ns = math.floor(max(own) - Fraction(sum(own), len(own)))
    turns_ns = sum(wait.values()) // len(wait)
    savings = {
        "communication_bound": min(hideable),
        "rank_imbalance": max(whole_ns, turns_ns),
    }
    waiting_wins = savings["rank_imbalance"] > savings["communication_bound"]
    saved, longest = max(savings.values()), max(windows)
    ratio = saved / longest
    category = "rank_imbalance" if waiting_wins else "communication_bound"
    category = "healthy" if ratio < FLOOR else category
    if category == "rank_imbalance":
        waited = {rank: sum(u - s for s, u, _ in found) for rank, found in split.items()}
        subject = min(rank for rank in waited if waited[rank] == min(waited.values()))
    else:
        subject = min(rank for rank in transfer if transfer[rank] == max(transfer.values()))
    call = f"name_distributed_bottleneck({capture!r})"
    got = stub.name_distributed_bottleneck(capture)
    judge_finding(
        *(call, got, category, f"rank:{subject}"),
        {
            "recoverable_ns": saved,
            "window_ns": longest,
            "recoverable_ratio": ratio,
            "margin_ratio": ratio - FLOOR,
        },
        "that is not what saves most. Exposed transfer that could hide: "
        f"{savings['communication_bound']} ns; mean exposed waiting: {turns_ns} ns; the ranks' own times: "
        f"{own} ns, the largest above their mean by {whole_ns} ns; "
        f"window: {longest} ns; floor: {FLOOR:.0%}",
        why="(the larger of the two savings, against the longest window; sharing evenly saves what a rank's "
        "own time is above the mean, or the mean waiting where that is more)",
        about=f"exposed transfer {transfer} ns, exposed waiting {wait} ns; who waits least is late",
        rel=1e-9,
        others=True,
    )
    margin = f"its margin is {ratio - FLOOR:+.3f}, and borderline is up to {BORDERLINE}"
    judge_recommendation(call, got, margin, borderline=abs(ratio - FLOOR) <= BORDERLINE)


@task("torch_ex03.name_distributed_bottleneck")
@recordings(*GRADED, holding="trace_rank0.json")
def test_verdict_on_a_recording(stub, recording) -> None:
    judge_verdict(stub, recording)


@task("torch_ex03.name_distributed_bottleneck")
def test_verdict_on_a_run_that_nsight_systems_recorded(stub, tmp_path) -> None:
    judge_verdict(stub, as_traces(HEALTHY, tmp_path))


@task("torch_ex03.name_distributed_bottleneck")
def test_verdict_on_drawn_traces(stub, seed, tmp_path) -> None:
    def place(name: str) -> Path:
        (tmp_path / name).mkdir()
        return tmp_path / name

    for nth in range(3):
        judge_verdict(stub, draw_run(place(f"run{nth}"), random.Random(seed + 4 + nth)).save())
    judge_verdict(stub, two_ranks(place("late"), work=(20_000, 70_000)))
    judge_verdict(stub, two_ranks(place("short"), work=(15_000, 14_000), transfer=60_000))
    covered = Ranks(place("covered"), 2)  # most of the work hides something already
    for trace in covered.traces:
        trace.kernel(0, 30_000)
        trace.kernel(10_000, 90_000, name=REDUCE, stream=20)
        trace.memset(99_000, 100_000)
    judge_verdict(stub, covered.save())
    slow = Ranks(
        place("slow"), 3
    )  # a transfer that goes slowly while the other rank works: no waiting
    for trace, work in zip(slow.traces, (30_000, 80_000, 50_000), strict=True):
        trace.kernel(0, work)
        trace.kernel(30_000, 90_000, name=REDUCE, stream=20)
    judge_verdict(stub, slow.save())
    even = Ranks(place("even"), 2)  # each rank is late once, by as much
    for trace, first, second in zip(even.traces, (30_000, 50_000), (85_000, 65_000), strict=True):
        for start, arrived, end in ((0, first, 55_000), (55_000, second, 90_000)):
            trace.kernel(start, arrived)
            trace.kernel(arrived, end, name=REDUCE, stream=20)
    judge_verdict(stub, even.save())
    hidden = Ranks(place("hidden"), 3)  # rank 0 waits longest, and works meanwhile
    spans = ((0, 90_000, 20_000), (0, 80_000, 80_000), (0, 30_000, 30_000))
    for trace, (start, until, arrived) in zip(hidden.traces, spans, strict=True):
        trace.kernel(start, until)
        trace.kernel(arrived, 100_000, name=REDUCE, stream=20)
    judge_verdict(stub, hidden.save())
    behind = Ranks(place("behind"), 2)  # what starts last does not end last
    for trace in behind.traces:
        trace.kernel(0, 100_000)
        trace.kernel(10_000, 40_000, name=REDUCE, stream=20)
    judge_verdict(stub, behind.save())


@pytest.mark.parametrize(
    ("transfer", "wait"),
    [(9_000, 0), (10_000, 0), (12_000, 0), (12_100, 0), (7_900, 0), (8_000, 0), (6_000, 26_000),
     (11_000, 22_000), (11_000, 21_998), (11_000, 22_002), (4_000, 16_000), (6_000, 20_000)],
)  # fmt: skip
@task("torch_ex03.name_distributed_bottleneck")
def test_verdict_at_the_floor(stub, tmp_path, transfer, wait) -> None:
    judge_verdict(stub, two_ranks(tmp_path, work=(40_000, 40_000 + wait), transfer=transfer))
