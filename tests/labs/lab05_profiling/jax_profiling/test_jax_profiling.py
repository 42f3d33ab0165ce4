"""Checks of `lab05`, JAX: stand-ins for arrays on a clock that moves when something happens, stages of
known length (probes/lazy_arrays.py), and traces that are recorded, generated or drawn.
"""

from __future__ import annotations

import itertools
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from grading.checks import assertions, task
from grading.checks.assertions import require
from grading.checks.fixtures import recordings
from profiling_lab import captures
from profiling_lab.errors import CaptureError, EmptyCapture

FILE = "jax_trace.json"
PROBE = Path(__file__).with_name("probes") / "lazy_arrays.py"
US = 1_000


def near_reading(got: Any, want: float, rel: float = 1e-6) -> bool:
    """As assertions.near, but differences of clock readings lose digits."""
    return assertions.near(got, want, rel)


# -- benchmark_jax --------------------------------------------------------------------------------


def seconds_by_hand(
    iterations: int, launch_ns: int, work_ns: int, side_ns: int, wait_each: bool = False
) -> float:
    """The time per call on two queues that work while the host issues the next call."""
    now = main = side = 0
    for _ in range(iterations):
        now += launch_ns
        main = max(main, now) + work_ns
        side = max(side, now) + side_ns
        if wait_each:
            now = max(now, main, side)
    return max(now, main, side) / iterations / 1e9


DEVICE_BOUND, HOST_BOUND = (30 * US, 60 * US, 100 * US), (100 * US, 30 * US, 20 * US)


@task("lab05_jax.benchmark_jax")
@pytest.mark.parametrize("times", [DEVICE_BOUND, HOST_BOUND], ids=["device", "host"])
@pytest.mark.parametrize("counts", [[1, 1], [2, 10], [5, 7], []], ids=str)
def test_lazy_results(stub: Any, times: tuple[int, int, int], counts: list[int]) -> None:
    got = stub.probe(PROBE, "benchmark", counts, *times, 7 * 10**9)
    warmup, iterations = counts or (3, 10)
    launch, work, side = times
    call = (
        f"benchmark_jax(fn, args{''.join(f', {n}' for n in counts)}) of calls that take {launch / US:g} µs to "
        f"issue and are ready {work / US:g} µs (one result) and {side / US:g} µs (another) later"
    )
    require(
        got["calls"] == warmup + iterations,
        f"{call}: fn was called {got['calls']} times, expected {warmup} + {iterations}",
    )
    want = seconds_by_hand(iterations, *times)
    why = "The clock runs from the end of all warm-up work until every array of the result is ready"
    mistakes = [
        (launch / 1e9, "That is the time to issue a call: nobody waited for the results"),
        (
            seconds_by_hand(iterations, launch, work, 0),
            "That is when the first array was ready; the result is a pytree with slower ones",
        ),
        (
            seconds_by_hand(iterations, *times, wait_each=True),
            "That is the time until one answer is there: each call was waited for before the next",
        ),
    ]
    for value, sentence in mistakes:
        if near_reading(got["seconds"], value):
            why = sentence
            break
    require(
        near_reading(got["seconds"], want),
        f"{call} returned {got['seconds']!r} s, expected {want:.6g} s. {why}",
    )


@task("lab05_jax.benchmark_jax")
def test_a_real_function(stub: Any) -> None:
    got = stub.probe(PROBE, "real")
    require(
        isinstance(got["seconds"], float) and got["seconds"] > 0 and got["traces"] == 1,
        f"benchmark_jax of a small compiled function returned {got['seconds']!r} s and traced it "
        f"{got['traces']} times; expected a float above 0 and one trace",
    )


BAD_COUNTS = [(0, 3), (2, 0), (2, -1), (1.0, 3), (2, True)]


@task("lab05_jax.benchmark_jax")
def test_what_cannot_be_timed(stub: Any) -> None:
    got = stub.probe(PROBE, "refused", "benchmark_jax", "a number", 1, 1)
    require(
        got == "TypeError after 0 calls",
        f"benchmark_jax(7, …): {got}, expected TypeError: a number cannot be called",
    )
    for warmup, iterations in BAD_COUNTS:
        got = stub.probe(PROBE, "refused", "benchmark_jax", "a function", warmup, iterations)
        require(
            got == "ValueError after 0 calls",
            f"benchmark_jax(fn, args, {warmup!r}, {iterations!r}): {got}, expected ValueError before "
            "any call",
        )


