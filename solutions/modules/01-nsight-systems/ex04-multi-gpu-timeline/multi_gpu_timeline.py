"""Multi-GPU timeline: who waits for whom?

The lesson is `README.md` in this folder, hints are in `hints.md`, and

    uv run lab check nsys_ex04

checks your solution. Every function takes a recording of Nsight Systems by its name or path:

    with captures.open(capture) as recording:
        recording.kernels        # a polars DataFrame; see `help(captures.NsysCapture)`

These terms have the same meaning in all tasks. A **rank** is a process that opened an NVTX range named
"rank <number>" around the steps under examination. What runs on a device for that process belongs to
the rank. A **collective** is a kernel whose name begins with "nccl". **Work** is every other device
operation: kernels, graphs, copies, memsets. The **window** reaches from the first start to the last end
of all these ranges. If collectives were left out (`match_collectives`), the window is shorter. It begins
no earlier than the last end of any collective that was left out at the head of a rank. It ends no later
than the first start of any collective that was left out at the tail. All times are integers in ns, on the single
clock of the recording.
"""

from __future__ import annotations

import re
from collections import Counter

import polars as pl

from profiling_lab import captures
from profiling_lab.errors import CaptureError, EmptyCapture
from profiling_lab.findings import Finding

# If no cause costs this share of the window, the recording is healthy.
HEALTHY_FLOOR_RATIO = 0.10

# A share this close to the floor, on either side, is borderline, and the finding must say so.
BORDERLINE_RATIO = 0.02


def find_ranks(capture: str) -> dict[int, dict[str, int]]:
    """Which process is which rank, and which device does it use?

    Returns {rank: {"process", "device", "start_ns", "end_ns"}}, in order of rank:
        "process":            the process, as the tables of the recording name it (column `process`).
        "device":             the number of the device that its kernels ran on, as the process numbers its
                              devices (a rank uses one device).
        "start_ns", "end_ns": the first start and the last end of its ranges "rank <number>".
    Ranges with other names are ignored.

    Raises CaptureError
    - if no range has such a name;
    - if two processes are the same rank (two runs in one recording);
    - if any rank between 0 and the largest is missing;
    - if a rank has no kernel.
    The message names the rank, as "rank 1", or the missing numbers.
    """
    with captures.open(capture) as recording:
        ranges, kernels = recording.nvtx_ranges, recording.kernels
    found: dict[int, dict[str, int]] = {}
    for name, process, start, end in ranges.select(
        "name", "process", "start_ns", "end_ns"
    ).iter_rows():
        named = re.fullmatch(r"rank (\d+)", name or "")
        if not named:
            continue
        number = int(named[1])
        rank = found.setdefault(number, {"process": process, "start_ns": start, "end_ns": end})
        if rank["process"] != process:
            raise CaptureError(
                f"{capture}: two processes are rank {number}: record one run at a time"
            )
        rank["start_ns"] = min(rank["start_ns"], start)
        rank["end_ns"] = max(rank["end_ns"], end)
    if not found:
        raise CaptureError(
            f"{capture}: no NVTX range 'rank <number>'; open one in every process and trace nvtx"
        )
    missing = [str(rank) for rank in range(max(found)) if rank not in found]
    if missing:
        raise CaptureError(
            f"{capture}: rank {', '.join(missing)} is missing: did it die, or run on another host?"
        )
    for number, rank in found.items():
        own = kernels.filter(pl.col("process") == rank["process"])
        if own.is_empty():
            raise CaptureError(f"{capture}: rank {number} ran no kernel: was CUDA traced there?")
        rank["device"] = max(own["device"].to_list())
    return dict(sorted(found.items()))


