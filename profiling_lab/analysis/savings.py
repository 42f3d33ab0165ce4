"""What would be saved: one cause taken away from the recorded order, and the end computed anew.

Each cause says what of the order it takes away, in columns; what the recorder cost is taken away first, and is no
saving (`analysis.recorder_cost`). Input that another thread or process makes comes when it came, however fast the rest
is. Only what lies inside the window changes: a delay from before it is not in it. No cause saves more than the time that it and its listed consequences (`EXPOSED`)
were exposed on the busiest device: idle time by its class, and copies that nothing ran beside.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from profiling_lab.analysis import host_time, intervals, order, recorder_cost
from profiling_lab.analysis.host_time import HostTime
from profiling_lab.analysis.ranks import Rank
from profiling_lab.analysis.replay import Replay
from profiling_lab.analysis.spent import COPIES_ALONE, Spent

WAITS, LAUNCHES, COPIES, ALLOCATION, INPUT, HOST_CODE, COMPILATION = (
    "waits",
    "launch_cost",
    "copies",
    "allocation",
    "input",
    "host_code",
    "compilation",
)
CAUSES = (WAITS, LAUNCHES, COPIES, ALLOCATION, INPUT, HOST_CODE, COMPILATION)
# From the end of one kernel of a CUDA graph to the next one: the median of 1,152 on an H200 (captures/decode_graph_nodes).
GRAPH_GAP_NS = 256
# Idle time that ends when a host cause does: a host that is not held up in one way runs ahead, and what else it
# does then hides behind the device's work.
_HOST_IDLE = tuple(
    host_time.PURPOSES[number]
    for number in (
        host_time.ISSUING,
        host_time.WAITING,
        host_time.COPYING,
        host_time.ALLOCATING,
        host_time.INPUT,
        host_time.OWN_CODE,
        host_time.COMPILING,
    )
)
# Behind a window's last operation the host alone works: what it does there goes with its cause.
_TRAILING = {
    WAITS: host_time.WAITING,
    LAUNCHES: host_time.ISSUING,
    COPIES: host_time.COPYING,
    ALLOCATION: host_time.ALLOCATING,
    INPUT: host_time.INPUT,
    HOST_CODE: host_time.OWN_CODE,
    COMPILATION: host_time.COMPILING,
}
# Per cause the classes of `analysis.spent` that it and its consequences can take up.
EXPOSED = dict.fromkeys(CAUSES, _HOST_IDLE) | {COPIES: (COPIES_ALONE, *_HOST_IDLE)}


@dataclass
class Saved:
    """What each cause costs, in ns; for copies, what each remedy gives.

    hidden: copies beside kernels, as far as the busiest direction allows. pinned: pageable copies at the rate
    of pinned ones. moved_less: all of the copies' time, the most that moving less can give. recorder_ns: by how much
    the recorder lengthened the window; the program does not take that time without it.
    """

    causes: dict[str, int]
    remedies: dict[str, int]
    readback_count: int
    pageable_bytes: int
    recorder_ns: int


def read(time: HostTime, spent: list[Spent]) -> Saved:
    """What each cause costs in the window of `spent`."""
    return _Savings(time, spent).read()


def without_collectives_ns(time: HostTime, spent: list[Spent], rank: Rank) -> int:
    """By how much a rank's window is shorter if its collectives take no time, and it is not recorded.

    What they held up goes with them: operations and returns that came late, calls that found the queue full, and
    pauses of the host that ended when they did.
    """
    made, work = time.order, time.order.recording.operations
    device = made.kind == order.DEVICE
    row = np.where(device, made.row, 0)
    talks = np.zeros(len(work), dtype=bool)
    talks[rank.rows] = True
    talking = intervals.union(rank.collectives)

    def less(all_ns: np.ndarray, some: np.ndarray, start: np.ndarray) -> np.ndarray:
        asked = intervals.Intervals(start[some], (start + all_ns)[some])
        out = all_ns.copy()
        out[some] -= intervals.covered(talking, asked)
        return out

    saved = _Savings(time, spent)
    saved.counted &= work.device[row] == rank.device
    full = (made.kind == order.LAUNCH) & (made.own > order.PAUSE_NS)
    own = np.where(device & talks[row], 0, less(made.own, full, made.start))
    delay = less(made.delay, device & (made.delay > 0), made.start - made.delay)
    back = (made.why == order.WAITED) & (made.lag > 0)
    lag = less(made.lag, back, made.end[made.on])
    last = talking.ends_ns[np.searchsorted(talking.ends_ns, made.start, side="right") - 1]
    pause = (made.thread >= 0) & (made.lead > order.PAUSE_NS) & (made.start >= last)
    pause &= made.start - last <= order.WAIT_RETURN_NS
    lead = less(made.lead, pause, made.start - made.lead)
    return int(made.end[saved.counted].max()) - saved._end(own=own, delay=delay, lag=lag, lead=lead)


class _Savings:
    def __init__(self, time: HostTime, spent: list[Spent]) -> None:
        self.time, self.made, self.spent = time, time.order, spent
        made = self.made
        self.window = spent[0].window_ns
        self.replay = Replay(made)
        self.device = made.kind == order.DEVICE
        copies = time.links
        self.link, self.upload, self.pageable = copies.link, copies.upload, copies.pageable
        self.bytes, self.rates, self.few = copies.bytes, copies.rates, copies.few_bytes
        self.inside = made.start >= self.window[0]
        self.counted = self.device & (made.start < self.window[1]) & (made.end > self.window[0])
        self.later = made.start > self.window[0]  # the first operation's start is the window's
        self.lead, self.own = recorder_cost.without(time)

    def read(self) -> Saved:
        changes: dict[str, Callable[[], dict[str, np.ndarray]]] = {
            WAITS: self._without_waits,
            LAUNCHES: self._without_launch_cost,
            COPIES: self._without_copies,
            ALLOCATION: self._without_allocation,
            INPUT: self._without_input,
            HOST_CODE: self._without_host_code,
            COMPILATION: self._without_compilation,
        }
        recorded_end = int(self.made.end[self.counted].max())
        end = self._end()
        recorder_ns = recorded_end - end
        causes = {}
        for cause, change in changes.items():
            saved = end - self._end(**change()) + self._trailing_ns(_TRAILING[cause])
            bound = min(s.total_ns(*EXPOSED[cause]) for s in self.spent) - recorder_ns
            causes[cause] = max(0, min(saved, bound))
        moved_less = causes[COPIES]
        least_end = self._least_end()
        hidden = max(0, min(moved_less, end - least_end))
        pinned = 0
        if (self.pageable & self.inside).any() and moved_less:
            pinned = max(0, min(moved_less, end - self._end(**self._pinned())))
        remedies = {"hidden": hidden, "pinned": pinned, "moved_less": moved_less}
        pageable = int(self.bytes[self.pageable & self.inside & self.counted].clip(0).sum())
        return Saved(
            causes,
            remedies,
            int((self.few & ~self.upload & self.counted).sum()),
            pageable,
            recorder_ns,
        )

    def _trailing_ns(self, purpose: int) -> int:
        """Of the time behind the window's last operation on any device, what the host spent on this."""
        least = []
        for one in self.spent:
            last = len(one.idle.ends_ns) - 1
            if last < 0 or one.idle.ends_ns[last] < one.window_ns[1]:
                return 0
            least.append((int(one.idle.starts_ns[last]), int(one.idle_parts[last][purpose])))
        return max(least)[1] if least else 0

    def _end(self, **changed: np.ndarray) -> int:
        """When the last operation of the window ends with these durations, lags and delays."""
        made, low = self.made, self.window[0]
        # What lies before the window stays.
        kept = np.clip(low - (made.start - made.lead), 0, made.lead)
        begun = np.clip(low - made.start, 0, made.own)
        new = {
            "lead": np.maximum(np.minimum(changed.get("lead", made.lead), self.lead), kept),
            "own": np.maximum(np.minimum(changed.get("own", made.own), self.own), begun),
        }
        if "lag" in changed:
            new["lag"] = np.where(self.inside[made.to], changed["lag"], made.lag)
        if "delay" in changed:
            new["delay"] = np.where(self.later, changed["delay"], made.delay)
        handed = changed.get("handed", self.time.handed)
        ends = self.replay.ends(**new, no_earlier=np.flatnonzero(handed & self.later))
        return int(ends[self.counted].max())

    # -- causes -----------------------------------------------------------------------------------

    def _waiting_links(self, *kinds: int) -> np.ndarray:
        made = self.made
        return (made.why == order.WAITED) & np.isin(made.waits_in[made.to], kinds)

    def _without_waits(self) -> dict[str, np.ndarray]:
        made = self.made
        gone = self._waiting_links(order.SYNCHRONIZE, order.LAUNCH) & ~self._releasing()[made.to]
        # Reading back is waiting, whatever the call; so is a blocking copy of a few bytes to the device.
        copying = self._waiting_links(order.COPY_CALL)
        gone |= copying & self.link[made.on] & (~self.upload | self.few)[made.on]
        # What is read later is not read here: its copy goes, and so do the call that issues it and the one that waits.
        read = np.zeros(len(made), dtype=bool)
        read[made.on[gone]] = True
        read &= self.few & ~self.upload
        waits = np.zeros(len(made), dtype=bool)
        waits[made.to[gone & read[made.on]]] = True
        calls = self._asking_for(read, waits)
        calls |= self._behind(calls)
        gone |= (made.why == order.ISSUED) & read[made.to]
        return {
            "lag": np.where(gone, order.NEVER, made.lag),
            "lead": np.where(calls & self._short(), np.minimum(made.lead, self._kept()), made.lead),
            "own": np.where(calls, self.time.own_setup, np.where(read, 0, made.own)),
            "delay": np.where(read, 0, made.delay),
        }

    def _without_launch_cost(self) -> dict[str, np.ndarray]:
        made, time = self.made, self.time
        free = ~made.resumes
        kept = self._kept()
        short = self._short() & (made.lead - kept > 0)
        code = np.isin(made.kind, (order.HOST_CODE, order.SETUP_CALL)) & ~time.own_is_code
        issues = (made.kind == order.LAUNCH) | code
        # What its launch held up follows the one before it on its stream as closely as in a graph.
        allowed = made.end[made.on] + made.lag
        launched = np.zeros(len(made), dtype=np.int64)
        by_launch = made.why == order.ISSUED
        launched[made.to[by_launch]] = allowed[by_launch]
        late = (made.why == order.STREAM_ORDER) & (launched[made.to] > allowed)
        late &= made.lag > GRAPH_GAP_NS
        return {
            "lead": np.where(short & free, kept, made.lead),
            "own": np.where(issues & free, time.own_setup, made.own),
            "lag": np.where(late, GRAPH_GAP_NS, made.lag),
        }

    def _without_copies(self) -> dict[str, np.ndarray]:
        made, time = self.made, self.time
        copying = self._waiting_links(order.COPY_CALL) & ~self.few[made.on]
        # What is not moved is not asked for, nor waited for: by the call that would move it, nor by the one right behind.
        lag = np.where(copying, order.NEVER, made.lag)
        large = self.link & ~self.few
        lag = np.where((made.why == order.ISSUED) & large[made.to], order.NEVER, lag)
        asking = self._asking_for(large, np.zeros(len(made), dtype=bool))
        chained = made.why == order.PROGRAM_ORDER
        behind = self._behind(asking)
        waits = np.zeros(len(made), dtype=bool)
        waits[made.to[chained & behind[made.on]]] = True
        waits &= made.kind == order.WAIT
        lag = np.where((made.why == order.WAITED) & waits[made.to], order.NEVER, lag)
        calls = asking | behind
        short = (calls & self._short()) | time.staging
        gone = calls | (made.kind == order.COPY_CALL)
        return {
            "lead": np.where(short, np.minimum(made.lead, self._kept()), made.lead),
            "own": np.where(self.link, 0, np.where(gone, time.own_setup, made.own)),
            "delay": np.where(self.link, 0, made.delay),
            "lag": lag,
        }

    def _without_allocation(self) -> dict[str, np.ndarray]:
        made, time = self.made, self.time
        gone = self._waiting_links(order.ALLOCATION)
        gone |= self._waiting_links(order.SYNCHRONIZE) & self._releasing()[made.to]
        return {
            "lead": np.where(time.allocating_lead, 0, made.lead),
            "own": np.where(made.kind == order.ALLOCATION, time.own_setup, made.own),
            "lag": np.where(gone, order.NEVER, made.lag),
        }

    def _without_input(self) -> dict[str, np.ndarray]:
        made, time = self.made, self.time
        return {
            "lead": made.lead - time.lead_input,
            "lag": np.where(time.handed_input, order.NEVER, made.lag),
            "handed": np.zeros(len(made), dtype=bool),
        }

    def _without_host_code(self) -> dict[str, np.ndarray]:
        made, time = self.made, self.time
        gone = time.own_is_code | (made.kind == order.HOST_FUNCTION)
        return {
            "lead": np.where(time.own_code & ~time.staging, self._kept(), made.lead),
            "own": np.where(gone, time.own_setup, made.own),
        }

    def _without_compilation(self) -> dict[str, np.ndarray]:
        made, gone = self.made, self.time.while_compiling
        waits = np.isin(made.why, (order.WAITED, order.HAND_OVER)) & gone[made.to]
        return {
            "lead": made.lead - self.time.lead_compiling,
            "own": np.where(gone, 0, made.own),
            "delay": np.where(gone, 0, made.delay),
            "lag": np.where(waits, order.NEVER, made.lag),
        }

    # -- parts of them ----------------------------------------------------------------------------

    def _kept(self) -> np.ndarray:
        """Of each lead, what has another cause than the rest of it."""
        time = self.time
        return time.lead_input + time.lead_compiling + time.lead_setup

    def _short(self) -> np.ndarray:
        """Nodes whose lead, but for what is kept, is the cost of issuing."""
        return ~self.time.own_code & ~self.time.allocating_lead

    def _asking_for(self, copies: np.ndarray, waits: np.ndarray) -> np.ndarray:
        """The calls that issue these copies, and those that begin these waits."""
        made = self.made
        calls = np.zeros(len(made), dtype=bool)
        calls[made.on[(made.why == order.ISSUED) & copies[made.to]]] = True
        calls[made.on[(made.why == order.PROGRAM_ORDER) & waits[made.to]]] = True
        calls &= np.isin(made.kind, (order.COPY_CALL, order.SYNCHRONIZE))
        # Before it copies, a library may ask something that does nothing to the device.
        before = made.on[(made.why == order.PROGRAM_ORDER) & calls[made.to]]
        calls[before[(made.kind[before] == order.HOST_CODE) & (made.row[before] >= 0)]] = True
        return calls

    def _behind(self, calls: np.ndarray) -> np.ndarray:
        """The synchronizing calls right behind these calls, or behind the waits in them."""
        made = self.made
        chained = np.flatnonzero(made.why == order.PROGRAM_ORDER)
        on, to = made.on[chained], made.to[chained]
        ended = calls.copy()
        ended[to[calls[on] & (made.kind[to] == order.WAIT)]] = True
        behind = np.zeros(len(made), dtype=bool)
        behind[to[ended[on]]] = True
        return behind & (made.kind == order.SYNCHRONIZE)

    def _releasing(self) -> np.ndarray:
        """Waits right before memory is released: part of releasing it."""
        made = self.made
        out = np.zeros(len(made), dtype=bool)
        chained = np.flatnonzero(made.why == order.PROGRAM_ORDER)
        before, after = made.on[chained], made.to[chained]
        release = made.recording.names_like(r".*(Free|Unregister|Unmap|MemRelease)")
        calls = made.recording.calls
        frees = (made.kind[after] == order.ALLOCATION) & (made.row[after] >= 0)
        if frees.any():
            frees[frees] = release[calls.name[made.row[after[frees]]]]
        close = made.lead[after] <= self.time.limit_ns
        out[before[(made.kind[before] == order.WAIT) & frees & close]] = True
        return out

    def _pinned(self) -> dict[str, np.ndarray]:
        made = self.made
        rate = np.where(self.upload, self.rates[True], self.rates[False])
        fast = host_time.COPY_LATENCY_NS + (np.maximum(self.bytes, 0) / rate).astype(np.int64)
        known = self.pageable & (self.bytes > 0)
        # Without staging a call that copies returns at once, or soon after its copy.
        staged = self._waiting_links(order.COPY_CALL) & known[made.on]
        return {
            "own": np.where(known, np.minimum(made.own, fast), made.own),
            "lag": np.where(staged, np.minimum(made.lag, order.WAIT_RETURN_NS // 10), made.lag),
        }

    def _least_end(self) -> int:
        """When the busiest direction of copies would be through, had it nothing to wait for.

        The first batch comes in before anything and the last goes out after all: its shortest copy of the other
        direction is on top.
        """
        made, work = self.made, self.made.recording.operations
        copies = np.flatnonzero(self.link & self.counted)
        least = 0
        devices = work.device[made.row[copies]]
        for device in np.unique(devices).tolist():
            own = copies[devices == device]
            up, down = made.own[own[self.upload[own]]], made.own[own[~self.upload[own]]]
            for busiest, other in ((up, down), (down, up)):
                if busiest.sum() >= other.sum():
                    least = max(
                        least,
                        int(busiest.sum())
                        + int(other.min(initial=0) if not len(other) else other.min()),
                    )
        return int(made.start[self.counted].min()) + least
