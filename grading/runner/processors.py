"""Which processors a job runs on.

A check and the worker that runs the submission take turns: one waits while the other computes. On two processors
each turn wakes the other one's idle processor first. So where jobs fill the machine anyway, each has a processor of its own, for
its checks and its workers. On two idle processors twelve submissions of Day 1 took 5 % less time so.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection


def mine() -> list[int]:
    """The processors that this process may run on; [] where the system does not say."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


def one_each(jobs: int) -> list[list[int]]:
    """For each of so many jobs at a time the processors to stay on: [] if there are more processors than jobs."""
    known = mine()
    if not known or jobs < len(known):
        return [[]] * jobs
    return [[known[job % len(known)]] for job in range(jobs)]


def stay_on(processors: Collection[int]) -> None:
    """Keep this process, and what it starts, on these processors; nothing happens without any."""
    if processors:
        with contextlib.suppress(OSError):  # not ours in this container: then on any
            os.sched_setaffinity(0, processors)