def match_collectives(capture: str) -> list[dict]:
    """The collectives that all ranks recorded, matched with each other.

    All ranks of a communicator call each of its collectives, in the same order (NCCL User Guide,
    "Collective Operations": a collective that one rank does not call may hang). Here there is one
    communicator. A rank's collectives are those of its process that start at or after its start_ns and before
    its end_ns (`find_ranks`), in order of start.

    A recording may begin or end earlier on one rank than on another. Then the first recorded collective of
    one rank is not the first of another. Match them by time: kernels of one collective run at the same time,
    because they exchange data. Each pair of a collective of a rank and a collective of rank 0 that overlap in
    time votes for a difference of positions: the position in the rank's list minus the position in rank 0's
    list. The vote's weight is the overlap in ns. The difference with the largest total weight is the rank's
    shift
    (if equal, the one nearest to 0; 0 if no pair votes). The rank's n-th collective then matches number n -
    shift of rank 0. Collectives at the head or the tail that have no partner on some rank are left out.

    Returns a list, in that order, of {"name": the kernel's short name, "start_ns": {rank: ns},
    "end_ns": {rank: ns}}.

    Raises EmptyCapture if no rank has a collective. Raises CaptureError
    - if the names at one position differ; the message holds the names;
    - if all collectives would be left out; the message holds each rank's number of collectives, by rank;
    - if some are left out, and the first or last remaining collective of a rank does not overlap its partner
      of rank 0;
    - if some are left out, and the first or last remaining collective of a rank overlaps another collective
      of rank 0 for longer than its partner.
    In the last two cases a collective is missing in between, and positions mean nothing. The message is as
    in the second case.
    """
    own = _collectives(capture)
    counts = {rank: len(rows) for rank, rows in own.items()}
    if not any(counts.values()):
        raise EmptyCapture(f"{capture}: no collective inside the ranks' ranges")
    shifts = {rank: _shift(own[0], rows) for rank, rows in own.items()}
    first = max(-shift for shift in shifts.values())
    end = min(counts[rank] - shift for rank, shift in shifts.items())
    matched = [
        {rank: rows[place + shifts[rank]] for rank, rows in own.items()}
        for place in range(first, end)
    ]
    left_out = any(count > len(matched) for count in counts.values())
    ends = [matched[0], matched[-1]] if matched else []
    if left_out and not (ends and all(_belong_together(end, own[0]) for end in ends)):
        raise CaptureError(
            f"{capture}: collectives a rank {counts}: one is missing in between, or a rank died"
        )
    out = []
    for together in matched:
        names = [row["name"] for row in together.values()]
        if len(set(names)) > 1:
            raise CaptureError(f"{capture}: collective {len(out)} is {names}: not the same one")
        out.append(
            {
                "name": names[0],
                "start_ns": {rank: row["start_ns"] for rank, row in together.items()},
                "end_ns": {rank: row["end_ns"] for rank, row in together.items()},
            }
        )
    return out


def _collectives(capture: str) -> dict[int, list[dict]]:
    """Per rank its collectives inside its range, in order of start."""
    with captures.open(capture) as recording:
        kernels = recording.kernels.filter(pl.col("name").str.starts_with("nccl"))
    return {
        rank: kernels.filter(
            (pl.col("process") == place["process"])
            & pl.col("start_ns").is_between(place["start_ns"], place["end_ns"], closed="left")
        ).rows(named=True)
        for rank, place in find_ranks(capture).items()
    }


def _shift(zero: list[dict], rows: list[dict]) -> int:
    """How many places later than in the list of rank 0 a collective is in that of a rank."""
    votes = Counter({0: 0})
    begin = 0
    for place, one in enumerate(zero):
        # What ended before this one began ended before the next one, too.
        while begin < len(rows) and rows[begin]["end_ns"] <= one["start_ns"]:
            begin += 1
        for other in range(begin, len(rows)):
            if rows[other]["start_ns"] >= one["end_ns"]:
                break
            votes[other - place] += _shared_ns(one, rows[other])
    return max(votes, key=lambda shift: (votes[shift], -abs(shift)))


def _shared_ns(one: dict, other: dict) -> int:
    start_ns = max(one["start_ns"], other["start_ns"])
    return max(0, min(one["end_ns"], other["end_ns"]) - start_ns)


def _belong_together(together: dict[int, dict], zero: list[dict]) -> bool:
    """Whether no other collective of rank 0 has more in common with a rank's than the one beside it."""
    return all(
        0 < _shared_ns(row, together[0]) == max(_shared_ns(row, other) for other in zero)
        for row in together.values()
    )


def split_collectives(capture: str) -> dict[int, dict[str, int]]:
    """For each rank, how much of its collectives was waiting and how much was transfer.

    A collective's kernel starts when its own rank reaches the collective. It spins until the last rank's
    kernel has started: until then the rank waits. From then to the kernel's end the ranks exchange data. A
    kernel that needs nothing from the other ranks may end before the last rank's kernel has started. Then all
    its time
    counts as waiting.

    Returns {rank: {"wait_ns", "transfer_ns"}}, each summed over the matched collectives. Together they are
    the duration of the rank's matched collectives.
    """
    matched = match_collectives(capture)
    out = {rank: {"wait_ns": 0, "transfer_ns": 0} for rank in find_ranks(capture)}
    for collective in matched:
        for rank, (start, arrived, end) in _parts(collective).items():
            out[rank]["wait_ns"] += arrived - start
            out[rank]["transfer_ns"] += end - arrived
    return out