# -- compile_and_run_time -------------------------------------------------------------------------


@task("lab05_jax.compile_and_run_time")
@pytest.mark.parametrize("given", [[1], [4], []], ids=str)
@pytest.mark.parametrize("seen", [False, True], ids=["new", "seen before"])
def test_stages_of_known_length(stub: Any, seen: bool, given: list[int], seed: int) -> None:
    pick = random.Random(seed)
    trace_ns, compile_ns, run_ns = (pick.randint(10**6, 10**9) for _ in range(3))
    iterations = given[0] if given else 10
    got = stub.probe(PROBE, "stages", trace_ns, compile_ns, run_ns, given, seen)
    want = {"lower_s": trace_ns / 1e9, "compile_s": compile_ns / 1e9, "run_s": run_ns / 1e9}
    before = " that JAX had traced before" if seen else ""
    call = f"compile_and_run_time(fn, args{''.join(f', {n}' for n in given)}) of a function{before}"
    require(
        got["traced"] == 1,
        f"{call}: it was traced {got['traced']} times, expected once, in the first stage"
        + (": what JAX still had of it shortened the stage" if not got["traced"] else ""),
    )
    found = got["returned"]
    require(
        isinstance(found, dict) and found.keys() == want.keys(),
        f"{call} returned {found!r}, expected a dict of {', '.join(want)}",
    )
    for key, value in want.items():
        require(
            near_reading(found[key], value),
            f"{call}: {key} is {found[key]!r}, expected {value:.9g} s; here tracing takes "
            f"{want['lower_s']:.9g} s, compiling {want['compile_s']:.9g} s and a run "
            f"{want['run_s']:.9g} s",
        )
    require(
        got["run"] == iterations + 1,
        f"{call}: it ran {got['run']} times, expected one call to warm up and {iterations} more",
    )


@task("lab05_jax.compile_and_run_time")
def test_nothing_to_compile(stub: Any) -> None:
    for what, iterations, kind in (
        ("a number", 3, "TypeError"),
        ("a function", 0, "ValueError"),
        ("a function", 2.0, "ValueError"),
        ("a function", True, "ValueError"),
    ):
        got = stub.probe(PROBE, "refused", "compile_and_run_time", what, None, iterations)
        require(
            got == f"{kind} after 0 calls",
            f"compile_and_run_time of {what} with iterations={iterations!r}: {got}, expected {kind} "
            "before anything is traced",
        )


# -- retraced_calls -------------------------------------------------------------------------------

F4, F5, B4 = ["float32", 4], ["float32", 5], ["bfloat16", 4]
SERIES: list[tuple[str, list[list[Any]], list[int]]] = [
    ("one shape", [[F4], [F4], [F4]], [0]),
    ("shapes that come back", [[F4], [F5], [F4], [["float32", 6]], [F5]], [0, 1, 3]),
    ("another type", [[F4], [B4], [F4], [B4]], [0, 1]),
    ("numbers of Python", [[F4, 3], [F4, 4], [F4, 1.5], [F4, 2.5]], [0, 2]),
    ("a dict", [[{"a": F4}], [{"a": F5}], [{"a": F4, "b": 1}], [{"a": F4}]], [0, 1, 2]),
    ("the same arrays under other names", [[{"a": F4}], [{"b": F4}], [F4], [{"a": F4}]], [0, 1, 2]),
    ("as many elements", [[["float32", 2, 3]], [["float32", 3, 2]], [["float32", 6]]], [0, 1, 2]),
    ("no call", [], []),
]


@task("lab05_jax.retraced_calls")
@pytest.mark.parametrize("what, calls, want", SERIES, ids=[one[0] for one in SERIES])
def test_series_of_calls(stub: Any, what: str, calls: list[list[Any]], want: list[int]) -> None:
    got = stub.probe(PROBE, "retraced", calls)
    require(
        got == want,
        f"retraced_calls of a series of calls ({what}) returned {got}, expected {want}. The calls "
        f"were {calls}: a call is traced if structure, shapes and types were not there before, and "
        "the numbers in the arrays do not matter, nor what JAX has seen of fn elsewhere",
    )


