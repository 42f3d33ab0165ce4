"""Checks of `ex_30`: what each function says about recorded, generated and drawn captures.

Expected values come from `grading.checks.oracles` (plain SQL and Python on the same file), from the
truth of a simulated program, from NVIDIA's own reports beside a recording, or from drawings whose
answer fits on a slip of paper. A wrong answer is compared with what typical mistakes give, so that
the message can say which evidence it contradicts.
"""

from __future__ import annotations

import csv
import gzip
import json
import random
import re
import shlex
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from grading.checks import oracles, task
from grading.checks.assertions import agree, call_words, show
from grading.checks.fixtures import generated_capture, recordings
from grading.checks.fixtures import repeat_hint as hint_of_seed
from grading.checks.generate import bottleneck_worlds
from grading.checks.worlds import judge_families
from grading.runner.computed_once import kept
from profiling_lab import captures, schedules
from profiling_lab.captures import dependencies
from profiling_lab.captures.dependencies import Dependency, Operation
from profiling_lab.errors import CaptureError
from profiling_lab.findings import CATEGORIES, Finding, problems

Window = tuple[int, int]
# (what a typical mistake gives, the sentence to say then); worked out only when something is wrong
Variants = Iterable[tuple[Any, str]]
Mistakes = Callable[[], Variants]

# -- what a capture holds, for windows and for typical mistakes -----------------------------------


def query(capture: str, sql: str) -> list[tuple[Any, ...]]:
    """The rows of a query; none if a table is not in the file."""
    return oracles.query(captures.path(capture), sql)


def device_rows(capture: str) -> list[dict[str, Any]]:
    """Kernels, graphs, copies and memsets: kind, start, end, device, stream, process, node."""
    rows = []
    columns = [row[1] for row in query(capture, f"PRAGMA table_info({oracles.KERNEL})")]
    for kind, table in (
        ("kernel", oracles.KERNEL),
        ("graph", oracles.GRAPH),
        ("copy", oracles.MEMCPY),
        ("memset", oracles.MEMSET),
    ):
        node = "graphNodeId" if kind == "kernel" and "graphNodeId" in columns else "NULL"
        names = ("start", "end", "device", "stream", "process", "node")
        found = query(
            capture, f'SELECT start, "end", deviceId, streamId, globalPid, {node} FROM {table}'
        )
        rows += [{"kind": kind, **dict(zip(names, row, strict=True))} for row in found]
    return rows


def union(rows: Iterable[dict[str, Any]], window: Window) -> int:
    """Time in the window with at least one of the rows."""
    return sum(b - a for a, b in oracles._merged([(r["start"], r["end"]) for r in rows], window))


def range_names(capture: str) -> list[str]:
    """The names of the NVTX ranges, sorted."""
    rows = query(
        capture,
        """SELECT DISTINCT COALESCE(n.text, s.value) FROM NVTX_EVENTS AS n
           LEFT JOIN StringIds AS s ON s.id = n.textId WHERE n.eventType IN (59, 60)""",
    )
    return sorted(name for (name,) in rows if name)


def some_range(capture: str, seed: int) -> str | None:
    """A range that a device worked in and that is not the whole capture; None if there is none."""
    names = range_names(capture)
    random.Random(seed).shuffle(names)
    for name in names:
        low, high = oracles.nvtx_window(captures.path(capture), name)
        span = oracles.span(captures.path(capture))
        if (low > span[0] or high < span[1]) and low < span[1] and high > span[0]:
            return name
    return None


def window_of(capture: str, nvtx_range: str | None) -> Window:
    """The window as the docstrings define it."""
    path = captures.path(capture)
    return oracles.span(path) if nvtx_range is None else oracles.nvtx_window(path, nvtx_range)


def few_devices(draw: Callable[[], Any]) -> str:
    """Devices 1, 3 and 10 of a larger machine, and two processes; judged in the range "window"."""
    timeline = draw()
    timeline.nvtx("window", 10_000, 20_000)
    timeline.kernel(5_000, 30_000, device=1)  # longer than the window
    timeline.copy(11_000, 14_000, device=3, pinned=False)
    timeline.copy(13_000, 17_000, "D2H", device=3, process=2)
    timeline.kernel(16_000, 18_000, device=3, process=2, graph_node=5)
    timeline.memset(12_000, 13_000, device=10)  # no copy, no compute
    return timeline.save()


# -- words ----------------------------------------------------------------------------------------

_kept: dict[str, Path] = {}  # "made" captures lie below it, the failing one is copied to "last"


