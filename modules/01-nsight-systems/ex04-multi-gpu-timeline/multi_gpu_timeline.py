"""Multi-GPU timeline: who waits for whom?

The lesson is `README.md` in this folder, hints are in `hints.md`, and

    uv run lab check nsys_ex04

tells what is right and wrong. Every function takes a recording of Nsight Systems by its name or path:

    with captures.open(capture) as recording:
        recording.kernels        # a polars DataFrame; see `help(captures.NsysCapture)`

These words mean the same throughout. A **rank** is a process that opened an NVTX range named
"rank <number>" around the steps under examination; what runs on a device for that process is the
rank's. A **collective** is a kernel whose name begins with "nccl". **Work** is every other device
operation: kernels, graphs, copies, memsets. The **window** reaches from the first start to the last end
of all the ranges; where collectives were left out (`match_collectives`), it begins no earlier than the
last end of one left out at the head of any rank, and ends no later than the first start of one left out
at the tail. All times are integers in ns, on the one clock of the recording.
"""

from __future__ import annotations

import re
from collections import Counter

import polars as pl

from profiling_lab import captures
from profiling_lab.errors import CaptureError, EmptyCapture
from profiling_lab.findings import Finding

# Below this share of the window no cause is worth naming: the recording is healthy.
HEALTHY_FLOOR_RATIO = 0.10

# A share this close to the floor, on either side, is borderline, and the finding must say so.
BORDERLINE_RATIO = 0.02


def find_ranks(capture: str) -> dict[int, dict[str, int]]:
    """Which process is which rank, and on which device?

    Returns {rank: {"process", "device", "start_ns", "end_ns"}}, in order of rank: the process as the
    tables of the recording name it (column `process`), the number of the device that its kernels ran
    on (one a rank; as its process counts devices), and the first start and the last end of its ranges
    "rank <number>". A range of any other name says nothing of ranks.

    Raises CaptureError if no range is named so, if two processes are the same rank (two runs in one
    recording), if numbers from 0 to the largest are missing, and if a rank has no kernel. The message
    names the rank, as "rank 1", or the missing numbers.
    """
    raise NotImplementedError


def match_collectives(capture: str) -> list[dict]:
    """The collectives that all ranks recorded, side by side.

    All ranks of a communicator call each of its collectives, in the same order (NCCL User Guide,
    "Collective Operations": one that a rank does not call may hang); here there is one communicator.
    A rank's collectives are those of its process that start at or after its start_ns and before its end_ns
    (`find_ranks`), in order of start.

    A recording may begin, or end, earlier on one rank than on another, so the first of one need not be the
    first of each other. The clock tells: kernels of one collective run at the same time, since they
    exchange data. Every pair of a collective of a rank and one of rank 0 that run at the same time votes,
    with the ns that they share, for the difference of their places (the rank's minus that of rank 0).
    The difference with most votes (the one nearest to 0 if equal; 0 if no pair votes) is the rank's shift: its
    n-th collective is number n - shift of rank 0. What then lacks a partner on any rank at the head or
    the tail is left out.

    Returns a list in that order of {"name": the kernel's short name, "start_ns": {rank: ns},
    "end_ns": {rank: ns}}.
    Raises EmptyCapture if no rank has a collective, and CaptureError if names differ at some place (it
    holds the names), if all would be left out, and if some are left out and yet the first or the last that
    remains of a rank shares no time with its partner of rank 0, or less than with another one of
    rank 0: then one is missing in between, and places mean nothing (for the last two the message holds
    how many each rank has, by rank).
    """
    raise NotImplementedError


def split_collectives(capture: str) -> dict[int, dict[str, int]]:
    """Per rank, how much of its collectives was waiting and how much was transfer.

    A collective's kernel starts when its own rank gets there, and spins until the last rank's kernel
    has started. Up to that moment the rank waits; from it until the kernel's end data travels. A kernel
    that ends before that moment (it had nothing to wait for) only waited.

    Returns {rank: {"wait_ns", "transfer_ns"}}, each summed over the matched collectives; together they are
    the duration of the rank's collectives.
    """
    raise NotImplementedError


def device_time(capture: str) -> dict[int, dict[str, int]]:
    """Per rank, what its device did in the window: each ns counts once.

    Returns {rank: {...}} with
        "work_ns"              at least one work operation ran, whatever else did
        "exposed_transfer_ns"  no work; a matched collective in its transfer part (`split_collectives`)
        "exposed_wait_ns"      no work and no transfer; a matched collective in its waiting part
        "idle_ns"              none of these
        "hidden_ns"            work ran, and a matched collective in either part: this is part of work_ns
    The first four add up to the window, which is the same for all ranks. Only what lies inside the
    window counts. Work of a rank is that of its process.
    """
    raise NotImplementedError


def late_rank(capture: str) -> dict:
    """For which rank do the others wait, and what was it doing when it was late?

    Of each matched collective the rank that starts last (the lowest number if equal) made the others
    wait: their waiting parts, added up, are laid to its account. Returns a dict
        "rank"           the rank with the largest account (the lowest number if equal)
        "waited_ns"      its account
        "late_count"     of how many collectives it was the last
        "extra_work_ns"  its work_ns (`device_time`) minus the largest of the other ranks; may be negative
        "extra_idle_ns"  the same of idle_ns
        "cause"          "work" if extra_work_ns is at least extra_idle_ns: its device had more to do;
                         else "host": its device waited for the host to give it something
    Raises CaptureError if there is only one rank.
    """
    raise NotImplementedError


def name_multi_gpu_bottleneck(capture: str) -> Finding:
    """The main finding of a recording of several ranks.

    Two causes are taken away, one at a time (values of `device_time`):
        communication  what is exposed of the transfers runs beside work, but no more of it than there is
                       work without a collective. Per rank min(exposed_transfer_ns, work_ns - hidden_ns);
                       the saving is the smallest of the ranks, since all have to end earlier.
        waiting        what was done is spread evenly, so that no rank waits. Evenly over the whole: the
                       largest of the ranks' own times (work_ns + idle_ns) becomes their mean. Evenly from
                       collective to collective, for ranks that are late in turns: the mean of
                       exposed_wait_ns over the ranks is not waited. The larger of the two is the
                       saving, rounded down.
    The larger saving is the finding, "communication_bound" or "rank_imbalance" (the first if equal);
    "healthy" if it is less than HEALTHY_FLOOR_RATIO of the window.

    subject: "rank:<number>": of rank_imbalance the late rank (`late_rank`), else the rank with the largest
    exposed_transfer_ns (the lowest number if equal).
    evidence: "recoverable_ns" (the larger saving), "window_ns", "recoverable_ratio" (their quotient),
    "margin_ratio" (recoverable_ratio minus HEALTHY_FLOOR_RATIO) and "left_out_count" (collectives of all
    ranks that `match_collectives` left out).
    recommendation: "none" if healthy, else one sentence; if |margin_ratio| <= BORDERLINE_RATIO it begins
    with "borderline", for a healthy recording too.
    """
    raise NotImplementedError
