"""Profile with a line of code: a decorator, two context managers, and a monitor of the GPUs.

    from profiling_lab.tools.easy_profiler import GPUMonitor, auto_profile

    @auto_profile(warmup=3, iterations=10)
    def train_step(model, batch): ...

    with GPUMonitor() as monitor:
        for batch in loader:
            train_step(model, batch)
    print(monitor.get_summary())

For any project: torch and JAX are used where the code that is measured uses them, and needed nowhere.

Two times are told apart. `host` is how long the call took to return; work that it only queued on a
GPU is not in it. `device` is the time between two CUDA events around the call, on the stream that is
current when it begins: what the stream did, and waited, from the call's first work to its last. Events
do not make the host wait, so the program runs as it did; the one wait is before a summary is made.
Source: CUDA Runtime API, Event Management. Results of JAX are waited for, since JAX returns before it
has computed.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar, overload

from profiling_lab.tools.call_times import CallSummary, Interval, summary_of, wait_for
from profiling_lab.tools.gpu_monitor import GPUMonitor
from profiling_lab.tools.gpu_summary import DeviceSummary, Sample, Summary

__all__ = [
    "CallSummary",
    "DeviceSummary",
    "GPUMonitor",
    "Phases",
    "Profile",
    "Sample",
    "Summary",
    "auto_profile",
    "timed",
    "trace",
]

Function = TypeVar("Function", bound=Callable[..., Any])
SWITCH = "AUTO_PROFILE"  # environment: 0 turns every auto_profile off


class Profile:
    """What `auto_profile` measures of one function; the function's attribute `profile`.

    active: whether the next call counts; set to False to stop, `reset` starts again.
    """

    def __init__(
        self, name: str, warmup: int, iterations: int, report: Callable[[str], Any] | None
    ) -> None:
        self.name, self.warmup, self.iterations = name, warmup, iterations
        self._report = report
        self._lock = threading.Lock()
        self._inside = threading.local()
        self.active = False
        self.reset()

    @property
    def inside(self) -> bool:
        """Whether this thread is in a counted call."""
        return getattr(self._inside, "deep", False)

    def reset(self) -> None:
        """Forget what was measured and begin with the warm-up again."""
        with self._lock:
            self._intervals: list[Interval] = []
            self._skipped = self._failed = 0
            self.active = True

    def get_summary(self) -> CallSummary:
        """The calls measured so far. Waits until the device has done them."""
        with self._lock:
            intervals = list(self._intervals)
        return summary_of(self.name, intervals, self._skipped, self._failed)

    def call(self, function: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> Any:
        """Call the function and count it; a call inside of a counted one belongs to that one."""
        if self.inside:
            return function(*args, **kwargs)
        self._inside.deep = True
        try:
            interval = Interval(self.name)
            try:
                result = function(*args, **kwargs)
                wait_for(result)
            except BaseException:
                interval.end()
                with self._lock:
                    self._failed += 1
                raise
            interval.end()
        finally:
            self._inside.deep = False
        self._count(interval)
        return result

    def _count(self, interval: Interval) -> None:
        with self._lock:
            if not self.active:
                return
            if self._skipped < self.warmup:
                self._skipped += 1
                return
            self._intervals.append(interval)
            self.active = len(self._intervals) < self.iterations
            done = not self.active
        if done and self._report:
            self._report(str(self.get_summary()))


@overload
def auto_profile(function: Function, /) -> Function: ...


@overload
def auto_profile(
    *,
    warmup: int = 3,
    iterations: int = 10,
    repeat: bool = False,
    name: str | None = None,
    enabled: bool | None = None,
    report: Callable[[str], Any] | None = print,
) -> Callable[[Function], Function]: ...


def auto_profile(
    function: Callable[..., Any] | None = None,
    /,
    *,
    warmup: int = 3,
    iterations: int = 10,
    repeat: bool = False,
    name: str | None = None,
    enabled: bool | None = None,
    report: Callable[[str], Any] | None = print,
) -> Any:
    """Measure a function's calls: `warmup` are left out, the next `iterations` counted, then none.

    Calls are measured as the program makes them, each once, so a step that changes a model or takes
    from a queue may be decorated: the program does what it did without. With `repeat=True`, for
    functions that may be called again with the same arguments, the first call runs the function
    warmup + iterations times and returns the last result.

    After the last counted call `report` gets the summary as text, once. At any time
    `f.profile.get_summary()` has it, `f.profile.reset()` begins again. A call that raises counts as
    failed and raises on. A program that makes fewer calls has no report. Each measured call is an
    NVTX range where torch has a GPU in use.

    name: in the summary; the function's by default. enabled: False turns it off (a call then costs
    one comparison more); None: on unless AUTO_PROFILE=0 is in the environment.

    Raises ValueError for a negative warmup or iterations below 1, TypeError for what is no
    function, for a staticmethod, classmethod or property (put those above it), and for generators
    and coroutines, whose calls return before they run.
    """
    if type(warmup) is not int or warmup < 0:
        raise ValueError(f"warmup must be a number of calls, 0 or more, not {warmup!r}")
    if type(iterations) is not int or iterations < 1:
        raise ValueError(f"iterations must be a number of calls, 1 or more, not {iterations!r}")
    on = enabled if enabled is not None else os.environ.get(SWITCH, "1") != "0"

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        if isinstance(function, (staticmethod, classmethod, property)):
            kind = type(function).__name__
            raise TypeError(f"put @{kind} above @auto_profile: it has to decorate the function")
        if not callable(function):
            raise TypeError(f"auto_profile decorates a function, not {function!r}")
        deferred = (
            inspect.isgeneratorfunction, inspect.iscoroutinefunction, inspect.isasyncgenfunction,
        )  # fmt: skip
        if any(is_one(function) for is_one in deferred):
            raise TypeError(
                f"{function.__qualname__} returns before it has run (a generator or coroutine):"
                " profile the function that consumes it, or a block with timed()"
            )
        own_name = name or getattr(function, "__qualname__", type(function).__name__)
        profile = Profile(own_name.replace("<locals>.", ""), warmup, iterations, report)
        profile.active = on

        @functools.wraps(function)
        def measured(*args: Any, **kwargs: Any) -> Any:
            if not profile.active:
                return function(*args, **kwargs)
            result = profile.call(function, args, kwargs)
            while repeat and profile.active and not profile.inside:
                result = profile.call(function, args, kwargs)
            return result

        measured.profile = profile  # type: ignore[attr-defined]
        return measured

    return decorate if function is None else decorate(function)


@contextlib.contextmanager
def timed(name: str, report: Callable[[str], Any] | None = print) -> Iterator[Profile]:
    """Measure a block once and report it, also when it raises.

    with timed("epoch"): ...
    """
    block = Profile(name, 0, 1, None)
    interval = Interval(name)
    try:
        yield block
    finally:
        interval.end()
        block._count(interval)
        if report:
            report(str(block.get_summary()))


class Phases:
    """How long the phases of a loop take, by name; a phase inside another is "outer/inner".

        phases = Phases()
        for batch in loader:
            with phases("forward"): ...
            with phases("backward"): ...
        print(phases)

    A phase's time includes that of the phases inside it. One object for one thread.
    """

    def __init__(self) -> None:
        self._intervals: dict[str, list[Interval]] = {}
        self._open: list[str] = []

    @contextlib.contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Measure one pass through a phase, also when it raises."""
        self._open.append(name)
        path = "/".join(self._open)
        interval = Interval(path)
        try:
            yield
        finally:
            interval.end()
            self._open.pop()
            self._intervals.setdefault(path, []).append(interval)

    def get_summary(self) -> dict[str, CallSummary]:
        """By the path of a phase, in order of name. Waits until the device has done them."""
        items = sorted(self._intervals.items())
        return {path: summary_of(path, intervals) for path, intervals in items}

    def __str__(self) -> str:
        return "\n".join(map(str, self.get_summary().values())) or "no phase measured yet"


@contextlib.contextmanager
def trace(
    path: str | Path, *, wait: int = 1, warmup: int = 1, active: int = 3, **options: Any
) -> Iterator[Any]:
    """Record `active` steps with torch.profiler and write a trace for https://ui.perfetto.dev.

        with trace("trace.json.gz") as steps:
            for batch in loader:
                train_step(batch)
                steps.step()

    The first `wait` steps are left alone and `warmup` more are recorded and thrown away; steps after
    the recorded ones cost nothing. options go to torch.profiler.profile. When the block raises, or
    ends early, what was recorded until then is still written.

    Raises ImportError without torch; RuntimeError when the loop ended before a step was recorded.
    """
    import torch.profiler as profiler

    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []

    def write(finished: Any) -> None:
        finished.export_chrome_trace(str(file))
        written.append(file)

    schedule = profiler.schedule(wait=wait, warmup=warmup, active=active, repeat=1)
    with profiler.profile(schedule=schedule, on_trace_ready=write, **options) as steps:
        yield steps
    if not written:
        raise RuntimeError(
            f"no step was recorded: call step() after each step, more than {wait + warmup} times"
            f" (wait={wait}, warmup={warmup})"
        )
