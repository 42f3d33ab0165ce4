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
    raise NotImplementedError


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
    raise NotImplementedError


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
    raise NotImplementedError


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
    raise NotImplementedError


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
    raise NotImplementedError


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
    raise NotImplementedError
