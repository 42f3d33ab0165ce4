"""A clock that only moves when something happens, for the learner's JAX functions.

Stand-ins for arrays become ready at a known time, and waiting for one moves the clock there.
"""

from __future__ import annotations

import contextlib
import threading
import time
import timeit
from collections.abc import Iterator
from types import ModuleType
from typing import Any
from unittest import mock

CLOCKS = ("perf_counter", "monotonic", "time", "process_time")
START_NS = 10**12


class Clock:
    """The time in ns, and what the `time` module says of it while `installed`."""

    def __init__(self) -> None:
        self.now_ns = START_NS
        self.host_ns = 0  # what the process itself worked: waiting is none of it
        self._lock = threading.Lock()  # a callback of JAX comes from another thread

    def pass_ns(self, spent_ns: int) -> None:
        with self._lock:
            self.now_ns += spent_ns
            self.host_ns += spent_ns

    def wait_until(self, moment_ns: int) -> None:
        with self._lock:
            self.now_ns = max(self.now_ns, moment_ns)

    @contextlib.contextmanager
    def installed(self, module: ModuleType) -> Iterator[None]:
        """Put this clock in the place of the others, also where the module imported one by name."""

        def seconds() -> float:
            return self.now_ns / 1e9

        def nanoseconds() -> int:
            return self.now_ns

        replaced = dict.fromkeys(CLOCKS, seconds)
        replaced |= {f"{name}_ns": nanoseconds for name in CLOCKS}
        replaced["process_time"] = lambda: self.host_ns / 1e9
        replaced["process_time_ns"] = lambda: self.host_ns
        real = {getattr(time, name): name for name in replaced}
        with contextlib.ExitStack() as stack:
            for held, value in list(vars(module).items()):
                if callable(value) and type(value).__hash__ and value in real:
                    stack.enter_context(mock.patch.object(module, held, replaced[real[value]]))
            for name, function in replaced.items():
                stack.enter_context(mock.patch.object(time, name, function))
            stack.enter_context(mock.patch.object(timeit, "default_timer", seconds))
            yield


class Lazy:
    """What a call returns in the place of an array."""

    def __init__(self, clock: Clock, ready_ns: int) -> None:
        self._clock, self._ready_ns = clock, ready_ns

    def block_until_ready(self) -> Lazy:
        self._clock.wait_until(self._ready_ns)
        return self


def benchmark(
    module: ModuleType,
    counts: list[int],
    launch_ns: int,
    work_ns: int,
    side_ns: int,
    compile_ns: int,
) -> dict[str, Any]:
    """benchmark_jax of a call with results on two queues, one of which is slower.

    counts: warmup and iterations, or nothing, which leaves them to the defaults.
    Returns the seconds that it returned, and the number of calls.
    """
    clock = Clock()
    ready = {"main": 0, "side": 0}
    calls = 0

    def queued(name: str, spent_ns: int) -> Lazy:
        ready[name] = max(ready[name], clock.now_ns) + spent_ns
        return Lazy(clock, ready[name])

    def fn(first: int, second: int) -> Any:
        nonlocal calls
        assert (first, second) == (3, 4), "fn got other arguments than it was to get"
        clock.pass_ns(launch_ns if calls else launch_ns + compile_ns)
        calls += 1
        main = queued("main", work_ns)
        return {"first": main, "more": (queued("side", side_ns), [main, 1.5]), "none": None}

    with clock.installed(module):
        seconds = module.benchmark_jax(fn, (3, 4), *counts)
    return {"seconds": seconds, "calls": calls}


def real(module: ModuleType) -> dict[str, Any]:
    """benchmark_jax of a real function, and how often it was traced."""
    import jax

    traces = 0

    def fn(x: Any) -> Any:
        nonlocal traces
        traces += 1
        return {"double": x * 2, "parts": [x + 1, x.sum()]}

    seconds = module.benchmark_jax(jax.jit(fn), (jax.numpy.ones(8),), 2, 3)
    return {"seconds": seconds, "traces": traces}


