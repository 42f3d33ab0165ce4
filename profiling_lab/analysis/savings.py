"""What would be saved: one cause taken away from the recorded order, and the end computed anew.

Each cause says what of the order it takes away, in columns. Only what lies inside the window changes: a delay
from before it is not in it. No cause saves more than the time that it and its listed consequences (`EXPOSED`)
were exposed on the busiest device: idle time by its class, and copies that nothing ran beside.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from profiling_lab.analysis import host_time, order
from profiling_lab.analysis.host_time import HostTime
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
    of pinned ones. moved_less: all of the copies' time, the most that moving less can give.
    """

    causes: dict[str, int]
    remedies: dict[str, int]
    readback_count: int
    pageable_bytes: int


def read(time: HostTime, spent: list[Spent]) -> Saved:
    """What each cause costs in the window of `spent`."""
    return _Savings(time, spent).read()


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
        end = int(self.made.end[self.counted].max())
        causes = {}
        for cause, change in changes.items():
            saved = end - self._end(**change()) + self._trailing_ns(_TRAILING[cause])
            bound = min(s.total_ns(*EXPOSED[cause]) for s in self.spent)
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
            causes, remedies, int((self.few & ~self.upload & self.counted).sum()), pageable
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
        made, new = self.made, {}
        low = self.window[0]
        # What lies before the window stays.
        if "lead" in changed:
            kept = np.clip(low - (made.start - made.lead), 0, made.lead)
            new["lead"] = np.maximum(changed["lead"], kept)
        if "own" in changed:
            new["own"] = np.maximum(changed["own"], np.clip(low - made.start, 0, made.own))
        if "lag" in changed:
            new["lag"] = np.where(self.inside[made.to], changed["lag"], made.lag)
        if "delay" in changed:
            new["delay"] = np.where(self.later, changed["delay"], made.delay)
        unchanged = all((values == getattr(made, name)).all() for name, values in new.items())
        ends = made.end if unchanged else self.replay.ends(**new)
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
        calls = np.zeros(len(made), dtype=bool)
        issued = made.why == order.ISSUED
        calls[made.on[issued & read[made.to]]] = True
        asked = np.isin(made.kind, (order.COPY_CALL, order.SYNCHRONIZE))
        waits = np.zeros(len(made), dtype=bool)
        waits[made.to[gone & read[made.on]]] = True
        chained = made.why == order.PROGRAM_ORDER
        calls[made.on[chained & waits[made.to]]] = True
        calls &= asked
        time = self.time
        kept = time.lead_input + time.lead_compiling + time.lead_setup
        short = calls & ~time.own_code & ~time.allocating_lead
        return {
            "lag": np.where(gone, order.NEVER, made.lag),
            "lead": np.where(short, np.minimum(made.lead, kept), made.lead),
            "own": np.where(calls, time.own_setup, np.where(read, 0, made.own)),
            "delay": np.where(read, 0, made.delay),
        }

    def _without_launch_cost(self) -> dict[str, np.ndarray]:
        made, time = self.made, self.time
        free = ~made.resumes
        kept = time.lead_input + time.lead_compiling + time.lead_setup
        short = ~time.own_code & ~time.allocating_lead & (made.lead - kept > 0)
        code = np.isin(made.kind, (order.HOST_CODE, order.SETUP_CALL)) & ~time.own_is_code
        issues = (made.kind == order.LAUNCH) | code
        return {
            "lead": np.where(short & free, kept, made.lead),
            "own": np.where(issues & free, time.own_setup, made.own),
        }

    def _without_copies(self) -> dict[str, np.ndarray]:
        made = self.made
        copying = self._waiting_links(order.COPY_CALL) & ~self.few[made.on]
        return {
            "own": np.where(
                self.link, 0, np.where(made.kind == order.COPY_CALL, self.time.own_setup, made.own)
            ),
            "delay": np.where(self.link, 0, made.delay),
            "lag": np.where(copying, np.minimum(made.lag, 0), made.lag),
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
        }

    def _without_host_code(self) -> dict[str, np.ndarray]:
        made, time = self.made, self.time
        kept = time.lead_input + time.lead_compiling + time.lead_setup
        gone = time.own_is_code | (made.kind == order.HOST_FUNCTION)
        return {
            "lead": np.where(time.own_code, kept, made.lead),
            "own": np.where(gone, time.own_setup, made.own),
        }

    def _without_compilation(self) -> dict[str, np.ndarray]:
        return {"lead": self.made.lead - self.time.lead_compiling}

    # -- parts of them ----------------------------------------------------------------------------

    def _releasing(self) -> np.ndarray:
        """Waits right before memory is released: part of releasing it."""
        made = self.made
        out = np.zeros(len(made), dtype=bool)
        chained = np.flatnonzero(made.why == order.PROGRAM_ORDER)
        before, after = made.on[chained], made.to[chained]
        release = made.recording.names_like(r".*(Free|Unregister)")
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
