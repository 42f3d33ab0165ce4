"""Ranks of one job: what they spend in collectives, who is late, and whether they take turns.

Ranks meet in collectives: a collective ends on all of them at about the same time, so who is in it longest came
first and waited. What a rank is in a collective longer than the one that is in it shortest is waiting; the rest is
transfer. This needs no common clock, so it holds for traces as well. Only what no work on the same
device covers costs time: it is exposed.

* All ranks alike in exposed collectives: communication. It costs what the rank that has least of it has.
* One rank that is less in exposed collectives than the others, again and again: it is late. What it does longer
  than the others on the host costs its whole length; work on its device, shared evenly, costs what is above
  the mean. One long wait alone is no imbalance: it happened once. While a rank waits for a late one, what its own host
  needs is hidden: that shows when nobody is late, and is not saved.
* Work in turns: at nearly no time do two ranks work, as in the stages of a pipeline without micro-batches.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from profiling_lab.analysis import columns, intervals, once, spent
from profiling_lab.analysis.columns import GRAPH, KERNEL, Recording
from profiling_lab.analysis.intervals import Intervals

# Of the time in which any rank works, the share in which two or more do: below it they take turns. Ranks that
# share a step work side by side for most of it, stages of a pipeline with m micro-batches for about 1 - 1/m.
IN_TURNS_RATIO = 0.2
# Every rank works for this share of what the others do; else it is no stage but a helper.
STAGE_RATIO = 0.1


@dataclass
class Rank:
    """One rank: its device's times in its window, by its own clock.

    work: when kernels other than collectives, copies or memsets run. collectives: starts and ends, in
    order; rows: of the recording's operations; names: their codes in `words`.
    """

    number: int
    device: int
    window_ns: tuple[int, int]
    work: Intervals
    collectives: Intervals
    rows: np.ndarray
    names: list[str]
    waits_ns: np.ndarray | None = None  # per collective

    @property
    def length_ns(self) -> int:
        """The window's length."""
        return self.window_ns[1] - self.window_ns[0]

    @property
    def exposed(self) -> Intervals:
        """Collectives that no work runs beside."""
        return intervals.difference(self.collectives, self.work)

    @property
    def waiting(self) -> Intervals:
        """When it was in a collective that not all ranks had reached."""
        starts = self.collectives.starts_ns
        waits = np.zeros(len(starts), dtype=np.int64) if self.waits_ns is None else self.waits_ns
        return intervals.union(Intervals(starts, starts + waits))

    @property
    def exposed_ns(self) -> int:
        """The time in exposed collectives."""
        return intervals.total_ns(self.exposed)

    @property
    def recurring_ns(self) -> int:
        """Of it, what is not longer than anything that recurs."""
        first = once.of_collectives(self.collectives, self.exposed)
        return intervals.total_ns(intervals.difference(self.exposed, intervals.union(first)))

    @property
    def exposed_wait_ns(self) -> int:
        """Of it, what it waited for others."""
        return intervals.total_ns(intervals.intersection(self.exposed, self.waiting))


@dataclass
class Job:
    """What ranks cost each other.

    communication_ns: what all spend in exposed collectives at least, again and again. imbalance_ns: what the late rank (late, its
    number) costs the others, late_work_ns the part of its lateness that is work on its device; once: most of it
    in one collective. in_turns_ns: what working side by side would
    save, 0 where they do. matched_count: collectives that all ranks were in.
    """

    ranks: list[Rank]
    communication_ns: int
    imbalance_ns: int
    late: int
    late_work_ns: int
    once: bool
    in_turns_ns: int
    matched_count: int
    left_out_count: int


def of_timeline(recording: Recording, window_ns: tuple[int, int]) -> list[Rank]:
    """The ranks of a recording of several processes; fewer than two where processes have no collectives."""
    work = recording.operations
    collective = _collectives(recording)
    out = []
    for process in np.unique(work.process[collective]).tolist():
        own = np.flatnonzero((work.process == process) & collective)
        device = int(np.bincount(work.device[own]).argmax())
        out.append(_rank(recording, len(out), device, window_ns, work.process == process))
    return out


def of_trace(recording: Recording, number: int, window_ns: tuple[int, int]) -> Rank:
    """The rank that a trace is of."""
    collective = _collectives(recording)
    work = recording.operations
    device = work.device[collective] if collective.any() else work.device
    return _rank(recording, number, int(np.bincount(device).argmax()), window_ns, None)


def _collectives(recording: Recording) -> np.ndarray:
    known = np.array([bool(columns.COLLECTIVE.match(name)) for name in recording.names], dtype=bool)
    work = recording.operations
    return known[work.name] & np.isin(work.kind, (KERNEL, GRAPH))


def _rank(
    recording: Recording,
    number: int,
    device: int,
    window: tuple[int, int],
    mine: np.ndarray | None,
) -> Rank:
    work = recording.operations
    here = (work.device == device) & (work.start < window[1]) & (work.end > window[0])
    if mine is not None:
        here &= mine
    _, _, communicates = spent.kinds_of_work(recording)
    own = np.flatnonzero(here & ~communicates)
    talk = np.flatnonzero(here & _collectives(recording))
    return Rank(
        number,
        device,
        window,
        intervals.union(intervals.clip(Intervals(work.start[own], work.end[own]), *window)),
        Intervals(work.start[talk], work.end[talk]),
        talk,
        [recording.names[code] for code in work.name[talk].tolist()],
    )