def refused(module: ModuleType, name: str, what: str, warmup: Any, iterations: Any) -> str:
    """The name of the exception that benchmark_jax or compile_and_run_time raises; and calls made."""
    calls = 0

    def fn(x: Any) -> Any:
        nonlocal calls
        calls += 1
        return x

    given = {"a function": fn, "a number": 7}[what]
    more = (warmup, iterations) if name == "benchmark_jax" else (iterations,)
    try:
        getattr(module, name)(given, (1.0,), *more)
    except Exception as error:  # noqa: BLE001 - whatever the learner's code raises
        return f"{type(error).__name__} after {calls} calls"
    return f"no exception after {calls} calls"


def stages(
    module: ModuleType,
    trace_ns: int,
    compile_ns: int,
    run_ns: int,
    iterations: list[int],
    seen: bool,
) -> dict[str, Any]:
    """compile_and_run_time of a function each stage of which takes a known time.

    iterations: their number, or nothing, which leaves it to the default. seen: JAX has traced the function before. Returns what it returned, and how often the function was
    traced and run while it was watched.
    """
    import jax
    import numpy as np

    clock = Clock()
    counts = {"traced": 0, "run": 0}

    def work() -> Any:
        clock.pass_ns(run_ns)
        counts["run"] += 1
        return np.float32(1)

    def fn(x: Any) -> Any:
        clock.pass_ns(trace_ns)
        counts["traced"] += 1
        return {"sum": x + jax.pure_callback(work, jax.ShapeDtypeStruct((), np.float32))}

    compile_now = jax.stages.Lowered.compile

    def slow_compile(self: Any, *args: Any, **options: Any) -> Any:
        clock.pass_ns(compile_ns)
        return compile_now(self, *args, **options)

    x = jax.block_until_ready(jax.numpy.ones(4))
    if seen:
        jax.block_until_ready(jax.jit(fn)(x))
        counts.update(traced=0, run=0)
    with mock.patch.object(jax.stages.Lowered, "compile", slow_compile), clock.installed(module):
        returned = module.compile_and_run_time(fn, (x,), *iterations)
    return {"returned": returned, **counts}


def _argument(spec: Any) -> Any:
    """A list is the shape of an array behind its type, a dict holds further arguments."""
    import jax

    if isinstance(spec, dict):
        return {key: _argument(value) for key, value in spec.items()}
    if isinstance(spec, list):
        name, *shape = spec
        return jax.numpy.ones(shape, name)
    return spec


def retraced(module: ModuleType, calls: list[list[Any]]) -> Any:
    """retraced_calls of a function that sums all that it is given, and that JAX has seen before."""
    import jax

    def fn(*args: Any) -> Any:
        return sum(jax.numpy.sum(leaf) for leaf in jax.tree.leaves(args))

    given = [tuple(map(_argument, call)) for call in calls]
    for call in given:
        jax.jit(fn)(*call)
    return module.retraced_calls(fn, given)


def memory(
    module: ModuleType, which: str, shapes: list[list[int]], dtype: str, donated: list[int]
) -> dict[str, Any]:
    """device_memory for arrays that do not exist, beside the temporaries that XLA states itself."""
    import jax
    import jax.numpy as jnp

    def add(a: Any, b: Any) -> Any:
        return a + b

    def products(a: Any, b: Any) -> Any:
        return {"both": jnp.sin(a) @ jnp.cos(b), "mean": jnp.mean(a)}

    fn = {"add": add, "products": products}[which]
    args = [jax.ShapeDtypeStruct(tuple(shape), dtype) for shape in shapes]
    said = jax.jit(fn).lower(*args).compile().memory_analysis()
    assert said is not None
    returned = module.device_memory(fn, args, donated)
    return {"returned": returned, "temp_bytes": int(said.temp_size_in_bytes)}