# -- choose_shapes --------------------------------------------------------------------------------


def time_of(shapes: tuple[int, ...], lengths: list[int], compile_ns: int, row_ns: int) -> int:
    """Compiling these shapes, and running each call in the smallest one that holds it."""
    rows = sum(min(shape for shape in shapes if shape >= length) for length in lengths)
    return len(shapes) * compile_ns + rows * row_ns


def best_shapes(lengths: list[int], compile_ns: int, row_ns: int) -> list[int]:
    """By trying every set of shapes that holds the longest call."""
    *others, longest = sorted(set(lengths))
    sets = [
        (*chosen, longest)
        for count in range(len(others) + 1)
        for chosen in itertools.combinations(others, count)
    ]
    return list(
        min(sets, key=lambda one: (time_of(one, lengths, compile_ns, row_ns), len(one), one))
    )


def judge_shapes(stub: Any, lengths: list[int], compile_ns: int, row_ns: int, changed: str) -> None:
    want = best_shapes(lengths, compile_ns, row_ns)
    got = stub.choose_shapes(list(lengths), compile_ns, row_ns)
    calls = ", ".join(f"{count} of {rows} rows" for rows, count in sorted(Counter(lengths).items()))
    call = f"choose_shapes, calls {calls}, {compile_ns} ns to compile, {row_ns} ns a row{changed}:"
    require(
        isinstance(got, list) and all(type(shape) is int for shape in got),
        f"{call} returned {got!r}, expected a list of integers",
    )
    require(
        bool(got) and max(got) >= max(lengths),
        f"{call} returned {got!r}: no shape holds the call of {max(lengths)} rows",
    )
    cost = time_of(tuple(got), lengths, compile_ns, row_ns)
    least = time_of(tuple(want), lengths, compile_ns, row_ns)
    require(
        got == sorted(set(got)),
        f"{call} returned {got!r}, expected each shape once, the smallest first",
    )
    # Any choice that takes the least time with the fewest shapes is right.
    require(
        cost == least and len(got) == len(want),
        f"{call} returned {got!r}: {len(got)} shapes, {cost} ns in all. For example {want!r} takes "
        f"{len(want)} shapes and {least} ns in all"
        + (". Of choices that take equally long, the one with fewer shapes" * (cost == least)),
    )


@task("lab05_jax.choose_shapes")
def test_shapes_by_hand(stub: Any) -> None:
    judge_shapes(stub, [10, 10, 100], 500, 10, "")
    judge_shapes(stub, [10, 10, 100], 1900, 10, ": a compilation costs more than it saves")
    judge_shapes(stub, [7], 100, 1, "")
    judge_shapes(stub, [10] * 20 + [100], 10_000, 10, ": twenty calls are short")
    judge_shapes(stub, [20, 50, 70, 100], 500, 10, ": taking away one shape at a time misses it")
    judge_shapes(stub, [20, 50, 60, 80], 300, 10, ": adding one shape at a time misses it")
    judge_shapes(
        stub, [10, 20], 100, 10, ": the fewest shapes decide if two choices take equally long"
    )
    got = stub.choose_shapes([], 100, 1)
    require(got == [], f"choose_shapes([], 100, 1) returned {got!r}, expected [] for no calls")


@task("lab05_jax.choose_shapes")
@pytest.mark.parametrize("number", range(6))
def test_shapes_of_drawn_calls(stub: Any, number: int, seed: int) -> None:
    pick = random.Random(f"{seed} {number}")
    longest = pick.choice([12, 100, 4096])
    kinds = sorted({pick.randint(1, longest) for _ in range(9)})
    lengths = [pick.choice(kinds) for _ in range(pick.randint(15, 40))]
    row_ns = pick.randint(2, 50)
    compile_ns = int(longest * row_ns * pick.uniform(0.3, 3))
    judge_shapes(stub, lengths, compile_ns, row_ns, "")
    judge_shapes(stub, lengths, 0, row_ns, ": compiling costs nothing here")
    judge_shapes(stub, lengths, compile_ns, 0, ": a row costs nothing here")
    pick.shuffle(lengths)
    judge_shapes(stub, lengths, 3 * compile_ns, 3 * row_ns, ": other order, all three times slower")
    judge_shapes(stub, lengths * 10, compile_ns, row_ns, ": ten times as many calls")