def _parts(collective: dict) -> dict[int, tuple[int, int, int]]:
    """Per rank: start, end of the wait, end."""
    last = max(collective["start_ns"].values())
    return {
        rank: (start, min(last, collective["end_ns"][rank]), collective["end_ns"][rank])
        for rank, start in collective["start_ns"].items()
    }


def device_time(capture: str) -> dict[int, dict[str, int]]:
    """For each rank, what its device did in the window. Each ns counts once.

    Returns {rank: {...}} with
        "work_ns":             time in which at least one work operation ran, whatever else ran.
        "exposed_transfer_ns": time without work in which a matched collective was in its transfer part
                               (`split_collectives`).
        "exposed_wait_ns":     time with neither work nor transfer in which a matched collective was in its
                               waiting part.
        "idle_ns":             time with none of these.
        "hidden_ns":           time with work and a matched collective in either part. It is part of work_ns.
    The first four add up to the window, which is the same for all ranks. Only time inside the window
    counts. A rank's work is the work of its process.
    """
    ranks = find_ranks(capture)
    matched = match_collectives(capture)
    with captures.open(capture) as recording:
        work = recording.device_operations.filter(~pl.col("name").str.starts_with("nccl"))
    start_ns, end_ns = _window(capture)
    out = {}
    for rank, place in ranks.items():
        own = work.filter(pl.col("process") == place["process"])
        spans = [("work", *span) for span in own.select("start_ns", "end_ns").iter_rows()]
        for collective in matched:
            start, arrived, end = _parts(collective)[rank]
            spans += [("wait", start, arrived), ("transfer", arrived, end)]
        out[rank] = _shares(spans, start_ns, end_ns)
    return out


def _window(capture: str) -> tuple[int, int]:
    """The window; what was left out at the head or the tail lies outside of it."""
    ranks, matched = find_ranks(capture), match_collectives(capture)
    start_ns = min(rank["start_ns"] for rank in ranks.values())
    end_ns = max(rank["end_ns"] for rank in ranks.values())
    for rank, rows in _collectives(capture).items():
        for row in rows:
            if row["start_ns"] < matched[0]["start_ns"][rank]:
                start_ns = max(start_ns, row["end_ns"])
            if row["start_ns"] > matched[-1]["start_ns"][rank]:
                end_ns = min(end_ns, row["start_ns"])
    return start_ns, end_ns


def _shares(spans: list[tuple[str, int, int]], start_ns: int, end_ns: int) -> dict[str, int]:
    """The window cut at every start and end, each piece given to what runs in it."""
    names = ("work_ns", "exposed_transfer_ns", "exposed_wait_ns", "idle_ns", "hidden_ns")
    out = dict.fromkeys(names, 0)
    changes = [(max(start, start_ns), kind, 1) for kind, start, _ in spans]
    changes += [(max(end, start_ns), kind, -1) for kind, _, end in spans]
    running = {"work": 0, "wait": 0, "transfer": 0}
    before = start_ns
    for time, kind, change in [*sorted(changes), (end_ns, "work", 0)]:
        length = min(time, end_ns) - before
        if running["work"]:
            out["work_ns"] += length
            if running["wait"] or running["transfer"]:
                out["hidden_ns"] += length
        elif running["transfer"]:
            out["exposed_transfer_ns"] += length
        elif running["wait"]:
            out["exposed_wait_ns"] += length
        else:
            out["idle_ns"] += length
        before = min(time, end_ns)
        running[kind] += change
    return out