@pytest.fixture(autouse=True)
def keep_failing_capture(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Where repeat_hint keeps the capture, if the learner's own tree is judged."""
    _kept.clear()
    if request.config.getoption("--against") is None and not request.config.getoption(
        "--overlay", None
    ):
        name = re.sub(r"\W+", "_", request.node.name.removeprefix("test_")).strip("_")
        last = request.config.rootpath / ".lab" / "last" / f"{name}.sqlite"
        _kept.update(made=tmp_path_factory.getbasetemp(), root=request.config.rootpath, last=last)


def repeat_hint(capture: str) -> str:
    """How to repeat a check on this capture, and where a made one was kept; called at failure."""
    hint = hint_of_seed(capture)
    if _kept and Path(capture).is_relative_to(_kept["made"]):
        _kept["last"].parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(capture, _kept["last"])
        shown = _kept["last"].relative_to(_kept["root"]).as_posix()
        hint += f'\nopen it: captures.open("{shown}")'
    return hint


def judge(
    call: str, capture: str, got: Any, want: Any, unit: str, mistakes: Mistakes, why: str
) -> None:
    """Fail unless got is want, with the sentence of the mistake that gives the same value."""
    if agree(got, want):
        return
    both = isinstance(want, dict) and isinstance(got, dict)
    idle = [key for key in want if key not in got] if both and got.keys() < want.keys() else []
    for value, sentence in mistakes():
        if idle and not any(want[key] for key in idle):
            why = (
                f"{'devices' if len(idle) > 1 else 'device'} {', '.join(map(str, idle))} "
                f"{'are' if len(idle) > 1 else 'is'} missing: every device of the capture is in the "
                "result, with 0 if it did nothing in the window."
            )
            break
        if agree(got, value):
            why = sentence
            break
    else:
        if isinstance(want, dict) and isinstance(got, dict) and got.keys() != want.keys():
            missing = [key for key in want if key not in got]
            extra = [key for key in got if key not in want]
            parts = [f"{show(missing)} missing"] if missing else []
            parts += [f"{show(extra)} should not be there"] if extra else []
            why = f"Keys: {', '.join(parts)}. {why}"
        elif type(got) is not type(want):
            why = f"It is a {type(got).__name__}, and must be a {type(want).__name__}. {why}"
        elif both and all(type(value) in (int, float) for value in got.values()):
            if got == want:
                kinds = {type(value).__name__ for value in want.values()}
                why = (
                    f"The numbers are right, and each must be of type {' or '.join(sorted(kinds))}."
                )
            elif unit == "ns" and all(abs(want[key] - got[key] * 1000) < 1000 for key in want):
                why = "Those are microseconds."
    pytest.fail(
        f"{call} says {show(got)}; expected {show(want)}{unit and ', in '}{unit}. {why}"
        f"{repeat_hint(capture)}",
        pytrace=False,
    )


def judge_list(
    call: str, capture: str, got: Any, want: list[Any], mistakes: Mistakes, why: str
) -> None:
    """Like judge for long lists: shows the first place that differs."""
    if agree(got, want):
        return
    sentence = next((s for value, s in mistakes() if agree(got, value)), why)
    if type(got) is not list:
        what = f"returned a {type(got).__name__}, {show(got)}; expected a list"
    elif len(got) != len(want):
        extra = next((item for item in got if item not in want), None)
        missing = next((item for item in want if item not in got), None)
        what = f"returned {len(got)} entries; expected {len(want)}."
        what += f" {show(extra)} should not be there." if extra is not None else ""
        what += f" {show(missing)} is missing." if missing is not None else ""
    else:
        place = next(i for i, pair in enumerate(zip(got, want, strict=True)) if not agree(*pair))
        what = f"says at place {place}: {show(got[place])}; expected {show(want[place])}"
    pytest.fail(f"{call} {what} (ns). {sentence}{repeat_hint(capture)}", pytrace=False)


# == nsys_command =================================================================================

QUESTIONS = (
    "timeline",
    "steady_state",
    "graph_kernels",
    "sm_activity",
)
# What `--trace` has to name for a question: "timeline" alone speaks of NVTX ranges, and "steady_state" asks
# the same. Samples of hardware metrics come without any source.
SOURCES = {
    "timeline": {"cuda", "nvtx"},
    "steady_state": {"cuda", "nvtx"},
    "graph_kernels": {"cuda"},
    "sm_activity": set(),
}
# option → values that answer the question
NEEDED = {
    "steady_state": {
        "capture-range": ("cudaProfilerApi",),
        "capture-range-end": ("stop", "repeat:1"),
    },
    "graph_kernels": {"cuda-graph-trace": ("node", "node:host-only")},
    "sm_activity": {"gpu-metrics-devices": ("all",)},
}
# What a question makes reasonable without demanding it.
ALLOWED = {
    "sm_activity": {"gpu-metrics-frequency", "gpu-metrics-set"},
}
WHY_NEEDED = {
    "capture-range": "without it recording starts with the program, warm-up included",
    "capture-range-end": "the default, stop-shutdown, ends the program where recording ends",
    "cuda-graph-trace": "a graph is otherwise recorded as a whole, without its kernels",
    "gpu-metrics-devices": "hardware metrics are sampled on no device unless one is named",
}
WHY_RANGE_END = {
    "none": "it ignores the end of the range, so recording goes on",
    "repeat": "it records later ranges as well",
    "repeat-shutdown": "it ends the program where recording ends",
    "stop-shutdown": "it ends the program where recording ends",
}


def why_not(name: str, value: str) -> str:
    """Why this value of an option does not answer the question."""
    if name == "capture-range-end":
        return WHY_RANGE_END.get(value.partition(":")[0], WHY_NEEDED[name])
    if (name, value) == ("capture-range", "nvtx"):
        return "it waits for an NVTX range; this program calls the profiler's start and stop"
    if name == "gpu-metrics-devices" and value != "none":
        return f"{value} leaves devices out, and the question is about every one"
    return WHY_NEEDED[name]


PROGRAM = ["python3", "train.py", "--trace=all", "--output=here", "--batch", "64 x 2"]


def tool_options() -> dict[str, dict[str, Any]]:
    """Options of `nsys profile` from its own help: long name → allowed values and default.

    values is None where the help lists none.
    """
    file = captures.folder() / "tool_help" / "nsys_profile.txt"
    options: dict[str, dict[str, Any]] = {}
    text = file.read_text(encoding="utf-8").expandtabs(8)
    heads = re.compile(r"^ {8}(?:\(\w+\) )?(?:-\w, )?--([\w-]+)[^\n]*$", re.MULTILINE)
    found = list(heads.finditer(text))
    for head, following in zip(found, [*found[1:], None], strict=True):
        body = text[head.end() : following.start() if following else len(text)]
        body = " ".join(body.split())
        listed = re.search(
            r"(?:Possible|Optional) values (?:for <\w+> )?are:? (.*?)\.(?: |$)", body
        )
        values = None
        if listed:
            values = set(re.findall(r"'([^']*)'", listed[1])) or set(listed[1].split(", "))
            values = {re.sub(r"\[?:N\]?$", "", text) for text in values}  # 'repeat[:N]'
        default = re.search(r"[Dd]efault (?:value )?is '?([\w,:-]+)'?", body)
        options[head[1]] = {"values": values, "default": default[1] if default else None}
    return options


def options_of(stub: Any, questions: list[str], program: list[str], output: str) -> dict[str, str]:
    """The options of the learner's command, after checking its shape."""
    command = stub.nsys_command(questions, program, output)
    call = f"nsys_command({questions}, …)"
    if type(command) is not list or not all(type(word) is str for word in command):
        pytest.fail(f"{call} returned {show(command)}; expected a list of words", pytrace=False)
    line = shlex.join(command)
    if command[:2] != ["nsys", "profile"]:
        pytest.fail(f"{call} gives: {line}\nIt must begin with: nsys profile", pytrace=False)
    if command[len(command) - len(program) :] != program:
        pytest.fail(
            f"{call} gives: {line}\nThe program and its arguments, {shlex.join(program)}, must be "
            "unchanged at the end: what follows the program's name is the program's, not the tool's.",
            pytrace=False,
        )
    options: dict[str, str] = {}
    for word in command[2 : len(command) - len(program)]:
        matched = re.fullmatch(r"--([\w-]+)=(.*)", word, flags=re.DOTALL)
        if not matched:
            pytest.fail(
                f"{call} gives: {line}\nThe word {word!r} is not of the form --option=value "
                "(one option a word, long names).",
                pytrace=False,
            )
        name, value = matched.groups()
        if name in options:
            pytest.fail(f"{call} gives: {line}\n--{name} stands there twice.", pytrace=False)
        options[name] = value
    return options


def complaints(questions: list[str], options: dict[str, str], output: str) -> list[str]:
    """What is wrong with the options for these questions, most telling first."""
    out = []
    known = tool_options()
    for name, value in options.items():
        if name not in known:
            out.append(f"the tool has no option --{name} (see captures/tool_help/nsys_profile.txt)")
            continue
        allowed = known[name]["values"]
        if allowed is not None and name != "gpu-metrics-devices":
            parts = value.split(",") if name == "trace" else [value.split(":")[0]]
            out += [
                f"--{name} does not take {part!r}; its help lists {', '.join(sorted(allowed))}"
                for part in parts
                if part.split(":")[0] not in allowed
            ]
    trace = options.get("trace")
    default = known["trace"]["default"]
    wanted = set().union(*(SOURCES[question] for question in questions))
    if trace is None:
        out.append(f"what to trace is not said; the tool's default is {default}")
    else:
        sources = set(trace.split(",")) - {"none"}
        if sources and "none" in trace.split(","):
            out.append(f"--trace={trace} names sources, and none: none stands alone")
        out += [
            f"--trace={trace} does not record {source}, which "
            f"{next(question for question in questions if source in SOURCES[question])} needs"
            for source in sorted(wanted - sources)
        ]
        out += [
            f"--trace={trace} records {source}, which no question asks for"
            for source in sorted(sources - wanted)
        ]
    required: dict[str, tuple[str, ...]] = {}
    for question in questions:
        required |= NEEDED.get(question, {})
    for name, values in required.items():
        if name not in options:
            out.append(f"--{name} is missing: {WHY_NEEDED[name]}")
        elif options[name] not in values:
            out.append(
                f"--{name}={options[name]} does not answer it: {why_not(name, options[name])}"
            )
    allowed_names = set().union(*(ALLOWED.get(question, set()) for question in questions))
    for name in ("sample", "cpuctxsw"):
        if name not in options:
            out.append(
                f"--{name} is not said, and its default, process-tree, is on: no question needs it"
            )
        elif options[name] != "none" and name not in allowed_names:
            out.append(f"--{name}={options[name]} has a cost, and no question needs it")
    settled = {
        *required,
        *allowed_names,
        "trace",
        "sample",
        "cpuctxsw",
        "output",
        "force-overwrite",
    }
    out += [
        f"--{name}={value} has a cost, and no question asks for it"
        for name, value in options.items()
        if name not in settled and name in known and value != known[name]["default"]
    ]
    if options.get("output") != output:
        out.append(f"--output is {options.get('output')!r}, and the report was to go to {output!r}")
    if options.get("force-overwrite") != "true":
        out.append("without --force-overwrite=true an older report of that name stops the tool")
    return out


def judge_command(stub: Any, questions: list[str], program: list[str], output: str) -> None:
    options = options_of(stub, list(questions), list(program), output)
    if wrong := complaints(questions, options, output):
        line = " ".join(f"--{name}={value}" for name, value in options.items())
        pytest.fail(
            f"nsys_command({questions}, …) gives the options {line}\n- " + "\n- ".join(wrong),
            pytrace=False,
        )


@task("ex_30.nsys_command")
@pytest.mark.parametrize("question", QUESTIONS)
def test_one_question(stub, question):
    judge_command(stub, [question], ["python3", "infer.py"], "report")


@task("ex_30.nsys_command")
def test_several_questions_at_once(stub, seed):
    rng = random.Random(seed)
    judge_command(stub, list(QUESTIONS), PROGRAM, "all questions")
    for question in QUESTIONS:
        judge_command(stub, [question, "timeline", question], PROGRAM, "twice")
    for _ in range(12):
        questions = rng.sample(QUESTIONS, rng.randint(2, len(QUESTIONS) - 1))
        judge_command(stub, questions, ["./app", str(rng.random())], f"out/run_{rng.random()}")


@task("ex_30.nsys_command")
def test_program_stays_as_it_is(stub):
    judge_command(stub, ["timeline"], PROGRAM, "report")
    judge_command(stub, ["sm_activity"], ["./a.out"], "/data/reports of May/r1")


@task("ex_30.nsys_command")
def test_every_option_is_one_of_the_tool(stub):
    known = tool_options()
    for question in QUESTIONS:
        options = options_of(stub, [question], ["./app"], "report")
        unknown = [f"--{name}" for name in options if name not in known]
        assert not unknown, (
            f"nsys_command([{question!r}], …) uses {', '.join(unknown)}, which `nsys profile --help` "
            "of the recorded tool does not know: it would stop with a usage error."
        )


# == busy_time ====================================================================================


def busy_mistakes(capture: str, window: Window) -> Variants:
    """(value, sentence) of the typical mistakes, per device."""
    rows = device_rows(capture)
    devices = sorted({row["device"] for row in rows})

    def per_device(value: Callable[[list[dict[str, Any]]], int]) -> dict[int, int]:
        return {device: value([r for r in rows if r["device"] == device]) for device in devices}

    def clipped(row: dict[str, Any]) -> int:
        return max(0, min(row["end"], window[1]) - max(row["start"], window[0]))

    def without(*kinds: str) -> dict[int, int]:
        return per_device(lambda own: union([r for r in own if r["kind"] not in kinds], window))

    def first_to_last(own: list[dict[str, Any]]) -> int:
        inside = [r for r in own if clipped(r)]
        if not inside:
            return 0
        start = max(window[0], min(r["start"] for r in inside))
        return min(window[1], max(r["end"] for r in inside)) - start

    def one_stream(pick: Callable[..., Any]) -> Callable[[list[dict[str, Any]]], int]:
        def value(own: list[dict[str, Any]]) -> int:
            streams: dict[int, list[dict[str, Any]]] = {}
            for row in own:
                streams.setdefault(row["stream"], []).append(row)
            return union(streams[pick(streams, key=lambda s: (len(streams[s]), -s))], window)

        return value

    def one_process(own: list[dict[str, Any]]) -> int:
        first = min(row["process"] for row in rows)
        return union([r for r in own if r["process"] == first], window)

    def each_process(own: list[dict[str, Any]]) -> int:
        return sum(
            union([r for r in own if r["process"] == process], window)
            for process in {row["process"] for row in own}
        )

    def ends_with_last_row(own: list[dict[str, Any]]) -> int:
        stretches: list[list[int]] = []
        for row in sorted(filter(clipped, own), key=lambda r: (r["start"], r["end"])):
            start, end = max(row["start"], window[0]), min(row["end"], window[1])
            if stretches and start <= stretches[-1][1]:
                stretches[-1][1] = end
            else:
                stretches.append([start, end])
        return sum(end - start for start, end in stretches)

    def since_last_row(own: list[dict[str, Any]]) -> int:
        total, last_end = 0, window[0]
        for row in sorted(own, key=lambda r: (r["start"], r["end"])):
            total += max(0, min(row["end"], window[1]) - max(row["start"], last_end))
            last_end = max(row["end"], window[0])
        return total

    def starts_or_ends_inside(own: list[dict[str, Any]]) -> int:
        return union(
            [r for r in own if any(window[0] <= r[k] <= window[1] for k in ("start", "end"))],
            window,
        )

    everything = union(rows, window)
    span = (min(r["start"] for r in rows), max(r["end"] for r in rows))
    partial = [r for r in rows if window[0] <= r["start"] < window[1]]
    return [
        (
            per_device(lambda own: sum(map(clipped, own))),
            "That is the sum of all durations: operations that run at the same time count once.",
        ),
        (
            per_device(first_to_last),
            "That is the time from the first start to the last end, in which the device also idled.",
        ),
        (
            without("graph"),
            "CUDA graphs were recorded as a whole here, and the device ran them too.",
        ),
        (
            without("copy", "memset"),
            "That is kernels and graphs alone: copies and memsets count too.",
        ),
        (without("copy"), "Copies keep a device busy too, and none of them is in this number."),
        (without("memset"), "Memsets keep a device busy too, and none of them is in this number."),
        (
            without("copy", "memset", "graph"),
            "That is kernels alone: graphs, copies and memsets keep the device busy too.",
        ),
        (
            dict.fromkeys(devices, everything),
            "That is the time in which any device was busy: each device has a time of its own.",
        ),
        (
            {devices[0]: everything},
            "That is the time in which any device was busy: each device has a time of its own.",
        ),
        (
            per_device(one_stream(max)),
            "That is one stream of each device; the others kept it busy as well.",
        ),
        (
            per_device(lambda own: union(own, span)),
            "That is the whole capture: only the part inside the window counts.",
        ),
        (
            per_device(lambda own: union([r for r in own if r in partial], span)),
            "Operations that cross the window's edge count with their part inside the window.",
        ),
        (
            per_device(starts_or_ends_inside),
            "An operation that begins before the window and ends after it keeps the device busy too.",
        ),
        (
            per_device(one_process),
            "That is one process; the others kept the device busy as well.",
        ),
        (
            per_device(each_process),
            "What runs at the same time counts once, also if two processes share the device.",
        ),
        (
            per_device(lambda own: union([r for r in own if r["node"] is None], window)),
            "Kernels that ran as nodes of a graph are missing: where nodes were recorded, no whole "
            "graphs are.",
        ),
        (
            dict(enumerate(oracles.busy_ns(captures.path(capture), window).values())),
            "Devices have the numbers of the capture, which need not begin at 0.",
        ),
        (
            per_device(ends_with_last_row),
            "An operation that ends before an earlier one does must not shorten the stretch.",
        ),
        (
            per_device(since_last_row),
            "Some time was counted twice: what matters is the latest end so far, not the end of the "
            "operation before.",
        ),
    ]


def judge_busy(stub: Any, capture: str, nvtx_range: str | None = None) -> None:
    window = window_of(capture, nvtx_range)
    want = oracles.busy_ns(captures.path(capture), window)
    arguments = (capture,) if nvtx_range is None else (capture, nvtx_range)
    got = stub.busy_time(*arguments)
    length = window[1] - window[0]
    why = f"The window is {length:,} ns long and has operations on device {show(sorted(want))}."
    if type(got) is dict and any(type(v) is int and v > length for v in got.values()):
        why = f"The window has {length:,} ns: a device cannot be busier than the clock."
    call = call_words("busy_time", *arguments)
    judge(call, capture, got, want, "ns", lambda: busy_mistakes(capture, window), why)


@task("ex_30.busy_time")
@recordings("torch_inference_baseline", "decode_graph")
def test_busy_time_of_a_recording(stub, recording, seed):
    judge_busy(stub, recording)
    name = some_range(recording, seed)
    if name is not None:
        judge_busy(stub, recording, name)


@task("ex_30.busy_time")
def test_what_runs_at_the_same_time_counts_once(stub, generated):
    judge_busy(stub, str(generated("concurrent_kernels").path))


@task("ex_30.busy_time")
def test_each_device_has_its_own_busy_time(stub, generated):
    judge_busy(stub, str(generated("two_devices").path))


@task("ex_30.busy_time")
def test_graphs_keep_a_device_busy(stub, generated):
    judge_busy(stub, str(generated("graphs_only").path))


@task("ex_30.busy_time")
def test_only_the_part_inside_the_window_counts(stub, generated, draw):
    judge_busy(stub, str(generated("copies_and_kernels").path), "batch 3")
    timeline = draw()
    timeline.nvtx("window", 10_000, 20_000)
    timeline.kernel(5_000, 12_000)
    timeline.memset(14_000, 15_000)
    timeline.kernel(18_000, 30_000)
    timeline.kernel(40_000, 50_000, device=1)
    judge_busy(stub, timeline.save(), "window")


@task("ex_30.busy_time")
def test_operation_longer_than_the_window(stub, draw):
    timeline = draw()
    timeline.nvtx("window", 10_000, 20_000)
    timeline.kernel(5_000, 30_000)
    timeline.kernel(12_000, 13_000, stream=8)
    judge_busy(stub, timeline.save(), "window")


@task("ex_30.busy_time")
def test_processes_share_a_device(stub, generated, draw):
    judge_busy(stub, str(generated("two_processes_same_correlation").path))
    timeline = draw()
    timeline.kernel(10_000, 20_000, process=1, correlation=1)
    timeline.kernel(15_000, 30_000, process=2, correlation=1)
    judge_busy(stub, timeline.save())


@task("ex_30.busy_time")
def test_devices_keep_their_numbers(stub, draw):
    judge_busy(stub, few_devices(draw), "window")


@task("ex_30.busy_time")
def test_kernels_inside_graphs_keep_a_device_busy(stub, generated, draw):
    timeline = draw()
    timeline.kernel(10_000, 20_000)
    timeline.kernel(25_000, 30_000, graph_node=5)
    judge_busy(stub, timeline.save())
    judge_busy(stub, str(generated("graphs_only", graph_trace="node").path))


@task("ex_30.busy_time")
def test_capture_without_kernels(stub, draw):
    timeline = draw()
    timeline.copy(10_000, 20_000)
    timeline.memset(15_000, 25_000)
    judge_busy(stub, timeline.save())


# == utilization ==================================================================================


def utilization_mistakes(capture: str, window: Window) -> Variants:
    """(value, sentence) of the typical mistakes."""
    length = window[1] - window[0]
    busy = oracles.busy_ns(captures.path(capture), window)
    own_span = {}
    for device, ns in busy.items():
        own = [
            (max(window[0], row["start"]), min(window[1], row["end"]))
            for row in device_rows(capture)
            if row["device"] == device and row["end"] > window[0] and row["start"] < window[1]
        ]
        if own:
            own_span[device] = ns / (max(end for _, end in own) - min(start for start, _ in own))
    yield (
        own_span,
        (
            "That divides by the time from a device's own first operation to its last: the window is the "
            "same for all devices."
        ),
    )
    yield (
        {device: ns * 100 / length for device, ns in busy.items()},
        "Those are percentages; a share of 1.0 is all of it.",
    )
    span = oracles.span(captures.path(capture))
    yield (
        {device: ns / (span[1] - span[0]) for device, ns in busy.items()},
        "That divides by the whole capture, and the window is the range.",
    )
    for value, sentence in busy_mistakes(capture, window):
        yield {device: ns / length for device, ns in value.items()}, sentence
    for digits in range(2, 9):
        yield (
            {device: round(ns / length, digits) for device, ns in busy.items()},
            "It is rounded; give the quotient as it is.",
        )


def judge_utilization(stub: Any, capture: str, nvtx_range: str | None = None) -> None:
    window = window_of(capture, nvtx_range)
    length = window[1] - window[0]
    busy = oracles.busy_ns(captures.path(capture), window)
    want = {device: ns / length for device, ns in busy.items()}
    arguments = (capture,) if nvtx_range is None else (capture, nvtx_range)
    got = stub.utilization(*arguments)
    why = f"It is the share of the window ({length:,} ns) in which the device was busy."
    if type(got) is dict and any(type(v) in (int, float) and v > 1 for v in got.values()):
        why += " A share cannot exceed 1.0."
    call = call_words("utilization", *arguments)
    mistakes = partial(utilization_mistakes, capture, window)
    judge(call, capture, got, want, "shares of 1.0", mistakes, why)


@task("ex_30.utilization")
@recordings("torch_inference_improved", "cuda_pipeline_baseline")
def test_utilization_of_a_recording(stub, recording, seed):
    judge_utilization(stub, recording)
    name = some_range(recording, seed)
    if name is not None:
        judge_utilization(stub, recording, name)


@task("ex_30.utilization")
def test_all_devices_have_the_same_window(stub, generated):
    judge_utilization(stub, str(generated("two_devices").path))


@task("ex_30.utilization")
def test_utilization_of_a_range(stub, generated, draw):
    judge_utilization(stub, str(generated("copies_and_kernels").path), "batch 5")
    timeline = draw()
    timeline.nvtx("window", 0, 1_000)
    timeline.kernel(250, 500)
    timeline.kernel(2_000, 9_000, device=1)
    judge_utilization(stub, timeline.save(), "window")


@task("ex_30.utilization")
def test_utilization_of_each_device_by_its_number(stub, draw):
    judge_utilization(stub, few_devices(draw), "window")


# == idle_gaps ====================================================================================


def as_gaps(rows: Iterable[tuple[int, int, int]]) -> list[dict[str, int]]:
    return [{"device": d, "start_ns": a, "end_ns": b} for d, a, b in rows]


def gap_mistakes(capture: str, window: Window, min_gap_ns: int) -> Variants:
    """(value, sentence) of the typical mistakes."""
    rows = sorted(device_rows(capture), key=lambda r: (r["start"], r["end"]))
    devices = sorted({row["device"] for row in rows})

    def long_enough(found: Iterable[tuple[int, int, int]]) -> list[dict[str, int]]:
        return as_gaps(gap for gap in found if gap[2] - gap[1] >= max(1, min_gap_ns))

    def of_rows(keep: Callable[[dict[str, Any]], bool]) -> list[tuple[int, int, int]]:
        found = []
        for device in devices:
            own = [r for r in rows if r["device"] == device and keep(r)]
            busy = oracles._merged([(r["start"], r["end"]) for r in own], window)
            edges = [window[0], *(edge for interval in busy for edge in interval), window[1]]
            found += [(device, a, b) for a, b in zip(edges[::2], edges[1::2], strict=True)]
        return found

    def without(*kinds: str) -> list[dict[str, int]]:
        return long_enough(of_rows(lambda r: r["kind"] not in kinds))

    def starts_or_ends_inside() -> list[tuple[int, int, int]]:
        return of_rows(lambda r: any(window[0] <= r[k] <= window[1] for k in ("start", "end")))

    def one_process() -> list[tuple[int, int, int]]:
        first = min(row["process"] for row in rows)
        return of_rows(lambda r: r["process"] == first)

    def after_row_before() -> list[dict[str, int]]:
        found = []
        for device in devices:
            at = window[0]
            for row in rows:
                if row["device"] == device and row["end"] > window[0] and row["start"] < window[1]:
                    found.append((device, at, row["start"]))
                    at = min(row["end"], window[1])
            found.append((device, at, window[1]))
        return long_enough(found)

    right = oracles.idle_gaps(captures.path(capture), window, min_gap_ns)
    edges = {(device, edge) for device in devices for edge in window}
    longer = oracles.idle_gaps(captures.path(capture), window, min_gap_ns + 1)
    return [
        (
            after_row_before(),
            (
                "Some of these gaps lie inside an operation that started earlier and still ran: the row "
                "before is not the only one that matters."
            ),
        ),
        *(
            (
                as_gaps(
                    gap for gap in right if not any((gap[0], gap[at]) in edges for at in places)
                ),
                "The time before a device's first operation in the window and after its last is idle too.",
            )
            for places in ((1, 2), (1,), (2,))
        ),
        (
            without("graph", "copy", "memset"),
            "Those are the gaps between kernels: graphs, copies and memsets keep a device busy too.",
        ),
        (
            without("graph"),
            "CUDA graphs were recorded as a whole here, and the device was not idle while they ran.",
        ),
        (as_gaps(longer), f"A gap of exactly {min_gap_ns} ns is at least that long."),
        (
            as_gaps(sorted(right, key=lambda gap: (gap[1], gap[0]))),
            "The gaps are right, and their order is by device, then start.",
        ),
        (
            as_gaps(sorted(right, key=lambda gap: gap[1] - gap[2])),
            "The gaps are right, and their order is by device, then start.",
        ),
        (
            as_gaps(oracles.idle_gaps(captures.path(capture), None, min_gap_ns)),
            "Those are the gaps of the whole capture, and not of the window.",
        ),
        (
            as_gaps(oracles.idle_gaps(captures.path(capture), window)),
            f"There are gaps shorter than {min_gap_ns} ns among them.",
        ),
        (
            as_gaps(
                (device, a, b)
                for device, a, b in oracles.idle_gaps(captures.path(capture), window)
                if b - a >= min_gap_ns or {(device, a), (device, b)} & edges
            ),
            f"There are gaps shorter than {min_gap_ns} ns among them, at the edges of the window.",
        ),
        (
            long_enough(starts_or_ends_inside()),
            "An operation that begins before the window and ends after it leaves no gap.",
        ),
        (
            long_enough(one_process()),
            "Those are the gaps of one process; the others kept the device busy as well.",
        ),
        (
            as_gaps(sorted(right, key=lambda gap: (str(gap[0]), gap[1]))),
            "The gaps are right; device 3 comes before device 10.",
        ),
    ]


def judge_gaps(stub: Any, capture: str, nvtx_range: str | None = None, min_gap_ns: int = 0) -> None:
    window = window_of(capture, nvtx_range)
    want = as_gaps(oracles.idle_gaps(captures.path(capture), window, min_gap_ns))
    arguments = (capture,) if nvtx_range is None else (capture, nvtx_range)
    named = {"min_gap_ns": min_gap_ns} if min_gap_ns else {}
    got = stub.idle_gaps(*arguments, **named)
    call = call_words("idle_gaps", *arguments, **named)
    why = "A gap is a stretch of the window in which no operation runs on that device."
    if type(got) is list and any(
        type(gap) is dict and "end_ns" in gap and gap.get("start_ns") == gap["end_ns"]
        for gap in got
    ):
        why = f"A gap of length 0 is none. {why}"
    if type(got) is list and all(type(gap) is dict for gap in got):
        missing = {gap["device"] for gap in want} - {gap.get("device") for gap in got}
        if any(gap.keys() != {"device", "start_ns", "end_ns"} for gap in got):
            why = "The keys of a gap are device, start_ns and end_ns, and no others."
        elif missing:
            why = f"No gap of device {', '.join(map(str, sorted(missing)))} is in the list. {why}"
    mistakes = partial(gap_mistakes, capture, window, min_gap_ns)
    judge_list(call, capture, got, want, mistakes, why)


@task("ex_30.idle_gaps")
@recordings("decode_eager", "cuda_pipeline_improved")
def test_gaps_of_a_recording(stub, recording, seed):
    judge_gaps(stub, recording)
    name = some_range(recording, seed)
    judge_gaps(stub, recording, name, min_gap_ns=20_000)


@task("ex_30.idle_gaps")
def test_no_gap_inside_a_long_operation(stub, generated):
    judge_gaps(stub, str(generated("nested_gaps").path))


@task("ex_30.idle_gaps")
def test_gaps_of_each_device(stub, generated):
    judge_gaps(stub, str(generated("two_devices").path))


@task("ex_30.idle_gaps")
def test_no_gap_while_a_graph_runs(stub, generated):
    judge_gaps(stub, str(generated("graphs_only").path))


@task("ex_30.idle_gaps")
def test_shortest_gap_that_counts(stub, generated):
    capture = str(generated("nested_gaps").path)
    lengths = sorted(end - start for _, start, end in oracles.idle_gaps(capture))
    judge_gaps(stub, capture, min_gap_ns=lengths[len(lengths) // 2])


@task("ex_30.idle_gaps")
def test_gaps_at_the_edges_of_the_window(stub, draw):
    timeline = draw()
    timeline.nvtx("window", 10_000, 20_000)
    timeline.kernel(2_000, 3_000)
    timeline.kernel(12_000, 13_000)
    timeline.kernel(13_000, 14_000)  # no gap between these two
    timeline.kernel(14_001, 15_000)  # the shortest gap there is
    timeline.kernel(30_000, 31_000)
    timeline.kernel(1_000, 2_000, device=1)  # device 1 does nothing in the window
    timeline.copy(5_000, 11_000, device=2)
    timeline.memset(18_000, 25_000, device=2)
    capture = timeline.save()
    judge_gaps(stub, capture, "window")
    judge_gaps(stub, capture)
    # What a gap has outside the window does not make it longer, and the rule holds at the edges.
    judge_gaps(stub, capture, "window", min_gap_ns=3_500)
    judge_gaps(stub, capture, "window", min_gap_ns=10_001)


@task("ex_30.idle_gaps")
def test_gaps_of_devices_and_processes(stub, draw):
    capture = few_devices(draw)
    judge_gaps(stub, capture, "window")
    judge_gaps(stub, capture, "window", min_gap_ns=2_000)


# == launch_latency ===============================================================================

LATENCY_KEYS = ("kernel_start_ns", "api_ns", "queue_ns", "execution_ns")


def latency_rows(capture: str, *, how: str = "") -> list[tuple[int, ...]]:
    """Rows in the order of LATENCY_KEYS, ordered as the library orders kernels; how: a mistake."""
    process = "" if how == "correlation only" else "AND (r.globalTid >> 24) = (k.globalPid >> 24)"
    nodes = "" if how == "graph nodes" else "WHERE k.graphNodeId IS NULL"
    order = (
        "r.start, r.globalTid"
        if how == "call order"
        else ('k.start, k."end", k.deviceId, k.streamId, k.correlationId')
    )
    found = query(
        capture,
        f"""SELECT k.start, r."end" - r.start, k.start - r."end", k."end" - k.start, r.start
            FROM {oracles.KERNEL} AS k
            JOIN ({oracles.calls_query(captures.path(capture))}) AS r
            ON r.correlationId = k.correlationId {process} {nodes}
            ORDER BY {order}""",
    )
    if how == "negative":
        return [row[:4] for row in found]
    if how == "from the call's start":
        return [(start, api, start - call, run) for start, api, _, run, call in found]
    return [(start, api, max(0, queue), run) for start, api, queue, run, _ in found]


def latency_of(stub: Any, capture: str) -> list[tuple[int, ...]]:
    """The learner's rows in the order of LATENCY_KEYS, after checking types and lengths."""
    got = stub.launch_latency(capture)
    call = call_words("launch_latency", capture)
    if type(got) is not dict or sorted(got, key=str) != sorted(LATENCY_KEYS):
        keys = list(got) if type(got) is dict else type(got).__name__
        pytest.fail(
            f"{call} returned {show(keys)}; expected a dict with {', '.join(LATENCY_KEYS)}"
            f"{repeat_hint(capture)}",
            pytrace=False,
        )
    for key in LATENCY_KEYS:
        kind = str(getattr(got[key], "dtype", type(got[key]).__name__))
        shape = getattr(got[key], "shape", ())
        if kind == "float64" and shape == (0,):
            pytest.fail(
                f"{call}[{key!r}] is empty, and float64; np.array([], dtype=np.int64) is int64"
                f"{repeat_hint(capture)}",
                pytrace=False,
            )
        if kind != "int64" or len(shape) != 1:
            size = f" of {len(shape)} dimensions" if kind == "int64" else ""
            pytest.fail(
                f"{call}[{key!r}] is {kind}{size}; expected a one-dimensional int64 array: times are "
                f"whole ns{repeat_hint(capture)}",
                pytrace=False,
            )
    if len({len(got[key]) for key in LATENCY_KEYS}) != 1:
        lengths = {key: len(got[key]) for key in LATENCY_KEYS}
        pytest.fail(
            f"{call} returned arrays of lengths {lengths}; all describe the same kernels"
            f"{repeat_hint(capture)}",
            pytrace=False,
        )
    return list(zip(*(got[key].tolist() for key in LATENCY_KEYS), strict=True))


def judge_latency(
    stub: Any, capture: str, report: Sequence[tuple[int, ...]] | None = None, source: str = ""
) -> None:
    """report: sorted rows to expect in whatever order, with the words for where they come from."""
    rows = latency_of(stub, capture)
    order: Callable[[Any], list[tuple[int, ...]]] = list
    if report is not None:
        rows, want, order = sorted(rows), report, sorted
    else:
        # The oracle's rows, in the order that the docstring asks for.
        by_kernel = oracles.kernel_exec(captures.path(capture))
        want = latency_rows(capture)
        assert sorted(want) == sorted(
            (r["kernel_start_ns"], r["api_ns"], r["queue_ns"] or 0, r["execution_ns"])
            for r in by_kernel
        )
    if rows == want:
        return
    mistakes = {
        "correlation only": "Kernels were joined with calls of another process: the count of "
        "correlation ids starts anew in each process.",
        "graph nodes": "The kernels inside CUDA graphs are in it: one call launched them all.",
        "negative": "A queue time below 0: the kernel started before its call had returned, so it "
        "waited 0 ns.",
        "from the call's start": "The queue time begins when the call returns: the call itself is "
        "in api_ns already.",
        "call order": "The order is that of the calls; expected is that of the kernels' starts.",
    }
    why = next(
        (text for how, text in mistakes.items() if rows == order(latency_rows(capture, how=how))),
        "",
    )
    if len(rows) != len(want):
        what = f"describes {len(rows)} kernels; expected {len(want)}{source}"
        why = why or (
            "Kernels without a recorded call and nodes of graphs are left out, and no others: a kernel "
            "that started before its call returned stays, with a queue time of 0."
        )
        if not rows:
            why += " To find rows without a value, use is_null(): in polars no comparison with None holds."
    else:
        place = next(i for i, pair in enumerate(zip(rows, want, strict=True)) if pair[0] != pair[1])
        pairs = zip(LATENCY_KEYS, rows[place], want[place], strict=True)
        wrong = [f"{key} {a}, expected {b}" for key, a, b in pairs if a != b]
        what = f"says for kernel {place} of {len(want)}: {'; '.join(wrong)}{source}"
        if not why and sorted(rows) == sorted(want):
            why = "The rows are right, and their order is that of the kernels' starts."
        elif not why and rows[place][2] < 0:
            why = mistakes["negative"]
        elif not why and all(text.startswith("queue_ns") for text in wrong):
            why = "It is the time from the call's return to the kernel's start, never below 0."
    why = why or (
        "api_ns is the call's own length, queue_ns from its return to the kernel's start, execution_ns "
        "from the kernel's start to its end, all in ns."
    )
    pytest.fail(
        f"{call_words('launch_latency', capture)} {what} (ns). {why}{repeat_hint(capture)}",
        pytrace=False,
    )


@task("ex_30.launch_latency")
@recordings("decode_eager", "decode_graph_nodes")
def test_latency_of_a_recording(stub, recording):
    judge_latency(stub, recording)


@task("ex_30.launch_latency")
@recordings("decode_eager", "torch_inference_baseline")
def test_latency_agrees_with_nvidias_report(stub, recording):
    file = captures.path(recording).parent / "stats" / "cuda_kern_exec_trace.csv.gz"
    if not file.is_file():  # a capture of one's own has no report beside it
        judge_latency(stub, recording)
        return
    with gzip.open(file, "rt", newline="", encoding="utf-8") as handle:
        report = sorted(
            (
                int(row["Kernel Start (ns)"]),
                int(row["API Dur (ns)"]),
                int(row["Queue Dur (ns)"] or 0),
                int(row["Kernel Dur (ns)"]),
            )
            for row in csv.DictReader(handle)
        )
    source = ", in NVIDIA's report cuda_kern_exec_trace of the same recording"
    judge_latency(stub, recording, report, source)


@task("ex_30.launch_latency")
def test_correlation_ids_start_anew_in_each_process(stub, generated):
    judge_latency(stub, str(generated("two_processes_same_correlation").path))


@task("ex_30.launch_latency")
def test_nodes_of_a_graph_are_left_out(stub, generated):
    judge_latency(stub, str(generated("graphs_only", graph_trace="node").path))


@task("ex_30.launch_latency")
def test_graph_of_one_kernel_is_left_out(stub, draw):
    timeline = draw()
    timeline.kernel(9_000, 12_000, call=(1_000, 4_000))
    number = timeline.kernel(20_000, 25_000, graph_node=5)
    timeline.api("cudaGraphLaunch_v10000", 14_000, 18_000, correlation=number)
    judge_latency(stub, timeline.save())


@task("ex_30.launch_latency")
def test_start_before_return_and_missing_calls(stub, draw):
    timeline = draw()
    timeline.kernel(9_000, 12_000, call=(1_000, 4_000))
    timeline.kernel(20_000, 25_000, call=(14_000, 22_000))  # starts before its call returns
    timeline.kernel(30_000, 31_000)  # no call was recorded
    timeline.kernel(50_000, 51_000, stream=13, call=(35_000, 36_000))
    timeline.kernel(45_000, 47_000, stream=14, call=(37_000, 45_000))  # overtakes; queue of 0
    timeline.copy(60_000, 61_000, call=(55_000, 56_000))
    judge_latency(stub, timeline.save())


@task("ex_30.launch_latency")
def test_whatever_call_launched_the_kernel(stub, draw):
    """The call is known by correlation and process, whatever its name and thread."""
    timeline = draw()
    for start, api in enumerate(
        (
            "cudaLaunchCooperativeKernel_v9000",
            "cuLaunchKernelEx",
            "cudaLaunchKernelExC_v11060_ptsz",
            "cudaMemcpyPeerAsync_v4000",
        )
    ):
        at = 20_000 * start
        number = timeline.kernel(at + 9_000, at + 12_000)
        timeline.api(api, at + 1_000, at + 4_000, correlation=number, thread=start)
    # Two that start at the same time come in the order of their ends.
    timeline.kernel(80_000, 89_000, call=(71_000, 73_000))
    timeline.kernel(80_000, 85_000, stream=8, call=(74_000, 75_000))
    judge_latency(stub, timeline.save())


# == blocking_time ================================================================================


def blocking_mistakes(capture: str, window: Window) -> Variants:
    """(value, sentence) of the typical mistakes."""
    path = captures.path(capture)
    want = oracles.blocking(path, window)
    synchronous = {name: ns for name, ns in want.items() if name in oracles.SYNCHRONIZING}
    copies = (
        "A plain copy holds the host too, and so does a call that copies to or from pageable memory, "
        "whatever its name says."
    )
    those = "Those are the synchronising calls alone."
    if not synchronous:
        those = (
            "No call is left. A call that crosses the window's edge counts with its part inside."
        )
    yield synchronous, f"{those} {copies}"
    yield (
        {name: ns for name, ns in want.items() if "Async" not in name},
        "A copy to or from pageable memory holds the host although its call is named Async.",
    )
    for whole_capture in ((0, 2**62), oracles.span(path)):
        yield (
            oracles.blocking(path, whole_capture),
            "Those are the calls of the whole capture: only the part inside the window counts.",
        )
    once = {}
    for name in want:
        own = [(a, b) for n, a, b in oracles.blocking_calls(path, window) if n == name]
        once[name] = sum(b - a for a, b in oracles._merged(own, window))
    yield once, "Calls of different threads at the same time add up: each thread was held."
    all_calls: dict[str, int] = {}
    for name, ns in query(
        capture,
        f"""SELECT s.value, SUM(MIN(r."end", {window[1]}) - MAX(r.start, {window[0]}))
            FROM {oracles.RUNTIME} AS r JOIN StringIds AS s ON s.id = r.nameId
            WHERE r."end" > {window[0]} AND r.start < {window[1]} GROUP BY s.value""",
    ):
        short = re.sub(r"(_ptsz)?_v\d+(_ptsz)?$", "", name)
        all_calls[short] = all_calls.get(short, 0) + ns
    yield all_calls, "Those are all CUDA calls; most of them do not wait for the device."
    whole = oracles.blocking_calls(path, (0, 2**62))
    edges = [c for c in whole if any(window[0] <= edge <= window[1] for edge in c[1:])]
    total: dict[str, int] = {}
    for name, start, end in edges:
        inside = min(end, window[1]) - max(start, window[0])
        if inside > 0:
            total[name] = total.get(name, 0) + inside
    yield total, "A call that begins before the window and ends after it holds the host as well."
    yield (
        {name: ns for name, ns in want.items() if "Memcpy" in name or name in synchronous},
        "A call that issued a copy of pageable memory counts, whatever its name.",
    )
    by_length = dict.fromkeys(want, 0)
    for name, start, end in oracles.blocking_calls(path, window):
        by_length[name] += 2 * (end - start)
    yield by_length, "A call is counted once for each of its copies; it held the host once."
    yield (
        {name: ns for name, ns in all_calls.items() if "Memcpy" in name or name in synchronous},
        "There are asynchronous copies of pinned memory among them, which return at once.",
    )
    whole_inside: dict[str, int] = {}
    for name, start, end in oracles.blocking_calls(path, window):
        if window[0] < start and end < window[1]:
            whole_inside[name] = whole_inside.get(name, 0) + end - start
    yield whole_inside, "A call that crosses the window's edge counts with its part inside."


def judge_blocking(stub: Any, capture: str, nvtx_range: str | None = None) -> None:
    window = window_of(capture, nvtx_range)
    want = oracles.blocking(captures.path(capture), window)
    arguments = (capture,) if nvtx_range is None else (capture, nvtx_range)
    got = stub.blocking_time(*arguments)
    why = "Blocking are synchronising calls, synchronous copies and copies of pageable memory."
    if type(got) is dict and any(re.search(r"_v\d+$", str(name)) for name in got):
        why = "Names are those without version suffix."
    elif type(got) is dict and 0 in got.values():
        why = "Names without any time in the window are left out."
    elif type(got) is dict and any("Launch" in str(name) for name in got if name not in want):
        why += " There are launch calls among them: were they joined on the process as well?"
    call = call_words("blocking_time", *arguments)
    judge(call, capture, got, want, "ns", partial(blocking_mistakes, capture, window), why)


@task("ex_30.blocking_time")
@recordings("torch_inference_baseline", "cuda_pipeline_baseline")
def test_blocking_time_of_a_recording(stub, recording, seed):
    judge_blocking(stub, recording)
    name = some_range(recording, seed)
    if name is not None:
        judge_blocking(stub, recording, name)


@task("ex_30.blocking_time")
def test_pageable_copies_hold_the_host(stub, generated):
    judge_blocking(stub, str(generated("copies_and_kernels").path))


@task("ex_30.blocking_time")
def test_copies_of_another_process(stub, generated, draw):
    judge_blocking(stub, str(generated("two_processes_same_correlation").path))
    timeline = draw()
    timeline.copy(1_000, 2_000, "D2H", pinned=False, process=1, correlation=5, call=(0, 3_000))
    timeline.kernel(4_000, 9_000, process=2, correlation=5, call=(3_000, 8_000))
    timeline.kernel(9_000, 9_500, process=2, correlation=6, call=(8_000, 8_500))
    judge_blocking(stub, timeline.save())


@task("ex_30.blocking_time")
def test_blocking_time_in_a_range(stub, generated):
    judge_blocking(stub, str(generated("copies_and_kernels").path), "batch 7")
    judge_blocking(stub, str(generated("sync_bound").path), "step")


@task("ex_30.blocking_time")
def test_which_calls_block(stub, draw):
    timeline = draw()
    timeline.nvtx("window", 10_000, 90_000)
    timeline.kernel(5_000, 95_000)
    timeline.api("cudaDeviceSynchronize_v3020", 8_000, 12_000)  # half of it inside
    timeline.api("cudaStreamSynchronize_v3020", 8_000, 9_000)  # outside
    timeline.api("cudaEventSynchronize_v3020", 20_000, 21_000)
    timeline.api("cuCtxSynchronize", 22_000, 22_001)
    timeline.api("cuStreamSynchronize_ptsz", 23_000, 24_000)
    timeline.api("cuEventSynchronize", 24_000, 25_500)
    timeline.api("cudaStreamWaitEvent_v3020", 26_000, 27_000)  # makes a stream wait, not the host
    timeline.api("cudaEventQuery_v3020", 27_000, 28_000)
    timeline.copy(30_000, 31_000, call=(30_000, 33_000), api="cudaMemcpy_v3020")  # pinned
    timeline.copy(34_000, 35_000, "D2D", call=(34_000, 36_000), api="cudaMemcpy2D_v3020")
    timeline.copy(36_000, 37_000, call=(36_000, 38_000), api="cuMemcpyHtoD_v2")
    timeline.copy(40_000, 41_000, call=(40_000, 44_000))  # asynchronous and pinned
    timeline.copy(45_000, 46_000, "D2H", pinned=False, call=(45_000, 50_000))
    timeline.copy(51_000, 52_000, "H2D", pinned=False, call=(50_000, 57_000), thread=2)
    timeline.copy(51_500, 52_500, "H2D", pinned=False, call=(50_000, 58_000), thread=3)
    timeline.memset(60_000, 61_000, call=(60_000, 62_000), api="cudaMemset_v3020")
    timeline.api("cudaMalloc_v3020", 70_000, 80_000)
    timeline.api("cuMemRelease", 81_000, 84_000)
    capture = timeline.save()
    judge_blocking(stub, capture, "window")
    judge_blocking(stub, capture)


@task("ex_30.blocking_time")
def test_which_names_are_those_of_synchronous_copies(stub, draw):
    timeline = draw()
    timeline.kernel(5_000, 95_000)
    for at, api in enumerate(
        ("cudaMemcpyToSymbol_v3020", "cudaMemcpy3DPeer_v4000", "cuMemcpyDtoH_v2", "cuMemcpy2D_v2")
    ):
        timeline.copy(
            at * 9_000 + 6_000, at * 9_000 + 7_000, call=(at * 9_000, at * 9_000 + 8_000), api=api
        )
    for at, api in enumerate(("cuMemcpyAsync_ptsz", "cudaMemcpy3DBatchAsync_v12080")):
        timeline.copy(
            at * 9_000 + 42_000,
            at * 9_000 + 43_000,
            call=(at * 9_000 + 40_000, at * 9_000 + 41_000),
            api=api,
        )
    timeline.api("cudaGraphAddMemcpyNode_v10000", 70_000, 80_000)  # describes a copy, makes none
    judge_blocking(stub, timeline.save())


@task("ex_30.blocking_time")
def test_call_with_several_copies_counts_once(stub, draw):
    """A graph with two copies to pageable memory: its launch issued both."""
    timeline = draw()
    number = timeline.copy(10_000, 12_000, "D2H", pinned=False)
    timeline.copy(12_000, 13_000, "D2H", pinned=False, correlation=number)
    timeline.api("cudaGraphLaunch_v10000", 5_000, 13_000, correlation=number)
    judge_blocking(stub, timeline.save())


@task("ex_30.blocking_time")
def test_call_longer_than_the_window(stub, draw):
    timeline = draw()
    timeline.nvtx("window", 10_000, 20_000)
    timeline.kernel(2_000, 30_000, call=(0, 1_000))
    timeline.api("cudaDeviceSynchronize_v3020", 1_000, 31_000)
    judge_blocking(stub, timeline.save(), "window")


# == pipeline_schedule ============================================================================


def schedule_of(stub: Any, batches: int, slots: int) -> list[dict[str, Any]]:
    """The learner's schedule, once it can be issued and no two operations race."""
    got = stub.pipeline_schedule(batches, slots)
    call = call_words("pipeline_schedule", batches, slots)
    if type(got) is not list:
        pytest.fail(f"{call} returned {show(got)}; expected a list of operations", pytrace=False)
    if wrong := schedules.problem(got, batches, slots):
        pytest.fail(f"{call}: {wrong}", pytrace=False)
    if found := schedules.race(got):
        pytest.fail(
            f"{call}: {found}. Nothing orders the two: no stream that both are on, no event. It may go well on most runs.",
            pytrace=False,
        )
    return got


def earliest_ends(batches: int, slots: int, took_ns: dict[str, int]) -> dict[str, list[int]]:
    """When each batch's operations can end at the earliest: by data, slots and engines alone."""
    ends: dict[str, list[int]] = {name: [] for name in schedules.ENGINES}
    into, compute, out = (ends[name] for name in schedules.ENGINES)

    def end(which: list[int], batch: int) -> int:
        return which[batch] if batch >= 0 else 0

    for batch in range(batches):
        start = max(end(into, batch - 1), end(compute, batch - slots))
        into.append(start + took_ns["copy_in"])
        start = max(end(compute, batch - 1), into[batch], end(out, batch - slots))
        compute.append(start + took_ns["compute"])
        start = max(end(out, batch - 1), compute[batch])
        out.append(start + took_ns["copy_out"])
    return ends


@task("ex_30.pipeline_schedule")
@pytest.mark.parametrize("slots", [1, 2, 3, 5])
def test_nothing_is_overwritten_before_it_is_read(stub, slots):
    for batches in (1, 2, slots, slots + 1, 4 * slots + 3):
        schedule_of(stub, batches, slots)


@task("ex_30.pipeline_schedule")
def test_operations_start_as_early_as_they_can(stub, seed):
    rng = random.Random(seed)
    draws = [({"copy_in": 10, "compute": 10, "copy_out": 10}, 3, 2)]
    draws.append(({"copy_in": 1, "compute": 10, "copy_out": 1}, 12, 9))  # fills all slots
    for slots in range(1, 6):  # an input is free long before the output of its slot
        draws.append(({"copy_in": 1, "compute": 10, "copy_out": 10}, slots + 2, slots))
    for longest in schedules.ENGINES:
        took_ns = {name: rng.randint(5, 60) for name in schedules.ENGINES}
        slots = {"copy_in": rng.randint(1, 4), "compute": 4, "copy_out": 3}[longest]
        draws.append((took_ns | {longest: rng.randint(61, 150)}, rng.randint(6, 20), slots))
    for took_ns, batches, slots in draws:
        issued = schedule_of(stub, batches, slots)
        ends = earliest_ends(batches, slots, took_ns)
        times = schedules.run(issued, took_ns)
        for one, (_, end) in sorted(zip(issued, times, strict=True), key=lambda pair: pair[1]):
            best = ends[one["operation"]][one["batch"]]
            if end > best:
                whole = max(finish for _, finish in times)
                longer = f"The whole takes {whole} µs, and needs {ends['copy_out'][-1]}. "
                if whole == ends["copy_out"][-1]:
                    longer = "Here the whole takes no longer; with other lengths it does. "
                pytest.fail(
                    f"{call_words('pipeline_schedule', batches, slots)}: with {took_ns} µs a batch, {one['operation']} of batch "
                    f"{one['batch']} ends after {end} µs. Its data, its slot and its engine were ready earlier: it could "
                    f"end after {best}. {longer}"
                    "What does it wait for that it does not need? Batches go in the order of their numbers.",
                    pytrace=False,
                )


# == missed_overlap ===============================================================================


def overlap_of(path: Path, window: Window) -> dict[int, dict[str, int]]:
    """What the docstring asks for, from the oracle's parts."""
    return {
        device: {
            "copy_ns": part["copy_only_ns"] + part["both_ns"],
            "exposed_copy_ns": part["copy_only_ns"],
            "compute_only_ns": part["kernel_only_ns"],
            "hideable_ns": min(part["copy_only_ns"], part["kernel_only_ns"]),
            "pageable_bytes": part["pageable_bytes"],
        }
        for device, part in oracles.copy_overlap(path, window).items()
    }


OVERLAP_WHY = {
    "copy_ns": "It is the time with at least one copy between host and device (H2D or D2H).",
    "exposed_copy_ns": "It is the time with such a copy while no kernel or graph runs on the device.",
    "compute_only_ns": "It is the time with a kernel or graph while no such copy runs.",
    "hideable_ns": "No more copying can hide than there is compute to hide it behind.",
    "pageable_bytes": "It counts the bytes of H2D and D2H copies, starting in the window, whose host "
    "memory is pageable.",
}


def judge_overlap(stub: Any, capture: str, nvtx_range: str | None = None) -> None:
    window = window_of(capture, nvtx_range)
    want = overlap_of(captures.path(capture), window)
    arguments = (capture,) if nvtx_range is None else (capture, nvtx_range)
    got = stub.missed_overlap(*arguments)
    call = call_words("missed_overlap", *arguments)
    if type(got) is dict and got.keys() == want.keys():
        for device, parts in want.items():
            mine = got[device]
            if type(mine) is not dict or mine.keys() != parts.keys():
                continue
            wrong = next((key for key in parts if not agree(mine[key], parts[key])), None)
            if wrong is None:
                continue
            rows = [r for r in device_rows(capture) if r["device"] == device]
            copies = query(
                capture,
                f"""SELECT start, "end", copyKind, bytes, srcKind, dstKind FROM {oracles.MEMCPY}
                    WHERE deviceId = {device}""",
            )
            every_copy = [(a, b) for a, b, *_ in copies]
            moved = [(a, b) for a, b, kind, *_ in copies if kind in (1, 2)]
            kernels = [(r["start"], r["end"]) for r in rows if r["kind"] == "kernel"]
            span = oracles.span(captures.path(capture))
            whole = overlap_of(captures.path(capture), span)[device]

            def length(intervals: list[Window], window: Window = window) -> int:
                return sum(b - a for a, b in oracles._merged(intervals, window))

            def summed(intervals: list[Window]) -> int:
                return sum(max(0, min(b, window[1]) - max(a, window[0])) for a, b in intervals)

            def alone(first: list[Window], second: list[Window]) -> int:
                return length(first + second) - length(second)

            variants: dict[str, list[tuple[int, str]]] = {
                "copy_ns": [
                    (length(every_copy), "Copies inside the device (D2D) use no link to the host."),
                    (summed(moved), "Copies in both directions at the same time count once."),
                ],
                "exposed_copy_ns": [
                    (parts["copy_ns"], "All copying is in it, also what ran beside kernels."),
                    (alone(moved, kernels), "A copy that runs beside a CUDA graph is not exposed."),
                ],
                "compute_only_ns": [
                    (
                        parts["compute_only_ns"] + parts["copy_ns"] - parts["exposed_copy_ns"],
                        "All compute is in it, also what ran beside copies.",
                    ),
                    (alone(kernels, moved), "CUDA graphs are compute too."),
                ],
                "hideable_ns": [
                    (
                        parts["exposed_copy_ns"],
                        (
                            "That is all exposed copying, and there is less compute than that to hide it "
                            "behind."
                        ),
                    ),
                    (parts["compute_only_ns"], "There is less exposed copying than that to hide."),
                ],
                "pageable_bytes": [
                    (
                        sum(n for a, _, _, n, *_ in copies if window[0] <= a < window[1]),
                        "Pinned memory and copies inside the device are in it.",
                    ),
                    (
                        parts["pageable_bytes"]
                        + sum(
                            n
                            for a, _, kind, n, *sides in copies
                            if a == window[1] and kind in (1, 2) and 0 in sides
                        ),
                        "A copy that starts exactly at the window's end is counted: it is not in the "
                        "window (start_ns < window end).",
                    ),
                ],
            }
            why = OVERLAP_WHY[wrong]
            for value, sentence in [
                *variants[wrong],
                (whole[wrong], "That is the whole capture: only the window counts."),
            ]:
                if mine[wrong] == value:
                    why = sentence
                    break
            unit = "bytes" if wrong.endswith("_bytes") else "ns"
            pytest.fail(
                f"{call}[{device}][{wrong!r}] is {show(mine[wrong])}; expected {parts[wrong]} {unit}. "
                f"{why}{repeat_hint(capture)}",
                pytrace=False,
            )
    why = "Every device with an operation in the capture has the five entries of the docstring."
    judge(call, capture, got, want, "ns and bytes", list, why)


@task("ex_30.missed_overlap")
@recordings("cuda_pipeline_baseline", "cuda_pipeline_improved")
def test_overlap_of_a_recording(stub, recording, seed):
    judge_overlap(stub, recording)
    name = some_range(recording, seed)
    if name is not None:
        judge_overlap(stub, recording, name)


@task("ex_30.missed_overlap")
def test_overlap_of_pinned_and_pageable_copies(stub, generated):
    capture = str(generated("copies_and_kernels").path)
    judge_overlap(stub, capture)
    judge_overlap(stub, capture, "batch 4")


@task("ex_30.missed_overlap")
def test_overlap_of_each_device(stub, generated):
    judge_overlap(stub, str(generated("two_devices").path))


@task("ex_30.missed_overlap")
def test_what_counts_as_copy_and_compute(stub, draw):
    timeline = draw()
    timeline.nvtx("window", 10_000, 100_000)
    timeline.copy(5_000, 20_000, bytes=7, pinned=False)  # starts before the window
    timeline.copy(10_000, 30_000, "D2H", bytes=11, pinned=False)  # starts at its very start
    timeline.graph(25_000, 40_000)
    timeline.memset(40_000, 45_000)  # neither copy nor compute
    timeline.copy(45_000, 55_000, "D2D", bytes=13)
    timeline.copy(50_000, 60_000, bytes=17)
    timeline.kernel(58_000, 62_000)
    timeline.copy(90_000, 110_000, bytes=19, pinned=False)
    timeline.copy(100_000, 120_000, bytes=23, pinned=False)  # starts after the window
    timeline.kernel(95_000, 200_000, device=1)
    timeline.copy(96_000, 97_000, device=1)
    capture = timeline.save()
    judge_overlap(stub, capture, "window")
    judge_overlap(stub, capture)


@task("ex_30.missed_overlap")
def test_devices_that_only_copy_or_only_compute(stub, draw):
    judge_overlap(stub, few_devices(draw), "window")
    timeline = draw()
    timeline.copy(10_000, 20_000)
    timeline.copy(15_000, 25_000, "D2H", pinned=False)
    judge_overlap(stub, timeline.save())  # no kernel was recorded at all


@task("ex_30.missed_overlap")
def test_copy_and_kernel_longer_than_the_window(stub, draw):
    timeline = draw()
    timeline.nvtx("window", 10_000, 20_000)
    timeline.copy(5_000, 30_000)
    timeline.kernel(12_000, 15_000)
    timeline.kernel(6_000, 40_000, device=1)
    timeline.copy(12_000, 15_000, device=1)
    judge_overlap(stub, timeline.save(), "window")


@task("ex_30.missed_overlap")
def test_kernels_inside_graphs_are_compute(stub, draw):
    timeline = draw()
    timeline.copy(10_000, 20_000)
    timeline.kernel(15_000, 30_000, graph_node=5)
    judge_overlap(stub, timeline.save())


# == busy_against_active ==========================================================================

SM = "SMs Active [Throughput %]"
READ = "DRAM Read Bandwidth [Throughput %]"
WRITE = "DRAM Write Bandwidth [Throughput %]"


def active_of(path: Path, window: Window) -> dict[int, dict[str, float]]:
    """What the docstring asks for; {} without samples."""
    busy = oracles.busy_ns(path, window, kernels_only=True)
    return {
        device: {
            "busy_ratio": busy.get(device, 0) / (window[1] - window[0]),
            "sm_active_ratio": means[SM] / 100,
            "dram_ratio": (means[READ] + means[WRITE]) / 100,
        }
        for device, means in sorted(oracles.gpu_metric_means(path, window).items())
    }


def active_mistakes(capture: str, window: Window) -> Variants:
    """(value, sentence) of the typical mistakes."""
    path = captures.path(capture)
    want = active_of(path, window)
    means = oracles.gpu_metric_means(path, window)
    everywhere = oracles.gpu_metric_means(path, (-(2**62), 2**62))
    busy = oracles.busy_ns(path, window)

    def changed(**value: Callable[[int], float]) -> dict[int, dict[str, float]]:
        return {d: parts | {k: f(d) for k, f in value.items()} for d, parts in want.items()}

    def sampled(means: dict[int, dict[str, float]]) -> dict[int, dict[str, float]]:
        return changed(
            sm_active_ratio=lambda d: means.get(d, {}).get(SM, 0) / 100,
            dram_ratio=lambda d: (
                (means.get(d, {}).get(READ, 0) + means.get(d, {}).get(WRITE, 0)) / 100
            ),
        )

    yield (
        changed(busy_ratio=lambda d: busy.get(d, 0) / (window[1] - window[0])),
        "That is busy time with copies and memsets; here only kernels and graphs count: those keep no "
        "SM busy.",
    )
    yield (
        changed(dram_ratio=lambda d: (means[d][READ] + means[d][WRITE]) / 200),
        "That is the mean of the two; add them.",
    )
    yield (
        changed(dram_ratio=lambda d: means[d][READ] / 100),
        "dram_ratio lacks the writes.",
    )
    yield (
        {
            d: p | {k: p[k] * 100 for k in ("sm_active_ratio", "dram_ratio")}
            for d, p in want.items()
        },
        "Recorded values are percentages; the result is a share, 1.0 being all of it.",
    )
    rows = [r for r in device_rows(capture) if r["kind"] in ("kernel", "graph")]
    for keep, sentence in (
        (
            lambda r: any(window[0] <= r[k] <= window[1] for k in ("start", "end")),
            "busy_ratio lacks what begins before the window and ends after it.",
        ),
        (lambda r: r["node"] is None, "busy_ratio lacks the kernels that ran as nodes of a graph."),
    ):
        working = {d: [r for r in rows if r["device"] == d and keep(r)] for d in want}
        ratios = {d: union(own, window) / (window[1] - window[0]) for d, own in working.items()}
        yield changed(busy_ratio=ratios.__getitem__), sentence
    span = oracles.span(path)
    yield active_of(path, span), "That is the whole capture, and the window is the range."
    yield (
        sampled(everywhere),
        "All samples of the recording are in it, also those outside the window.",
    )
    for low, high in ((1, 1), (1, 0), (0, 1)):  # at the edges: start, not end; both; neither
        yield (
            sampled(oracles.gpu_metric_means(path, (window[0] - low, window[1] - high))),
            "A sample describes the time before its timestamp: a sample at the window's start belongs "
            "to what came before, the one at its end is part of it.",
        )


ACTIVE_WHY = {
    "busy_ratio": "It is the share of the window in which a kernel or graph ran on the device.",
    "sm_active_ratio": f"It is the mean of {SM!r} over the samples in the window, as a share.",
    "dram_ratio": "It is the mean of read bandwidth plus the mean of write bandwidth over the samples "
    "in the window, as a share.",
}


def judge_active(stub: Any, capture: str, nvtx_range: str | None = None) -> None:
    window = window_of(capture, nvtx_range)
    want = active_of(captures.path(capture), window)
    arguments = (capture,) if nvtx_range is None else (capture, nvtx_range)
    if not want:
        why = "without samples nothing is known of activity, and the reader must learn how to get some"
        with stub.raises(CaptureError, "--gpu-metrics-devices", why):
            stub.busy_against_active(*arguments)
        return
    got = stub.busy_against_active(*arguments)
    if agree(got, want):
        return
    call = call_words("busy_against_active", *arguments)
    if type(got) is dict and got.keys() == want.keys():
        device = next(d for d in want if not agree(got[d], want[d]))
        mine, right = got[device], want[device]
        if type(mine) is dict and mine.keys() == right.keys():
            key = next(k for k in right if not agree(mine[k], right[k]))
            sentence = ACTIVE_WHY[key]
            if type(mine[key]) in (int, float) and mine[key] > 1:
                sentence = "It is a share, from 0.0 to 1.0; recorded values are percentages."
            for value, text in active_mistakes(capture, window):
                if agree(mine[key], value.get(device, {}).get(key)):
                    sentence = text
                    break
            pytest.fail(
                f"{call}[{device}][{key!r}] is {show(mine[key])}; expected {right[key]} (a share of "
                f"1.0). {sentence}{repeat_hint(capture)}",
                pytrace=False,
            )
    why = "Each device with samples in the window has busy_ratio, sm_active_ratio and dram_ratio."
    judge(call, capture, got, want, "shares of 1.0", list, why)


@task("ex_30.busy_against_active")
@recordings("torch_inference_baseline", "torch_inference_improved")
def test_activity_of_a_recording(stub, recording, seed):
    judge_active(stub, recording, some_range(recording, seed))


@task("ex_30.busy_against_active")
def test_busy_device_with_idle_sms(stub, generated):
    capture = str(generated("gpu_metrics_low_sm").path)
    judge_active(stub, capture, "steady")
    judge_active(stub, capture)


@task("ex_30.busy_against_active")
def test_which_samples_and_operations_count(stub, draw):
    timeline = draw()
    timeline.nvtx("window", 10_000, 20_000)
    timeline.kernel(12_000, 15_000)
    timeline.graph(14_000, 16_000)
    timeline.copy(16_000, 20_000)
    for timestamp, value in ((10_000, 90), (13_000, 30), (17_000, 10), (20_000, 2), (20_001, 80)):
        timeline.sample(timestamp, {SM: value, READ: value // 2, WRITE: 8, "GR Active": 100})
        timeline.sample(timestamp + 500, {SM: 7, READ: 5, WRITE: 3}, device=1)
    timeline.sample(50_000, {SM: 7, READ: 5, WRITE: 3}, device=2)  # none in the window
    timeline.kernel(30_000, 60_000, device=2)
    capture = timeline.save()
    judge_active(stub, capture, "window")


@task("ex_30.busy_against_active")
def test_kernels_longer_than_the_window_and_inside_graphs(stub, draw):
    timeline = draw()
    timeline.nvtx("window", 10_000, 20_000)
    timeline.kernel(5_000, 30_000)
    timeline.kernel(12_000, 15_000, device=3, graph_node=5)
    for device in (0, 3):
        timeline.sample(15_000, {SM: 40, READ: 10, WRITE: 5}, device=device)
    judge_active(stub, timeline.save(), "window")


@task("ex_30.busy_against_active")
def test_window_without_samples(stub, draw):
    timeline = draw()
    timeline.nvtx("window", 10_000, 20_000)
    timeline.kernel(12_000, 15_000)
    judge_active(stub, timeline.save(), "window")
    timeline.sample(10_000, {SM: 1, READ: 1, WRITE: 1})
    timeline.sample(20_001, {SM: 1, READ: 1, WRITE: 1})
    judge_active(stub, timeline.save(), "window")


# == profiler_overhead ============================================================================


def overhead_mistakes(capture: str, window: Window) -> Variants:
    """(value, sentence) of the typical mistakes."""
    rows = query(capture, 'SELECT start, "end" FROM PROFILER_OVERHEAD')
    yield (
        sum(max(0, min(b, window[1]) - max(a, window[0])) for a, b in rows),
        "That is the sum: intervals nest, and different threads overlap.",
    )
    yield (
        sum(b - a for a, b in rows),
        "That is the sum of all durations: nested intervals and several threads count once, and only "
        "the part inside the window counts.",
    )
    yield (
        oracles.overhead_ns(captures.path(capture), (-(2**62), 2**62)),
        "Only the part inside the window counts.",
    )


def judge_overhead(stub: Any, capture: str, nvtx_range: str | None = None) -> None:
    window = window_of(capture, nvtx_range)
    want = oracles.overhead_ns(captures.path(capture), window)
    arguments = (capture,) if nvtx_range is None else (capture, nvtx_range)
    got = stub.profiler_overhead(*arguments)
    why = "It is the time in the window in which the profiler was at work on any thread."
    call = call_words("profiler_overhead", *arguments)
    judge(call, capture, got, want, "ns", partial(overhead_mistakes, capture, window), why)


@task("ex_30.profiler_overhead")
@recordings("torch_inference_baseline", "decode_graph_nodes")
def test_overhead_in_a_recording(stub, recording, seed):
    judge_overhead(stub, recording)
    name = some_range(recording, seed)
    if name is not None:
        judge_overhead(stub, recording, name)


@task("ex_30.profiler_overhead")
def test_overhead_on_several_threads(stub, generated):
    capture = str(generated("with_overhead").path)
    judge_overhead(stub, capture)
    judge_overhead(stub, capture, "work")


@task("ex_30.profiler_overhead")
def test_nested_overhead_counts_once(stub, draw):
    timeline = draw()
    timeline.kernel(10_000, 50_000)
    capture = timeline.save()
    judge_overhead(stub, capture)  # nothing recorded: no overhead
    timeline.overhead(5_000, 20_000)
    timeline.overhead(6_000, 12_000)
    timeline.overhead(18_000, 25_000, thread=2)
    timeline.overhead(45_000, 70_000, thread=3)
    judge_overhead(stub, timeline.save())
    timeline.nvtx("window", 8_000, 10_000)
    judge_overhead(stub, timeline.save(), "window")  # the profiler was at work all the time


# == annotate_pipeline ============================================================================


class Tape:
    """Writes down what the pipeline does, in order; `stages` are the pipeline's."""

    def __init__(self, names: list[str], failing: tuple[str, Any] | None = None) -> None:
        self.events: list[tuple[str, Any]] = []
        self.names = names
        self.failing = failing
        self.stages = {name: self._stage(name) for name in names}

    def _stage(self, name: str) -> Callable[[Any], Any]:
        def stage(value: Any) -> Any:
            self.events.append(("run " + name, value))
            if self.failing == (name, value):
                raise ValueError(f"{name} cannot take {value!r}")
            return self.result(name, value)

        return stage

    @staticmethod
    def result(name: str, value: Any) -> Any:
        """What a stage makes of its input; the order of stages shows in it."""
        return None if value is None else [name, value]

    def push(self, name: str) -> int:
        self.events.append(("push", name))
        return 0

    def pop(self) -> int:
        self.events.append(("pop", None))
        return 0

    def run(self, stub: Any, batches: list[Any]) -> Any:
        return stub.annotate_pipeline(list(batches), self.stages, self.push, self.pop)

    def expected(self, batches: list[Any]) -> tuple[list[tuple[str, Any]], list[Any]]:
        """Events and results that the docstring asks for, up to the stage that fails."""
        events: list[tuple[str, Any]] = []
        results = []
        for i, value in enumerate(batches):
            events.append(("push", f"batch {i}"))
            for name in self.names:
                events += [("push", name), ("run " + name, value)]
                if self.failing == (name, value):
                    return [*events, ("pop", None), ("pop", None)], results
                events.append(("pop", None))
                value = self.result(name, value)
            events.append(("pop", None))
            results.append(value)
        return events, results


def spelled(event: tuple[str, Any]) -> str:
    kind, value = event
    return {"push": f"push_range({value!r})", "pop": "pop_range()"}.get(
        kind, f"{kind[4:]}({value!r})"
    )


def judge_events(got: list[tuple[str, Any]], want: list[tuple[str, Any]], situation: str) -> None:
    if got == want:
        return
    place = next(
        (i for i, pair in enumerate(zip(got, want, strict=False)) if pair[0] != pair[1]), -1
    )
    place = min(len(got), len(want)) if place < 0 else place
    happened = spelled(got[place]) if place < len(got) else "nothing more"
    wanted = spelled(want[place]) if place < len(want) else "nothing more"
    opened, depth = [event[1] for event in got if event[0] == "push"], 0
    for kind, _ in got:
        depth += (kind == "push") - (kind == "pop")
    why = "Ranges nest: a batch's range holds its stages' ranges."
    if depth > 0:
        why = f"{depth} of {len(opened)} ranges were never closed: all that follows seems to be inside them."
    elif depth < 0:
        why = "More ranges were closed than opened."
    before = " → ".join(map(spelled, got[max(0, place - 3) : place])) or "the beginning"
    pytest.fail(
        f"annotate_pipeline, {situation}: after {before} came {happened}; expected {wanted}. {why}",
        pytrace=False,
    )


@task("ex_30.annotate_pipeline")
def test_ranges_around_batches_and_stages(stub, seed):
    rng = random.Random(seed)
    names = rng.sample(
        ["tokenize", "copy_in", "embed", "attention", "mlp", "sample", "copy_out"], 4
    )
    batches = [rng.randint(1, 10**6) for _ in range(rng.randint(2, 5))]
    tape = Tape(names)
    results = tape.run(stub, batches)
    events, want = tape.expected(batches)
    situation = f"{len(batches)} batches, stages {', '.join(names)}"
    judge_events(tape.events, events, situation)
    judge(
        f"annotate_pipeline, {situation},",
        "",
        results,
        want,
        "",
        list,
        "Each stage gets what the one before returned.",
    )


@task("ex_30.annotate_pipeline")
def test_nothing_and_empty_values_go_through(stub):
    for batches in ([], [0, "", None, 0]):
        tape = Tape(["load", "infer"])
        results = tape.run(stub, batches)
        events, want = tape.expected(batches)
        judge_events(tape.events, events, f"batches {batches}")
        judge(
            f"annotate_pipeline with batches {batches}",
            "",
            results,
            want,
            "",
            list,
            "Values that are empty or None are values.",
        )


@task("ex_30.annotate_pipeline")
@pytest.mark.parametrize("stage", ["load", "infer"])
def test_ranges_are_closed_when_a_stage_raises(stub, stage):
    value = 2 if stage == "load" else ["load", 2]
    tape = Tape(["load", "infer"], failing=(stage, value))
    why = "the exception of a stage goes on to the caller as it is"
    with stub.raises(ValueError, f"^{stage} cannot take", why):
        tape.run(stub, [1, 2, 3])
    events, _ = tape.expected([1, 2, 3])
    judge_events(tape.events, events, f"the stage {stage!r} raises in batch 1")


# == replay_end ===================================================================================


def relaxed_end(operations: list[Operation]) -> int:
    """When the last device operation ends: starts are raised until no rule is broken."""
    starts = [None if o.after else o.start_ns for o in operations]
    changed = True
    while changed:
        changed = False
        for operation in operations:
            if not operation.after:
                continue
            moments = []
            for dependency in operation.after:
                on = starts[dependency.on]
                if on is None:
                    break
                length = operations[dependency.on].duration_ns if dependency.at == "end" else 0
                moments.append(on + length + dependency.lag_ns)
            else:
                start = max(moments) + operation.delay_ns
                if starts[operation.index] != start:
                    starts[operation.index], changed = start, True
    return max(
        start + operation.duration_ns
        for start, operation in zip(starts, operations, strict=True)
        if operation.device >= 0 and start is not None
    )


REASONS = (
    "program order",
    "hand-over",
    "launch",
    "stream order",
    "event",
    "copy engine",
    "wait",
)


def random_operations(rng: random.Random, count: int) -> list[Operation]:
    operations = []
    for index in range(count):
        after = tuple(
            Dependency(
                rng.randrange(index),
                rng.choice(("start", "end")),
                rng.choice((0, 0, rng.randint(-3_000, 9_000))),
                rng.choice(REASONS),
            )
            for _ in range(rng.randint(0, min(index, 4)))
        )
        device = rng.choice((-1, 0, 1)) if index < count - 1 else 0
        operations.append(
            Operation(
                index,
                rng.choice(("kernel", "graph", "copy", "memset")) if device >= 0 else "launch",
                f"k{index}",
                f"device:{device}/stream:7" if device >= 0 else "thread:1",
                device,
                rng.randint(0, 50_000),
                rng.choice((0, rng.randint(0, 30_000))),
                after,
                rng.choice((0, rng.randint(0, 5_000))),
            )
        )
    return operations


def spelled_operation(o: Operation) -> str:
    after = [f"{d.at} of {d.on} with lag_ns={d.lag_ns} ({d.why})" for d in o.after]
    return (
        f"\n  {o.index}: {o.kind} on device {o.device}, start_ns={o.start_ns}, "
        f"duration_ns={o.duration_ns}, delay_ns={o.delay_ns}, after: {' and '.join(after) or 'nothing'}"
    )


def judge_replay(
    stub: Any, operations: list[Operation], want: int, situation: str, why: str
) -> None:
    got = stub.replay_end(operations)
    call = f"replay_end of {situation}"

    def mistakes() -> Variants:
        device = max(o.end_ns for o in operations if o.device >= 0)
        yield device, "That is the recorded end: starts have to be computed anew."
        latest = [replace(o, after=o.after[-1:]) for o in operations]
        yield (
            relaxed_end(latest),
            "The latest of all dependencies decides, not the last one listed.",
        )
        if any(o.kind == "kernel" for o in operations):
            kernels = [o if o.kind == "kernel" else replace(o, device=-1) for o in operations]
            yield (
                relaxed_end(kernels),
                "That is the end of the last kernel: graphs, copies and memsets count, too.",
            )
        floored = [
            replace(o, after=tuple(replace(d, lag_ns=max(d.lag_ns, 0)) for d in o.after))
            for o in operations
        ]
        yield relaxed_end(floored), "A lag can be negative: it is added as it is."
        both = [replace(o, device=0) for o in operations]
        yield relaxed_end(both), "That is the end of a host operation: only the device's count."
        first = [replace(o, device=-1 if o.device else 0) for o in operations]
        if any(o.device == 0 for o in operations):
            yield relaxed_end(first), "That is the end on device 0; another device ends later."
        last = [replace(o, device=-1) for o in operations[:-1]] + [
            replace(operations[-1], device=0)
        ]
        yield (
            relaxed_end(last),
            "That is the end of the last in the list; an earlier one ends later.",
        )
        delayed = [
            o if o.after else replace(o, start_ns=o.start_ns + o.delay_ns) for o in operations
        ]
        yield (
            relaxed_end(delayed),
            "An operation without dependencies starts at its start_ns: delay_ns was added to it.",
        )

    def with_list() -> Variants:
        return [(value, sentence + listed) for value, sentence in mistakes()]

    listed = "".join(map(spelled_operation, operations)) if len(operations) <= 3 else ""
    judge(call, "", got, want, "ns", with_list, why + listed)


def host(index: int, start: int, length: int, *after: Dependency) -> Operation:
    return Operation(index, "launch", "call", "thread:1", -1, start, length, after)


def kernel(
    index: int, start: int, length: int, *after: Dependency, delay: int = 0, device: int = 0
) -> Operation:
    where = f"device:{device}/stream:7"
    return Operation(index, "kernel", "kernel", where, device, start, length, after, delay)


@task("ex_30.replay_end")
def test_replay_by_hand(stub):
    launch = Dependency(0, "start", 3_000, "launch")
    # Recorded starts of what depends on something are never looked at.
    one = [host(0, 1_000, 5_000), kernel(1, 77_777, 10_000, launch, delay=500)]
    judge_replay(
        stub,
        one,
        14_500,
        "a call at 1000 ns and its kernel",
        "The call starts at its start_ns, 1000. The kernel starts 3000 ns after that and 500 ns of delay, at 4500 ns.",
    )
    two = [
        host(0, 0, 2_000),
        kernel(1, 0, 10_000, Dependency(0, "start", 1_000, "launch")),
        host(2, 0, 4_000, Dependency(0, "end", 0, "program order")),
        kernel(
            3,
            0,
            5_000,
            Dependency(2, "start", 1_000, "launch"),
            Dependency(1, "end", 200, "stream order"),
        ),
    ]
    judge_replay(
        stub,
        two,
        16_200,
        "two kernels of a stream",
        "The second starts when the latest of its dependencies allows: 200 ns after the first ends.",
    )
    moved = [
        host(0, 0, 2_000),
        host(1, 500, 1_000, Dependency(0, "end", 0, "program order")),
        kernel(2, 2_500, 5_000, Dependency(1, "start", 1_000, "launch")),
    ]
    judge_replay(
        stub,
        moved,
        8_000,
        "two calls and a kernel",
        'The second call starts anew, at 2000 ns: `at == "start"` means this start, not the recorded one.',
    )
    negative = [
        kernel(0, 5_000, 10_000),
        kernel(1, 0, 1_000, Dependency(0, "end", -4_000, "wait"), delay=100),
        host(2, 90_000, 90_000),
    ]
    judge_replay(
        stub,
        negative,
        15_000,
        "a negative lag, and a host call that ends last",
        "Only device operations count, and the one that ends last is not the last of the list.",
    )


@task("ex_30.replay_end")
@pytest.mark.parametrize(
    ("takes_ns", "waits", "end_ns", "told"),
    [
        (20_000, True, 57_000, "as recorded"),
        (20_000, False, 49_000, "without the wait"),
        (15_000, True, 52_000, "with a kernel A that is 5,000 ns shorter"),
    ],
)
def test_five_operations_of_the_lesson(stub, takes_ns, waits, end_ns, told):
    wait = [Dependency(1, "end", 2_000, "wait")] if waits else []
    operations = [
        host(0, 0, 5_000),
        kernel(1, 10_000, takes_ns, Dependency(0, "end", 5_000, "launch")),
        host(2, 32_000, 0, Dependency(0, "end", 0, "program order"), *wait),
        host(3, 32_000, 5_000, Dependency(2, "end", 0, "program order")),
        kernel(
            4,
            42_000,
            15_000,
            Dependency(3, "end", 2_000, "launch"),
            Dependency(1, "end", 1_000, "stream order"),
            delay=3_000,
        ),
    ]
    why = "The lesson plays them by hand, in its section Five operations by hand."
    judge_replay(stub, operations, end_ns, f"five operations, {told}", why)


@task("ex_30.replay_end")
def test_replay_of_random_operations(stub, seed):
    rng = random.Random(seed)
    for count in (*[1] * 3, *[2] * 10, *[3] * 20, 5, 40, 150):  # a small one is shown whole
        operations = random_operations(rng, count)
        judge_replay(
            stub,
            operations,
            relaxed_end(operations),
            f"{count} random operations (LAB_SEED={seed} repeats them)",
            "No operation may start before all that it depends on allow it, whatever their `why`, nor later than that.",
        )


@task("ex_30.replay_end")
@recordings("cuda_pipeline_baseline", "decode_graph")
def test_unchanged_replay_is_the_recording(stub, recording):
    with captures.open(recording) as capture:
        operations = dependencies.read(capture)
    judge_replay(
        stub,
        operations,
        oracles.span(captures.path(recording))[1],
        f"{recording}, unchanged,",
        "Played unchanged, a recording ends when it ended.",
    )


@task("ex_30.replay_end")
def test_generated_recording_replayed(stub, generated):
    made = generated("concurrent_kernels")
    with captures.open(made.path) as capture:
        operations = dependencies.read(capture)
    want = made.span()[1]
    judge_replay(
        stub, operations, want, "a generated capture", "Played unchanged, it ends as recorded."
    )


# == recoverable_time =============================================================================

CAUSES = {
    "waits": "sync_bound",
    "launch_cost": "launch_bound",
    "copies": "transfer_bound",
    "allocation": "allocation_bound",
    "host_code": "host_bound",
}
# A saving is a claim about a run that never happened; a simulated program can be run without the
# cause. What the two may differ by, as a share of the window (over 100 seeds: at most 0.04):
TOLERANCE = 0.08
# How much of a launch the device waits for is estimated from the recording, on the safe side: over
# 100 seeds the reference found between 0.40 and 0.99 of what launching really cost.
LEAST_LAUNCH_SHARE = 0.35

# What several drawings have in common.
STILL_WAITS = (
    'The wait is in the dependencies, not in the duration. Remove only those whose `why` is "wait": an '
    "operation without dependencies starts when it was recorded. And is any operation changed? `waits_in` names the kind "
    'of the call, whatever its name; the wait itself has the kind "wait".'
)
FIRST_LAUNCH_COUNTS = "Only the first launch of 5 µs counts: the second one follows a wait (`resumes`), so it has to be made."
LONG_HOST_CODE = (
    "Only the 200 µs of host code before the second launch are the program's own: the 1 µs before the "
    "wait is the cost of issuing work."
)


def savings(stub: Any, capture: str, nvtx_range: str | None = None) -> dict[str, int]:
    """The learner's answer, after checking what holds for every capture."""
    arguments = (capture,) if nvtx_range is None else (capture, nvtx_range)
    got = stub.recoverable_time(*arguments)
    call = call_words("recoverable_time", *arguments)
    if type(got) is not dict or set(got) != set(CAUSES):
        keys = (
            f"the keys {', '.join(map(str, got))}"
            if type(got) is dict
            else f"a {type(got).__name__}"
        )
        pytest.fail(  # the same words for all captures, so that they are said once
            f"recoverable_time returned {keys}; expected a dict of the causes {', '.join(CAUSES)}",
            pytrace=False,
        )

    def whose() -> str:
        if nvtx_range is None or not agree(got, stub.recoverable_time(capture)):
            return ""
        return "That is the saving of the whole capture, not of the range. "

    # Work can also begin earlier than it did, up to the first call that issued some of it.
    low, high = issued_window(capture, nvtx_range)
    low = min(
        [low, *(start for (start,) in query(capture, f"SELECT MIN(start) FROM {oracles.RUNTIME}"))]
    )
    for cause, ns in got.items():
        if type(ns) is not int or ns < 0:
            pytest.fail(
                f"{call}[{cause!r}] is {ns!r}; expected a whole number of ns, never negative: taking "
                f"a cause away does not make the device finish later{repeat_hint(capture)}",
                pytrace=False,
            )
        if ns > high - low:
            pytest.fail(
                f"{whose()}{call}[{cause!r}] is {ns:,} ns, and from the first call to the device's last end "
                f"there were {high - low:,} ns: no more than that can be saved.{repeat_hint(capture)}",
                pytrace=False,
            )
    device, idle_ns = least_idle(capture, nvtx_range)
    for cause, ns in got.items():
        if cause != "copies" and ns > idle_ns:
            pytest.fail(
                f"{whose()}{call}[{cause!r}] is {ns:,} ns, and device {device} was idle for {idle_ns:,} ns from the "
                "first start to the last end of these operations. Whatever the host does, the device "
                f"has as much to do: no more than its idle time can be saved.{repeat_hint(capture)}",
                pytrace=False,
            )
    return got


def issued(capture: str, nvtx_range: str | None) -> list[tuple[int, int, int]]:
    """(device, start, end) of the device operations that calls in the window issued."""
    path, where = captures.path(capture), ""
    if nvtx_range is not None:
        low, high = oracles.nvtx_window(path, nvtx_range)
        where = f"""JOIN {oracles.RUNTIME} AS r ON r.correlationId = o.correlationId
            AND (r.globalTid >> 24) = (o.globalPid >> 24) WHERE r.start >= {low} AND r.start < {high}"""
    tables = (oracles.KERNEL, oracles.GRAPH, oracles.MEMCPY, oracles.MEMSET)
    found = (
        query(capture, f'SELECT o.deviceId, o.start, o."end" FROM {table} AS o {where}')
        for table in tables
    )
    return [row for rows in found for row in rows]


def issued_window(capture: str, nvtx_range: str | None) -> Window:
    """First start to last end of the device operations that calls in the window issued."""
    rows = issued(capture, nvtx_range)
    return min(start for _, start, _ in rows), max(end for *_, end in rows)


def least_idle(capture: str, nvtx_range: str | None) -> tuple[int, int]:
    """The device with the least idle time in the issued window, of those in it, and that time."""
    low, high = issued_window(capture, nvtx_range)
    busy = oracles.busy_ns(captures.path(capture), (low, high))
    device = max({row[0] for row in issued(capture, nvtx_range)}, key=lambda d: (busy[d], -d))
    return device, high - low - busy[device]


def judge_savings(stub: Any, capture: str, want: dict[str, int], why: dict[str, str]) -> None:
    """Exact values of a drawn capture. why: for each cause that can be saved here, and others."""
    untold = [cause for cause in CAUSES if want[cause] and cause not in why]
    assert not untold, f"no sentence for {untold}"
    got = savings(stub, capture)
    wrong = [cause for cause in CAUSES if got[cause] != want[cause]]
    if wrong:
        cause = wrong[0]
        told = why.get(cause, "Nothing in this capture has that cause.")
        if cause == "waits" and got[cause] == 0:
            told += f" {STILL_WAITS}"
        pytest.fail(
            f"{call_words('recoverable_time', capture)}[{cause!r}] is {got[cause]:,}; expected "
            f"{want[cause]:,} ns. {told}{repeat_hint(capture)}",
            pytrace=False,
        )


@task("ex_30.recoverable_time")
@recordings("cuda_pipeline_baseline", "decode_graph")
def test_savings_of_a_recording_are_possible(stub, recording):
    savings(stub, recording)


@kept
def end_without(scenario: str, number: int, cause: str, inside: str | None) -> int:
    """When the device is done, in ns, if a generated program runs again without a cause."""
    made, _ = generated_capture(scenario, number)
    return made.program.simulate(cause, inside=inside).device_end_ns


@task("ex_30.recoverable_time")
@pytest.mark.parametrize("scenario", [*CAUSES.values(), "healthy", "warmup_then_steady"])
def test_savings_are_those_of_a_run_without_the_cause(stub, generated, seed, scenario):
    made = generated(scenario)
    capture = str(made.path)
    got = savings(stub, capture, made.steady)
    low, high = issued_window(capture, made.steady)
    # The cause that was built in; of a healthy program, those that one would suspect first.
    checked = [made.expected] if made.expected in CAUSES else ["waits", "copies"]
    if "warmup" in made.notes:
        checked = [made.notes["warmup"]]
    truth = 0
    for cause in checked:
        truth = made.run.device_end_ns - end_without(scenario, seed, cause, made.steady)
        allowed = TOLERANCE * (high - low)
        least = truth * (LEAST_LAUNCH_SHARE if cause == "launch_cost" else 1.0)
        if not least - allowed <= got[cause] <= truth + allowed:
            told = f" {STILL_WAITS}" if cause == "waits" and got[cause] == 0 else ""
            pytest.fail(
                f"{call_words('recoverable_time', capture, made.steady)}[{cause!r}] is "
                f"{got[cause]:,} ns of a window of {high - low:,} ns. The same program, run again "
                f"without that cause, ends {truth:,} ns earlier.{told}{repeat_hint(capture)}",
                pytrace=False,
            )
    largest = max(got, key=got.__getitem__)
    if made.expected in CAUSES and largest != made.expected:
        how = "as much" if got[largest] == got[made.expected] else "most"
        pytest.fail(
            f"{call_words('recoverable_time', capture)} saves {how} by taking away "
            f"{largest!r}: {show(got)} ns. That is not what this program was "
            f"written to suffer from: run again without {made.expected!r}, it ends {truth:,} ns "
            f"earlier.{repeat_hint(capture)}",
            pytrace=False,
        )


@task("ex_30.recoverable_time")
def test_savings_of_waits_by_hand(stub, draw):
    """Launch, wait for the kernel, prepare the next for 200 µs, launch."""
    timeline = draw()
    timeline.kernel(10_000, 110_000, call=(0, 5_000))
    timeline.api("cudaStreamSynchronize_v3020", 6_000, 112_000, waits_for_stream=7)
    timeline.kernel(322_000, 422_000, call=(312_000, 317_000))
    want = {"waits": 106_000, "launch_cost": 5_000, "copies": 0, "allocation": 0}
    want["host_code"] = 200_000
    why = {
        "waits": "Without the wait the host goes on at 6 µs instead of 112 µs, and all that follows "
        "comes 106 µs earlier.",
        "launch_cost": "The first launch of 5 µs lies on the way to the end. With the second one the host "
        "goes on after a wait, so it has to be made. The 1 µs of host code between launch and wait does "
        "not lie on the way, and 200 µs of host code are no cost of issuing work.",
        "host_code": "Between the wait and the second launch lie 200 µs of host code; the 1 µs before "
        "the wait is the cost of issuing work.",
    }
    judge_savings(stub, timeline.save(), want, why)


@task("ex_30.recoverable_time")
def test_savings_of_two_waits_by_hand(stub, draw):
    """Two kernels on two streams, a wait for each, then 200 µs of host code and a launch."""
    timeline = draw()
    timeline.kernel(10_000, 110_000, call=(0, 5_000))
    timeline.kernel(20_000, 200_000, stream=8, call=(5_000, 9_000))
    timeline.api("cudaStreamSynchronize_v3020", 10_000, 112_000, waits_for_stream=7)
    timeline.api("cudaStreamSynchronize_v3020", 113_000, 202_000, waits_for_stream=8)
    timeline.kernel(412_000, 512_000, call=(402_000, 407_000))
    want = {"waits": 191_000, "launch_cost": 9_000, "copies": 0, "allocation": 0}
    want["host_code"] = 200_000
    why = {
        "waits": "The second wait follows the first: it has `resumes` True, and is a wait like any other. Without "
        "both the host is at 11 µs when it was at 202.",
        "launch_cost": "The second kernel can start 9 µs earlier, so its wait ends 9 µs earlier. The last launch "
        "follows a wait and stays.",
        "host_code": "Between the second wait and the last launch lie 200 µs of host code.",
    }
    judge_savings(stub, timeline.save(), want, why)


@task("ex_30.recoverable_time")
def test_savings_of_a_wait_for_nothing_by_hand(stub, draw):
    """Launch; 15 µs of host code; a synchronizing call of 10 µs when the device is done; launch."""
    timeline = draw()
    timeline.kernel(10_000, 12_000, call=(0, 5_000))
    timeline.api("cudaStreamSynchronize_v3020", 20_000, 30_000, waits_for_stream=7)
    timeline.kernel(45_000, 145_000, call=(35_000, 40_000))
    want = dict.fromkeys(CAUSES, 0) | {"launch_cost": 30_000}
    why = {
        "waits": "The kernel was done when the call began. So nothing was waited for: the 10 µs are what the "
        "call itself costs, and it keeps them.",
        "launch_cost": "Both launches of 5 µs and the host code of 15 µs and 5 µs take no time then. The "
        "synchronising call of 10 µs issues no work, so it stays.",
    }
    judge_savings(stub, timeline.save(), want, why)


@task("ex_30.recoverable_time")
def test_savings_of_launches_by_hand(stub, draw):
    """Kernels of 2 µs, each launched by a call of 10 µs after some host code."""
    timeline = draw()
    at, short = 0, (100_000, 90_000, 90_001)
    for host_ns in (*short, 100_001, 0):
        timeline.kernel(at + 12_000, at + 14_000, call=(at, at + 10_000))
        at += 10_000 + host_ns
    end = at - 10_000 + 14_000  # of the last kernel
    # What is left without launches is the one long stretch of host code, and then a launch (0 ns),
    # 2 µs until its kernel starts, and 2 µs of kernel.
    want = {"waits": 0, "launch_cost": end - 100_001 - 4_000, "copies": 0, "allocation": 0}
    want["host_code"] = 100_001
    why = {
        "launch_cost": "Five calls of 10 µs and the three stretches of host code of at most 100,000 ns "
        "take no time then; the one of 100,001 ns stays.",
        "host_code": "One stretch of host code is longer than 100,000 ns: it has 100,001.",
    }
    judge_savings(stub, timeline.save(), want, why)


@task("ex_30.recoverable_time")
def test_savings_of_copies_by_hand(stub, draw):
    """Copy in, compute, copy out, twice, on one stream, all issued ahead."""
    timeline = draw()
    timeline.copy(10_000, 60_000, "H2D", call=(0, 5_000))
    timeline.kernel(60_000, 90_000, call=(5_000, 8_000))
    timeline.copy(90_000, 110_000, "D2H", call=(8_000, 12_000))
    timeline.copy(110_000, 160_000, "H2D", call=(12_000, 15_000))
    timeline.kernel(160_000, 190_000, call=(15_000, 18_000))
    timeline.copy(190_000, 210_000, "D2H", call=(18_000, 21_000))
    want = {"waits": 0, "launch_cost": 0, "copies": 80_000, "allocation": 0, "host_code": 0}
    why = {
        "copies": "Overlap hides copies, it does not shorten them: 100 µs of H2D need their direction "
        "from 10 µs to 110 µs, a last D2H of 20 µs comes after it, and the recording ends at 210 µs.",
    }
    judge_savings(stub, timeline.save(), want, why)


@task("ex_30.recoverable_time")
def test_busiest_direction_of_each_device_by_hand(stub, draw):
    """Copies of two directions and of two devices do not share a link; D2D copies use none."""
    timeline = draw()
    timeline.copy(10_000, 60_000, "H2D", call=(0, 5_000))
    timeline.copy(60_000, 85_000, "D2H", call=(5_000, 6_000))
    timeline.copy(85_000, 100_000, "D2H", call=(6_000, 7_000))
    timeline.copy(100_000, 120_000, "D2D", call=(7_000, 8_000))
    timeline.copy(120_000, 150_000, "H2D", call=(8_000, 9_000))
    timeline.copy(20_000, 30_000, "H2D", device=1, stream=9, call=(9_000, 15_000))
    want = {"waits": 0, "launch_cost": 0, "copies": 45_000, "allocation": 0, "host_code": 0}
    why = {
        "copies": "The busiest direction is H2D of device 0 with 80 µs, from 10 µs on to 90 µs, and its "
        "shortest D2H takes 15 µs; the recording ends at 150 µs. Device 1 has a link of its own.",
    }
    judge_savings(stub, timeline.save(), want, why)


@task("ex_30.recoverable_time")
def test_least_time_of_copies_by_hand(stub, draw):
    """What overlap cannot hide, in four small captures."""
    nothing = dict.fromkeys(CAUSES, 0)
    one_way = draw()
    one_way.copy(10_000, 50_000, "H2D", call=(0, 5_000))
    one_way.kernel(50_000, 60_000, call=(5_000, 8_000))
    one_way.copy(60_000, 100_000, "H2D", call=(8_000, 9_000))
    one_way.kernel(100_000, 110_000, call=(9_000, 10_000))
    why = {
        "copies": "80 µs of H2D need their direction from 10 µs to 90 µs, and nothing is copied back; "
        "the recording ends at 110 µs."
    }
    judge_savings(stub, one_way.save(), nothing | {"copies": 20_000}, why)
    equal = draw()
    equal.copy(10_000, 40_000, "H2D", call=(0, 5_000))
    equal.kernel(40_000, 50_000, call=(5_000, 8_000))
    equal.copy(50_000, 80_000, "D2H", call=(8_000, 9_000))
    why = {"copies": "One batch has nothing to overlap with: it is copied in, then out, in 60 µs."}
    judge_savings(stub, equal.save(), nothing | {"copies": 10_000}, why)
    together = draw()
    together.copy(10_000, 60_000, "H2D", call=(0, 5_000))
    together.copy(11_000, 61_000, "H2D", stream=9, call=(5_000, 6_000))
    why = {
        "copies": "Both copies together take 100 µs, longer than the recording: nothing can be saved."
    }
    judge_savings(stub, together.save(), nothing, why)
    late = draw()
    late.copy(101_000, 102_000, "H2D", call=(0, 100_000))
    late.kernel(104_000, 105_000, stream=9, call=(100_000, 103_000))
    want = nothing | {"copies": 3_000, "launch_cost": 2_000}
    why = {
        "copies": "Without the copy call of 100 µs everything comes earlier. But the copy itself runs from "
        "101 µs, when the device began, to 102 µs: 3 µs can be saved.",
        "launch_cost": "Without the launch of 3 µs its kernel would end 3 µs earlier, beside the copy; but "
        "the device was idle for 2 µs only.",
    }
    judge_savings(stub, late.save(), want, why)
    inside = draw()
    inside.copy(101_000, 102_000, "H2H", call=(0, 100_000))
    inside.kernel(104_000, 105_000, stream=9, call=(100_000, 103_000))
    want = nothing | {"copies": 4_000, "launch_cost": 2_000}
    why["copies"] = (
        "Without the copy call of 100 µs everything comes earlier. But the device cannot finish before it "
        "began, at 101 µs: 4 µs can be saved, which is the whole recording."
    )
    judge_savings(stub, inside.save(), want, why)


@task("ex_30.recoverable_time")
def test_savings_of_blocking_copies_by_hand(stub, draw):
    """A kernel; a copy that holds the host, which then launches a second kernel."""
    timeline = draw()
    timeline.kernel(10_000, 30_000, call=(0, 4_000))
    # Holds the host until 4 µs after the copy has arrived.
    timeline.copy(30_000, 80_000, "D2H", pinned=False, call=(4_000, 84_000))
    timeline.kernel(94_000, 194_000, call=(84_000, 88_000))
    want = {"waits": 0, "launch_cost": 4_000, "copies": 54_000, "allocation": 0, "host_code": 0}
    why = {
        "waits": "It is a copy call that holds the host here, not a synchronising call.",
        "launch_cost": "The first launch of 4 µs lies on the way to the end; with the second one the host "
        "goes on after it had to wait.",
        "copies": "Without the copy the host still has to wait for the kernel before it, until 30 µs. "
        "It launches then, 54 µs earlier than at 84 µs.",
    }
    judge_savings(stub, timeline.save(), want, why)


@task("ex_30.recoverable_time")
def test_savings_of_asynchronous_copy_calls_by_hand(stub, draw):
    """A copy whose call takes long on the host, and a kernel launched after it."""
    timeline = draw()
    timeline.copy(40_000, 45_000, "H2D", call=(0, 30_000))
    timeline.kernel(60_000, 160_000, stream=9, call=(30_000, 40_000))
    want = {"waits": 0, "launch_cost": 10_000, "copies": 30_000, "allocation": 0, "host_code": 0}
    why = {
        "copies": "Without the copy its call of 30 µs takes no time either, so the launch after it "
        "comes 30 µs earlier.",
        "launch_cost": "The launch of 10 µs lies on the way to the kernel; the copy call is no launch.",
    }
    judge_savings(stub, timeline.save(), want, why)


@task("ex_30.recoverable_time")
def test_savings_of_allocations_by_hand(stub, draw):
    """A kernel; cudaFree, which waits for it; cudaMalloc; another kernel."""
    timeline = draw()
    timeline.kernel(10_000, 12_000, call=(0, 5_000))
    timeline.api("cudaFree_v3020", 5_000, 150_000)
    timeline.api("cudaMalloc_v3020", 150_000, 300_000)
    timeline.kernel(310_000, 410_000, call=(300_000, 305_000))
    want = {"waits": 0, "launch_cost": 5_000, "copies": 0, "allocation": 295_000, "host_code": 0}
    why = {
        "allocation": "Without both calls the second launch comes at 5 µs, and its kernel starts at 15 µs "
        "instead of 310 µs.",
        "waits": "It is cudaFree that waits here, not a synchronising call.",
        "launch_cost": "The first launch of 5 µs lies on the way to the end; with the second one the host "
        "goes on after it had to wait, though it allocates before that.",
    }
    judge_savings(stub, timeline.save(), want, why)


@task("ex_30.recoverable_time")
@pytest.mark.parametrize("first", ["launch", "copy"])
def test_savings_of_what_follows_a_wait_by_hand(stub, draw, first):
    """A wait; host code, an event, host code; then two calls that issue work. Another thread beside it."""
    timeline = draw()
    timeline.kernel(10_000, 110_000, call=(0, 5_000))
    timeline.api("cudaStreamSynchronize_v3020", 6_000, 112_000, waits_for_stream=7)
    timeline.api("cudaEventRecord_v3020", 120_000, 121_000)
    if first == "copy":
        timeline.copy(136_000, 137_000, "D2D", call=(130_000, 135_000))
    else:
        timeline.kernel(136_000, 137_000, call=(130_000, 135_000))
    timeline.kernel(155_000, 255_000, call=(143_000, 150_000))
    want = dict.fromkeys(CAUSES, 0) | {"waits": 42_000, "launch_cost": 20_000}
    why = {
        "waits": "Without the wait all is issued while the first kernel runs, and starts 1 µs after what is "
        "before it: the end comes at 213 µs.",
        "launch_cost": "Three things cost nothing then: the first launch of 5 µs, and, after the first call that "
        "issues work again, the 8 µs of host code and the launch of 7 µs. The host code between the wait and "
        "that call remains, and so does the call: they are needed however work is bundled.",
    }
    judge_savings(stub, timeline.save(), want, why)


@task("ex_30.recoverable_time")
def test_savings_of_a_function_of_the_host_by_hand(stub, draw):
    """All is issued ahead; between two kernels of a stream stands a function of the host."""
    timeline = draw()
    timeline.kernel(10_000, 110_000, call=(0, 5_000))
    timeline.api("cudaLaunchHostFunc_v10000", 6_000, 7_000)
    timeline.kernel(180_000, 190_000, call=(8_000, 9_000))
    want = dict.fromkeys(CAUSES, 0) | {"launch_cost": 5_000, "host_code": 69_000}
    why = {
        "host_code": "The second kernel could start 1 µs after the first ended, at 111 µs: the 69 µs until "
        "it does are an operation of kind host_function, however short.",
        "launch_cost": "Of the calls only the first one, of 5 µs, lies on the way to the end.",
    }
    judge_savings(stub, timeline.save(), want, why)


@task("ex_30.recoverable_time")
@pytest.mark.parametrize(
    "call",
    [
        "cudaEventSynchronize_v3020",
        "cuCtxSynchronize",
        "cuEventSynchronize",
        "cudaEventQuery_v3020",
    ],
)
def test_savings_of_other_waits_by_hand(stub, draw, call):
    """As above, by another call."""
    timeline = draw()
    timeline.kernel(10_000, 110_000, call=(0, 5_000))
    if "Query" in call:  # asked until the device is done: such a thread waits, too
        timeline.api(call, 6_000, 7_000, returns=dependencies.NOT_READY)
        timeline.api(call, 60_000, 61_000, returns=dependencies.NOT_READY)
        timeline.api(call, 111_000, 112_000)
    else:
        timeline.api(call, 6_000, 112_000)
    timeline.kernel(322_000, 422_000, call=(312_000, 317_000))
    want = {"waits": 106_000, "launch_cost": 5_000, "copies": 0, "allocation": 0}
    want["host_code"] = 200_000
    why = {
        "waits": f"Without {call} all that follows comes 106 µs earlier: which operations wait, `waits_in` "
        "says, whatever the call's name.",
        "launch_cost": FIRST_LAUNCH_COUNTS,
        "host_code": LONG_HOST_CODE,
    }
    judge_savings(stub, timeline.save(), want, why)


@task("ex_30.recoverable_time")
def test_savings_of_other_launches_by_hand(stub, draw):
    """Three launches, by calls of other names, a memset, an allocation; then host code, and a launch of 120 µs."""
    timeline = draw()
    timeline.graph(12_000, 14_000, call=(0, 10_000))
    for at, api in ((10_000, "cuLaunchKernel"), (20_000, "cudaLaunchCooperativeKernel_v9000")):
        number = timeline.kernel(at + 12_000, at + 14_000)
        timeline.api(api, at, at + 10_000, correlation=number)
    timeline.memset(42_000, 44_000, call=(30_000, 40_000))
    timeline.api("cudaMalloc_v3020", 40_000, 46_000)
    timeline.kernel(312_000, 412_000, call=(190_000, 310_000))
    want = {
        "waits": 0,
        "launch_cost": 160_000,
        "copies": 0,
        "allocation": 6_000,
        "host_code": 144_000,
    }
    why = {
        "launch_cost": "Four calls of 10 µs launch a graph, two kernels and a memset, and one of 120 µs a kernel. "
        "DISPATCH_LIMIT_NS is for host code alone. Without these calls the last kernel starts 2 µs after the "
        "allocation of 6 µs, which stays, and 144 µs of host code: at 152 µs, not 312.",
        "allocation": "There is one allocation, of 6 µs.",
        "host_code": "There is one stretch of 144 µs of host code, before the last launch.",
    }
    judge_savings(stub, timeline.save(), want, why)


@task("ex_30.recoverable_time")
def test_savings_of_copies_inside_the_device_by_hand(stub, draw):
    """One stream: copied in, copied on the device, computed, all issued ahead."""
    timeline = draw()
    timeline.copy(10_000, 20_000, "H2D", call=(0, 2_000))
    timeline.copy(20_000, 60_000, "D2D", call=(2_000, 4_000))
    timeline.kernel(60_000, 100_000, call=(4_000, 6_000))
    want = {"waits": 0, "launch_cost": 0, "copies": 10_000, "allocation": 0, "host_code": 0}
    why = {
        "copies": "The H2D copy takes 10 µs. The other copy stays inside the device: its call of 2 µs issues "
        "work as a launch does, and starts at 0 then."
    }
    judge_savings(stub, timeline.save(), want, why)


@task("ex_30.recoverable_time")
def test_savings_of_a_copy_that_returns_early_by_hand(stub, draw):
    """A call that returns before its copy of pageable memory has ended."""
    timeline = draw()
    timeline.kernel(1_000, 200_000, stream=9, call=(0, 1_000))
    timeline.copy(25_000, 40_000, "H2D", pinned=False, call=(1_000, 30_000))
    timeline.kernel(45_000, 300_000, stream=11, call=(31_000, 41_000))
    want = {"waits": 0, "launch_cost": 0, "copies": 15_000, "allocation": 0, "host_code": 0}
    why = {
        "copies": "The copy, without its 15 µs, ends at 25 µs. Its call returned 10 µs before the end "
        "and still does: a lag that is negative stays. So the launch after it comes 15 µs earlier.",
        "launch_cost": "The launch of 1 µs lies on the way to the end, but the device was never idle.",
    }
    judge_savings(stub, timeline.save(), want, why)


@task("ex_30.recoverable_time")
def test_savings_of_delayed_copies_by_hand(stub, draw):
    """Three copies, of which the last starts later than its launch explains."""
    timeline = draw()
    timeline.copy(10_000, 12_000, call=(0, 5_000))
    timeline.copy(30_000, 32_000, call=(20_000, 25_000))
    timeline.copy(80_000, 82_000, call=(40_000, 45_000))
    timeline.kernel(82_000, 100_000, call=(45_000, 46_000))
    want = dict.fromkeys(CAUSES, 0) | {"launch_cost": 30_000, "copies": 46_000}
    why = {
        "copies": "The last copy starts 35 µs after its call returned, where the others take 5 µs: the "
        "30 µs between are a delay, and copies add none then. Nor do their calls of 5 µs take time: the "
        "kernel starts 5 µs after its launch, at 36 µs.",
        "launch_cost": "Two stretches of 15 µs of host code lie on the way to the last copy.",
    }
    judge_savings(stub, timeline.save(), want, why)


@task("ex_30.recoverable_time")
def test_least_time_of_copies_in_both_directions_by_hand(stub, draw):
    """What overlap cannot hide, where direction and device have to be chosen with care."""
    nothing = dict.fromkeys(CAUSES, 0)
    for one, two in (("H2D", "D2H"), ("D2H", "H2D")):
        equal = draw()  # 60 µs in each direction, in one copy and in two
        equal.copy(10_000, 70_000, one, call=(0, 5_000))
        equal.copy(70_000, 100_000, two, call=(5_000, 6_000))
        equal.copy(100_000, 130_000, two, call=(6_000, 7_000))
        equal.kernel(130_000, 150_000, call=(7_000, 8_000))
        why = {
            "copies": f"Both directions take 60 µs. The later end counts: 60 µs of {two} and the only "
            f"{one}, of 60 µs, end at 130 µs, of 150."
        }
        judge_savings(stub, equal.save(), nothing | {"copies": 20_000}, why)
    shortest = draw()
    shortest.kernel(10_000, 20_000, call=(0, 5_000))
    shortest.copy(20_000, 30_000, "D2H", call=(5_000, 6_000))
    shortest.copy(30_000, 110_000, "H2D", call=(6_000, 7_000))
    shortest.copy(110_000, 140_000, "D2H", call=(7_000, 8_000))
    why = {
        "copies": "80 µs of H2D from the first start of any operation, 10 µs, and the shortest D2H, "
        "which is of 10 µs and the first of two: 100 µs, of 140."
    }
    why["launch_cost"] = (
        "The launch at the beginning lies on the way, but the device was never idle."
    )
    judge_savings(stub, shortest.save(), nothing | {"copies": 40_000}, why)
    devices = draw()  # all on one stream, as far as a device goes
    devices.copy(10_000, 70_000, "H2D", device=0, call=(0, 2_000))
    devices.copy(10_000, 60_000, "H2D", device=3, call=(2_000, 4_000))
    devices.copy(60_000, 80_000, "D2H", device=3, call=(4_000, 6_000))
    devices.kernel(80_000, 90_000, device=3, call=(6_000, 8_000))
    devices.kernel(70_000, 95_000, device=0, call=(8_000, 9_000))
    why = {
        "copies": "Device 0 needs 60 µs for its busiest direction, device 3 50 µs and 20 µs for the "
        "other: the later of the two ends at 80 µs, of 95."
    }
    judge_savings(stub, devices.save(), nothing | {"copies": 15_000}, why)


@task("ex_30.recoverable_time")
@pytest.mark.parametrize("call", ["cudaFreeHost_v3020", "cuMemFree_v2"])
def test_savings_of_other_releases_by_hand(stub, draw, call):
    """A kernel; a release that waits for it; another kernel."""
    timeline = draw()
    timeline.kernel(10_000, 12_000, call=(0, 5_000))
    timeline.api(call, 5_000, 150_000)
    timeline.kernel(160_000, 260_000, call=(150_000, 155_000))
    want = {"waits": 0, "launch_cost": 5_000, "copies": 0, "allocation": 145_000, "host_code": 0}
    why = {
        "allocation": f"Without {call} the second kernel starts at 15 µs instead of 160 µs.",
        "launch_cost": FIRST_LAUNCH_COUNTS,
    }
    judge_savings(stub, timeline.save(), want, why)


def two_processes(draw: Any) -> Any:
    """The first launches, waits, and launches; the second has the device while the first waits."""
    timeline = draw()
    second = {"process": 2, "thread": 2}
    timeline.kernel(5_000, 14_000, call=(0, 1_000), **second)
    timeline.kernel(110_000, 220_000, call=(1_000, 1_500), **second)
    timeline.kernel(12_000, 110_000, call=(2_000, 7_000))
    timeline.api("cudaStreamSynchronize_v3020", 8_000, 112_000, waits_for_stream=7)
    timeline.kernel(223_000, 323_000, call=(113_000, 118_000))
    return timeline


@task("ex_30.recoverable_time")
def test_savings_on_a_busy_device_by_hand(stub, draw):
    want = dict.fromkeys(CAUSES, 0) | {"waits": 3_000, "launch_cost": 3_000}
    why = {
        "waits": "Without its wait the first process would issue 104 µs earlier; but the device works for the "
        "other one then. It is idle from 220 to 223 µs only.",
        "launch_cost": "The launch of 5 µs lies on the way to the end; but the device is idle for 3 µs only.",
    }
    judge_savings(stub, two_processes(draw).save(), want, why)


@task("ex_30.recoverable_time")
def test_savings_inside_a_range_on_a_busy_device_by_hand(stub, draw):
    """The range holds the first process's calls; other work begins before it, and ends after it."""
    timeline = two_processes(draw)
    timeline.kernel(300_000, 400_000, process=2, thread=2, call=(1_500, 1_600))
    timeline.kernel(0, 400_000, device=1, process=2, thread=2, call=(1_600, 1_700))
    timeline.nvtx("steady", 1_800, 119_000)
    got = savings(stub, timeline.save(), "steady")
    for cause in ("waits", "launch_cost"):
        assert got[cause] == 3_000, (
            f"recoverable_time(…, 'steady')[{cause!r}] is {got[cause]:,}; expected 3,000 ns: of the time "
            "from 12 to 323 µs, in which the range's kernels ran, the device was idle from 220 to 223 µs. "
            "Kernels of another process are work, too; and device 1 has nothing to do with the range."
        )


@task("ex_30.recoverable_time")
def test_least_idle_device_by_hand(stub, draw):
    """As in the drawing of waits, with a second device, whose two kernels are on two streams."""
    timeline = draw()
    timeline.kernel(10_000, 110_000, call=(0, 5_000))
    timeline.kernel(20_000, 220_000, device=1, stream=9, call=(5_000, 6_000))
    timeline.api("cudaStreamSynchronize_v3020", 6_000, 112_000, waits_for_stream=7)
    timeline.kernel(322_000, 422_000, call=(312_000, 317_000))
    timeline.kernel(326_000, 421_000, device=1, stream=11, call=(317_000, 318_000))
    want = dict.fromkeys(CAUSES, 0) | {"waits": 106_000, "launch_cost": 5_000, "host_code": 117_000}
    why = {
        "waits": "Without the wait all that follows on the host comes 106 µs earlier.",
        "launch_cost": FIRST_LAUNCH_COUNTS,
        "host_code": "Without the 200 µs of host code all would end at 222 µs, with kernels of device 1 at the "
        "same time. But as recorded, device 1 does its 295 µs of work one after the other. So from 10 to 422 µs it "
        "was idle for 117 µs, and no more can be saved, though device 0 was idle for 212 µs.",
    }
    judge_savings(stub, timeline.save(), want, why)


@task("ex_30.recoverable_time")
def test_savings_inside_a_range(stub, draw):
    """Two phases of which only the second lies in the range."""
    timeline = draw()
    timeline.kernel(10_000, 12_000, call=(0, 5_000))
    timeline.kernel(1_010_000, 1_012_000, call=(1_000_000, 1_005_000))  # 995 µs of host code before
    timeline.nvtx("steady", 999_000, 1_400_000)
    timeline.kernel(1_315_000, 1_615_000, call=(1_305_000, 1_310_000))  # 300 µs of host code before
    capture = timeline.save()
    got = savings(stub, capture, "steady")
    assert got["host_code"] == 300_000, (
        f"recoverable_time(…, 'steady')['host_code'] is {got['host_code']:,}; expected 300,000 ns: "
        "there are 300 µs of host code between the two launches of the range; the 995 µs before the "
        "range do not count."
    )
    whole = savings(stub, capture)
    assert whole["host_code"] == 1_295_000, (
        f"recoverable_time(…)['host_code'] is {whole['host_code']:,}; expected 1,295,000 ns without a "
        "range: 995 µs and 300 µs of host code."
    )


# == name_bottleneck ==============================================================================

FLOOR, NEAR = 0.10, 0.02
# How the recommendations begin that the stub gives.
ADVICE = {
    "healthy": "none",
    "sync_bound": "let the host run ahead",
    "launch_bound": "issue less",
    "transfer_bound": "pin host memory",
    "allocation_bound": "allocate once",
    "host_bound": "move host work off",
}
# What the recorded programs were written to show. Whoever records them again must find it again.
RECORDED_CATEGORY = {
    "torch_inference_baseline": "transfer_bound",
    "cuda_pipeline_baseline": "transfer_bound",
    "decode_eager": "launch_bound",
}


def judge_bottleneck(
    stub: Any, capture: str, nvtx_range: str | None = None, category: str | None = None
) -> Finding:
    """Check a finding against recoverable_time, the window and the rules of the docstring."""
    arguments = (capture,) if nvtx_range is None else (capture, nvtx_range)
    call = call_words("name_bottleneck", *arguments)
    found = stub.name_bottleneck(*arguments)
    if type(found) is not Finding:
        pytest.fail(f"{call} returned {show(found)}; expected a Finding", pytrace=False)
    if form := problems(found):
        pytest.fail(f"{call}: {'; '.join(form)}{repeat_hint(capture)}", pytrace=False)
    json.dumps(found.to_dict())  # what `lab diagnose --json` prints
    saved = savings(stub, capture, nvtx_range)
    low, high = issued_window(capture, nvtx_range)
    most = max(saved.values())
    ratio = most / (high - low)
    evidence = {
        "recoverable_ns": most,
        "window_ns": high - low,
        "recoverable_ratio": ratio,
        "margin_ratio": ratio - FLOOR,
    }
    reasons = {
        "recoverable_ns": f"The largest of the savings {show(saved)} is {most:,} ns.",
        "window_ns": "The window here is from the first start to the last end of the device "
        "operations that recoverable_time looked at: those issued in the range, if one is given.",
        "recoverable_ratio": "It is recoverable_ns divided by window_ns.",
        "margin_ratio": f"It is recoverable_ratio minus the floor of {FLOOR}.",
    }
    for key, want in evidence.items():
        got = found.evidence.get(key)
        if not agree(got, want):
            pytest.fail(
                f"{call} has evidence {key} = {show(got)}; expected {want}. {reasons[key]}{repeat_hint(capture)}",
                pytrace=False,
            )
    largest = [cause for cause in CAUSES if saved[cause] == most]
    if category is None:
        category = "healthy"
        if ratio - FLOOR >= 0:
            category = min(
                (CAUSES[c] for c in largest), key=lambda name: CATEGORIES[name].precedence
            )
    if found.category != category:
        pytest.fail(
            f"{call} says {found.category!r}. Taking causes away saves {show(saved)} ns of a window "
            f"of {high - low:,} ns: the largest is {ratio:.2%}, {'not ' * (ratio >= FLOOR)}less than the "
            f"floor of {FLOOR:.0%}; expected {category!r}."
            + (
                " Equal savings: see the precedence in findings.CATEGORIES."
                if len(largest) > 1
                else ""
            )
            + repeat_hint(capture),
            pytrace=False,
        )
    if nvtx_range is not None:
        subject = f"range:{nvtx_range}"
    else:
        busy = oracles.busy_ns(captures.path(capture))
        subject = f"device:{min(busy, key=lambda device: (busy[device], device))}"
    if found.subject != subject:
        pytest.fail(
            f"{call} has the subject {found.subject!r}; expected {subject!r}: the range if one is "
            f"given, else the device that was idle longest, the lowest number if equal{repeat_hint(capture)}",
            pytrace=False,
        )
    near = abs(ratio - FLOOR) <= NEAR
    says = found.recommendation.startswith("borderline")
    if near != says:
        pytest.fail(
            f"{call} has the recommendation {found.recommendation!r} with a margin of "
            f'{ratio - FLOOR:+.3f}: it begins with "borderline" exactly if the margin is at most '
            f"{NEAR} on either side of the floor, for a healthy capture too{repeat_hint(capture)}",
            pytrace=False,
        )
    if not found.recommendation.removeprefix("borderline: ").startswith(ADVICE[category]):
        pytest.fail(
            f"{call} says {category!r} and recommends {found.recommendation!r}: RECOMMENDATIONS has "
            f"other words for that category{repeat_hint(capture)}",
            pytrace=False,
        )
    return found


def judge_category(stub: Any, capture: str, category: str) -> None:
    """Check the category alone, of a capture that is known to be of that category."""
    found = stub.name_bottleneck(capture)
    call = call_words("name_bottleneck", capture)
    if type(found) is not Finding:
        pytest.fail(f"{call} returned {show(found)}; expected a Finding", pytrace=False)
    if found.category != category:
        pytest.fail(
            f"{call} says {found.category!r} with {show(found.evidence)}. The program of this capture "
            f"was written so that something else decides its time. What does recoverable_time say?"
            f"{repeat_hint(capture)}",
            pytrace=False,
        )


@task("ex_30.name_bottleneck")
@pytest.mark.parametrize("name", RECORDED_CATEGORY)
def test_bottleneck_of_the_courses_recordings(stub, name):
    judge_category(stub, name, RECORDED_CATEGORY[name])


@task("ex_30.name_bottleneck")
@recordings("cuda_pipeline_improved", "decode_graph_nodes")
def test_bottleneck_follows_from_the_savings(stub, recording):
    judge_bottleneck(stub, recording)


@pytest.fixture(scope="session")
def saved_worlds(tmp_path_factory) -> bottleneck_worlds.Saved:
    return bottleneck_worlds.Saved(tmp_path_factory.mktemp("worlds"))


@task("ex_30.name_bottleneck")
@pytest.mark.parametrize("cause", [*CAUSES, "none"])
def test_verdict_changes_with_its_cause_alone(stub, cause, seed, saved_worlds):
    family = (
        bottleneck_worlds.healthy(seed, saved_worlds)
        if cause == "none"
        else bottleneck_worlds.with_and_without(cause, CAUSES[cause], seed, saved_worlds)
    )

    def verdict(path: str) -> Any:
        if path not in saved_worlds.said:  # the steps without a cause are the same for each cause
            saved_worlds.said[path] = stub.name_bottleneck(path)
        found = saved_worlds.said[path]
        return found.category if type(found) is Finding else found

    judge_families(verdict, [family], "name_bottleneck", repeat_hint(family.world.shown))


@task("ex_30.name_bottleneck")
def test_bottleneck_of_a_range(stub, generated):
    made = generated("warmup_then_steady")
    judge_bottleneck(stub, str(made.path), "steady", category="healthy")
    judge_category(stub, str(made.path), CAUSES[made.notes["warmup"]])


@task("ex_30.name_bottleneck")
@pytest.mark.parametrize(
    ("kernel_ns", "category"), [(1_000_000, "host_bound"), (5_000_000, "healthy")]
)
def test_share_is_that_of_the_range(stub, draw, kernel_ns, category):
    """150 µs of host code: a larger share of the range than of the capture, and a smaller one than of the calls."""
    timeline = draw()
    timeline.kernel(10_000, 12_000, call=(0, 5_000))
    end = 165_000 + kernel_ns
    timeline.kernel(165_000, end, call=(155_000, 160_000))
    timeline.nvtx("steady", 0, 161_000)
    timeline.kernel(end + 1_000, end + 9_000_000, call=(170_000, 175_000))
    capture = timeline.save()
    judge_bottleneck(stub, capture, "steady", category=category)
    judge_bottleneck(stub, capture, category="healthy")


@task("ex_30.name_bottleneck")
def test_subject_is_the_device_that_idled_longest(stub, generated, draw):
    judge_bottleneck(stub, str(generated("two_devices").path))
    timeline = draw()
    timeline.kernel(10_000, 20_000, device=1, call=(0, 5_000))
    timeline.kernel(20_000, 30_000, device=0, call=(5_000, 9_000))
    judge_bottleneck(stub, timeline.save())  # both idled equally long


@task("ex_30.name_bottleneck")
def test_idle_time_is_all_of_it(stub, draw):
    """Device 3 idles in several short gaps, device 1 once, and longer than in any of those."""
    timeline = draw()
    timeline.kernel(10_000, 50_000, device=1, call=(0, 1_000))
    for n, (start, end) in enumerate(((10, 14), (28, 32), (46, 50), (60, 76))):
        call = (1_000 + n * 1_000, 2_000 + n * 1_000)
        timeline.kernel(start * 1_000, end * 1_000, device=3, call=call)
    timeline.kernel(61_000, 75_000, device=3, stream=8, call=(5_000, 6_000))  # beside the last
    judge_bottleneck(stub, timeline.save())


@task("ex_30.name_bottleneck")
@pytest.mark.parametrize("share", ["0.05", "0.09", "0.0999", "0.10", "0.11", "0.13"])
def test_near_the_floor_a_finding_says_so(stub, draw, share):
    """Host code of a chosen share of the window between two launches."""
    window = 10_000_000
    host_ns = round(float(share) * window)
    timeline = draw()
    timeline.kernel(10_000, 12_000, call=(0, 5_000))
    second = 5_000 + host_ns
    timeline.kernel(second + 10_000, window + 10_000, call=(second, second + 5_000))
    judge_bottleneck(stub, timeline.save())


@task("ex_30.name_bottleneck")
def test_largest_saving_decides(stub, draw):
    """Several causes above the floor: each but host code is a smaller one."""
    timeline = draw()  # launches of 5 and 100 µs, host code of 150 µs, a copy of 100 µs
    timeline.kernel(10_000, 12_000, call=(0, 5_000))
    timeline.kernel(265_000, 565_000, call=(155_000, 255_000))
    timeline.copy(566_000, 666_000, "D2H", call=(255_000, 258_000))
    judge_bottleneck(stub, timeline.save(), category="host_bound")
    timeline = draw()  # a wait of 105 µs, an allocation of 100 µs, then host code of 150 µs
    timeline.kernel(10_000, 110_000, call=(0, 5_000))
    timeline.api("cudaDeviceSynchronize_v3020", 5_000, 112_000)
    timeline.api("cudaMalloc_v3020", 112_000, 212_000)
    timeline.kernel(372_000, 672_000, call=(362_000, 367_000))
    judge_bottleneck(stub, timeline.save(), category="host_bound")


@task("ex_30.name_bottleneck")
def test_equal_savings_go_by_precedence(stub, draw):
    """Two launches of 5 µs and 90 µs of dispatch on one side, an allocation of 100 µs on the other."""
    timeline = draw()
    timeline.kernel(10_000, 12_000, call=(0, 5_000))
    timeline.api("cudaMalloc_v3020", 95_000, 195_000)
    timeline.kernel(205_000, 505_000, call=(195_000, 200_000))
    judge_bottleneck(stub, timeline.save(), category="allocation_bound")
    timeline = draw()  # launches of 5 and 145 µs on one side, 150 µs of host code on the other
    timeline.kernel(10_000, 12_000, call=(0, 5_000))
    timeline.kernel(310_000, 610_000, call=(155_000, 300_000))
    judge_bottleneck(stub, timeline.save(), category="launch_bound")


# == refuses_bad_input ============================================================================


@task("ex_30.refuses_bad_input")
def test_good_input_gives_the_window(stub, draw, seed):
    timeline = draw()
    timeline.nvtx("step", 1_000, 30_000)
    timeline.kernel(5_000, 40_000)
    timeline.kernel(7_000, 9_000)
    capture = timeline.save()
    for arguments, want in (
        ((capture,), (5_000, 40_000)),
        ((capture, "step", 0), (1_000, 30_000)),
        ((capture, "step", 50_000), (1_000, 30_000)),  # no gap is that long, and that is no error
    ):
        got = stub.refuses_bad_input(*arguments)
        call = call_words("refuses_bad_input", *arguments)
        assert agree(got, want), f"{call} returned {show(got)}; expected the window {want}, in ns"


@task("ex_30.refuses_bad_input")
@pytest.mark.parametrize("value", [-1, -5_000, True, 5.0, "5", None])
def test_minimum_that_makes_no_sense(stub, draw, value):
    timeline = draw()
    timeline.kernel(5_000, 40_000)
    why = "min_gap_ns is a length in whole ns; the message names the argument and the value"
    with stub.raises(ValueError, ("min_gap_ns", repr(value)), why):
        stub.refuses_bad_input(timeline.save(), None, value)


@task("ex_30.refuses_bad_input")
def test_window_that_makes_no_sense(stub, draw):
    timeline = draw()
    timeline.nvtx("nothing", 20_000, 20_000)
    timeline.nvtx("step", 1_000, 30_000)
    timeline.kernel(5_000, 40_000)
    capture = timeline.save()
    why = "a window without length has no gaps, and no shares"
    with stub.raises(ValueError, why=why) as raised:
        stub.refuses_bad_input(capture, "nothing")
    assert "nothing" in raised.message or raised.message.count("20000") == 2, (
        f"{raised.message!r} must name the range, 'nothing', or its start and end, 20000 and 20000 ns"
    )
    timeline = draw()
    timeline.kernel(7_000, 7_000)
    with stub.raises(ValueError, why=why) as raised:
        stub.refuses_bad_input(timeline.save())
    assert raised.message.count("7000") >= 2, (
        f"{raised.message!r} must name the window's start and end, 7000 and 7000 ns"
    )
    for unknown in ("Step", ""):
        why = f"no range is called {unknown!r}; the message names those there are"
        with stub.raises(CaptureError, ("nothing", "step"), why):
            stub.refuses_bad_input(capture, unknown)