# -- device_memory --------------------------------------------------------------------------------

BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}


@task("lab05_jax.device_memory")
def test_memory_of_arrays_that_do_not_exist(stub: Any, seed: int) -> None:
    pick = random.Random(seed)
    rows, inner, columns = (pick.randint(10, 300) for _ in range(3))
    dtype = pick.choice(list(BYTES))
    size = BYTES[dtype]
    huge = [2**20, 2**19 + pick.randint(1, 9)]
    whole = size * huge[0] * huge[1]
    product_in = size * (rows * inner + inner * columns)
    product_out = size * (rows * columns + 1)
    cases: list[tuple[str, list[list[int]], list[int], int, int, int]] = [
        ("add", [huge, huge], [], 2 * whole, whole, 0),
        ("add", [huge, huge], [1], 2 * whole, whole, whole),
        ("products", [[rows, inner], [inner, columns]], [], product_in, product_out, 0),
    ]
    for which, shapes, donated, given, out, alias in cases:
        got = stub.probe(PROBE, "memory", which, shapes, dtype, donated)
        found, temp = got["returned"], got["temp_bytes"]
        call = f"device_memory of {which!r} on {dtype} arrays of {shapes}, donated {donated},"
        keys = ("argument_bytes", "output_bytes", "temp_bytes", "alias_bytes", "peak_bytes")
        require(
            isinstance(found, dict) and sorted(found) == sorted(keys),
            f"{call} returned {found!r}, expected a dict of {', '.join(keys)}",
        )
        # the compiler may add a few bytes for a table of results
        loose = 64 if which == "products" else 0
        for key, low in (("argument_bytes", given), ("output_bytes", out), ("alias_bytes", alias)):
            require(
                type(found[key]) is int and low <= found[key] <= low + loose,
                f"{call}: {key} is {found[key]!r}, expected {low} bytes",
            )
        require(
            found["temp_bytes"] == temp,
            f"{call}: temp_bytes is {found['temp_bytes']!r}; the compiler states {temp}",
        )
        want = found["argument_bytes"] + found["output_bytes"] + temp - alias
        require(
            found["peak_bytes"] == want,
            f"{call}: peak_bytes is {found['peak_bytes']!r}, expected {want}: arguments, results and "
            f"temporaries, of which {alias} bytes are the same memory twice",
        )


# -- trace_summary --------------------------------------------------------------------------------


def summary_by_hand(events: list[dict[str, Any]]) -> dict[str, Any]:
    """The summary, in whole ns: busy is summed over the pieces between all starts and ends."""
    process = {
        e["pid"]: e["args"]["name"]
        for e in events
        if e.get("ph") == "M" and e["name"] == "process_name"
    }
    thread = {
        (e["pid"], e["tid"]): e["args"]["name"]
        for e in events
        if e.get("ph") == "M" and e["name"] == "thread_name"
    }
    work, steps = [], []
    for e in events:
        if e.get("ph") != "X":  # the last one is empty
            continue
        first, last = round(e["ts"] * 1000), round((e["ts"] + e["dur"]) * 1000)
        on_device = process.get(e["pid"], "").startswith("/device:")
        if on_device and thread.get((e["pid"], e["tid"]), "").startswith("Stream"):
            work.append([first, last, e["name"]])
        elif not on_device and "step_num" in e.get("args", {}):
            steps.append((first, last))
    begin, end = min(first for first, _ in steps), max(last for _, last in steps)
    work = [[first, min(last, end), name] for first, last, name in work if begin <= first < end]
    edges = sorted({edge for first, last, _ in work for edge in (first, last)})
    busy = 0
    work.sort()
    for low, high in itertools.pairwise(edges):
        busy += (high - low) * any(first <= low and high <= last for first, last, _ in work)
    totals: dict[str, list[int]] = {}
    for first, last, name in work:
        totals.setdefault(name, []).append(last - first)
    kernels = [
        {"name": name, "count": len(times), "total_ns": sum(times)}
        for name, times in totals.items()
    ]
    return {
        "step_count": len(steps),
        "window_ns": end - begin,
        "busy_ns": busy,
        "busy_ratio": busy / (end - begin),
        "launch_count": len(work),
        "kernels": sorted(kernels, key=lambda row: (-row["total_ns"], row["name"])),
    }