def judge(
    ranks: list[Rank],
    *,
    one_clock: bool,
    single_step: bool = False,
    shorter_ns: Callable[[Rank], int] = lambda rank: rank.exposed_ns,
) -> Job:
    """What the ranks of a job cost each other.

    one_clock: their times are of one clock. single_step: what happened once may happen in each step. shorter_ns: by
    how much a rank's window is shorter without collectives, and not recorded (`savings.without_collectives_ns`).
    """
    matched = _match(ranks, one_clock=one_clock)
    _set_waits(ranks, matched)
    exposed = [rank.exposed_ns for rank in ranks]
    waits = [rank.exposed_wait_ns for rank in ranks]
    late = int(np.argmin(waits))
    waiting = sorted(ns for number, ns in enumerate(waits) if number != late)
    others = sorted(ns for number, ns in enumerate(exposed) if number != late)
    middle = (len(ranks) - 2) // 2
    late_ns = max(0, others[middle] - exposed[late]) if others and waiting[middle] else 0
    works = [intervals.total_ns(rank.work) for rank in ranks]
    usual = sorted(ns for number, ns in enumerate(works) if number != late)
    more_work = min(late_ns, max(0, works[late] - usual[middle])) if usual else 0
    imbalance = late_ns - more_work + more_work * (len(ranks) - 1) // len(ranks)
    if late_ns:
        # The others come no earlier than they are done themselves.
        shorter = sorted(shorter_ns(rank) for number, rank in enumerate(ranks) if number != late)
        imbalance = max(0, min(imbalance, shorter[middle] - shorter_ns(ranks[late])))
    # The longest wait alone: of the ranks that are not late, the typical one.
    longest = sorted(
        int(rank.waits_ns.max(initial=0))  # type: ignore[union-attr]
        for number, rank in enumerate(ranks)
        if number != late
    )
    once = bool(longest) and 2 * longest[middle] > waiting[middle] - waits[late] > 0
    left_out = sum(len(rank.names) for rank in ranks) - matched.size
    return Job(
        ranks,
        min(exposed if single_step else [rank.recurring_ns for rank in ranks], default=0),
        imbalance,
        ranks[late].number,
        more_work,
        once,
        _in_turns(ranks, min(exposed, default=0)) if one_clock else 0,
        len(matched),
        left_out,
    )


def _match(ranks: list[Rank], *, one_clock: bool) -> np.ndarray:
    """Per collective that all ranks were in, its place in each rank's: an array of matches by ranks.

    Ranks run the same collectives in the same order; one may have been recorded from an earlier one on. So
    each is shifted against the shortest list until names agree best, and with one clock the ends as well.
    """
    counts = [len(rank.names) for rank in ranks]
    least = min(counts)
    if not least:
        return np.zeros((0, len(ranks)), dtype=np.int64)
    base = ranks[counts.index(least)]
    words = {name: number for number, name in enumerate({n for rank in ranks for n in rank.names})}
    wanted = np.array([words[name] for name in base.names])
    places = []
    for rank in ranks:
        own = np.array([words[name] for name in rank.names])
        best, best_shift = None, 0
        for shift in range(len(own) - least + 1):
            agree = int((own[shift : shift + least] == wanted).sum())
            apart = 0.0
            if one_clock:
                ends = rank.collectives.ends_ns[shift : shift + least]
                apart = float(np.median(np.abs(ends - base.collectives.ends_ns)))
            score = (agree, -apart)
            if best is None or score > best:
                best, best_shift = score, shift
        places.append(best_shift + np.arange(least))
    matched = np.stack(places, axis=1)
    same = np.ones(least, dtype=bool)
    for number, rank in enumerate(ranks):
        own = np.array([words[name] for name in rank.names])
        same &= own[matched[:, number]] == wanted
    return matched[same]


def _set_waits(ranks: list[Rank], matched: np.ndarray) -> None:
    lengths = (
        np.stack(
            [
                (rank.collectives.ends_ns - rank.collectives.starts_ns)[matched[:, number]]
                for number, rank in enumerate(ranks)
            ],
            axis=1,
        )
        if len(matched)
        else np.zeros((0, len(ranks)), dtype=np.int64)
    )
    for number, rank in enumerate(ranks):
        rank.waits_ns = np.zeros(len(rank.names), dtype=np.int64)
        if len(matched):
            rank.waits_ns[matched[:, number]] = lengths[:, number] - lengths.min(axis=1)


def _in_turns(ranks: list[Rank], exposed_ns: int) -> int:
    """What ranks that work one after the other would save side by side."""
    works = [intervals.total_ns(rank.work) for rank in ranks]
    if len(ranks) < 2 or min(works) < STAGE_RATIO * max(works):
        return 0
    spans = [rank.work for rank in ranks]
    any_works = intervals.total_ns(
        Intervals(
            np.concatenate([s.starts_ns for s in spans]), np.concatenate([s.ends_ns for s in spans])
        )
    )
    # Where n ranks work at once, the moment counts n times in the sum.
    if sum(works) - any_works > IN_TURNS_RATIO * any_works:
        return 0
    saved = any_works - max(works)
    # Each of them waits for the others: a rank that is only late waits for nobody.
    return saved if exposed_ns >= saved / len(ranks) else 0
