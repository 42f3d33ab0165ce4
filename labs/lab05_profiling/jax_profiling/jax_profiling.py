"""Lab 05, JAX: time, compilation, a trace, and memory.

A JAX function returns before its work is done, compiles when it gets a new shape, and returns arrays in
lists, tuples and dicts. For these three reasons a simple stopwatch around it is wrong. The lesson
is `README.md` in this folder, hints are in `hints.md`, and

    uv run lab check lab05_jax

says which tasks are right and what is wrong in the others. A *pytree* is a list, tuple or dict of pytrees, or a leaf:
an array, or something else such as a number (source: https://docs.jax.dev/en/latest/pytrees.html).
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from profiling_lab import captures
from profiling_lab.errors import CaptureError, EmptyCapture


def benchmark_jax(
    fn: Callable[..., Any], args: Sequence[Any], warmup: int = 3, iterations: int = 10
) -> float:
    """Seconds per call of fn(*args), with calls issued one after the other.

    fn returns a pytree. The device may still be computing its arrays then; numbers and None need no
    wait. Call fn `warmup` times, which includes compilation, then `iterations` times. Start the clock
    (`time.perf_counter`) when all work of the warm-up is done. Stop it when every array of the last result
    is ready. Do not wait in between: this is the time per call of a program that keeps issuing calls, not
    the time until one result is ready. (Work on one device runs in the order in which it was issued;
    source: https://docs.jax.dev/en/latest/async_dispatch.html)

    Raises TypeError if fn cannot be called. Raises ValueError, before any call, if warmup or iterations
    is not an `int` (a bool does not count) of at least 1: the first call compiles.

    Example: a call is issued in 1 ms and runs for 5 ms. Ten in a row take about 51 ms: 5.1e-3.
    """
    raise NotImplementedError


def compile_and_run_time(
    fn: Callable[..., Any], args: Sequence[Any], iterations: int = 10
) -> dict[str, float]:
    """How long the stages of a function's first call under `jax.jit` take.

    fn: a function without `jax.jit`. Take it through the stages of ahead-of-time compilation one by
    one, as if JAX had never seen it: an earlier trace of it must not shorten this one.
    (Source: https://docs.jax.dev/en/latest/aot.html)

    Returns {"lower_s", "compile_s", "run_s"}: tracing and lowering; compiling the result; and seconds
    per call of the compiled function, as `benchmark_jax` measures them with one call to warm up. fn is
    traced only once.

    Raises what `benchmark_jax` raises for fn and iterations, before anything is traced.

    Example: traced in 20 ms, compiled in 300 ms, 2 ms per call: {"lower_s": 0.02, "compile_s": 0.3, "run_s":
    0.002}.
    """
    raise NotImplementedError


def retraced_calls(fn: Callable[..., Any], calls: Sequence[Sequence[Any]]) -> list[int]:
    """Which calls of a function under one `jax.jit` make JAX trace (and compile) it.

    fn: a function without `jax.jit`. calls: the arguments of each call, in order. A call traces if no
    earlier call in this list had arguments of the same structure, shapes and types. Calls of fn
    before these do not matter.

    Returns the indexes into calls, in ascending order: [0] if only the first one traces.

    Example: arrays of shapes (4, 8), (4, 8), (2, 8), (4, 8), all float32: [0, 2].
    """
    raise NotImplementedError


def choose_shapes(lengths: Sequence[int], compile_ns: int, row_ns: int) -> list[int]:
    """The shapes to compile for calls of many lengths, so that compiling and all calls take the least time.

    lengths: the rows of each call. A call is padded to the smallest compiled shape that holds it, and
    it takes `row_ns` for each row of that shape. Each shape costs `compile_ns` once.

    Returns the shapes in rows, in ascending order: those with the least total time of compiling and
    running. If two choices take equally long, choose the one with fewer shapes. Returns [] if there are
    no calls.

    Example: lengths [10, 10, 100], 500 ns to compile, 10 ns per row. [10, 100] takes 1000 + 1200 ns;
    [100] takes 500 + 3000 ns. So [10, 100].
    """
    raise NotImplementedError


def device_memory(
    fn: Callable[..., Any], args: Sequence[Any], donated: Sequence[int] = ()
) -> dict[str, int]:
    """The device memory that fn(*args) needs under `jax.jit`, as the compiler reports it. Nothing runs.

    args: arrays, or `jax.ShapeDtypeStruct`s of arrays that need not exist. donated: positions of
    arguments whose memory the call may reuse for its results (`donate_argnums`).

    Returns {"argument_bytes", "output_bytes", "temp_bytes", "alias_bytes", "peak_bytes"}. The first four
    are as in `compiled.memory_analysis()`, where a result that reuses an argument's memory counts as
    argument, as output and as alias. From them compute the last: the bytes of memory that arguments,
    results and temporaries take together, with no byte counted twice.

    Example: a + b of 4 MB each, a donated: 8 MB of arguments, 4 of output, 4 of alias: peak_bytes 8 MB.
    """
    raise NotImplementedError


def trace_summary(capture: str) -> dict[str, Any]:
    """What the device did in the steps of a trace of JAX's profiler.

    capture: a name or path. Its `jax_trace.json` is in the format of Perfetto, with events under
    "traceEvents". Events with "ph": "M" and the name "process_name" or "thread_name" name a "pid", or a
    "pid" and "tid", in their "args". Events with "ph": "X" happened: they start at "ts" and last for "dur",
    both in µs. Ignore all other events (the last one may be empty).

    A *step* is an event with "step_num" in its "args" on a thread of the host. The window is from the
    first step's start to the last one's end. Work of the device is the events on threads whose name begins
    with "Stream", in a process whose name begins with "/device:". Other threads of that process, for
    example for modules or steps, show no work of their own. Only work that starts in the window counts,
    and only its part inside the window.

    Returns {"step_count", "window_ns", "busy_ns", "busy_ratio", "launch_count", "kernels"}. busy is
    the union of the work of all streams. launch_count is the number of events of that work. kernels is a
    list of {"name", "count", "total_ns"} of the work by name, the longest total first, then by name.

    Raises CaptureError if the file cannot be read as such a trace, EmptyCapture if there is no step or
    no work of a device in the steps.
    """
    raise NotImplementedError