WHY = {
    "step_count": "Steps are the events of the host that carry a step_num",
    "window_ns": "From the start of the first step to the end of the last; ts and dur are µs",
    "busy_ns": "The union of the work of all streams, of each device, in the window: what two streams do at the "
    "same time counts once, and threads that repeat the same time under other names not at all",
    "busy_ratio": "Busy time by the window",
    "launch_count": "Work on streams of the device that starts inside the window",
}


def judge_summary(stub: Any, capture: str, events: list[dict[str, Any]]) -> None:
    """trace_summary against the check's own reading."""
    want = summary_by_hand(events)
    got = stub.trace_summary(capture)
    call = f"trace_summary({Path(capture).name})"
    require(
        isinstance(got, dict) and got.keys() == want.keys(),
        f"{call} returned {got!r:.300}, expected a dict of {', '.join(want)}",
    )
    for key, why in WHY.items():
        # times in µs with three digits, subtracted: to a ns or a millionth
        right = near_reading(got[key], want[key]) or (
            key.endswith("_ns") and near_reading(round(got[key]), want[key])
        )
        require(right, f"{call}: {key} is {got[key]!r}, expected {want[key]!r}. {why}")
    kernels = got["kernels"]
    require(
        isinstance(kernels, list) and len(kernels) == len(want["kernels"]),
        f"{call}: there are {len(kernels)} names of kernels, expected {len(want['kernels'])}",
    )
    for place, (found, row) in enumerate(zip(kernels, want["kernels"], strict=True)):
        right = (
            isinstance(found, dict)
            and found.keys() == row.keys()
            and found["count"] == row["count"]
            and abs(found["total_ns"] - row["total_ns"]) <= 1 + 1e-6 * row["total_ns"]
        )
        # two totals that differ by less than rounding may stand in either order
        same = [one for one in want["kernels"] if abs(one["total_ns"] - row["total_ns"]) <= 2]
        require(
            right and found["name"] in [one["name"] for one in same],
            f"{call}: kernels[{place}] is {found!r}, expected {row!r}: the longest total first, then "
            "by name; only the part of an event inside the window counts",
        )


@task("lab05_jax.trace_summary")
@recordings("jax_jit", "jax_eager", holding=FILE)
def test_recorded_traces(stub: Any, recording: str) -> None:
    events = json.loads(captures.text(recording, FILE))["traceEvents"]
    judge_summary(stub, recording, events)


def names(pid: int, process: str, **threads: str) -> list[dict[str, Any]]:
    """The events that name a process and its threads (t7="Stream #7": tid 7)."""
    found = [{"ph": "M", "pid": pid, "name": "process_name", "args": {"name": process}}]
    for tid, name in threads.items():
        found.append(
            {
                "ph": "M",
                "pid": pid,
                "tid": int(tid[1:]),
                "name": "thread_name",
                "args": {"name": name},
            }
        )
    sort = {"ph": "M", "pid": pid, "name": "process_sort_index", "args": {"sort_index": pid}}
    return [*found, sort]


def event(
    pid: int, tid: int, name: str, first_ns: int, spent_ns: int, **args: Any
) -> dict[str, Any]:
    """An event of known times."""
    found = {
        "ph": "X",
        "pid": pid,
        "tid": tid,
        "name": name,
        "ts": first_ns / 1000,
        "dur": spent_ns / 1000,
    }
    return found | ({"args": args} if args else {})


HOST = names(701, "/host:CPU", t1="python", t2="Stream of consciousness")
DEVICE = names(
    1, "/device:GPU:0", t13="Stream #13(Compute)", t14="Stream #14(MemcpyH2D)", t2="XLA Ops",
    t3="XLA Modules",
)  # fmt: skip


def write(folder: Path, events: Any) -> str:
    """A capture's folder that holds this trace."""
    folder.mkdir(exist_ok=True)
    document = events if isinstance(events, str) else json.dumps({"traceEvents": events})
    (folder / FILE).write_text(document, encoding="utf-8")
    return str(folder)


