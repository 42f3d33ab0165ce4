"""How far a batch is: a live line on a terminal, else a plain line, often at first and then each minute."""

from __future__ import annotations

import collections
import itertools
import sys
import threading
import time
from typing import Any, Self

from profiling_lab.cli.screen import width

EVERY_S = 60.0
FIRST_S = (
    1.0,
    4.0,
    10.0,
    15.0,
    30.0,
)  # between the first lines: what is imported at first takes a while
RATE_OVER_S = 180.0


class Progress:
    """Counts units and submissions. Use as a context manager; methods are called from several threads.

    remaining: of each submission (by student), how many units are to be judged. done: submissions and
    units that need nothing any more. stream: where lines go. clock: seconds, for tests.
    """

    def __init__(
        self,
        remaining: dict[str, int],
        *,
        submissions: int,
        stream: Any = None,
        every_s: float = EVERY_S,
        clock: Any = time.monotonic,
    ) -> None:
        self.remaining = {student: count for student, count in remaining.items() if count}
        self.submissions = submissions
        self.units = sum(self.remaining.values())
        self.judged = 0
        self.failed = 0
        self.running: dict[str, float] = {}
        self._stream = stream or sys.stderr
        self._every_s = every_s
        self._clock = clock
        self._mutex = threading.Lock()
        self._ends: collections.deque[float] = collections.deque()
        self._started = clock()
        self._closing = threading.Event()
        self._ticker: threading.Thread | None = None
        self._live: Any = None

    def __enter__(self) -> Self:
        self._started = self._clock()
        if self._is_terminal():
            from rich.console import Console
            from rich.progress import BarColumn, TextColumn
            from rich.progress import Progress as Bar

            self._live = Bar(
                BarColumn(bar_width=20),
                TextColumn("{task.description}", markup=False),
                console=Console(file=self._stream, highlight=False),
                transient=True,
                refresh_per_second=4,
            )
            self._live.start()
            self._bar = self._live.add_task(self.line(), total=max(1, self.units))
        self._ticker = threading.Thread(target=self._tick, daemon=True, name="progress")
        self._ticker.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._closing.set()
        if self._ticker is not None:
            self._ticker.join()
        if self._live is not None:
            self._live.stop()

    def _is_terminal(self) -> bool:
        return bool(getattr(self._stream, "isatty", lambda: False)())

    def started(self, name: str) -> None:
        """A unit is being judged."""
        with self._mutex:
            self.running[name] = self._clock()

    def finished(self, name: str, student: str, *, infrastructure: bool) -> None:
        """A unit has its result."""
        now = self._clock()
        with self._mutex:
            self.running.pop(name, None)
            self.judged += 1
            self.failed += infrastructure
            left = self.remaining.get(student, 0) - 1
            if left > 0:
                self.remaining[student] = left
            else:
                self.remaining.pop(student, None)
            self._ends.append(now)
            while self._ends and self._ends[0] < now - RATE_OVER_S:
                self._ends.popleft()

    def note(self, text: str) -> None:
        """Print a line for the instructor, above the live one."""
        if self._live is not None:
            self._live.console.print(text, markup=False)
        else:
            print(text, file=self._stream, flush=True)

    def per_minute(self) -> float:
        """Units a minute, of the last three minutes."""
        now = self._clock()
        span_s = min(max(now - self._started, 1e-9), RATE_OVER_S)
        return 60.0 * sum(end >= now - span_s for end in self._ends) / span_s

    def line(self) -> str:
        """Where the batch is, in one line."""
        with self._mutex:
            rate = self.per_minute()
            left = self.units - self.judged
            parts = [
                f"{self.submissions - len(self.remaining)} of {self.submissions} submissions",
                f"{self.judged} of {self.units} exercises",
            ]
            if self.judged:
                parts.append(f"{rate:.0f} a minute")
            if left and rate:
                parts.append(f"{duration(60.0 * left / rate)} left")
            if self.failed:
                parts.append(f"{self.failed} not judged (infrastructure)")
            if self.running:
                longest = min(self.running, key=lambda name: self.running[name])
                more = f" and {len(self.running) - 1} more" if len(self.running) > 1 else ""
                parts.append(f"now {longest}{more}")
        return ", ".join(parts)

    def _tick(self) -> None:
        waits = itertools.chain(FIRST_S, itertools.repeat(self._every_s))
        if self._live is not None:
            waits = itertools.repeat(0.25)
        while not self._closing.wait(min(next(waits), self._every_s)):
            if self._live is None:
                self.note(f"{time.strftime('%H:%M:%S')}  {self.line()}")
            else:
                room = max(20, width() - 22)
                line = self.line()
                text = line if len(line) <= room else line[: room - 1] + "…"
                self._live.update(self._bar, completed=self.judged, description=text)


def duration(seconds: float) -> str:
    """A time for people: "45 s", "12 min", "3 h 05 min"."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60:02d} min"
