"""Seeded recordings of simulated servers, with what is true of them.

The files have the form that this course's programs write (`{"schema": 1, "unit": "ns", "runs": […]}`),
the folder passes for a capture. `serve` is a simulation by events, one after the other: it is also
what the checks of Day 5 hold a learner's batcher against.
"""

from __future__ import annotations

import gzip
import heapq
import json
import random
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

MS = 1_000_000


def write(folder: Path, file: str, runs: list[dict[str, Any]], *, compressed: bool = False) -> str:
    """Put runs into a file of a capture's folder; returns the folder's path."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"schema": 1, "unit": "ns", "runs": runs})
    return write_text(folder, file, text, compressed=compressed)


def write_text(folder: Path, file: str, text: str, *, compressed: bool = False) -> str:
    """Put a text into a file of a capture's folder; returns the folder's path."""
    folder.mkdir(parents=True, exist_ok=True)
    if compressed:
        (folder / f"{file}.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
    else:
        (folder / file).write_text(text, encoding="utf-8")
    return str(folder)


def serve(
    arrivals: Sequence[int],
    service_of: Callable[[int, int], int],
    max_batch: int,
    max_wait: int,
) -> list[tuple[int, int, int]]:
    """Per request (start, end, batch) on one server, by stepping from event to event.

    service_of(size, start): how long a batch of that size takes that starts then.
    """
    events: list[tuple[int, int, str]] = []  # (time, order, kind): a clock that only goes forward
    order = count()
    for arrival in arrivals:
        heapq.heappush(events, (arrival, next(order), "arrival"))
    waiting: list[int] = []  # requests by number, longest waiting first
    served: dict[int, tuple[int, int, int]] = {}
    arrived, busy_until = 0, None
    while events:
        now = events[0][0]
        while events and events[0][0] == now:
            _, _, kind = heapq.heappop(events)
            if kind == "arrival":
                waiting.append(arrived)
                heapq.heappush(events, (now + max_wait, next(order), "patience"))
                arrived += 1
        if busy_until is not None and now >= busy_until:
            busy_until = None
        due = waiting and now >= arrivals[waiting[0]] + max_wait
        if busy_until is None and waiting and (due or len(waiting) >= max_batch):
            batch, waiting = waiting[:max_batch], waiting[max_batch:]
            busy_until = now + service_of(len(batch), now)
            heapq.heappush(events, (busy_until, next(order), "free"))
            served |= dict.fromkeys(batch, (now, busy_until, len(batch)))
    return [served[number] for number in range(len(arrivals))]


def padded(service: dict[int, int]) -> Callable[[int, int], int]:
    """`service_of` for a table of sizes: the next larger size that is in it."""
    sizes = sorted(service)
    return lambda size, _: service[next(s for s in sizes if s >= size)]


def poisson(rng: random.Random, rate_per_s: float, n: int) -> list[int]:
    """Moments at which n requests of independent users arrive, in ns."""
    now, out = 0.0, []
    for _ in range(n):
        now += rng.expovariate(rate_per_s) * 1e9
        out.append(int(now))
    return out


def service_table(rng: random.Random, largest: int = 64) -> dict[int, int]:
    """Batch size → ns: a cost for each batch and one for each request in it."""
    fixed, each = rng.randint(800_000, 1_500_000), rng.randint(20_000, 60_000)
    sizes = [2**k for k in range(largest.bit_length())]
    return {size: fixed + each * size + rng.randint(0, 9_999) for size in sizes}


def requests(seed: int, folder: Path) -> str:
    """requests.json: an open loop in balance and one overloaded, a closed loop, and one that stalls."""
    rng = random.Random(f"requests {seed}")
    table = service_table(rng, 16)
    service_of = padded(table)
    capacity_per_s = 16 / (table[16] / 1e9)
    runs = []
    for name, load in (("open_low", 0.3), ("open_high", 1.4)):
        n = rng.randint(180, 240)
        rate = load * capacity_per_s
        due = poisson(rng, rate, n)
        late = [rng.randint(0, 30_000) if rng.random() < 0.3 else 0 for _ in due]
        sent = sorted(moment + extra for moment, extra in zip(due, late, strict=True))
        done = serve(sent, service_of, 16, rng.randint(0, MS))
        runs.append(_run(rng, name, "open", due, sent, done, rate_per_s=rate))
    n = rng.randint(90, 130)
    period = round(table[1] * rng.uniform(1.5, 2.5))
    stall_at, stall = n // 2 * period, rng.randint(50, 90) * period
    stalled = [0]

    def with_stall(size: int, start: int) -> int:
        extra = stall if start >= stall_at and not stalled[0] else 0
        stalled[0] |= bool(extra)
        return service_of(size, start) + extra

    due = [i * period for i in range(n)]
    sent, done, free = [], [], 0
    for moment in due:
        sent.append(max(moment, free))
        (answer,) = serve(sent[-1:], with_stall, 1, 0)
        done.append(answer)
        free = answer[1] + rng.randint(1_000, 9_000)
    runs.append(_run(rng, "stall_closed", "closed", due, sent, done, rate_per_s=1e9 / period))
    sent, done, free = [0], [], 0
    for i in range(n):
        (answer,) = serve(sent[-1:], service_of, 1, 0)
        done.append(answer)
        if i + 1 < n:
            sent.append(answer[1] + rng.randint(1_000, 9_000))
    runs.append(_run(rng, "closed_1", "closed", sent, sent, done, rate_per_s=None))
    rng.shuffle(runs)
    return write(folder, "requests.json", runs, compressed=True)


def _run(
    rng: random.Random,
    name: str,
    loop: str,
    due: list[int],
    sent: list[int],
    done: list[tuple[int, int, int]],
    **facts: Any,
) -> dict[str, Any]:
    return {
        "run": name,
        "loop": loop,
        **facts,
        "intended_ns": due,
        "sent_ns": sent,
        "start_ns": [start for start, _, _ in done],
        "end_ns": [end for _, end, _ in done],
        "batch": [size for _, _, size in done],
        "tokens": [rng.randint(8, 128) for _ in done],
    }


def service(seed: int, folder: Path) -> str:
    """service.json: sizes in any order, samples with a tail that grows with no rule."""
    rng = random.Random(f"service {seed}")
    runs = []
    for size, usual in service_table(rng).items():
        samples = [round(usual * rng.uniform(0.97, 1.05)) for _ in range(rng.randint(110, 150))]
        for _ in range(rng.randint(0, 4)):
            samples[rng.randrange(len(samples))] = round(usual * rng.uniform(1.5, 3))
        runs.append({"run": f"batch_{size}", "batch": size, "service_ns": samples})
    rng.shuffle(runs)
    return write(folder, "service.json", runs)


def tokens(seed: int, folder: Path) -> str:
    """tokens.json: two runs of requests with 1 to 40 tokens each, in no order of their numbers."""
    rng = random.Random(f"tokens {seed}")
    runs = []
    for concurrency in rng.sample([2, 4, 8, 16], 2):
        sent, token = [], []
        first = rng.randint(5, 50) * MS
        for i in range(rng.randint(30, 50)):
            sent.append(first + rng.randint(0, 40) * MS + i * 3 * MS)
            length = 1 if i == 7 else rng.randint(1, 40)
            at = sent[-1] + rng.randint(5, 60) * MS
            pace = rng.uniform(2, 9) * MS
            times = []
            for _ in range(length):
                times.append(int(at))
                at += pace * rng.choice([0.5, 1, 1, 1, 1.5, 6])
            token.append(times)
        runs.append(
            {
                "run": f"concurrency_{concurrency}",
                "concurrency": concurrency,
                "sent_ns": sent,
                "prompt_tokens": [rng.randint(16, 512) for _ in sent],
                "token_ns": token,
            }
        )
    return write(folder, "tokens.json", runs)


# what a change does to the time, and what the verdict on it must be
CHANGES = {"faster": (0.9, "win"), "same": (1.0, "no_win"), "slower": (1.1, "regression")}


def evidence(seed: int, folder: Path) -> str:
    """evidence.json: one run of each of CHANGES, and "few": three rounds of "faster".

    The machine drifts from round to round by much more than a change gives, so only what is in
    one round may be compared.
    """
    rng = random.Random(f"evidence {seed}")
    runs = []
    for name, (factor, _) in [*CHANGES.items(), ("few", CHANGES["faster"])]:
        columns: dict[str, list[int]] = {"before_ns": [], "after_ns": [], "again_ns": []}
        for _ in range(3 if name == "few" else rng.randint(31, 37)):
            level = 20 * MS * rng.uniform(0.6, 1.4)
            for column, ratio in (("before_ns", 1.0), ("after_ns", factor), ("again_ns", 1.0)):
                columns[column].append(round(level * ratio * rng.uniform(0.985, 1.015)))
        runs.append({"run": name, "what": "a simulated change", **columns})
    rng.shuffle(runs)
    return write(folder, "evidence.json", runs)


def pipeline(seed: int, timeline: Any) -> list[dict[str, int]]:
    """Draw the NVTX ranges of a batched pipeline; returns what `request_breakdown` must say.

    timeline: `grading.checks.generate.drawn_timeline.Timeline`. Some requests come while their batch is already
    being prepared, one stage is missing in a batch and runs twice in another.
    """
    rng = random.Random(f"pipeline {seed}")
    stages = ("tokenize", "copy_in", "forward", "copy_out", "postprocess")
    truth, now, number = [], rng.randint(1_000, 9_000), 0
    plans = ["plain", "late", "missing", "twice"] + ["plain"] * rng.randint(1, 3)
    rng.shuffle(plans)
    for k, plan in enumerate(plans):
        begin = now = now + rng.randint(0, 50_000)
        order = [s for s in stages if not (plan == "missing" and s == "copy_out")]
        if plan == "twice":
            order.insert(3, "forward")
        spent: dict[str, list[tuple[int, int]]] = {stage: [] for stage in stages}
        for stage in order:
            now += rng.randint(0, 3_000)
            end = now + rng.randint(5_000, 90_000)
            timeline.nvtx(stage, now, end)
            spent[stage].append((now, end))
            now = end
        finish = now + rng.randint(0, 4_000)
        timeline.nvtx(f"batch {k}", begin, finish)
        for _ in range(rng.randint(1, 4)):
            end = rng.randint(now, finish)
            if plan == "late":
                # while the batch's first stage runs
                start = rng.randint(*spent["tokenize"][0])
            else:
                start = begin - rng.randint(0, 300_000)
            timeline.nvtx(f"request {number}", start, end, kind="start_end", thread=2)
            begun = max(start, begin)
            parts = {
                f"{stage}_ns": sum(max(0, b - max(a, begun)) for a, b in intervals)
                for stage, intervals in spent.items()
            }
            truth.append(
                {
                    "request": number,
                    "total_ns": end - start,
                    "queue_ns": begun - start,
                    **parts,
                    "other_ns": (end - start) - (begun - start) - sum(parts.values()),
                }
            )
            number += 1
        now = finish + 1
    return truth