def made_up(seed: int) -> list[dict[str, Any]]:
    """A trace that nobody saw before: streams that overlap, work before and after the steps."""
    pick = random.Random(seed)
    events = [*HOST, *DEVICE]
    now = pick.randint(10**4, 10**6)
    begin = now
    for number in range(pick.randint(3, 6)):
        spent = pick.randint(10**5, 10**6)
        events.append(event(701, 1, "step", now, spent, step_num=str(number)))
        events.append(event(701, 1, "PjitFunction(f)", now + 5, spent // 2))
        now += spent + pick.randint(0, 10**4)
    for stream in (13, 14):
        at = begin - 20_000
        while at < now + 30_000:
            spent = pick.randint(500, 40_000)
            name = f"fusion_{pick.randint(1, 9)}" if stream == 13 else "MemcpyH2D"
            events.append(event(1, stream, name, at, spent, hlo_op=name))
            events.append(event(1, 2, name, at, spent + 100, hlo_op=name))
            at += spent + pick.choice([0, pick.randint(1, 30_000)])
    events.append(event(1, 3, "jit_step(1)", begin, now - begin))
    events.append(event(701, 2, "fusion_1", begin + 10, 10**5))
    pick.shuffle(events)
    return events


@task("lab05_jax.trace_summary")
def test_generated_trace(stub: Any, seed: int, tmp_path: Path) -> None:
    for nth in range(3):
        events = made_up(seed + nth)
        judge_summary(stub, write(tmp_path / f"made_up_{nth}", events), events)


@task("lab05_jax.trace_summary")
def test_drawn_trace(stub: Any, tmp_path: Path) -> None:
    events = [
        *HOST,
        *DEVICE,
        event(701, 1, "train", 1_000, 1_000, step_num="0"),
        event(701, 1, "train", 2_500, 1_500, step_num="1"),
        event(1, 13, "before", 900, 200),  # starts before the window
        event(1, 13, "a", 1_000, 300),
        event(1, 14, "copy", 1_100, 500),  # beside a, and longer
        event(1, 13, "b", 1_200, 100),  # inside the copy
        event(1, 13, "a", 2_100, 100),  # between the steps, inside the window
        event(1, 13, "b", 3_900, 500),  # goes on after the window
        event(1, 13, "after", 4_000, 100),  # starts at its end
        event(1, 2, "a", 1_000, 3_000),
        *names(2, "/device:GPU:1", t13="Stream #13(Compute)"),
        event(2, 13, "c", 3_000, 150),  # work of another device
        event(
            1, 3, "1", 500, 4_500, step_num="1"
        ),  # a line beside the streams: no step of the host
    ]
    judge_summary(stub, write(tmp_path / "drawn", events), events)


@task("lab05_jax.trace_summary")
def test_equal_totals(stub: Any, tmp_path: Path) -> None:
    # half and whole µs, so that sums have no rounding
    events = [
        *HOST,
        *DEVICE,
        event(701, 1, "train", 1_000, 9_000, step_num="0"),
        event(1, 13, "zip", 1_000, 1_000),
        event(1, 13, "add", 2_000, 500),
        event(1, 13, "add", 3_000, 500),
        event(1, 13, "mul", 4_000, 4_000),
    ]
    got = stub.trace_summary(write(tmp_path / "equal", events))
    names = [kernel["name"] for kernel in got["kernels"]]
    require(
        names == ["mul", "add", "zip"],
        f"trace_summary: the kernels are in the order {names}, expected mul (4 µs), then add (twice "
        "0.5 µs) and zip (1 µs): of the same total, so by name",
    )


@task("lab05_jax.trace_summary")
def test_traces_of_nothing(stub: Any, tmp_path: Path) -> None:
    step = event(701, 1, "step", 1_000, 1_000, step_num="0")
    kernel = event(1, 13, "a", 1_100, 100)
    for why, events in (
        ("no step", [*HOST, *DEVICE, kernel]),
        ("no work of a device", [*HOST, *DEVICE, step]),
        ("no work inside the steps", [*HOST, *DEVICE, step, event(1, 13, "a", 2_000, 10)]),
        ("no device at all", [*HOST, step]),
    ):
        with stub.raises(EmptyCapture, why=f"the trace holds {why}"):
            stub.trace_summary(write(tmp_path / "nothing", events))
    for broken in ("{", "[]", '{"other": 1}', '{"traceEvents": 3}', '{"traceEvents": [3]}'):
        with stub.raises(CaptureError, why=f"{broken} is no trace"):
            stub.trace_summary(write(tmp_path / "nothing", broken))