def late_rank(capture: str) -> dict:
    """Which rank do the others wait for, and why was it late?

    In each matched collective, the rank that starts last (the lowest number if equal) made the others wait.
    For each rank, add the waiting parts of all ranks in the collectives in which it started last. Returns a dict
        "rank":          the rank with the largest sum (the lowest number if equal).
        "waited_ns":     this sum.
        "late_count":    in how many collectives it started last.
        "extra_work_ns": its work_ns (`device_time`) minus the largest work_ns of the other ranks; may be
                         negative.
        "extra_idle_ns": the same for idle_ns.
        "cause":         "work" if extra_work_ns is at least extra_idle_ns: its device had more to do;
                         else "host": its device waited for the host to issue work.
    Raises CaptureError if there is only one rank.
    """
    matched = match_collectives(capture)
    shares = device_time(capture)
    if len(shares) < 2:
        raise CaptureError(f"{capture}: one rank alone waits for nobody")
    account = dict.fromkeys(shares, 0)
    late = dict.fromkeys(shares, 0)
    for collective in matched:
        starts = collective["start_ns"]
        last = max(starts, key=lambda rank: (starts[rank], -rank))
        account[last] += sum(arrived - start for start, arrived, _ in _parts(collective).values())
        late[last] += 1
    rank = max(account, key=lambda rank: (account[rank], -rank))
    extra = {
        key: shares[rank][key] - max(shares[other][key] for other in shares if other != rank)
        for key in ("work_ns", "idle_ns")
    }
    return {
        "rank": rank,
        "waited_ns": account[rank],
        "late_count": late[rank],
        "extra_work_ns": extra["work_ns"],
        "extra_idle_ns": extra["idle_ns"],
        "cause": "work" if extra["work_ns"] >= extra["idle_ns"] else "host",
    }


def name_multi_gpu_bottleneck(capture: str) -> Finding:
    """The main finding of a recording of several ranks.

    Two causes are removed, one at a time (values from `device_time`):
        communication: exposed transfers are moved so that they run at the same time as work. They can only
                       fill work time in which no collective runs. For each rank this saves
                       min(exposed_transfer_ns, work_ns - hidden_ns). The saving is the smallest of these,
                       since all ranks have to end earlier.
        waiting:       the work is spread evenly, so that no rank waits. There are two ways to do this; the
                       saving is the larger of the two results, rounded down. Over the whole window: the
                       largest of the ranks' own times (work_ns + idle_ns) is reduced to their mean. From
                       collective to collective, if different ranks are alternately late: the mean of
                       exposed_wait_ns over the ranks is saved.
    The cause with the larger saving is the finding, "communication_bound" or "rank_imbalance" (the first if
    equal). It is "healthy" if this saving is less than HEALTHY_FLOOR_RATIO of the window.

    subject: "rank:<number>". For rank_imbalance this is the late rank (`late_rank`), else the rank with the
    largest exposed_transfer_ns (the lowest number if equal).
    evidence: "recoverable_ns" (the larger saving), "window_ns", "recoverable_ratio" (recoverable_ns /
    window_ns), "margin_ratio" (recoverable_ratio minus HEALTHY_FLOOR_RATIO) and "left_out_count" (number of
    collectives that `match_collectives` left out, over all ranks).
    recommendation: "none" if healthy, else one sentence. If |margin_ratio| <= BORDERLINE_RATIO it begins
    with "borderline", for a healthy recording too.
    """
    shares = device_time(capture)
    late = late_rank(capture)
    start_ns, end_ns = _window(capture)
    window_ns = end_ns - start_ns
    matched = len(match_collectives(capture))
    left_out = sum(len(rows) - matched for rows in _collectives(capture).values())
    own = [share["work_ns"] + share["idle_ns"] for share in shares.values()]
    savings = {
        "communication_bound": min(
            min(share["exposed_transfer_ns"], share["work_ns"] - share["hidden_ns"])
            for share in shares.values()
        ),
        "rank_imbalance": max(
            (len(own) * max(own) - sum(own)) // len(own),
            sum(share["exposed_wait_ns"] for share in shares.values()) // len(shares),
        ),
    }
    category = max(savings, key=lambda name: savings[name])
    recoverable_ns = savings[category]
    ratio = recoverable_ns / window_ns
    margin = ratio - HEALTHY_FLOOR_RATIO
    subject = late["rank"]
    if category == "communication_bound" or margin < 0:
        subject = max(shares, key=lambda rank: (shares[rank]["exposed_transfer_ns"], -rank))
    advice = {
        "communication_bound": "start collectives earlier and in smaller pieces, so that they run beside "
        "work (gradients: several buckets)",
        "rank_imbalance": f"rank {late['rank']} is late because of its {late['cause']}: "
        + {"work": "share it evenly", "host": "give it less to do before each step"}[late["cause"]],
        "healthy": "none",
    }
    category = "healthy" if margin < 0 else category
    recommendation = advice[category]
    if abs(margin) <= BORDERLINE_RATIO:
        recommendation = f"borderline: {recommendation}"
    return Finding(
        category,
        f"rank:{subject}",
        {
            "recoverable_ns": recoverable_ns,
            "window_ns": window_ns,
            "recoverable_ratio": ratio,
            "margin_ratio": margin,
            "left_out_count": left_out,
        },
        recommendation,
    )
