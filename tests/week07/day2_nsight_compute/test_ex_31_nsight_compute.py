"""Checks of `ex_31`: what each function says about recorded, generated and drawn kernels.

Expected values come from a reader of the checks' own (`grading.checks.ncu`), from closed forms, from
NVIDIA's occupancy calculator, from a simulated kernel's truth, and from fixed twins that were recorded
beside the sick kernels. A wrong answer is compared with what typical mistakes give, so that the message
can say which evidence it contradicts.
"""

from __future__ import annotations

import contextlib
import csv
import io
import math
import random
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from grading.checks import ncu, occupancy, task
from grading.checks.assertions import alike, show
from grading.checks.fixtures import MOST_SEED, SEED_VARIABLE, recordings
from grading.checks.generate.kernels import Work
from grading.checks.worlds import Family, World, judge_families
from grading.runner.computed_once import kept
from grading.runner.failures import StubError
from grading.runner.scoring import NotGraded
from profiling_lab import captures, kernel_causes, kernel_counters, warps
from profiling_lab.captures import kernels
from profiling_lab.errors import CaptureError
from profiling_lab.findings import CATEGORIES, Finding

Kernel = dict[str, Any]
Variants = Iterable[tuple[Any, str]]

MEMORY, SHARED = "ncu_memory", "ncu_shared"

# -- words ----------------------------------------------------------------------------------------


def judge(
    call: str, got: Any, want: Any, why: str, mistakes: Variants = (), *, where: str = ""
) -> None:
    """Fail unless got is want; with the sentence of the mistake that gives the same value."""
    if alike(got, want):
        return
    for value, sentence in mistakes:
        if alike(got, value):
            why = sentence
            break
    if isinstance(want, dict) and isinstance(got, dict):
        if missing := [key for key in want if key not in got]:
            why = f"Keys missing: {', '.join(map(repr, missing))}. {why}"
        elif extra := [key for key in got if key not in want]:
            why = f"Keys that should not be there: {', '.join(map(repr, extra))}. {why}"
        else:
            wrong = [key for key in want if not alike(got[key], want[key])]
            got, want = ({key: value[key] for key in wrong} for value in (got, want))
    pytest.fail(
        f"{call} says {show(got)}; expected {show(want)}. {why}{where and ' '}{where}",
        pytrace=False,
    )


def judge_keys(
    call: str, got: Any, want: dict[str, Any], why: dict[str, str], where: str = ""
) -> None:
    """Fail unless got is want, with the sentence of the first key that differs."""
    if type(got) is not dict or got.keys() != want.keys():
        judge(call, got, want, "It must be a dictionary with these keys.", where=where)
    for key, value in want.items():
        if not alike(got[key], value):
            pytest.fail(
                f"{call} says {key} = {show(got[key])}; expected {show(value)}. "
                f"{why.get(key, why.get('', ''))}{where and ' '}{where}",
                pytrace=False,
            )


def repeat(seed: int) -> str:
    """How to repeat a check on a made kernel."""
    return f"(made; {SEED_VARIABLE}={seed % (MOST_SEED + 1)} repeats it)"


# -- kernels -------------------------------------------------------------------------------------


def made(metrics: dict[str, Any], **more: Any) -> Kernel:
    """A kernel as read_metrics gives it."""
    entry = {"id": 0, "name": "made(float *, int)", "grid": (1024, 1, 1), "block": (256, 1, 1)}
    return entry | {"cc": "9.0", "metrics": metrics} | more


def only(kernel: Kernel, names: Iterable[str]) -> Kernel:
    """The same kernel with the metrics that a function needs, so that calls stay small."""
    metrics = {name: kernel["metrics"].get(name) for name in names if name in kernel["metrics"]}
    return kernel | {"metrics": metrics}


def without(kernel: Kernel, name: str, seed: int) -> Kernel:
    """The same kernel with one metric missing: left out, or None."""
    metrics = dict(kernel["metrics"])
    if random.Random(f"{seed} {name}").random() < 0.5:
        del metrics[name]
    else:
        metrics[name] = None
    return kernel | {"metrics": metrics}


def ratio(above: float | None, below: float | None) -> float | None:
    """A quotient; None if a part is missing or the divisor is 0."""
    return None if above is None or not below else above / below


# == sectors_of_request ===========================================================================


def sectors_of(addresses: list[int | None], size: int) -> tuple[int, int]:
    """Byte by byte: the sectors that hold one, and those that would do."""
    wanted = {lane + n for lane in addresses if lane is not None for n in range(size)}
    return len({byte // 32 for byte in wanted}), math.ceil(len(wanted) / 32)


def judge_sectors(stub: Any, addresses: list[int | None], size: int, where: str = "") -> None:
    got, want = stub.sectors_of_request(addresses, size), sectors_of(addresses, size)
    if alike(got, want):
        return
    why = "A tuple of two numbers: the sectors that are moved, and those that would be enough."
    if want == (0, 0):
        why = "A request in which no lane takes part moves nothing."
    elif 0 in addresses and got == sectors_of([address or None for address in addresses], size):
        why = "Address 0 is an address; a lane takes no part only if its entry is None."
    elif type(got) is tuple and len(got) == 2:
        if got[0] != want[0]:
            why = "A sector that several lanes touch moves once; one that no lane touches does not move."
        else:
            why = "For the ideal, count each byte once, however many lanes ask for it, and put these bytes next to each other."
    pytest.fail(
        f"sectors_of_request({show(addresses)}, {size}) says {show(got)}; expected {want}. {why} {where}",
        pytrace=False,
    )


@task("ex_31.sectors_of_request")
@pytest.mark.parametrize("size", [1, 2, 4, 8, 16])
def test_sectors_of_drawn_requests(stub, seed, size):
    rng = random.Random(seed + size)
    for distance in (0, size, 2 * size, 32, 100 * size):
        begin = size * rng.randrange(1000)
        lanes: list[int | None] = [begin + lane * distance for lane in range(32)]
        judge_sectors(stub, lanes, size, repeat(seed))
        for lane in rng.sample(range(32), rng.randint(1, 31)):
            lanes[lane] = None
        rng.shuffle(lanes)
        judge_sectors(stub, lanes, size, repeat(seed))
    judge_sectors(stub, [32 * lane for lane in range(32)], size)
    few = [size * rng.randrange(12) for _ in range(32)]  # some lanes ask for the same
    judge_sectors(stub, [*few], size, repeat(seed))


@task("ex_31.sectors_of_request")
def test_request_of_no_lane_moves_nothing(stub):
    judge_sectors(stub, [None] * 32, 4)
    judge_sectors(stub, [None] * 31 + [64], 4)


@task("ex_31.sectors_of_request")
def test_four_bytes_are_what_a_lane_asks_for_unless_told(stub):
    got = stub.sectors_of_request([4 * lane for lane in range(32)])
    judge("sectors_of_request(32 lanes side by side)", got, (4, 4), "Four bytes a lane.")


# How the lanes of a recorded kernel's warp lie, and the counters of its requests: bytes from lane to lane, bytes a lane.
RECORDED_REQUESTS = (
    (MEMORY, "row_sums_by_thread", "ld", 1 << 12, 4),
    (MEMORY, "row_sums_by_warp", "ld", 4, 4),
    (MEMORY, "scale", "ld", 16, 16),
    (MEMORY, "drift_structs", "ld", 32, 4),
    (SHARED, "transpose_direct", "st", 4 * 8192, 4),
    ("ncu_parallelism", "follow_one", "ld", 0, 4),
)


@task("ex_31.sectors_of_request")
@pytest.mark.parametrize(("capture", "name", "op", "distance", "size"), RECORDED_REQUESTS)
def test_sectors_are_those_that_the_profiler_counted(stub, capture, name, op, distance, size):
    metrics = ncu.kernel(capture, name)["metrics"]
    sectors, requests = (
        metrics[f"l1tex__t_{what}_pipe_lsu_mem_global_op_{op}.sum"]
        for what in ("sectors", "requests")
    )
    got = stub.sectors_of_request([lane * distance for lane in range(32)], size)
    counted = sectors / requests
    assert type(got) is tuple and abs(got[0] - counted) < 0.05 * counted, (
        f"sectors_of_request, lanes {distance} bytes apart, {size} bytes each, says {show(got)}; in the recorded {name} "
        f"the profiler counted {counted:.2f} sectors a request"
    )


# == wavefronts_of_request ========================================================================


def words_of(words: Iterable[int | None]) -> set[int]:
    return {word for word in words if word is not None}


def most_in_a_bank(words: Iterable[int]) -> int:
    return max(Counter(word % 32 for word in words).values(), default=0)


def wavefronts_of(words: list[int | None]) -> int:
    return most_in_a_bank(words_of(words))


# What somebody may count instead, and the rule that it breaks.
OTHER_WAVEFRONTS: tuple[tuple[Callable[[list[int | None]], int], str], ...] = (
    (
        lambda words: most_in_a_bank(word for word in words if word is not None),
        "A bank gives one word a wavefront, to all lanes that want this word.",
    ),
    (
        lambda words: wavefronts_of([word or None for word in words]),
        "Word 0 is a word; a lane reads nothing only if its entry is None.",
    ),
    (
        lambda words: len(words_of(words)),
        "Banks work at the same time: the fullest one decides.",
    ),
    (
        lambda words: 1 + len(words_of(words)) - len({word % 32 for word in words_of(words)}),
        "Banks work at the same time: the fullest one decides.",
    ),
    (
        lambda words: most_in_a_bank(word // 4 for word in words_of(words)),
        "A bank is four bytes wide, one word: consecutive words are in consecutive banks.",
    ),
)


def fullest_bank(words: list[int | None]) -> str:
    """The words that one bank gives one after the other."""
    banks = [sorted(word for word in words_of(words) if word % 32 == bank) for bank in range(32)]
    most = max(banks, key=len)
    return f"Bank {most[0] % 32} gives the words {show(most)}, one a wavefront." if most else ""


def judge_wavefronts(
    stub: Any, requests: list[list[int | None]], where: Callable[[int], str]
) -> None:
    """Fail at the first wrong answer, with the rule that the answers to all requests break, if they show which."""
    for number, words in enumerate(requests):
        got, want = stub.wavefronts_of_request(list(words)), wavefronts_of(words)
        if alike(got, want):
            continue
        answers = [stub.wavefronts_of_request(list(words)) for words in requests]
        why = next(
            (
                sentence
                for other, sentence in OTHER_WAVEFRONTS
                if alike(answers, [other(words) for words in requests])
            ),
            fullest_bank(words),
        )
        pytest.fail(
            f"wavefronts_of_request({show(words)}) says {show(got)}; expected {want}. {why} {where(number)}",
            pytrace=False,
        )


@task("ex_31.wavefronts_of_request")
def test_wavefronts_of_rows_and_columns(stub):
    columns: list[list[int | None]] = [[lane * pitch for lane in range(32)] for pitch in range(66)]
    judge_wavefronts(stub, columns, lambda pitch: f"(a column, {pitch} words a row)")
    judge_wavefronts(stub, [[7, *[None] * 31]], lambda _: "(one lane)")
    judge_wavefronts(
        stub, [[None] * 32], lambda _: "A request in which no lane takes part is none."
    )


@task("ex_31.wavefronts_of_request")
def test_wavefronts_of_drawn_requests(stub, seed):
    rng = random.Random(seed)
    requests = [
        [rng.choice((None, rng.randrange(most), rng.randrange(most))) for _ in range(32)]
        for most in (8, 64, 100, 12_288)
        for _ in range(5)
    ]
    judge_wavefronts(stub, requests, lambda _: repeat(seed))


# == transpose_block ==============================================================================

SHAPES = ((64, 96), (50, 70), (33, 31), (1, 40), (96, 8))


def tiles(rows: int, columns: int) -> list[tuple[int, int]]:
    return [(row, column) for row in range(-(-rows // 32)) for column in range(-(-columns // 32))]


def block_of(stub: Any, tile: tuple[int, int], rows: int, columns: int) -> tuple[str, list[Any]]:
    """The learner's steps for a tile, once they can be run."""
    got = stub.transpose_block(*tile, rows, columns)
    call = f"transpose_block({tile[0]}, {tile[1]}, {rows}, {columns})"
    if type(got) is not list:
        pytest.fail(f"{call} returned {show(got)}; expected a list of steps", pytrace=False)
    if wrong := warps.problem(got):
        pytest.fail(f"{call}: {wrong}", pytrace=False)
    for operation in ("load", "store"):
        for lanes in warps.requests(got, operation):
            if beyond := [at for at in lanes if at is not None and at >= rows * columns]:
                pytest.fail(
                    f"{call}: a thread has element {beyond[0]} to {operation}; there are the elements 0 to "
                    f"{rows * columns - 1}. At the edges a tile is cut off.",
                    pytrace=False,
                )
    return call, got


@task("ex_31.transpose_block")
@pytest.mark.parametrize(("rows", "columns"), SHAPES)
def test_every_element_comes_to_its_place(stub, rows, columns):
    source = list(range(rows * columns))
    out: dict[int, Any] = {}
    for tile in tiles(rows, columns):
        call, steps = block_of(stub, tile, rows, columns)
        for at, value in warps.run(steps, source).items():
            row, column = divmod(at, rows)
            if value != row + column * columns:
                told = (
                    "a register into which nothing was loaded"
                    if value is None
                    else f"element {value}"
                )
                pytest.fail(
                    f"{call} stores at {at} {told}; {at} is row {row}, column {column} of the transpose, and element "
                    f"{row + column * columns} of the matrix belongs there",
                    pytrace=False,
                )
            out[at] = value
    lacking = [at for at in source if at not in out]
    assert not lacking, f"the blocks of {rows} × {columns} store nothing at {show(lacking)}"


@task("ex_31.transpose_block")
@pytest.mark.parametrize(("rows", "columns"), SHAPES)
def test_no_warp_relies_on_how_far_another_one_is(stub, rows, columns):
    for tile in tiles(rows, columns):
        call, steps = block_of(stub, tile, rows, columns)
        if found := warps.race(steps):
            pytest.fail(f"{call}: {found}. It may go well on most runs.", pytrace=False)


def sectors_of_rows(first_row: int, first: int, height: int, width: int) -> int:
    """Sectors of a tile's rows, in a matrix of height × width elements of four bytes."""
    rows = range(first_row, min(first_row + 32, height))
    last = min(first + 32, width) - 1
    return sum((row * width + last) // 8 - (row * width + first) // 8 + 1 for row in rows)


@task("ex_31.transpose_block")
@pytest.mark.parametrize(("rows", "columns"), SHAPES)
def test_requests_are_as_few_sectors_as_there_can_be(stub, rows, columns):
    for row, column in tiles(rows, columns):
        call, steps = block_of(stub, (row, column), rows, columns)
        for operation, needed in (
            ("load", sectors_of_rows(32 * row, 32 * column, rows, columns)),
            ("store", sectors_of_rows(32 * column, 32 * row, columns, rows)),
        ):
            moved = 0
            worst, most = [], 0
            for lanes in warps.requests(steps, operation):
                addresses = [None if at is None else 4 * at for at in lanes]
                count = sectors_of(addresses, 4)[0]
                moved += count
                if count > most:
                    worst, most = addresses, count
            if moved > needed:
                pytest.fail(
                    f"{call}: its {operation}s move {moved} sectors; the rows of its tile lie in {needed}. One request alone "
                    f"touches {most}: the lanes' bytes are {show(worst)}",
                    pytrace=False,
                )


@task("ex_31.transpose_block")
@pytest.mark.parametrize(("rows", "columns"), SHAPES)
def test_no_bank_is_asked_twice(stub, rows, columns):
    for tile in tiles(rows, columns):
        call, steps = block_of(stub, tile, rows, columns)
        height, width = min(32, rows - 32 * tile[0]), min(32, columns - 32 * tile[1])
        for operation, needed, matrix in (
            ("put", height, "matrix"),
            ("get", width, "transpose"),
        ):
            total = 0
            for number, lanes in enumerate(warps.requests(steps, operation)):
                total += wavefronts_of(lanes)
                if (count := wavefronts_of(lanes)) > 1:
                    pytest.fail(
                        f"{call}: {operation} number {number} takes {count} wavefronts, its lanes' words modulo 32 are "
                        f"{show([None if at is None else at % 32 for at in lanes])}",
                        pytrace=False,
                    )
            if total > needed:
                pytest.fail(
                    f"{call}: its {operation}s take {total} wavefronts, and {needed} are enough: one for each row of the "
                    f"tile of the {matrix}. Does each of them serve an element, for the first time?",
                    pytrace=False,
                )


# == ncu_command ==================================================================================

SECTIONS = {
    "ceilings": {"SpeedOfLight"},
    "occupancy": {"LaunchStats", "Occupancy"},
    "memory": {"MemoryWorkloadAnalysis", "MemoryWorkloadAnalysis_Tables"},
    "stalls": {"SchedulerStats", "WarpStateStats"},
    "instructions": {"ComputeWorkloadAnalysis", "InstructionStats"},
    "lines": {"SourceCounters"},
}
SWITCHES = {
    "lines": ("import-source", "yes", "without the source text in it, the report shows no lines"),
    "warm_caches": ("cache-control", "none", "by default every pass begins with flushed caches"),
    "own_clocks": ("clock-control", "none", "by default the clock is locked while profiling"),
}
QUESTIONS = (*SECTIONS, "warm_caches", "own_clocks")
# The tool's help gives both words, and prints the default of a switch as 0.
SAME_VALUE: dict[tuple[str, str | None], str] = {
    ("import-source", "on"): "yes",
    ("import-source", "1"): "yes",
}
PROGRAM = [
    "python3",
    "train.py",
    "--set",
    "full",
    "--launch-count=3",
    "--force-overwrite",
    "64 x 2",
]
FLAGS = {"nvtx", "force-overwrite"}


def ncu_options(
    stub: Any, questions: list[str], program: list[str], output: str, **filters: Any
) -> tuple[str, list[tuple[str, str | None]]]:
    """The call in words and the options of the learner's command, after checking its shape."""
    command = stub.ncu_command(questions, program, output, **filters)
    shown = "".join(f", {key}={value!r}" for key, value in filters.items())
    call = f"ncu_command({questions}, …{shown})"
    if type(command) is not list or not all(type(word) is str for word in command):
        pytest.fail(f"{call} returned {show(command)}; expected a list of words", pytrace=False)
    line = shlex.join(command)
    if command[:1] != ["ncu"]:
        pytest.fail(f"{call} gives: {line}\nIt must begin with: ncu", pytrace=False)
    if command[len(command) - len(program) :] != program:
        pytest.fail(
            f"{call} gives: {line}\nThe program and its arguments, {shlex.join(program)}, must be "
            "unchanged at the end: what follows the program's name is the program's, not the tool's.",
            pytrace=False,
        )
    options: list[tuple[str, str | None]] = []
    for word in command[1 : len(command) - len(program)]:
        matched = re.fullmatch(r"--([\w-]+)(?:=(.*))?", word, flags=re.DOTALL)
        if not matched:
            pytest.fail(
                f"{call} gives: {line}\nThe word {word!r} is not of the form --option=value "
                "(one option a word; short names are not accepted).",
                pytrace=False,
            )
        options.append((matched[1], matched[2]))
    return call, options


def ncu_complaints(
    questions: list[str],
    options: list[tuple[str, str | None]],
    output: str,
    kernel: str | None = None,
    skip: int = 0,
    count: int = 1,
    nvtx_range: str | None = None,
) -> list[str]:
    """What is wrong with the options, most telling first."""
    out = []
    given = dict(options)
    if "set" in given or "metrics" in given:
        name = "set" if "set" in given else "metrics"
        out.append(
            f"--{name}={given[name]}: name the sections that the questions need, so that the kernel "
            "is run again for nothing else"
        )
    sections = [value for name, value in options if name == "section"]
    wanted = set().union(*(SECTIONS.get(question, set()) for question in questions))
    out += [f"--section={name} is missing" for name in sorted(wanted - set(sections))]
    out += [
        f"--section={name} costs passes, and no question needs it"
        for name in sorted(set(map(str, sections)) - wanted)
    ]
    expected: dict[str, str | None] = {
        "launch-count": str(count),
        "export": output,
        "force-overwrite": None,
    }
    why = {
        "launch-count": "every launch profiled costs as many runs of the kernel as there are passes",
        "export": "the report was to go there",
        "force-overwrite": "an older report of that name stops the tool",
        "kernel-name": "only kernels of exactly this function name were asked for",
        "launch-skip": f"the first {skip} launches that the filters let through are not wanted",
        "nvtx": "NVTX ranges are not looked at unless this is on",
        "nvtx-include": "a range opened with push is written with a slash behind its name; without "
        "it the filter means ranges that were opened with start",
    }
    for question in questions:
        if question in SWITCHES:
            name, value, reason = SWITCHES[question]
            expected[name], why[name] = value, reason
    if kernel is not None:
        expected["kernel-name"] = kernel
    if skip:
        expected["launch-skip"] = str(skip)
    if nvtx_range is not None:
        expected |= {"nvtx": None, "nvtx-include": f"{nvtx_range}/"}
    for name, value in expected.items():
        if name not in given:
            out.append(f"--{name} is missing: {why[name]}")
        elif SAME_VALUE.get((name, given[name]), given[name]) != value:
            quoted = str(given[name]).replace("'", "").replace('"', "") == value
            reason = (
                "no quotes: the list goes to the program without a shell" if quoted else why[name]
            )
            out.append(f"--{name}={given[name]} is not what was asked: {reason}")
    once = [name for name, _ in options if name != "section"]
    out += [
        f"--{name} stands there twice" for name in sorted({n for n in once if once.count(n) > 1})
    ]
    out += [
        f"--section={name} stands there twice" for name in {*sections} if sections.count(name) > 1
    ]
    for name, value in given.items():
        if name not in expected and name not in ("section", "set", "metrics"):
            out.append(f"--{name}{'' if value is None else '=' + value} was not asked for")
    return out


def judge_ncu(
    stub: Any, questions: list[str], program: list[str], output: str, **filters: Any
) -> None:
    call, options = ncu_options(stub, list(questions), list(program), output, **filters)
    if wrong := ncu_complaints(questions, options, output, **filters):
        line = " ".join(f"--{name}" + ("" if v is None else f"={v}") for name, v in options)
        pytest.fail(f"{call} gives the options {line}\n- " + "\n- ".join(wrong), pytrace=False)


@task("ex_31.ncu_command")
def test_one_question_needs_its_sections(stub):
    for question in SECTIONS:
        judge_ncu(stub, [question], ["./app"], "report")


@task("ex_31.ncu_command")
def test_what_the_tool_does_to_the_machine_can_be_left_out(stub):
    for question in ("warm_caches", "own_clocks"):
        judge_ncu(stub, [question, "ceilings"], ["./app"], "report")
        judge_ncu(stub, ["memory", question], ["./app"], "report")


@task("ex_31.ncu_command")
def test_questions_together_ask_for_each_section_once(stub, seed):
    rng = random.Random(seed)
    judge_ncu(stub, list(QUESTIONS), PROGRAM, "all questions")
    judge_ncu(stub, ["stalls", "ceilings", "stalls"], PROGRAM, "twice")
    for _ in range(8):
        questions = [rng.choice(list(SECTIONS)), *rng.sample(QUESTIONS, rng.randint(1, 4))]
        judge_ncu(stub, questions, ["./app", str(rng.random())], f"out/run_{rng.random()}")


@task("ex_31.ncu_command")
def test_filters_choose_the_launches(stub, seed):
    rng = random.Random(seed)
    judge_ncu(stub, ["ceilings"], PROGRAM, "report", kernel="copy")
    judge_ncu(stub, ["ceilings"], PROGRAM, "report", skip=12, count=3)
    judge_ncu(stub, ["ceilings"], PROGRAM, "report", nvtx_range="forward pass")
    for _ in range(4):
        judge_ncu(
            stub,
            ["memory", "stalls"],
            PROGRAM,
            "report",
            kernel=f"kernel_{rng.randrange(99)}",
            skip=rng.randrange(3),
            count=rng.randint(1, 9),
            nvtx_range=rng.choice((None, f"step {rng.randrange(99)}")),
        )


def tool_help() -> str:
    """What the recorded tool says of its options and sections."""
    folder = captures.folder() / "tool_help"
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted(folder.glob("ncu*.txt")))


@task("ex_31.ncu_command")
def test_every_option_and_section_is_one_of_the_tool(stub):
    known = tool_help()
    _, options = ncu_options(
        stub, list(QUESTIONS), ["./app"], "report", kernel="copy", skip=1, nvtx_range="step"
    )
    unknown = [f"--{name}" for name, _ in options if f"--{name}" not in known]
    unknown += [
        f"section {value}"
        for name, value in options
        if name == "section" and not re.search(rf"\b{re.escape(str(value))}\b", known)
    ]
    assert not unknown, (
        f"ncu_command({list(QUESTIONS)}, …) uses {', '.join(unknown)}, which the recorded tool does "
        "not know (captures/tool_help/ncu*.txt): it would stop with an error."
    )


# == theoretical_occupancy ========================================================================

LIMIT_ORDER = ("warps", "blocks", "registers", "shared")
WARPS = {name: numbers[0] for name, numbers in occupancy.PROPERTIES.items()}
WHY_LIMIT = {
    "warps": "warps of the SM over warps of a block, whole blocks only",
    "blocks": "each compute capability has its own number of blocks per SM",
    "shared": "what a block needs, with the driver's part, in whole units, out of what the SM sets aside: one of its "
    "steps, never a size between two of them",
}


def why_registers(threads: int, registers: int, got: Any) -> str:
    """What to think of where the limit by registers is wrong, by the slip that gives the same value."""
    if not registers:
        return "a resource of which the kernel needs nothing sets no limit"
    asked = 32 * registers
    granted, warps = -(-asked // 256) * 256, -(-threads // 32)
    partition = 16_384 // granted
    slips = (
        (4 * (16_384 // asked) // warps, "the registers of a warp round up to a multiple of 256"),
        (65_536 // (granted * warps), "a partition holds whole warps"),
        (partition // warps * 4, "the warps of a block may be in different partitions"),
        (4 * partition // max(1, threads // 32), "the warps of a block round up"),
        (int(4 * partition / (threads / 32)), "the warps of a block round up"),
        (None, "None is for threads without registers; if the registers hold no block, 0 fit"),
        (None if 4 * partition // warps else 1, "if the registers hold no block, 0 fit"),
    )
    return next(
        (sentence for value, sentence in slips if alike(got, value)),
        "registers are granted by the warp, in one of four partitions",
    )


def why_limit(name: str, limit: int | None, asked_bytes: float) -> str:
    """What to think of where a limit is wrong."""
    if limit is None:
        return "a resource of which the kernel needs nothing sets no limit"
    if name == "shared" and not limit:
        return "a block that no step can hold does not fit"
    if name == "shared" and not asked_bytes:
        return "the driver's part counts also if the block asks for none"
    return WHY_LIMIT[name]


def judge_occupancy(
    stub: Any, launch: occupancy.Launch, want: occupancy.Occupancy, source: str
) -> None:
    arguments = (
        launch.compute_capability,
        launch.block_threads,
        launch.thread_registers,
        launch.static_shared_bytes,
        launch.dynamic_shared_bytes,
        launch.shared_config_bytes,
    )
    got = stub.theoretical_occupancy(*arguments)
    call = f"theoretical_occupancy{arguments}"
    warps = want.blocks * -(-launch.block_threads // 32)
    expected = {
        "blocks_count": want.blocks,
        "warps_count": warps,
        "occupancy_ratio": warps / WARPS[launch.compute_capability],
        "limits": want.limits,
        "limiters": [name for name in LIMIT_ORDER if want.limits[name] == want.blocks],
    }
    if type(got) is dict and type(got.get("limits")) is dict:
        for name, limit in want.limits.items():
            if name in got["limits"] and not alike(got["limits"][name], limit):
                if name == "registers":
                    why = why_registers(
                        launch.block_threads, launch.thread_registers, got["limits"][name]
                    )
                else:
                    asked = launch.static_shared_bytes + launch.dynamic_shared_bytes
                    why = why_limit(name, limit, asked)
                pytest.fail(
                    f"{call}: the limit {name!r} is {got['limits'][name]} blocks; by {source} it is {limit}. "
                    f"Think of: {why}.",
                    pytrace=False,
                )
    judge(call, got, expected, f"By {source}.")


@task("ex_31.register_blocks")
@pytest.mark.parametrize(
    ("threads", "registers", "blocks"),
    [
        (64, 40, 24),
        (256, 64, 4),
        (1024, 32, 2),
        (128, 0, None),
        (1024, 255, 0),
        (32, 255, 8),
        (33, 32, 32),
        (128, 33, 12),
    ],
)
def test_registers_on_a_slip_of_paper(stub, threads, registers, blocks):
    got = stub.register_blocks(threads, registers)
    why = f"By hand. Think of: {why_registers(threads, registers, got)}."
    judge(f"register_blocks({threads}, {registers})", got, blocks, why)


@task("ex_31.register_blocks")
def test_as_the_occupancy_calculator_says(stub, seed):
    launches = occupancy.tabled()
    for launch, want in random.Random(seed).sample(launches, 200):
        judge_occupancy(stub, launch, want, "cuda_occupancy.h")


@task("ex_31.register_blocks")
def test_as_the_calculator_compiled_here_says(stub, seed):
    launches = occupancy.sample(seed, 200)
    if not occupancy.available():  # the table above stands in for it
        launches = []
    for launch, want in zip(launches, occupancy.compute(launches) if launches else [], strict=True):
        judge_occupancy(stub, launch, want, "cuda_occupancy.h")


@task("ex_31.register_blocks")
@pytest.mark.parametrize("capability", WARPS)
def test_block_sizes_do_not_all_fill_an_sm(stub, capability):
    # Warps per block divide an SM's warps or not, and blocks run out first with small blocks.
    most_blocks = {"7.5": 16, "8.6": 16, "8.9": 24, "12.0": 24}.get(capability, 32)
    for threads in (1, 32, 64, 96, 128, 256, 512, 1024):
        warps = -(-threads // 32)
        blocks = min(WARPS[capability] // warps, most_blocks)
        limits = {"warps": WARPS[capability] // warps, "blocks": most_blocks, "registers": None}
        reserved = 1024 if capability >= "8" or capability in ("10.0", "12.0") else 0
        shared = occupancy.PROPERTIES[capability][1] // reserved if reserved else None
        want = occupancy.Occupancy(blocks, {**limits, "shared": shared})
        launch = occupancy.Launch(capability, threads, 0)
        judge_occupancy(stub, launch, want, "the table of limits")


@task("ex_31.register_blocks")
@recordings(MEMORY, SHARED)
def test_as_the_profiler_says_of_recorded_launches(stub, recording):
    for kernel in ncu.kernels(recording):
        metrics = kernel["metrics"]
        name = ncu.short(kernel["name"])
        threads = math.prod(kernel["block"])
        launch = profiled_launch(kernel)
        if launch is None or kernel["cc"] not in WARPS:  # a capture of the learner's own
            continue
        arguments = [kernel["cc"], threads, *map(int, launch)]
        got = stub.theoretical_occupancy(*arguments)
        call = f"theoretical_occupancy({', '.join(map(repr, arguments))})"
        for key, metric in (
            ("warps", "launch__occupancy_limit_warps"),
            ("blocks", "launch__occupancy_limit_blocks"),
            ("registers", "launch__occupancy_limit_registers"),
            ("shared", "launch__occupancy_limit_shared_mem"),
        ):
            said = metrics.get(metric)
            if said is not None:
                limit = got["limits"].get(key) if type(got) is dict else got
                if key == "registers":
                    why = why_registers(threads, int(launch[0]), limit)
                else:
                    why = why_limit(key, said, sum(launch[1:3]))
                judge(
                    f"{call}, the launch of {name}: limits[{key!r}]",
                    limit,
                    said,
                    f"The profiler's {metric}. Think of: {why}.",
                )
        theoretical = metrics.get("sm__maximum_warps_per_active_cycle_pct")
        if theoretical is not None and not alike(100 * got["occupancy_ratio"], theoretical, 1e-3):
            pytest.fail(
                f"{call}, the launch of {name}, says {show(got['occupancy_ratio'])}; the profiler's "
                f"sm__maximum_warps_per_active_cycle_pct is {show(theoretical)} %",
                pytrace=False,
            )


def profiled_launch(kernel: Kernel) -> tuple[float, float, float, float] | None:
    """Registers, static, dynamic and set-aside shared bytes; rounded ones put back to whole units.

    With automatic units the tool writes 16.38 Kbyte for 16,384 bytes: the nearest multiple of 4 for
    what a block asks, of 1,024 for what the SM sets aside. None if the launch was not recorded.
    """
    names = ("registers_per_thread", *(f"shared_mem_{part}" for part in SHARED_PARTS))
    values = [kernel["metrics"].get(f"launch__{name}") for name in names]
    if None in values:
        return None
    registers, fixed, dynamic, config = values
    return (registers, 4 * round(fixed / 4), 4 * round(dynamic / 4), 1024 * round(config / 1024))


SHARED_PARTS = ("per_block_static", "per_block_dynamic", "config_size")


@task("ex_31.register_blocks")
def test_without_shared_memory_a_block_has_the_drivers_part(stub):
    got = stub.theoretical_occupancy("8.0", 256, 32)
    want = {"warps": 8, "blocks": 32, "registers": 8, "shared": 164}
    judge(
        "theoretical_occupancy('8.0', 256, 32)['limits']",
        got.get("limits") if type(got) is dict else got,
        want,
        "Nothing asked for, 1 kB of the driver's: 164 blocks.",
    )


@task("ex_31.register_blocks")
@pytest.mark.parametrize(
    ("launch", "blocks", "limits"),
    [
        (("9.0", 1024, 255), 0, {"warps": 2, "blocks": 32, "registers": 0, "shared": 228}),
        (("9.0", 1024, 64), 1, {"warps": 2, "blocks": 32, "registers": 1, "shared": 228}),
        (("9.0", 1, 255), 8, {"warps": 64, "blocks": 32, "registers": 8, "shared": 228}),
        (("9.0", 64, 40), 24, {"warps": 32, "blocks": 32, "registers": 24, "shared": 228}),
        (
            ("9.0", 256, 32, 49_152, 185_000),
            0,
            {"warps": 8, "blocks": 32, "registers": 8, "shared": 0},
        ),
        # The most that a block may ask for, a byte more, and a single byte.
        (
            ("9.0", 256, 32, 0, 227 << 10),
            1,
            {"warps": 8, "blocks": 32, "registers": 8, "shared": 1},
        ),
        (
            ("8.6", 256, 32, 1, 99 << 10),
            0,
            {"warps": 6, "blocks": 16, "registers": 8, "shared": 0},
        ),
        (("9.0", 1024, 32, 1), 2, {"warps": 2, "blocks": 32, "registers": 2, "shared": 202}),
    ],
)
def test_launch_on_a_slip_of_paper(stub, launch, blocks, limits):
    want = occupancy.Occupancy(blocks, limits)
    judge_occupancy(stub, occupancy.Launch(*launch), want, "the contract")


# == occupancy_gap ================================================================================

OCCUPANCY_METRICS = (
    "sm__maximum_warps_per_active_cycle_pct",
    "sm__warps_active.avg.pct_of_peak_sustained_active",
    "sm__cycles_active.avg",
    "gpc__cycles_elapsed.max",
    "launch__waves_per_multiprocessor",
)
WHY_GAP = {
    "theoretical_ratio": "A ratio is per cent over 100.",
    "achieved_ratio": "A ratio is per cent over 100.",
    "gap_ratio": "Theoretical minus achieved.",
    "busy_sm_ratio": "Cycles in which an SM was active, on average, over the cycles that passed.",
    "resident_ratio": "Achieved occupancy leaves out SMs that have nothing to do: weigh it with their time.",
    "waves_ratio": "The last wave takes as long as a full one, however few blocks it has.",
    "": "A metric that is missing makes the answer None, and only the answers that need it.",
}


def gap_of(kernel: Kernel) -> dict[str, float | None]:
    theoretical, achieved, active, elapsed, waves = (
        kernel["metrics"].get(name) for name in OCCUPANCY_METRICS
    )
    busy = ratio(active, elapsed)
    have = None not in (theoretical, achieved)
    return {
        "theoretical_ratio": ratio(theoretical, 100),
        "achieved_ratio": ratio(achieved, 100),
        "gap_ratio": (theoretical - achieved) / 100 if have else None,
        "busy_sm_ratio": busy,
        "resident_ratio": ratio(achieved * busy, theoretical)
        if None not in (achieved, busy)
        else None,
        "waves_ratio": None if waves is None else waves / max(math.ceil(waves), 1),
    }


def made_occupancy(rng: random.Random) -> Kernel:
    theoretical = 6.25 * rng.randint(1, 16)
    elapsed = rng.randrange(10_000, 1_000_000)
    values = (
        theoretical,
        # Measured: it may be above what was computed.
        theoretical * rng.choice((rng.uniform(0.1, 1), rng.uniform(1, 1.1))),
        elapsed * rng.choice((1.0, rng.uniform(0.05, 1))),
        elapsed,
        rng.choice((rng.uniform(0.01, 1), rng.uniform(1, 40), float(rng.randint(1, 9)))),
    )
    return made(dict(zip(OCCUPANCY_METRICS, values, strict=True)))


@task("ex_31.occupancy_gap")
@recordings(MEMORY, SHARED)
def test_gap_of_recorded_kernels(stub, recording):
    for kernel in ncu.kernels(recording):
        name = ncu.short(kernel["name"])
        got = stub.occupancy_gap(only(kernel, OCCUPANCY_METRICS))
        judge_keys(f"occupancy_gap({name})", got, gap_of(kernel), WHY_GAP)


@task("ex_31.occupancy_gap")
def test_gap_of_made_kernels(stub, seed):
    rng = random.Random(seed)
    for _ in range(20):
        kernel = made_occupancy(rng)
        got = stub.occupancy_gap(kernel)
        call = f"occupancy_gap of {show(kernel['metrics'])}"
        judge_keys(call, got, gap_of(kernel), WHY_GAP, repeat(seed))


@task("ex_31.occupancy_gap")
def test_gap_with_a_metric_missing(stub, seed):
    rng = random.Random(seed)
    for name in OCCUPANCY_METRICS:
        kernel = without(made_occupancy(rng), name, seed)
        call = f"occupancy_gap without {name}"
        why = dict.fromkeys(WHY_GAP, WHY_GAP[""])
        judge_keys(call, stub.occupancy_gap(kernel), gap_of(kernel), why)
    for name, why in (
        ("gpc__cycles_elapsed.max", "Nothing is known of a share of nothing."),
        ("sm__maximum_warps_per_active_cycle_pct", "Nothing is known of a share of nothing."),
        ("launch__waves_per_multiprocessor", "One block on a large device is written as 0 waves."),
    ):
        for zero in (0, 0.0):
            kernel = with_metrics(made_occupancy(rng), {name: zero})
            call = f"occupancy_gap with {name} = {zero}"
            judge_keys(call, stub.occupancy_gap(kernel), gap_of(kernel), {"": why})


# == sector_efficiency ============================================================================


def sectors(op: str) -> tuple[str, str, str]:
    """Sectors, requests and bytes used per sector of global loads (ld) or stores (st)."""
    return (
        f"l1tex__t_sectors_pipe_lsu_mem_global_op_{op}.sum",
        f"l1tex__t_requests_pipe_lsu_mem_global_op_{op}.sum",
        f"smsp__sass_average_data_bytes_per_sector_mem_global_op_{op}.ratio",
    )


HIT_RATES = ("l1tex__t_sector_hit_rate.pct", "lts__t_sector_hit_rate.pct")
IDEAL = ("memory_l2_theoretical_sectors_global_ideal", "memory_l2_theoretical_sectors_global")
SECTOR_METRICS = (*sectors("ld"), *sectors("st"), *HIT_RATES, *IDEAL)
WHY_SECTORS = {
    "load_ratio": "A sector has 32 bytes: how many of them did a thread ask for?",
    "store_ratio": "A sector has 32 bytes: how many of them did a thread write?",
    "sectors_per_load_ratio": "Sectors over requests; a request is one instruction of one warp.",
    "sectors_per_store_ratio": "Sectors over requests; a request is one instruction of one warp.",
    "used_ratio": "All bytes used over all bytes moved: the kind with more sectors weighs more.",
    "ideal_ratio": "The sectors that are needed over the sectors that there are.",
    "l1_hit_ratio": "A ratio is per cent over 100.",
    "l2_hit_ratio": "A ratio is per cent over 100.",
}
WHY_NONE = "What cannot be known from the metrics that are there is None, not 0."


def efficiency_of(kernel: Kernel) -> dict[str, float | None]:
    metrics = kernel["metrics"]
    out: dict[str, float | None] = {}
    parts, whole = [], True
    for op, name in (("ld", "load"), ("st", "store")):
        count, requests, used = (metrics.get(metric) for metric in sectors(op))
        known = bool(count) and used is not None
        whole = whole and (known or not count)
        out[f"{name}_ratio"] = used / 32 if known else None
        out[f"sectors_per_{name}_ratio"] = ratio(count, requests)
        if known:
            parts.append((count * used, count * 32))
    moved = sum(part[1] for part in parts)
    out["used_ratio"] = ratio(sum(part[0] for part in parts), moved) if whole else None
    out["ideal_ratio"] = ratio(*(metrics.get(name) for name in IDEAL))
    out["l1_hit_ratio"], out["l2_hit_ratio"] = (ratio(metrics.get(name), 100) for name in HIT_RATES)
    return out


def made_sectors(rng: random.Random) -> Kernel:
    metrics: dict[str, Any] = {}
    for op in ("ld", "st"):
        requests = rng.randrange(1_000, 1_000_000)
        per_request = rng.choice((1, 4, 8, 16, 32, rng.uniform(1, 32)))
        values = (
            int(requests * per_request),
            requests,
            rng.choice((4.0, 32.0, rng.uniform(2, 32))),
        )
        metrics |= zip(sectors(op), values, strict=True)
    needed = rng.randrange(1, 10**6)
    metrics |= zip(IDEAL, (needed, needed + rng.choice((0, rng.randrange(10**6)))), strict=True)
    return made(metrics | {name: rng.uniform(0, 100) for name in HIT_RATES})


@task("ex_31.sector_efficiency")
@recordings(MEMORY, SHARED)
def test_sectors_of_recorded_kernels(stub, recording):
    for kernel in ncu.kernels(recording):
        got = stub.sector_efficiency(only(kernel, SECTOR_METRICS))
        call = f"sector_efficiency({ncu.short(kernel['name'])})"
        judge_keys(call, got, efficiency_of(kernel), WHY_SECTORS)


@task("ex_31.sector_efficiency")
def test_sectors_of_made_kernels(stub, seed):
    rng = random.Random(seed)
    for _ in range(20):
        kernel = made_sectors(rng)
        call = f"sector_efficiency of {show(kernel['metrics'])}"
        judge_keys(
            call, stub.sector_efficiency(kernel), efficiency_of(kernel), WHY_SECTORS, repeat(seed)
        )


@task("ex_31.sector_efficiency")
def test_sectors_on_a_slip_of_paper(stub):
    # A warp loads 4 bytes a thread, 128 bytes apart: 32 sectors a request, an eighth of each used; and
    # stores them side by side: 4 sectors a request, all used.
    load = dict(zip(sectors("ld"), (3200, 100, 4.0), strict=True))
    store = dict(zip(sectors("st"), (400, 100, 32.0), strict=True))
    want = {
        "load_ratio": 0.125,
        "sectors_per_load_ratio": 32.0,
        "store_ratio": 1.0,
        "sectors_per_store_ratio": 4.0,
        "used_ratio": (3200 * 4 + 400 * 32) / (3600 * 32),
        "ideal_ratio": 800 / 3600,
        "l1_hit_ratio": None,
        "l2_hit_ratio": 0.4321,
    }
    ideal = dict(zip(IDEAL, (800, 3600), strict=True))
    kernel = made(load | store | ideal | {"lts__t_sector_hit_rate.pct": 43.21})
    judge_keys("sector_efficiency(strided copy)", stub.sector_efficiency(kernel), want, WHY_SECTORS)


@task("ex_31.sector_efficiency")
def test_sectors_with_a_metric_missing(stub, seed):
    rng = random.Random(seed)
    for name in SECTOR_METRICS:
        kernel = without(made_sectors(rng), name, seed)
        want = efficiency_of(kernel)
        why = dict.fromkeys(want, WHY_NONE)
        judge_keys(f"sector_efficiency without {name}", stub.sector_efficiency(kernel), want, why)
    for op in ("ld", "st"):
        kernel = made_sectors(rng)
        kernel["metrics"] |= zip(sectors(op), (0, 0, rng.choice((None, 0.0))), strict=True)
        want = efficiency_of(kernel)
        why = dict.fromkeys(want, "A kernel without such accesses wastes nothing with them.")
        judge_keys(f"sector_efficiency without op_{op}", stub.sector_efficiency(kernel), want, why)
    want = efficiency_of(made({}))
    judge_keys(
        "sector_efficiency without metrics", stub.sector_efficiency(made({})), want, {"": WHY_NONE}
    )


# == dram_traffic =================================================================================

TRAFFIC_METRICS = ("dram__bytes_read.sum", "dram__bytes_write.sum", "gpu__time_duration.sum")
WHY_TRAFFIC = {
    "moved_bytes": "Reads and writes share the memory.",
    "needed_ratio": "Needed over moved.",
    "moved_bytes_per_s": "Bytes over the duration, and that is in ns.",
    "needed_bytes_per_s": "Bytes over the duration, and that is in ns.",
    "": "It is the metric's value.",
}


def traffic_of(kernel: Kernel, needed: float) -> dict[str, float | None]:
    read, written, duration = (kernel["metrics"].get(name) for name in TRAFFIC_METRICS)
    moved = read + written if None not in (read, written) else None
    return {
        "read_bytes": read,
        "written_bytes": written,
        "moved_bytes": moved,
        "needed_ratio": ratio(needed, moved),
        "moved_bytes_per_s": ratio(moved * 1e9, duration) if moved is not None else None,
        "needed_bytes_per_s": ratio(needed * 1e9, duration),
    }


@task("ex_31.dram_traffic")
@recordings(MEMORY, SHARED)
def test_traffic_of_recorded_kernels(stub, recording, seed):
    rng = random.Random(seed)
    for kernel in ncu.kernels(recording):
        needed = rng.randrange(10**6, 10**9)
        got = stub.dram_traffic(only(kernel, TRAFFIC_METRICS), needed)
        call = f"dram_traffic({ncu.short(kernel['name'])}, {needed})"
        judge_keys(call, got, traffic_of(kernel, needed), WHY_TRAFFIC)


@task("ex_31.dram_traffic")
def test_traffic_of_made_kernels(stub, seed):
    rng = random.Random(seed)
    for missing in (*[None] * 10, *TRAFFIC_METRICS):
        values = (
            rng.randrange(10**9),
            rng.choice((0, rng.randrange(10**9))),
            rng.uniform(1e4, 1e7),
        )
        kernel = made(dict(zip(TRAFFIC_METRICS, values, strict=True)))
        kernel = without(kernel, missing, seed) if missing else kernel
        needed = rng.choice((rng.randrange(1, 10**9), rng.uniform(1, 1e9)))
        call = f"dram_traffic of {show(kernel['metrics'])}, {needed}"
        why = dict.fromkeys(WHY_TRAFFIC, WHY_NONE) if missing else WHY_TRAFFIC
        judge_keys(
            call, stub.dram_traffic(kernel, needed), traffic_of(kernel, needed), why, repeat(seed)
        )


@task("ex_31.dram_traffic")
def test_kernel_that_moves_nothing(stub):
    kernel = made(dict(zip(TRAFFIC_METRICS, (0, 0, 0), strict=True)))
    want = traffic_of(kernel, 4096)
    judge_keys(
        "dram_traffic of a kernel without traffic",
        stub.dram_traffic(kernel, 4096),
        want,
        {"": WHY_NONE},
    )
    one = made(dict(zip(TRAFFIC_METRICS, (32, 0, 1000), strict=True)))
    call = "dram_traffic of a kernel whose answer is a byte"
    judge_keys(call, stub.dram_traffic(one, 1), traffic_of(one, 1), WHY_TRAFFIC)


@task("ex_31.dram_traffic")
@pytest.mark.parametrize("needed", [0, -1, math.nan, math.inf])
def test_needed_bytes_without_sense(stub, needed):
    kernel = made(dict(zip(TRAFFIC_METRICS, (1, 1, 1), strict=True)))
    with stub.raises(ValueError, why="a result needs some bytes, and a known number of them"):
        stub.dram_traffic(kernel, needed)


# == bank_conflicts ===============================================================================

BANK_METRICS = (
    "memory_l1_wavefronts_shared",
    "memory_l1_wavefronts_shared_ideal",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum.pct_of_peak_sustained_elapsed",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_atom.sum",
)
WHY_BANKS = {
    "conflicts_count": "Wavefronts beyond those that the accesses need anyway.",
    "conflict_ratio": "Conflicts over wavefronts.",
    "pipe_ratio": "The conflicts' share of the time in which the pipe serves shared memory; per cent over 100.",
    "atomics_ratio": "Of the waits for a bank those of atomics; 0.0 if nothing waited.",
    "": "It is the metric's value.",
}


def banks_of(kernel: Kernel) -> dict[str, float | None]:
    wavefronts, ideal, use, waits, atomics = (kernel["metrics"].get(name) for name in BANK_METRICS)
    conflicts = wavefronts - ideal if None not in (wavefronts, ideal) else None
    share = ratio(conflicts, wavefronts)
    return {
        "wavefronts_count": wavefronts,
        "conflicts_count": conflicts,
        "conflict_ratio": share,
        "pipe_ratio": share * use / 100 if None not in (share, use) else None,
        "atomics_ratio": 0.0 if waits == atomics == 0 else ratio(atomics, waits),
    }


@task("ex_31.bank_conflicts")
@recordings(MEMORY, SHARED, "ncu_atomics")
def test_conflicts_of_recorded_kernels(stub, recording):
    for kernel in ncu.kernels(recording):
        got = stub.bank_conflicts(only(kernel, BANK_METRICS))
        judge_keys(f"bank_conflicts({ncu.short(kernel['name'])})", got, banks_of(kernel), WHY_BANKS)


@task("ex_31.bank_conflicts")
def test_conflicts_of_made_kernels(stub, seed):
    rng = random.Random(seed)
    for missing in (*[None] * 10, *BANK_METRICS):
        wavefronts = rng.choice((0, rng.randrange(1, 10**8)))
        waits = rng.choice((0, rng.randrange(1, 10**8)))
        atomics = rng.choice((0, waits, rng.randint(0, waits)))
        values = (wavefronts, rng.randint(0, wavefronts), rng.uniform(0, 100), waits, atomics)
        kernel = made(dict(zip(BANK_METRICS, values, strict=True)))
        kernel = without(kernel, missing, seed) if missing else kernel
        call = f"bank_conflicts of {show(kernel['metrics'])}"
        why = dict.fromkeys((*WHY_BANKS, *banks_of(kernel)), WHY_NONE) if missing else WHY_BANKS
        judge_keys(call, stub.bank_conflicts(kernel), banks_of(kernel), why, repeat(seed))


# == stalls and unit use, as estimate_gain needs them ==========================================

STALL = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
REASONS = (
    *("long_scoreboard", "short_scoreboard", "lg_throttle", "mio_throttle", "math_pipe_throttle"),
    *("barrier", "wait", "not_selected", "branch_resolving", "no_instruction", "drain", "membar"),
)


def stalls_of(kernel: Kernel) -> list[dict[str, Any]]:
    head, tail = STALL.split("{}")
    warps = {
        name[len(head) : -len(tail)]: value
        for name, value in kernel["metrics"].items()
        if name.startswith(head) and name.endswith(tail) and value is not None
    }
    total = sum(warps.values())
    rows = [
        {"reason": reason, "cycles_per_instruction": count, "share_ratio": count / total}
        for reason, count in warps.items()
        if total and reason != "selected"
    ]
    return sorted(rows, key=lambda row: (-row["cycles_per_instruction"], row["reason"]))


UNITS = kernels.UNITS
BUSY = ("sm__cycles_active.avg", "gpc__cycles_elapsed.max")
UNIT_METRICS = (*(name for names in UNITS.values() for name in names), *BUSY)


def use_of(kernel: Kernel) -> dict[str, float | None]:
    metrics = kernel["metrics"]
    busy = ratio(*(metrics.get(name) for name in BUSY))
    out: dict[str, float | None] = {}
    for unit, names in UNITS.items():
        shares = []
        for name in names:
            value = metrics.get(name)
            if value is not None and name.endswith("_elapsed"):
                shares.append(value / 100)
            elif value is not None and busy is not None:
                shares.append(value / 100 * busy)
        out[unit] = max(shares) if shares else None
    return out


# == duration_gap =================================================================================

GAP_METRICS = (
    "gpu__time_duration.sum",
    "gpc__cycles_elapsed.avg.per_second",
    "gpc__cycles_elapsed.max",
)
WHY_DURATION = {
    "ratio": "How many times the application's duration the profiled one is.",
    "clock_ns": "The same cycles at the application's clock take another time.",
    "cache_ns": "Cycles that the warm run did not need, at the application's clock.",
    "rest_ns": "What clock and caches do not explain: the parts add up to the profiled duration.",
}


def parts_of(
    profiled: Kernel, warm: Kernel, application_ns: float, application_hz: float
) -> dict[str, float | None]:
    duration, hz, cycles = (profiled["metrics"].get(name) for name in GAP_METRICS)
    fewer = warm["metrics"].get("gpc__cycles_elapsed.max")
    clock = duration * (1 - hz / application_hz) if None not in (duration, hz) else None
    cache = (cycles - fewer) * 1e9 / application_hz if None not in (cycles, fewer) else None
    known = None not in (clock, cache)
    return {
        "profiled_ns": duration,
        "ratio": ratio(duration, application_ns),
        "clock_ns": clock,
        "cache_ns": cache,
        "rest_ns": duration - application_ns - clock - cache if known else None,
    }


def made_pair(rng: random.Random) -> tuple[Kernel, Kernel, float, float]:
    """A kernel with cold caches and a low clock, with warm ones, and in the application."""
    hz, own_hz = rng.uniform(1.0e9, 1.6e9), rng.uniform(1.5e9, 2.0e9)
    cycles = rng.randrange(50_000, 900_000)
    warm_cycles = cycles - rng.randrange(0, cycles // 2)
    out = [
        made(dict(zip(GAP_METRICS, (count / hz * 1e9, hz, count), strict=True)))
        for count in (cycles, warm_cycles)
    ]
    return out[0], out[1], warm_cycles / own_hz * 1e9 * rng.uniform(0.9, 1.0), own_hz


def judge_gap(stub: Any, call: str, arguments: Any, why: dict[str, str], where: str = "") -> None:
    want = parts_of(*arguments)
    judge_keys(call, stub.duration_gap(*arguments), want, why, where)


@task("ex_31.duration_gap")
@recordings("ncu_memory")
def test_gap_of_recorded_durations(stub, recording, own_recording):
    told = {} if own_recording else captures.provenance(recording)["reported_by_program"]
    warm_capture = recording if own_recording else f"{recording}_warm"
    for kernel in ncu.kernels(recording):
        name = ncu.short(kernel["name"])
        warm = only(ncu.kernel(warm_capture, name), GAP_METRICS)
        alone = told["kernels"][name]["duration_ns"] if told else 1e5
        arguments = (only(kernel, GAP_METRICS), warm, alone, told.get("sm_clock_hz", 1.5e9))
        judge_gap(stub, f"duration_gap({name})", arguments, WHY_DURATION)


@task("ex_31.duration_gap")
def test_gap_of_made_durations(stub, seed):
    rng = random.Random(seed)
    for _ in range(10):
        arguments = made_pair(rng)
        call = f"duration_gap of {show(arguments[0]['metrics'])} and {show(arguments[1:])}"
        judge_gap(stub, call, arguments, WHY_DURATION, repeat(seed))


@task("ex_31.duration_gap")
def test_duration_on_a_slip_of_paper(stub):
    # 2,000 cycles at 1 GHz, 1,600 of them with warm caches, and 1 µs in a program that runs at 2 GHz.
    cold = made(dict(zip(GAP_METRICS, (2000.0, 1e9, 2000), strict=True)))
    warm = made(dict(zip(GAP_METRICS, (1600.0, 1e9, 1600), strict=True)))
    want = {
        "profiled_ns": 2000.0,
        "ratio": 2.5,
        "clock_ns": 1000.0,
        "cache_ns": 200.0,
        "rest_ns": 0.0,
    }
    call = "duration_gap(2,000 ns at 1 GHz; 1,600 cycles warm; 800 ns at 2 GHz)"
    judge_keys(call, stub.duration_gap(cold, warm, 800.0, 2e9), want, WHY_DURATION)


@task("ex_31.duration_gap")
def test_shortest_duration_and_slowest_clock(stub, seed):
    cold, warm, _, _ = made_pair(random.Random(seed))
    judge_gap(stub, "duration_gap(application: 1 ns at 1 Hz)", (cold, warm, 1, 1), WHY_DURATION)


@task("ex_31.duration_gap")
def test_duration_with_a_metric_missing(stub, seed):
    rng = random.Random(seed)
    for name in GAP_METRICS:
        cold, warm, alone, hz = made_pair(rng)
        why = dict.fromkeys(WHY_DURATION, WHY_NONE)
        judge_gap(
            stub, f"duration_gap without {name}", (without(cold, name, seed), warm, alone, hz), why
        )
        judge_gap(
            stub,
            f"duration_gap, warm without {name}",
            (cold, without(warm, name, seed), alone, hz),
            why,
        )


@task("ex_31.duration_gap")
@pytest.mark.parametrize("bad", [0, -1.0, math.nan, math.inf])
def test_duration_without_sense(stub, seed, bad):
    cold, warm, alone, hz = made_pair(random.Random(seed))
    with stub.raises(ValueError, "application_ns", "the application took some time"):
        stub.duration_gap(cold, warm, bad, hz)
    with stub.raises(ValueError, "application_hz", "a clock that runs has a rate"):
        stub.duration_gap(cold, warm, alone, bad)


# == read_source ==================================================================================

SOURCE_HEAD = (
    *("Line No", "Source", "Address", "Source", "Warp Stall Sampling (All Samples)", "# Samples"),
    *("Instructions Executed", "Thread Instructions Executed", "stall_long_sb"),
)
WHY_LISTING = {
    "file": "Code from another file has a block of its own: the row File Path above it counts.",
    "line": "An instruction belongs to the last line above it that has a number.",
    "text": "The source line, without the blanks around it.",
    "address": "Addresses that begin with 0x are instructions.",
    "instruction": "Two columns are called Source: the second is the instruction's.",
    "samples": "The column # Samples, not the one beside it; a cell that is no number is None.",
    "executed": "The column Instructions Executed (by warps); a cell that is no number is None.",
}


def with_source(recording: str) -> str:
    """A capture that has a source page: one of the learner's own may lack it."""
    try:
        place = captures.file(recording, "source.csv")
    except CaptureError:
        raise NotGraded("not run", "the capture has no source page") from None
    if not place.name.startswith("source.csv"):
        raise NotGraded(
            "not run", f"{place.name} is no source page; name the folder of the capture"
        )
    return recording


def judge_listing(call: str, got: Any, want: list[dict[str, Any]], where: str = "") -> None:
    if type(got) is not list or len(got) != len(want):
        what = f"{len(got)} instructions" if type(got) is list else show(got)
        addresses = [row.get("address") for row in got] if type(got) is list else []
        twice = len(addresses) != len({*addresses})
        pytest.fail(
            f"{call} gives {what}; expected {len(want)}. "
            f"{'The file repeats instructions below one line: each stands once. ' * twice}{where}",
            pytrace=False,
        )
    for number, (row, right) in enumerate(zip(got, want, strict=True)):
        judge_keys(f"{call}[{number}]", row, right, WHY_LISTING, where)


@task("ex_31.read_source")
@recordings(MEMORY, SHARED)
def test_listing_of_recorded_kernels(stub, recording):
    for kernel in ncu.kernels(with_source(recording)):
        name = ncu.short(kernel["name"])
        want = list(ncu.listing(recording, name))
        judge_listing(
            f"read_source({Path(recording).name!r}, {name!r})",
            stub.read_source(recording, name),
            want,
        )


def made_source(folder: Path, seed: int) -> dict[str, list[dict[str, Any]]]:
    """A source page of two or three kernels, one with code from another file; what it holds."""
    rng = random.Random(seed)
    head = list(SOURCE_HEAD)
    tail = head[4:]
    rng.shuffle(tail)  # columns move between versions
    head[4:] = tail
    opcodes = (
        "LDG.E",
        "@P0 STG.E",
        "FFMA",
        "IMAD.WIDE",
        "@!UP1 BRA",
        "MUFU.SIN",
        "LDS",
        "HFMA2.MMA",
    )
    rows: list[list[str]] = []
    truth: dict[str, list[dict[str, Any]]] = {}
    address = rng.randrange(1 << 40) * 16
    for number in range(rng.randint(2, 3)):
        name = f"kernel_{rng.randrange(1000)}_{number}"
        listing = truth.setdefault(name, [])
        for file in ("own.cu", "include/other.hpp")[: 1 + number % 2]:
            rows += [
                ["File Path", file],
                ["Function Name", f"void {name}<float, {number}>(T1 *)"],
                head,
            ]
            for line in sorted(rng.sample(range(1, 400), rng.randint(2, 6))):
                text = f"value[{line}] += in[i];"
                cells = {"# Samples": "99", "Instructions Executed": "99"}
                rows.append(
                    [str(line), f"    {text}", "-", "-", *(cells.get(c, "1") for c in tail)]
                )
                for _ in range(rng.randint(1, 5)):
                    address += 16
                    samples, executed = (
                        rng.choice((rng.randrange(5000), "-")),
                        rng.randrange(1, 10**6),
                    )
                    instruction = f"{rng.choice(opcodes)} R{rng.randrange(99)}, R1"
                    cells = {"# Samples": str(samples), "Instructions Executed": str(executed)}
                    row = ["", "", hex(address), f"      {instruction}"]
                    row += [cells.get(column, str(rng.randrange(99))) for column in tail]
                    rows += [row] * rng.choice((1, 1, 2))
                    if rng.random() < 0.3:
                        rows.append(["", "", "...", "...", *("-" for _ in tail)])
                    listing.append(
                        {
                            "file": file,
                            "line": line,
                            "text": text,
                            "address": hex(address),
                            "instruction": instruction,
                            "samples": None if samples == "-" else samples,
                            "executed": executed,
                        }
                    )
    out = io.StringIO()
    csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "source.csv").write_text(out.getvalue(), encoding="utf-8")
    return truth


@task("ex_31.read_source")
def test_listing_of_a_made_page(stub, seed, tmp_path):
    truth = made_source(tmp_path, seed)
    for name, want in truth.items():
        judge_listing(
            f"read_source(made, {name!r})",
            stub.read_source(str(tmp_path), name),
            want,
            repeat(seed),
        )
    with stub.raises(
        CaptureError, ", ".join(sorted(truth)), "the message names the kernels that are there"
    ):
        stub.read_source(str(tmp_path), "no_such_kernel")


HEAD = ",".join(SOURCE_HEAD)
PAGE_OF_F = (
    *("File Path,a.cu", "Function Name,f(int *)", HEAD, "6,y = 1;,-,-,1,1,1,1,1"),
    *(".0x10,LD R1,3,3,64,2048,1", "File Path,b.hpp", "Function Name,f(int *)", HEAD),
    *("6,z = 1;,-,-,1,1,1,1,1", ".0x10,LD R1,3,3,64,2048,1"),
)


def source_csv(folder: Path, *lines: str) -> str:
    """A source page written by hand; rows of an instruction begin with a dot."""
    text = [line if line[:1] != "." else f",,{line[1:]}" for line in lines]
    (folder / "source.csv").write_text("\n".join(text) + "\n", encoding="utf-8")
    return str(folder)


@task("ex_31.read_source")
def test_kernels_go_by_their_whole_name(stub, tmp_path):
    lines = list(PAGE_OF_F)
    for number, name in enumerate(("ff(int *)", '"void f2<int, (bool)1>(T1 *)"', "my_f(int *)"), 2):
        lines += ["File Path,a.cu", f"Function Name,{name}", HEAD, "9,x = 1;,-,-,1,1,1,1,1"]
        lines += [f".0x{number}0,ST R1,3,3,64,2048,1"]
    row = {"line": 6, "address": "0x10", "instruction": "LD R1", "samples": 3, "executed": 64}
    want = [{"file": "a.cu", "text": "y = 1;"} | row, {"file": "b.hpp", "text": "z = 1;"} | row]
    judge_listing(
        "read_source(made, 'f')",
        stub.read_source(source_csv(tmp_path, *lines), "f"),
        want,
        "The page also holds ff, f2 and my_f; and an instruction of f stands under line 6 of two files.",
    )


@task("ex_31.read_source")
def test_line_with_quotation_marks_is_not_whole(stub, tmp_path):
    folder = source_csv(
        tmp_path,
        'File Path,"a.hpp"',
        'Function Name,"f(int *)"',
        HEAD,
        '"7","asm ("ld %0, %1" : "=f"(x), "l"(p), "r"(q), "r"(n));","-","-","5","5","5","5","5","5"',
        ".0x10,LD R1,3,3,64,2048,1",
    )
    got = stub.read_source(folder, "f")
    judge(
        "read_source: instructions",
        len(got) if type(got) is list else got,
        1,
        "The instruction is whole.",
    )
    for key, value in {"line": 7, "address": "0x10", "samples": 3, "executed": 64}.items():
        judge(f"read_source[0][{key!r}]", got[0].get(key), value, WHY_LISTING[key])


@task("ex_31.read_source")
@pytest.mark.parametrize(
    ("lines", "words", "why"),
    [
        ((".0x10,LD R1,3,3,64,2048",), "5", "the last row was cut off"),
        ((".0x10,LD R1,3,3,64,2048,1,9",), "5", "an instruction has no place for more cells"),
        (("7,x = 1;,-",), "5", "a line's row was cut off"),
        (
            ("7,x = 1;,-,-,1,1,1,1,1", ".0x10,LD R1,3,3,64,2048,1", "8"),
            "7",
            "a line's row was cut off",
        ),
    ],
)
def test_page_that_is_cut_off_is_refused(stub, tmp_path, lines, words, why):
    lines = ("File Path,a.cu", "Function Name,f(int *)", HEAD, "6,y = 1;,-,-,1,1,1,1,1", *lines)
    folder = source_csv(tmp_path, *lines)
    with stub.raises(CaptureError, rf"source\.csv.*\b{words}\b", why):
        stub.read_source(folder, "f")


@task("ex_31.read_source")
@pytest.mark.parametrize(
    "lines",
    [
        ("ID,Kernel Name,CC,m", ",,,us", "0,f(int *),9.0,1"),
        ("File Path,a.cu", "Function Name,f(int *)", ".0x10,LD R1,3,3,64,2048,1"),
        ("File Path,a.cu", "Function Name,f(int *)", HEAD, "six,y = 1;,-,-,1,1,1,1,1"),
    ],
    ids=["another page", "no header", "no number"],
)
def test_page_of_another_kind_is_refused(stub, tmp_path, lines):
    folder = source_csv(tmp_path, *lines)
    with stub.raises(CaptureError, r"source\.csv", "it is not, or no longer, a source page"):
        stub.read_source(folder, "f")


@task("ex_31.read_source")
def test_page_without_the_columns_is_refused(stub, tmp_path):
    for column in ("# Samples", "Instructions Executed", "Address"):
        head = (
            HEAD.replace(column, "x", 1)
            if column != "Instructions Executed"
            else HEAD.replace(",Instructions Executed", ",x", 1)
        )
        folder = source_csv(tmp_path, "File Path,a.cu", "Function Name,f(int *)", head)
        with stub.raises(CaptureError, rf"source\.csv.*{column}", "the message names the column"):
            stub.read_source(folder, "f")
    with stub.raises(CaptureError, "source.csv", "the capture holds no source page"):
        stub.read_source("ncu_memory_basic", "scale")


# == hottest_line =================================================================================


def hottest_of(listing: list[dict[str, Any]]) -> dict[str, Any]:
    lines: dict[tuple[str, int], list[dict[str, Any]]] = {}
    once = {row["address"]: row["samples"] or 0 for row in listing}
    for row in listing:
        lines.setdefault((row["file"], row["line"]), []).append(row)
    best, most = None, -1
    for rows in lines.values():
        samples = sum(row["samples"] or 0 for row in rows)
        if samples > most:
            best, most = rows, samples
    assert best is not None
    first = best[0]
    hottest = sorted(best, key=lambda row: -(row["samples"] or 0))[0]
    return {
        "file": first["file"],
        "line": first["line"],
        "text": first["text"],
        "samples_count": most,
        "share_ratio": most / sum(once.values()),
        "instruction": hottest["instruction"],
    }


def judge_hottest(call: str, got: Any, listing: list[dict[str, Any]], where: str = "") -> None:
    why = {
        "line": "The samples of a line are those of all its instructions.",
        "file": "Lines of different files may have the same number.",
        "share_ratio": "Of the samples of all instructions, each address counted once.",
        "instruction": "The instruction of this line at which most samples were taken.",
        "": "It goes with the hottest line.",
    }
    want = hottest_of(listing)
    if type(got) is dict and type(got.get("line")) is int and got["line"] != want["line"]:
        want = {"line": want["line"], **{k: v for k, v in want.items() if k != "line"}}
    judge_keys(call, got, want, why, where)


@task("ex_31.hottest_line")
@recordings(MEMORY, SHARED)
def test_hottest_lines_of_recorded_kernels(stub, recording):
    for kernel in ncu.kernels(with_source(recording)):
        name = ncu.short(kernel["name"])
        listing = list(ncu.listing(recording, name))
        judge_hottest(f"hottest_line({name})", stub.hottest_line(listing), listing)


@task("ex_31.hottest_line")
def test_hottest_line_of_a_made_page(stub, seed, tmp_path):
    for name, listing in made_source(tmp_path, seed).items():
        if any(row["samples"] for row in listing):
            judge_hottest(
                f"hottest_line({name}, made)", stub.hottest_line(listing), listing, repeat(seed)
            )


def instruction(line: int, address: int, samples: int | None, **more: Any) -> dict[str, Any]:
    return {
        "file": "a.cu",
        "line": line,
        "text": f"line {line};",
        "address": hex(address),
        "instruction": f"LDG R{address}",
        "samples": samples,
        "executed": 1,
    } | more


@task("ex_31.hottest_line")
def test_hottest_line_on_a_slip_of_paper(stub):
    # Line 4 has the hottest instruction, line 9 more samples in all; an address of two lines counts once
    # in the whole; the same number in another file is another line.
    listing = [
        instruction(4, 1, 50),
        instruction(9, 2, 30),
        instruction(9, 3, 40),
        instruction(9, 4, None),
        instruction(9, 5, 60, file="b.hpp"),
        instruction(7, 3, 40),
    ]
    judge_hottest("hottest_line(drawn)", stub.hottest_line(listing), listing)
    equal = [
        instruction(3, 1, 5),
        instruction(3, 5, 5),
        instruction(2, 2, 5),
        instruction(2, 3, 5),
        instruction(1, 4, 10),
    ]
    judge_hottest("hottest_line(equal lines)", stub.hottest_line(equal), equal)
    missing = [
        instruction(1, 1, 10),
        instruction(1, 2, None),
        instruction(2, 3, 9),
        instruction(2, 4, None),
        instruction(2, 5, None),
        instruction(3, 6, 10),
    ]
    judge_hottest("hottest_line(missing counts)", stub.hottest_line(missing), missing)
    lonely = [instruction(1, 1, None), instruction(1, 2, 1)]
    judge_hottest("hottest_line(one sample)", stub.hottest_line(lonely), lonely)
    for nothing in ([], [instruction(1, 1, None), instruction(2, 2, 0)]):
        with stub.raises(ValueError, why="there is no hottest line without a sample"):
            stub.hottest_line(nothing)


# == instruction_mix ==============================================================================

CLASSES = {
    "fp32": "FADD FMUL FFMA FMNMX FSEL FSETP FCHK",
    "fp64": "DADD DMUL DFMA DMNMX DSETP",
    "fp16": "HADD2 HMUL2 HFMA2 HMNMX2 HSETP2",
    "tensor": "HMMA IMMA DMMA BMMA HGMMA IGMMA QGMMA",
    "special": "MUFU",
    "convert": "F2F F2I I2F F2FP I2FP FRND",
    "integer": "IADD3 IMAD ISETP IMNMX IABS LEA LOP3 SHF POPC SEL PRMT VIADD",
    "global": "LDG STG LD ST RED REDG ATOM ATOMG LDGSTS",
    "shared": "LDS STS LDSM STSM ATOMS",
    "local": "LDL STL",
    "constant": "LDC ULDC",
    "control": "BRA BRX EXIT BSSY BSYNC BAR WARPSYNC CALL RET NOP",
}
CLASS_OF = {opcode: name for name, opcodes in CLASSES.items() for opcode in opcodes.split()}


def mix_of(listing: list[dict[str, Any]]) -> dict[str, float]:
    counts = dict.fromkeys([*CLASSES, "other"], 0)
    seen = set()
    for row in listing:
        if row["address"] not in seen:
            seen.add(row["address"])
            opcode = re.sub(r"^@!?\w+\s+", "", row["instruction"])
            counts[CLASS_OF.get(re.split(r"[.\s]", opcode)[0], "other")] += row["executed"] or 0
    return {name: count / sum(counts.values()) for name, count in counts.items()}


WHY_MIX = {
    "": "An instruction counts as often as warps executed it, each address once; its class is told by the "
    "opcode before the first dot, behind a predicate if there is one."
}


@task("ex_31.instruction_mix")
@recordings("ncu_compute", SHARED)
def test_mix_of_recorded_kernels(stub, recording):
    for kernel in ncu.kernels(with_source(recording)):
        name = ncu.short(kernel["name"])
        listing = list(ncu.listing(recording, name))
        if len(listing) < 400 and any(row["executed"] for row in listing):
            judge_keys(
                f"instruction_mix({name})", stub.instruction_mix(listing), mix_of(listing), WHY_MIX
            )


@task("ex_31.instruction_mix")
def test_mix_of_a_made_page(stub, seed, tmp_path):
    for name, listing in made_source(tmp_path, seed).items():
        got = stub.instruction_mix(listing)
        judge_keys(f"instruction_mix({name}, made)", got, mix_of(listing), WHY_MIX, repeat(seed))


@task("ex_31.instruction_mix")
def test_mix_on_a_slip_of_paper(stub):
    words = (
        "LDG.E.128 R0",
        "@P0 FFMA R1",
        "@!UP2 FFMA.FTZ R2",
        "EXIT",
        "LDGDEPBAR",
        "FFMAX R3",
        "@!P0  LDS R1",
    )
    listing = [
        instruction(1, i, None, instruction=word, executed=10**i) for i, word in enumerate(words)
    ]
    listing.append(listing[1] | {"line": 2})
    listing.append(instruction(3, 99, 1, instruction="DADD R4", executed=None))
    judge_keys("instruction_mix(drawn)", stub.instruction_mix(listing), mix_of(listing), WHY_MIX)
    for name, opcodes in CLASSES.items():
        for opcode in opcodes.split():
            got = stub.instruction_mix([instruction(1, 1, 1, instruction=f"{opcode} R1")])
            judge(
                f"instruction_mix of {opcode}", got.get(name), 1.0, f"It is in the class {name!r}."
            )
    for nothing in ([], [instruction(1, 1, 5, executed=0)]):
        with stub.raises(ValueError, why="there is no mix of nothing"):
            stub.instruction_mix(nothing)


# == estimate_gain ================================================================================

CAUSES = (
    *("uncoalesced_access", "bank_conflicts", "register_spills", "divergence", "low_occupancy"),
    *("small_grid", "tail_effect", "atomic_contention", "tensor_cores_unused"),
)
FP_OPS = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum.per_cycle_elapsed"
LOCAL = "l1tex__t_sectors_pipe_lsu_mem_local_op_{}.sum"
REQUESTS = "l1tex__t_requests_pipe_lsu_mem_global_op_{}.sum"
LSU = "sm__inst_executed_pipe_lsu.avg.pct_of_peak_sustained_elapsed"
LANES = "smsp__thread_inst_executed_per_inst_executed.ratio"
SPILLING = "sass__inst_executed_register_spilling"
INSTRUCTIONS = "smsp__inst_executed.sum"
WAVES = "launch__waves_per_multiprocessor"
SLICES = "lts__d_atomic_input_cycles_active.{}.pct_of_peak_sustained_elapsed"
# What the engine's rules read, and unit_use.
GAIN_METRICS = (
    *(*UNIT_METRICS, *OCCUPANCY_METRICS, *SECTOR_METRICS, *TRAFFIC_METRICS, *BANK_METRICS),
    *(STALL.format(reason) for reason in (*REASONS, "selected")),
    *(FP_OPS.format(op) for op in ("hfma", "ffma", "hadd")),
    *(LOCAL.format(op) for op in ("ld", "st")),
    *(REQUESTS.format(op) for op in ("ld", "st", "red", "atom")),
    *(sectors(op)[0] for op in ("red", "atom")),
    *(LSU, LANES, SPILLING, INSTRUCTIONS, WAVES, SLICES.format("avg")),
    "smsp__inst_executed_op_shared_atom.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_atom.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",
    *(
        "sm__warps_active.avg.per_cycle_active",
        "sm__cycles_active.sum",
        "lts__t_sectors_srcunit_tex.sum",
    ),
    *(f"launch__occupancy_limit_{name}" for name in ("blocks", "registers", "shared_mem", "warps")),
    "launch__block_size",
)
OF_AN_SM = ("l1", "issue", "alu", "fma", "fp64", "xu", "tensor", "adu")


Seen = tuple[dict[str, float], list[tuple[str, float]]]


def seen_in(kernel: Kernel) -> Seen:
    """Use and stalls as the checks see them, for all causes."""
    use = {unit: share for unit, share in use_of(kernel).items() if share is not None}
    return use, [(row["reason"], row["share_ratio"]) for row in stalls_of(kernel)]


def left_of(kernel: Kernel, cause: str, seen: Seen | None = None) -> dict[str, float] | None:
    """What is left, by the engine's rules."""
    return kernel_causes.left_without(kernel["metrics"], *(seen or seen_in(kernel)), cause)


def gain_of(
    kernel: Kernel, cause: str, attainable: float = 0.9, seen: Seen | None = None
) -> float | None:
    """The speed-up by the docstring; None where a counter is missing."""
    seen = seen or seen_in(kernel)
    use = seen[0]
    left = left_of(kernel, cause, seen)
    if left is None or not use:
        return None
    left = {"waiting": 1.0} | left
    fullest = max(use, key=lambda unit: use[unit])
    if use[fullest] >= 0.8 and fullest != "atomics":  # of which left_without says 1.0
        left["waiting"] = min(left["waiting"], left.get(fullest, 1.0))
    busy = ratio(*(kernel["metrics"].get(name) for name in BUSY)) or 1.0
    if cause in ("small_grid", "tail_effect"):
        busy = 1.0
    parts = [left["waiting"]]
    for unit, share in use.items():
        parts.append(
            (share / busy if unit in OF_AN_SM else share) * left.get(unit, 1.0) / attainable
        )
    return 1 / min(1.0, *[max(parts)])


def judge_gain(
    call: str, got: Any, want: float | None, kernel: Kernel, cause: str, where: str = ""
) -> None:
    if alike(got, want):
        return
    units = {unit: share for unit, share in use_of(kernel).items() if share}
    left = left_of(kernel, cause)
    told = "None"
    if left is not None and seen_in(kernel)[0]:
        shares = {name: share for name, share in left.items() if share != 1 and name != "atomics"}
        told = f"{brief(shares)}, the rest is 1.0"
    hint = queue_of(units)
    if type(got) is float and got < 1:
        hint = "No fix makes a kernel slower."
    elif want is not None and alike(got, gain_of(kernel, cause, 1.0)):
        hint = "At best a unit works at 0.9 of its peak: times_left takes that into account."
    words = brief if brief(got) != brief(want) else show
    pytest.fail(
        f"{call} says {words(got)}; expected {words(want)}. left_without gives {told}; "
        f"unit_use above 0 is {brief(units)}: what is the slowest of what is left? {hint} {where}",
        pytrace=False,
    )


def brief(value: Any) -> str:
    """A value with three digits, for a message."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {brief(entry)}" for key, entry in value.items()) + "}"
    return f"{value:.3g}" if isinstance(value, float) else show(value)


def queue_of(units: dict[str, float]) -> str:
    """Whether the waiting is a queue here."""
    fullest = max(units, key=lambda unit: units[unit], default="none")
    most = units.get(fullest, 0.0)
    if most < 0.8:
        return f"The waiting does not shrink further: the fullest unit is used only {brief(most)}."
    return (
        f"The fullest unit, {fullest}, is used {brief(most)}: of the waiting the smaller of left['waiting'] and "
        f"left[{fullest!r}] is left. These are shares left, not times."
    )


def judge_gains(stub: Any, name: str, kernel: Kernel, where: str = "") -> None:
    small = only(kernel, GAIN_METRICS)
    seen = seen_in(small)
    for cause in CAUSES:
        call = f"estimate_gain({name}, {cause!r})"
        judge_gain(
            call,
            stub.estimate_gain(small, cause),
            gain_of(small, cause, seen=seen),
            small,
            cause,
            where,
        )


def with_metrics(kernel: Kernel, changes: dict[str, Any]) -> Kernel:
    """The same kernel with some metrics changed."""
    return kernel | {"metrics": kernel["metrics"] | changes}


def at(use: dict[str, float], **changes: Any) -> Kernel:
    """A kernel without any cause whose units are used this much."""
    metrics = dict.fromkeys(GAIN_METRICS, 0.0)
    metrics |= {
        "gpu__time_duration.sum": 100_000.0,
        "gpc__cycles_elapsed.max": 1000.0,
        "sm__cycles_active.avg": 1000.0,
        "sm__cycles_active.sum": 132_000.0,
        "sm__maximum_warps_per_active_cycle_pct": 100.0,
        "sm__warps_active.avg.pct_of_peak_sustained_active": 100.0,
        WAVES: 8.0,
        LANES: 32.0,
        INSTRUCTIONS: 1000.0,
        STALL.format("wait"): 1.0,
        **dict.fromkeys((name for name in GAIN_METRICS if "occupancy_limit" in name), 8.0),
        "launch__block_size": 256.0,
    }
    metrics |= {UNITS[unit][0]: 100 * share for unit, share in use.items()}
    return made(metrics | changes)


# 1,000 wavefronts of which 250 are needed, and the pipe is full of them for 80 % of the duration.
REPLAYED = dict(zip(BANK_METRICS, (1000.0, 250.0, 80.0, 600.0, 0.0), strict=True))
ALL_REPLAYED = REPLAYED | {BANK_METRICS[1]: 0.0, BANK_METRICS[2]: 90.0}
HALF_OCCUPIED = {OCCUPANCY_METRICS[0]: 50.0}
HALF_A_WAVE = {WAVES: 0.5, OCCUPANCY_METRICS[1]: 50.0}
HALF_THE_TIME = {BUSY[0]: 500.0}
HALF_OF_THE_LANES = {LANES: 16.0, STALL.format("long_scoreboard"): 1.0, STALL.format("wait"): 0.0}
# Half of the memory's sectors, and three quarters of the instructions, are spills.
SPILLED = HALF_OF_THE_LANES | {LANES: 32.0, LOCAL.format("ld"): 100.0, SPILLING: 750.0}
SPILLED |= {sectors("ld")[0]: 100.0}


@task("ex_31.estimate_gain")
@pytest.mark.parametrize(
    ("cause", "use", "changes", "want"),
    [
        # Half of the waiting is left, and DRAM needs half, or more, of the duration.
        ("low_occupancy", {"dram": 0.45}, HALF_OCCUPIED, 2.0),
        *(
            ("low_occupancy", {unit: 0.72}, HALF_OCCUPIED, 1.25)
            for unit in UNITS
            if unit != "tensor"
        ),
        ("low_occupancy", {"dram": 0.99}, HALF_OCCUPIED, 1.0),
        # Full DRAM keeps its work, but half of the waiting is left: the smaller of the two counts.
        ("low_occupancy", {"dram": 0.81}, HALF_OCCUPIED, 0.9 / 0.81),
        ("low_occupancy", {"dram": 0.1}, HALF_OCCUPIED, 2.0),
        # A third of L1's work is left. From a use of 0.8 on the waiting is a queue for it; below, it stays.
        ("bank_conflicts", {"l1": 0.9}, REPLAYED, 3.0),
        ("bank_conflicts", {"l1": 0.8}, REPLAYED, 4.0),
        ("bank_conflicts", {"l1": 0.799}, REPLAYED, 1.0),
        # All waiting is for the fullest unit, whichever that is, and half of its work is left.
        *(
            ("divergence", {unit: 0.9}, HALF_OF_THE_LANES, 2.0)
            for unit in ("issue", "alu", "fma", "fp64", "xu", "adu")
        ),
        ("register_spills", {"issue": 0.9}, SPILLED, 4.0),
        # L1 is full while SMs have work, but not over the whole duration.
        ("bank_conflicts", {"l1": 0.9}, REPLAYED | {BUSY[0]: 850.0}, 1.0),
        # The fullest unit is atomics, so the waiting stays, however full the next unit is.
        ("bank_conflicts", {"atomics": 0.82, "l1": 0.81}, REPLAYED, 1.0),
        # Another unit is the fullest one: what waits there does not wait for L1.
        ("bank_conflicts", {"l1": 0.85, "dram": 0.86}, REPLAYED, 1.0),
        # L2 and L1 are equally full: the first of them counts, and its work stays.
        ("bank_conflicts", {"l2": 0.85, "l1": 0.85}, REPLAYED, 1.0),
        # SMs that have work for half of the time, and are full then: only more blocks use the other half.
        ("low_occupancy", {"issue": 0.9}, HALF_OCCUPIED | HALF_THE_TIME, 1.0),
        ("low_occupancy", {"issue": 0.45}, HALF_OCCUPIED | HALF_THE_TIME, 2.0),
        ("low_occupancy", {"l2": 0.45}, HALF_OCCUPIED | HALF_THE_TIME, 2.0),
        ("small_grid", {"issue": 0.9}, HALF_A_WAVE | HALF_THE_TIME, 2.0),
        ("small_grid", {"issue": 0.3}, HALF_A_WAVE | HALF_THE_TIME, 2.0),
        # The fullest unit is the one that is used most over the whole duration: here DRAM, whose queue is not L1's.
        (
            "bank_conflicts",
            {"l1": 0.99, "dram": 0.85},
            REPLAYED | {BUSY[0]: 830.0},
            1.0,
        ),
        # Of SMs of which nobody knows when they had work, the use stays as it is.
        ("divergence", {"tensor": 0.72}, {LANES: 16.0, BUSY[0]: None}, 1.25),
        # All of L1's work was conflicts: no waiting for it is left.
        ("bank_conflicts", {"l1": 0.9, "dram": 0.45}, ALL_REPLAYED, 2.0),
        # Nothing to remove.
        ("small_grid", {"dram": 0.2}, {}, 1.0),
        ("register_spills", {"dram": 0.2}, {}, 1.0),
    ],
)
def test_gain_on_a_slip_of_paper(stub, cause, use, changes, want):
    kernel = at(use, **changes)
    call = f"estimate_gain(made, use {show(use)}, {cause!r})"
    judge_gain(call, stub.estimate_gain(kernel, cause), want, kernel, cause, "By hand.")


@task("ex_31.estimate_gain")
@pytest.mark.parametrize(
    ("fullest", "mean", "apart", "more_blocks"),
    [
        # A request waits 1,000 cycles, 70 % of a warp's life. With the slice that has most of the atomics at
        # its ceiling the queue is theirs: half of 1,000 is calm, and more blocks would only queue there.
        (90.0, 9.0, 1 / 0.65, 1.0),
        (81.0, 9.0, 1 / 0.65, 1 / 0.9),
        (80.0, 8.0, 1 / 0.65, 0.9 / 0.8),
        (79.0, 9.0, 1.0, 0.9 / 0.79),
        # All slices alike have nothing to share.
        (81.0, 81.0, 1 / 0.9, 1 / 0.9),
    ],
)
def test_nobody_waits_for_an_atomic_whose_result_is_not_read(
    stub, fullest, mean, apart, more_blocks
):
    requests = {REQUESTS.format("ld"): 200.0, REQUESTS.format("red"): 100.0}
    waits = {STALL.format("long_scoreboard"): 7.0, STALL.format("wait"): 3.0}
    waits |= {"sm__warps_active.avg.per_cycle_active": 30.0, "sm__cycles_active.sum": 1e5 / 7}
    half = {WAVES: 0.5, OCCUPANCY_METRICS[1]: 50.0, SLICES.format("avg"): mean}
    kernel = at({"atomics": fullest / 100, "issue": 0.3}, **requests | waits | half)
    for cause, want in (("atomic_contention", apart), ("small_grid", more_blocks)):
        call = f"estimate_gain(made, slices of L2 do atomics {fullest:g} % of the time at most, {cause!r})"
        judge_gain(call, stub.estimate_gain(kernel, cause), want, kernel, cause, "By hand.")


@task("ex_31.estimate_gain")
@recordings(MEMORY, SHARED, "ncu_compute", "ncu_parallelism", "ncu_atomics")
def test_gains_of_recorded_kernels(stub, recording):
    for kernel in ncu.kernels(recording):
        judge_gains(stub, ncu.short(kernel["name"]), kernel)


# A simulated kernel's truth is the same work timed without the cause. Estimate over truth: as good as
# the evidence in the counters; of contention they show the least that is to be gained.
CLOSE = {
    "uncoalesced_access": (0.8, 1.1),
    "small_grid": (0.9, 2.1),
    "atomic_contention": (0.03, 0.3),
}


@task("ex_31.estimate_gain")
@pytest.mark.parametrize("drawn", [*CAUSES, "shared_atomics"])
def test_gain_is_what_the_same_work_gains(stub, seed, drawn):
    cause = "atomic_contention" if drawn == "shared_atomics" else drawn
    for number in range(3):
        work = Work.drawn(drawn, seed + number)
        kernel = work.profile()
        judge_gains(stub, f"simulated {drawn}", kernel, repeat(seed))
        truth = work.cycles / work.without(cause).cycles
        got = stub.estimate_gain(kernel, cause)
        low, high = CLOSE.get(drawn, (0.9, 1.1))
        assert low * truth <= got <= high * truth, (
            f"estimate_gain(simulated, {cause!r}) says {got:.2f}; without the cause the same work takes "
            f"1/{truth:.2f} of the time {repeat(seed)}"
        )


@task("ex_31.estimate_gain")
@pytest.mark.parametrize(
    "limiter", ["memory_bound", "compute_bound", "cache_bound", "latency_bound"]
)
def test_nothing_to_gain_from_causes_that_are_not_there(stub, seed, limiter):
    kernel = Work.drawn(limiter, seed).profile()
    judge_gains(stub, f"simulated {limiter}", kernel, repeat(seed))
    for cause in CAUSES:
        got = stub.estimate_gain(kernel, cause)
        assert got is not None and got < 1.1, (
            f"estimate_gain(simulated {limiter}, {cause!r}) says {got}; nothing of the kind is there: "
            f"unit use {show(use_of(kernel))} {repeat(seed)}"
        )


# What a decoy shows does not cost it: the sign is there, and mending it changes nothing.
DECOYS: dict[str, dict[str, Any]] = {
    "bank_conflicts": {"shared": 10, "conflict_ways": 2.0},
    "low_occupancy": {"blocks_per_sm": 4, "in_flight": 32.0},
    "divergence": {"lanes": 16.0},
    "uncoalesced_access": {"load_sectors": 4.2, "used_bytes": 30.5},
    "register_spills": {"spills": 1},
    "atomic_contention": {"atomics": 1, "atomic_cycles": 1e-6},
}


@task("ex_31.estimate_gain")
@pytest.mark.parametrize("cause", DECOYS)
def test_sign_that_costs_nothing(stub, seed, cause):
    work = replace(Work.drawn("memory_bound", seed), **DECOYS[cause])
    kernel = work.profile()
    judge_gains(stub, f"DRAM-bound, with a sign of {cause}", kernel, repeat(seed))
    truth = work.cycles / work.without(cause).cycles
    got = stub.estimate_gain(kernel, cause)
    assert got is not None and got <= 1.15 * truth, (
        f"estimate_gain(DRAM-bound, {cause!r}) says {got:.2f}; without the sign the same work takes "
        f"1/{truth:.2f} of the time: DRAM is the limit either way {repeat(seed)}"
    )


# Sick kernel, cause, mended twin, and how far an estimate may be from what the twin gained (a factor).
# The twin of a contended sum or histogram also does without most of the atomics' own work, and the
# counters show only the least that is to be gained: the estimate must not exceed the truth.
TWINS = (
    ("ncu_memory", "row_sums_by_thread", "uncoalesced_access", "row_sums_by_warp", 1.8),
    ("ncu_memory", "drift_structs", "uncoalesced_access", "drift_arrays", 1.8),
    ("ncu_memory", "gather_shuffled", "uncoalesced_access", "gather_ascending", 1.8),
    ("ncu_shared", "transpose_direct", "uncoalesced_access", "transpose_tile33", 1.8),
    ("ncu_shared", "transpose_tile32", "bank_conflicts", "transpose_tile33", 1.8),
    ("ncu_shared", "relax_pitch32", "bank_conflicts", "relax_pitch33", 1.8),
    ("ncu_shared", "stream_large_tile", "low_occupancy", "stream_small_tile", 1.8),
    ("ncu_compute", "blend_32_registers", "register_spills", "blend", 2.5),
    ("ncu_compute", "gemm_half2", "tensor_cores_unused", "gemm_fragments", 2.5),
    ("ncu_compute", "gemm_half_float", "tensor_cores_unused", "gemm_fragments", 2.5),
    ("ncu_parallelism", "normalise_32_blocks", "small_grid", "normalise_1056_blocks", 1.8),
    ("ncu_parallelism", "evolve_140_blocks", "tail_effect", "evolve_1120_blocks", 1.8),
    ("ncu_parallelism", "shade_mixed", "divergence", "shade_sorted", 1.8),
    ("ncu_parallelism", "windows_128", "low_occupancy", "windows_16", 1.8),
)
CONTENDED = (
    ("ncu_atomics", "histogram_direct", "histogram_private"),
    ("ncu_atomics", "total_by_thread", "total_by_block"),
)


def gained(capture: str, sick: str, twin: str) -> float:
    """How many times faster the mended kernel was, in the program, without a profiler."""
    told = captures.provenance(capture)["reported_by_program"]["kernels"]
    return told[sick]["duration_ns"] / told[twin]["duration_ns"]


@task("ex_31.estimate_gain")
@pytest.mark.parametrize(("capture", "sick", "cause", "twin", "factor"), TWINS)
def test_gain_is_near_what_the_mended_twin_gained(stub, capture, sick, cause, twin, factor):
    got = stub.estimate_gain(only(ncu.kernel(capture, sick), GAIN_METRICS), cause)
    truth = gained(capture, sick, twin)
    assert got is not None and truth / factor <= got <= truth * factor, (
        f"estimate_gain({sick}, {cause!r}) says {show(got)}; {twin}, which does the same without the "
        f"cause, was {truth:.2f} times as fast, and an estimate within a factor of {factor} can be had"
    )


@task("ex_31.estimate_gain")
@pytest.mark.parametrize(("capture", "sick", "twin"), CONTENDED)
def test_gain_from_contention_is_at_least_shown(stub, capture, sick, twin):
    kernel = only(ncu.kernel(capture, sick), GAIN_METRICS)
    got = stub.estimate_gain(kernel, "atomic_contention")
    truth = gained(capture, sick, twin)
    assert got is not None and 10 <= got <= truth, (
        f"estimate_gain({sick}, 'atomic_contention') says {show(got)}; {twin} was {truth:.0f} times as "
        "fast, and the counters show that at least a factor of 10 is to be had"
    )


# For each cause, a counter without which it cannot be judged.
NEEDED = {
    "uncoalesced_access": "dram__bytes_read.sum",
    "bank_conflicts": BANK_METRICS[0],
    "register_spills": SPILLING,
    "divergence": LANES,
    "low_occupancy": OCCUPANCY_METRICS[0],
    "small_grid": OCCUPANCY_METRICS[1],
    "tail_effect": WAVES,
    "atomic_contention": REQUESTS.format("red"),
    "tensor_cores_unused": LSU,
}


@task("ex_31.estimate_gain")
def test_gain_with_a_metric_missing(stub, seed):
    nothing = made({})
    for cause, name in NEEDED.items():
        whole = Work.drawn(cause, seed).profile()
        kernel = without(whole, name, seed)
        judge(
            f"estimate_gain(made, {cause!r}) without {name}",
            stub.estimate_gain(kernel, cause),
            None,
            WHY_NONE,
        )
        judge(
            f"estimate_gain(no metrics, {cause!r})",
            stub.estimate_gain(nothing, cause),
            None,
            WHY_NONE,
        )
        judge_gains(stub, "made, without SM activity", without(whole, BUSY[0], seed))
        judge_gains(stub, "made, SMs never active", with_metrics(whole, {BUSY[0]: 0.0}))
    unused = dict.fromkeys(name for names in UNITS.values() for name in names)
    idle = with_metrics(at({}, **HALF_OCCUPIED), unused)
    for cause in ("low_occupancy", "register_spills"):  # half of the waiting; nothing to remove
        call = f"estimate_gain(made, {cause!r}) without any unit's use"
        judge(call, stub.estimate_gain(idle, cause), None, WHY_NONE)


# == classify_kernel ==============================================================================


def verdict_of(kernel: Kernel) -> tuple[str, dict[str, float]]:
    """Category by the docstring, and what each cause saves."""
    seen = seen_in(kernel)
    gains = {cause: gain_of(kernel, cause, seen=seen) for cause in CAUSES}
    savings = {cause: 1 - 1 / gain for cause, gain in gains.items() if gain is not None}
    use = seen[0]
    ranked = sorted(savings, key=lambda cause: (-savings[cause], CATEGORIES[cause].precedence))
    if ranked and savings[ranked[0]] >= 0.10:
        return ranked[0], savings
    ceiling = max(use.values())
    if ceiling < 0.6:
        return "latency_bound", savings
    unit = next(unit for unit in use if use[unit] == ceiling)
    if unit in ("l1", "l2", "atomics"):
        return "cache_bound", savings
    return {"dram": "memory_bound", "adu": "latency_bound"}.get(unit, "compute_bound"), savings


def judge_kernel(stub: Any, call: str, kernel: Kernel, where: str = "") -> None:
    got = stub.classify_kernel(kernel)
    want, savings = verdict_of(kernel)
    if got == want:
        return
    why = "It must be a category of CATEGORIES, as a string."
    if got in savings:
        most = max(savings.values())
        why = f"Without it {savings[got]:.1%} of the duration would be saved"
        if want not in savings:
            why += "; a cause is named only if that is at least 10 %."
        else:
            why += f", without the cause that costs most {most:.1%}."
            if alike(savings[got], most):
                why += " Of equal savings the lower precedence in CATEGORIES wins."
    elif want in savings and (unjudged := [cause for cause in CAUSES if cause not in savings]):
        why = f"{unjudged[0]} cannot be judged here: leave it out, the other causes still count."
    elif got in CATEGORIES:
        why = (
            "A limiter is named only if no cause saves 10 % of the duration, by the fullest unit; "
            "below 60 % use of every unit nothing is near a ceiling."
        )
        use = {unit: share for unit, share in use_of(kernel).items() if share is not None}
        if len(tied := [unit for unit in use if use[unit] == max(use.values()) >= 0.6]) > 1:
            why = (
                f"{' and '.join(tied)} are used equally: the first of them in UNIT_METRICS counts."
            )
    pytest.fail(
        f"{call} says {show(got)}. {why} {largest(savings, use_of(kernel))}.{wrong_gain(stub, kernel)} {where}",
        pytrace=False,
    )


def wrong_gain(stub: Any, kernel: Kernel) -> str:
    """What the learner's estimate_gain gets wrong here; "" if nothing."""
    for cause in CAUSES:
        with contextlib.suppress(StubError):
            got, want = stub.estimate_gain(kernel, cause), gain_of(kernel, cause)
            if not alike(got, want):
                return f" Your estimate_gain says {brief(got)} of {cause} here, not {brief(want)}: does its check pass?"
    return ""


def largest(savings: dict[str, float], use: dict[str, float | None]) -> str:
    """The three largest savings and uses, in words for a message."""
    words = []
    for what, shares in (("savings", savings), ("uses", use)):
        known = {name: share for name, share in shares.items() if share is not None}
        most = sorted(known, key=lambda name: -known[name])[:3]
        words.append(f"Largest {what}: {', '.join(f'{name} {known[name]:.4f}' for name in most)}")
    return "; ".join(words)


@task("ex_31.classify_kernel")
@recordings(MEMORY, SHARED, "ncu_compute", "ncu_parallelism", "ncu_atomics")
def test_verdict_on_recorded_kernels(stub, recording):
    for kernel in ncu.kernels(recording):
        small = only(kernel, GAIN_METRICS)
        call = f"classify_kernel({ncu.short(kernel['name'])})"
        judge_kernel(stub, call, small)


# What each program was written to show; what its twin's time confirms.
PLANTED = {
    **{sick: (capture, cause) for capture, sick, cause, _, _ in TWINS},
    **{sick: (capture, "atomic_contention") for capture, sick, _ in CONTENDED},
    "scale": ("ncu_memory", "memory_bound"),
    "sum_table": ("ncu_memory", "cache_bound"),
    "iterate": ("ncu_compute", "compute_bound"),
    "oscillate": ("ncu_compute", "compute_bound"),
    "matmul_direct": ("ncu_compute", "cache_bound"),
    "follow_one": ("ncu_parallelism", "latency_bound"),
    "copy_resident": ("ncu_parallelism", "memory_bound"),
    "total_by_block": ("ncu_atomics", "memory_bound"),
}


@task("ex_31.classify_kernel")
@pytest.mark.parametrize("name", PLANTED)
def test_verdict_is_what_the_program_was_written_to_show(stub, name):
    capture, planted = PLANTED[name]
    kernel = only(ncu.kernel(capture, name), GAIN_METRICS)
    got = stub.classify_kernel(kernel)
    assert got == planted, (
        f"classify_kernel({name}) says {show(got)}, and the program was written to show something else. "
        f"{largest(verdict_of(kernel)[1], use_of(kernel))}"
    )


# What is drawn, in words for a message.
TOLD = {
    "uncoalesced_access": "lanes are far apart in memory",
    "bank_conflicts": "lanes meet in a bank of shared memory",
    "register_spills": "values of threads lie in local memory",
    "divergence": "lanes part ways",
    "low_occupancy": "few warps fit",
    "small_grid": "there are fewer blocks than fit at once",
    "tail_effect": "a few blocks run alone at the end",
    "atomic_contention": "atomics wait for one address",
    "tensor_cores_unused": "matrices are multiplied on the ordinary pipes",
}


@task("ex_31.classify_kernel")
@pytest.mark.parametrize("cause", CAUSES)
def test_verdict_goes_with_its_cause(stub, seed, cause):
    families = []
    others = [name for name, (_, verdict) in PLANTED.items() if verdict != cause]
    for number in range(2):
        work = Work.drawn(cause, seed + number)
        first = work.profile()
        renamed = work.profile("another(int *)") | {"id": 7}
        known = [first | {"name": f"{name}(int *)"} for name in others[number::2]]
        shorter = with_metrics(first, {"gpu__time_duration.sum": 2e3})
        longer = with_metrics(
            first, {"gpu__time_duration.sum": 1e9, "launch__registers_per_thread": 17}
        )
        families.append(
            Family(
                World(first, cause, TOLD[cause]),
                without=(World(work.without(cause).profile(), told="the same work, mended"),),
                alike=(
                    World(renamed, told="another name"),
                    *(World(kernel, told="another name") for kernel in known),
                    World(longer, told="a longer duration, at the same shares"),
                    World(shorter, told="a shorter duration, at the same shares"),
                ),
            )
        )
    judge_families(stub.classify_kernel, families, "classify_kernel", f" {repeat(seed)}")


@task("ex_31.classify_kernel")
@pytest.mark.parametrize(
    "limiter", ["memory_bound", "compute_bound", "cache_bound", "latency_bound"]
)
def test_verdict_on_kernels_without_a_fault(stub, seed, limiter):
    for number in range(2):
        kernel = Work.drawn(limiter, seed + number).profile()
        others = (name for name, (_, verdict) in PLANTED.items() if verdict != limiter)
        for name in ("simulated", *others):
            got = stub.classify_kernel(kernel | {"name": f"{name}(int *)"})
            assert got == limiter, (
                f"classify_kernel(simulated, named {name}) says {show(got)}; nothing that can be fixed costs a tenth of "
                f"the duration: {largest(verdict_of(kernel)[1], use_of(kernel))} {repeat(seed)}"
            )


@task("ex_31.classify_kernel")
def test_verdict_near_a_border(stub):
    for use in (
        *({"dram": share} for share in (0.0, 0.599, 0.6, 0.601, 0.95)),
        {"dram": 0.83, "l1": 0.85},
        {"adu": 0.92, "l1": 0.9},
        {"adu": 0.59},
        *({unit: 0.9} for unit in UNITS),
        {"adu": 0.85, "dram": 0.85},
        {"atomics": 0.9, "dram": 0.5},
        {"issue": 0.9, "dram": 0.86},
        {"dram": 0.7, "l2": 0.7},
        {"l1": 0.9, "issue": 0.9},
    ):
        judge_kernel(stub, f"classify_kernel(made, use {show(use)})", at(use))
    # The larger share is one of the time in which an SM had work.
    for use, busy in (({"dram": 0.7, "issue": 0.8}, 800.0), ({"l1": 0.65, "dram": 0.5}, 900.0)):
        kernel = at(use, **{BUSY[0]: busy})
        judge_kernel(stub, f"classify_kernel(made, use {brief(use_of(kernel))})", kernel)
    for occupancy_pct in (88.0, 89.9, 90.1, 92.0):
        kernel = at({"dram": 0.7}, **{OCCUPANCY_METRICS[0]: occupancy_pct})
        judge_kernel(
            stub, f"classify_kernel(made, {occupancy_pct} % theoretical occupancy)", kernel
        )


@task("ex_31.classify_kernel")
def test_verdict_of_equal_savings_goes_by_precedence(stub):
    # Half of the slots, and half of the lanes: either fix saves half.
    kernel = at({"dram": 0.2}, **{OCCUPANCY_METRICS[0]: 50.0, LANES: 16.0})
    judge_kernel(stub, "classify_kernel(two causes of equal cost)", kernel)


@task("ex_31.classify_kernel")
def test_verdict_of_two_causes_goes_by_their_savings(stub):
    for lanes in (9.0, 12.0, 15.0, 15.99, 16.01, 17.0, 20.0, 24.0):
        kernel = at({"dram": 0.2}, **{OCCUPANCY_METRICS[0]: 50.0, LANES: lanes})
        judge_kernel(stub, f"classify_kernel(half of the slots, {lanes:g} of 32 lanes)", kernel)


@task("ex_31.classify_kernel")
def test_verdict_where_another_cause_cannot_be_judged(stub, seed):
    for cause in CAUSES:
        whole = Work.drawn(cause, seed).profile()
        for other, name in NEEDED.items():
            kernel = without(whole, name, seed)
            if verdict_of(kernel)[0] == cause:  # its own counters are still there
                call = f"classify_kernel without {name}, which {other} needs,"
                judge_kernel(stub, call, kernel, repeat(seed))


@task("ex_31.classify_kernel")
def test_verdict_with_metrics_missing(stub, seed):
    for name in ("memory_l1_wavefronts_shared", LANES, WAVES, UNITS["l1"][0]):
        kernel = without(Work.drawn("memory_bound", seed).profile(), name, seed)
        judge_kernel(stub, f"classify_kernel without {name}", kernel)
    alone = made({"gpu__time_duration.sum": 5e4, UNITS["dram"][0]: 91.0})
    judge_kernel(stub, "classify_kernel with DRAM's use only", alone)


# == choose_counters ==============================================================================

# What costs where, and the counter whose value tells.
PLACES: dict[str, dict[str, str]] = {
    "memory_bound": {"uncoalesced_access": "needed_ratio", "register_spills": "spilled_ratio"},
    "cache_bound": {"bank_conflicts": "conflict_ratio", "uncoalesced_access": "needed_ratio"},
    "latency_bound": {"low_occupancy": "occupancy_ratio", "small_grid": "waves"},
}
SHOWS_PLACE = {
    "memory_bound": ("memory_use",),
    "cache_bound": ("l1_use",),
    "latency_bound": ("memory_use", "l1_use"),
}
PLACE_TOLD = {
    "memory_bound": "DRAM or L2 is full",
    "cache_bound": "L1 is full",
    "latency_bound": "Neither memory nor L1 is full",
}


@dataclass(frozen=True)
class Unknown:
    """A kernel that may be asked: its values by counter, and what is true of it."""

    values: dict[str, float]
    place: str  # the verdict where nothing is wrong
    cause: str
    told: str  # in words for a message

    @staticmethod
    def of(kernel: Kernel, cause: str, told: str) -> Unknown:
        metrics = kernel["metrics"]
        values = {name: kernel_counters.value(metrics, name) for name in kernel_counters.COUNTERS}
        place = "latency_bound"
        if values["memory_use"] >= 0.6:
            place = "memory_bound"
        elif values["l1_use"] >= 0.6:
            place = "cache_bound"
        return Unknown(values, place, cause, told)


def chosen(stub: Any, unknown: Unknown, where: str = "") -> tuple[dict[str, str], list[str]]:
    """The learner's answer and what it asked for, once four questions were enough for it and its form is right."""
    names: list[Any] = []

    def ask(name: Any) -> float:
        names.append(name)
        known = type(name) is str and name in unknown.values
        return unknown.values[name] if known else math.nan

    got = stub.choose_counters(ask)
    call = f"choose_counters asks for {', '.join(map(str, names)) or 'nothing'}"
    if unknown_names := [name for name in names if name not in kernel_counters.COUNTERS]:
        pytest.fail(f"{call}. {show(unknown_names[0])} is none of COUNTERS.", pytrace=False)
    if len(names) > 4:
        pytest.fail(
            f"{call}: {len(names)} calls. Each runs the kernel again, and you have four: let an answer decide "
            f"what you ask next. {where}",
            pytrace=False,
        )
    keys = ("cause", "shown_by", "rival", "excluded_by")
    if (
        type(got) is not dict
        or set(got) != {*keys}
        or any(type(v) is not str for v in got.values())
    ):
        pytest.fail(
            f"{call} and returns {show(got)}; expected a dictionary of words: {', '.join(keys)}",
            pytrace=False,
        )
    return got, names


def judge_counters(stub: Any, all_unknown: list[Unknown], where: str = "") -> None:
    """Fail unless the causes of all are right, and then their evidence."""
    answers = [chosen(stub, unknown, where) for unknown in all_unknown]
    for (got, _), unknown in zip(answers, all_unknown, strict=True):
        judge_cause(got, unknown, where)
    for (got, names), unknown in zip(answers, all_unknown, strict=True):
        judge_evidence(got, names, unknown, where)


def judge_cause(got: dict[str, str], unknown: Unknown, where: str) -> None:
    if got["cause"] != unknown.cause:
        pytest.fail(
            f"choose_counters says {show(got['cause'])} of {unknown.told}. {PLACE_TOLD[unknown.place]}. Its values: "
            f"{show(unknown.values)} {where}",
            pytrace=False,
        )


def judge_evidence(got: dict[str, str], names: list[str], unknown: Unknown, where: str) -> None:
    """Fail unless the rival and both counters go with a cause that is right."""
    signs, values = PLACES[unknown.place], unknown.values
    call = f"choose_counters says {show(got)} of {unknown.told}"
    if unknown.cause in signs:
        shows, why = (signs[unknown.cause],), "What shows a fault is what would change without it"
    else:
        shows, why = SHOWS_PLACE[unknown.place], "What is shown here is where the time goes"
    never_asked = [got[key] for key in ("shown_by", "excluded_by") if got[key] not in names]
    complaint = ""
    if never_asked:
        complaint = f"Nobody asked for {never_asked[0]}: what was not measured is no evidence."
    elif got["shown_by"] not in shows:
        complaint = f"{why}, and {got['shown_by']} ({values[got['shown_by']]:.3g}) is not it."
    elif got["rival"] == got["cause"]:
        complaint = "A rival is another fault than the cause."
    elif got["rival"] not in CAUSES:
        complaint = "A rival is a fault: something else that somebody would fix here."
    elif got["rival"] not in signs:
        complaint = f"{PLACE_TOLD[unknown.place]}: that rival could not cost anything here."
    elif got["excluded_by"] != signs[got["rival"]]:
        value = values[got["excluded_by"]]
        complaint = f"{got['excluded_by']} ({value:.3g}) would be the same if {got['rival']} were the cause."
    if complaint:
        pytest.fail(f"{call}. {complaint} {where}", pytrace=False)


# Twelve recorded kernels in pairs that do the same work, four in which something looks wrong that costs nothing, and one
# that fills both L2 and L1.
RECORDED_UNKNOWN = (
    (MEMORY, "row_sums_by_thread", "uncoalesced_access"),
    (MEMORY, "row_sums_by_warp", "memory_bound"),
    (MEMORY, "drift_structs", "uncoalesced_access"),
    (MEMORY, "drift_arrays", "memory_bound"),
    (MEMORY, "shift_left", "memory_bound"),
    (SHARED, "relax_pitch32", "bank_conflicts"),
    (SHARED, "relax_pitch33", "cache_bound"),
    ("ncu_compute", "blend_32_registers", "register_spills"),
    ("ncu_compute", "blend", "low_occupancy"),
    ("ncu_parallelism", "windows_128", "low_occupancy"),
    ("ncu_parallelism", "windows_16", "latency_bound"),
    ("ncu_parallelism", "normalise_32_blocks", "small_grid"),
    ("ncu_parallelism", "normalise_1056_blocks", "memory_bound"),
    (SHARED, "copy_swapped", "memory_bound"),
    (SHARED, "copy_eight", "memory_bound"),
    ("ncu_parallelism", "follow_one", "latency_bound"),
    ("ncu_bandwidth", "gather_l2", "uncoalesced_access"),
)


@task("ex_31.choose_counters")
def test_counters_of_recorded_kernels(stub, seed):
    unknown = []
    for capture, name, cause in RECORDED_UNKNOWN:
        kernel = ncu.kernel(capture, name)
        assert verdict_of(kernel)[0] == cause, f"{name}: the engine's rules no longer say {cause}"
        unknown.append(Unknown.of(kernel, cause, "a recorded kernel"))
    random.Random(seed).shuffle(unknown)
    judge_counters(stub, unknown)


FAULTS: dict[str, Callable[[random.Random, Work], dict[str, Any]]] = {
    "uncoalesced_access": lambda rng, _: (
        {"load_sectors": (ways := rng.choice((16.0, 32.0))), "store_sectors": ways}
        | {"used_bytes": 32 * 4 / ways}
    ),
    "register_spills": lambda rng, _: {"spills": rng.randint(150, 300)},
    "bank_conflicts": lambda rng, _: (
        {"shared": rng.randint(200, 400), "conflict_ways": rng.choice((8.0, 16.0, 32.0))}
    ),
    "low_occupancy": lambda rng, _: {"blocks_per_sm": rng.choice((1, 2, 3))},
    "small_grid": lambda rng, work: {"blocks": rng.randint(8, work.sms * 5)},
}
# Signs that show in a place in which they cost nothing.
HARMLESS: dict[str, tuple[dict[str, Any], ...]] = {
    "memory_bound": (
        {"blocks_per_sm": 3, "in_flight": 64.0},
        {"shared": 6, "conflict_ways": 4.0},
    ),
    "cache_bound": ({"blocks_per_sm": 3, "in_flight": 64.0},),
    "latency_bound": ({"shared": 6, "conflict_ways": 4.0},),
}
HARMLESS_TOLD = "the same, with a sign beside it that costs nothing"


def work_of(place: str, waves: int, rng: random.Random) -> Work:
    """Work without a fault that fills DRAM, or L1 (with a few conflicts), or nothing. Nothing else tells the three apart."""
    base = replace(Work.drawn("memory_bound", rng.randrange(10**6)), l2_hit=rng.uniform(0.05, 0.4))
    if place == "memory_bound":
        return replace(base, l1_hit=rng.uniform(0, 0.3))
    if place == "cache_bound":
        return replace(
            base,
            loads=rng.randint(120, 240),
            stores=1,
            l1_hit=rng.uniform(0.96, 0.99),
            shared=rng.randint(20, 40),
            conflict_ways=1.2,
            in_flight=16.0,
        )
    return replace(
        base,
        blocks=base.sms * base.blocks_per_sm * waves,
        loads=rng.randint(20, 40),
        stores=1,
        load_sectors=1.0,
        in_flight=1.0,
    )


@kept
def unknown_pairs(seed: int) -> list[tuple[Unknown, ...]]:
    """For each fault in each place: with it, with it and a harmless sign, without it, and with the other fault instead.

    A draw counts if the same work, timed without each fault, and the verdict on all counters both say what it is meant
    to be.
    """
    out = []
    for place, signs in PLACES.items():
        for fault in signs:
            rng = random.Random(f"{seed} {place} {fault}")
            draws = (_drawn_pair(place, fault, rng) for _ in range(200))
            out.append(next(pair for pair in draws if pair))
    return out


def _timed_verdict(work: Work, place: str) -> str:
    """The fault without which the work takes least, if that saves a tenth; else what the place says."""
    saved = {fault: 1 - work.without(fault).cycles / work.cycles for fault in FAULTS}
    most = max(saved, key=lambda fault: saved[fault])
    return most if saved[most] >= 0.10 else place


def _drawn_pair(place: str, fault: str, rng: random.Random) -> tuple[Unknown, ...] | None:
    work = work_of(place, 1 if fault == "low_occupancy" else rng.randint(2, 30), rng)
    other = next(name for name in PLACES[place] if name != fault)
    sick, swapped = (replace(work, **FAULTS[name](rng, work)) for name in (fault, other))
    harmless = rng.choice(HARMLESS[place])
    found = []
    for one, cause, told in (
        (sick, fault, f"a kernel in which {TOLD[fault]}"),
        (replace(sick, **harmless), fault, f"a kernel in which {TOLD[fault]}, and another sign"),
        (work, place, "a kernel without a fault"),
        (replace(work, **harmless), place, "a kernel with a sign that costs nothing"),
        (swapped, other, f"a kernel in which {TOLD[other]}"),
    ):
        kernel = one.profile()
        unknown = Unknown.of(kernel, cause, told)
        meant = {verdict_of(kernel)[0], _timed_verdict(one, place)} == {cause}
        if not meant or unknown.place != place or not _is_plain(unknown):
            return None
        found.append(unknown)
    return tuple(found)


def _is_plain(unknown: Unknown) -> bool:
    """Whether no value that decides is close to its line; one whole wave is enough."""
    lines = dict.fromkeys(PLACES[unknown.place].values(), 0.5) | {"memory_use": 0.6}
    if unknown.place != "memory_bound":
        lines["l1_use"] = 0.6
    if lines.pop("waves", None) and 0.9 < unknown.values["waves"] < 1:
        return False
    return all(abs(unknown.values[name] - line) > 0.05 for name, line in lines.items())


@task("ex_31.choose_counters")
def test_cause_goes_with_its_counter(stub, seed):
    families = []
    for sick, beside, healthy, _, swapped in unknown_pairs(seed):
        hurried = replace(sick, values=sick.values | {"duration_ns": 1e4, "l2_hit_ratio": 0.9})
        families.append(
            Family(
                World(sick, sick.cause, TOLD[sick.cause]),
                without=(
                    World(healthy, healthy.cause, "the same work, mended"),
                    World(swapped, swapped.cause, f"the same work, in which {TOLD[swapped.cause]}"),
                ),
                alike=(
                    World(beside, told=HARMLESS_TOLD),
                    World(hurried, told="another duration and hit rate"),
                ),
            )
        )
    random.Random(seed).shuffle(families)
    judge_families(
        lambda shown: chosen(stub, shown, repeat(seed))[0]["cause"],
        families,
        "choose_counters",
        f" {repeat(seed)}",
    )


@task("ex_31.choose_counters")
def test_counters_of_drawn_kernels(stub, seed):
    drawn = [unknown for pair in unknown_pairs(seed) for unknown in pair]
    random.Random(seed).shuffle(drawn)
    judge_counters(stub, drawn, repeat(seed))


# Uses of memory and of L1 in each place: at its limits, and both full with either of the two fuller.
USES = {
    "memory_bound": ((0.6, 0.3), (0.61, 0.75), (0.69, 0.59), (0.7, 0.95)),
    "cache_bound": ((0.59, 0.6), (0.3, 0.61), (0.5, 0.75)),
    "latency_bound": ((0.59, 0.59), (0.45, 0.5), (0.2, 0.55)),
}


def near_a_limit(counter: str, is_sign: bool, is_close: bool, rng: random.Random) -> float:
    """A value of a fault's counter near the limit between sign and no sign; the limit itself is no sign."""
    limit, reach = (1.0, 0.4) if counter == "waves" else (0.5, 0.2)
    if is_close:
        away = 0.01 if is_sign else 0.0
    else:
        away = rng.uniform(0.05, reach) * (1 if is_sign else -1)
    below = counter in ("waves", "needed_ratio", "occupancy_ratio")
    return round(limit - away if below else limit + away, 2)


@task("ex_31.choose_counters")
def test_counters_near_each_limit(stub, seed):
    rng = random.Random(seed)
    unknown = []
    for place, signs in PLACES.items():
        for cause in (*signs, place):
            for number, (memory_use, l1_use) in enumerate(USES[place] * 2):
                values = {name: round(rng.random(), 2) for name in kernel_counters.COUNTERS}
                values |= {"duration_ns": float(rng.randint(10**4, 10**6))}
                values |= {"memory_use": memory_use, "l1_use": l1_use}
                for fault, counter in signs.items():
                    values[counter] = near_a_limit(counter, fault == cause, number % 2 == 0, rng)
                told = "a kernel whose values are near a limit"
                unknown.append(Unknown(values, place, cause, told))
    rng.shuffle(unknown)
    judge_counters(stub, unknown, repeat(seed))


# == refuses_bad_input ============================================================================


@task("ex_31.refuses_bad_input")
def test_good_input_gives_the_saving(stub, seed):
    for cause in CAUSES:
        kernel = Work.drawn(cause, seed).profile()
        gain = gain_of(kernel, cause)
        assert gain is not None
        got = stub.refuses_bad_input(kernel, cause)
        judge(f"refuses_bad_input(made, {cause!r})", got, 1 - 1 / gain, "1 − 1 / estimate_gain.")
        brief = with_metrics(kernel, {"gpu__time_duration.sum": 1.0})
        got = stub.refuses_bad_input(brief, cause)
        judge(
            f"refuses_bad_input(made, {cause!r}), of 1 ns", got, 1 - 1 / gain, "1 ns is some time."
        )
        got = stub.refuses_bad_input(at({"dram": 0.2}), cause)
        judge(f"refuses_bad_input(healthy, {cause!r})", got, 0.0, "A gain of 1.0 saves nothing.")
    few = at({"dram": 0.2}, **{OCCUPANCY_METRICS[0]: 95.0})
    got = stub.refuses_bad_input(few, "low_occupancy")
    judge("refuses_bad_input(made, 'low_occupancy')", got, 0.05, "A small share is a share, too.")


@task("ex_31.refuses_bad_input")
@pytest.mark.parametrize("unknown", ["memory_bound", "Divergence", ""])
def test_unknown_cause_lists_the_known_ones(stub, unknown):
    with stub.raises(ValueError, why="the cause is none of CAUSES") as raised:
        stub.refuses_bad_input(Work().profile(), unknown)
    judge_names(raised, "cause", *CAUSES, repr(unknown))


DURATION = "gpu__time_duration.sum"


@task("ex_31.refuses_bad_input")
def test_kernel_that_tells_too_little(stub, seed):
    whole = Work.drawn("divergence", seed).profile("lonely(int *)")
    why = "a counter is missing, so nothing can be said about the cause"
    with stub.raises(CaptureError, why=why) as raised:
        stub.refuses_bad_input(without(whole, LANES, seed), "divergence")
    judge_names(raised, "lonely", "divergence")
    untold = {key: value for key, value in whole["metrics"].items() if "time_duration" not in key}
    for metrics in (
        *(whole["metrics"] | {DURATION: ns} for ns in (None, 0, 0.0, -5.0, math.nan)),
        untold,
    ):
        told = f"is {show(metrics[DURATION])}" if DURATION in metrics else "is missing"
        why = f"{DURATION} {told}, so the kernel has no duration above 0"
        with stub.raises(CaptureError, why=why) as raised:
            stub.refuses_bad_input(whole | {"metrics": metrics}, "divergence")
        value = metrics.get(DURATION)
        judge_names(raised, "lonely", DURATION, *([] if value is None else [f"{value:g}"]))


def judge_names(raised: Any, *names: str) -> None:
    """Fail unless an error's message has these names, in any order."""
    missing = [name for name in names if name not in raised.message]
    if missing:
        bare = missing[0].startswith("'") and missing[0].strip("'") in raised.message
        pytest.fail(
            f"refuses_bad_input raises {raised.type_name}, which is right, but its message "
            f"({show(raised.message)}) does not name {', '.join(missing)}{bare * ' with the quotes that repr gives'}",
            pytrace=False,
        )


# == rank_kernels =================================================================================


def finding(name: str, category: str, duration: float, recoverable: float) -> Finding:
    evidence = {"duration_ns": duration, "recoverable_ns": recoverable}
    return Finding(category, f"kernel:{name}", evidence, "do something")


def ranking_of(findings: list[Finding], launches: dict[str, int]) -> list[dict[str, Any]]:
    rows: dict[str, list[Finding]] = {}
    for one in findings:
        rows.setdefault(ncu.short(one.subject.removeprefix("kernel:")), []).append(one)
    out = []
    for name, group in rows.items():
        times = Fraction(launches.get(name, 0), len(group))
        if times:
            most = sorted(group, key=lambda one: -one.evidence["recoverable_ns"])[0]
            totals = {
                key: float(sum(times * Fraction(one.evidence[f"{key}_ns"]) for one in group))
                for key in ("duration", "recoverable")
            }
            row = {"name": name, "category": most.category, "total_ns": totals["duration"]}
            out.append(row | {"recoverable_ns": totals["recoverable"]})
    return sorted(out, key=lambda row: (-row["recoverable_ns"], -row["total_ns"], row["name"]))


def judge_ranking(stub: Any, call: str, findings: list[Finding], launches: dict[str, int]) -> None:
    got, want = stub.rank_kernels(findings, launches), ranking_of(findings, launches)
    if alike(got, want):
        return
    names, right = (
        [row.get("name") for row in rows] if type(rows) is list else rows for rows in (got, want)
    )
    why = "It must be a list of dictionaries."
    if type(names) is list:
        by_time = [row["name"] for row in sorted(want, key=lambda row: -row["total_ns"])]
        if names == right:
            why = "Times are per launch times launches; several findings of a function share its launches."
        elif names == by_time:
            why = "A long kernel that is at its ceiling has nothing to give: order by what mending saves."
        else:
            why = f"In this order: {', '.join(map(str, right))}; what is not launched has no row."
    pytest.fail(f"{call} says {show(got)}; expected {show(want)}. {why}", pytrace=False)


@task("ex_31.rank_kernels")
@recordings(MEMORY, SHARED)
def test_ranking_of_recorded_kernels(stub, recording, own_recording, seed):
    findings = []
    for kernel in ncu.kernels(recording):
        category, savings = verdict_of(only(kernel, GAIN_METRICS))
        duration = kernel["metrics"]["gpu__time_duration.sum"]
        saved = duration * max(savings.values(), default=0.0)
        findings.append(finding(kernel["name"], category, duration, saved))
    names = [ncu.short(kernel["name"]) for kernel in ncu.kernels(recording)]
    rng = random.Random(seed)
    launches = {name: rng.randrange(9) for name in names}
    if not own_recording:
        told = captures.provenance(recording)["reported_by_program"]["kernels"]
        judge_ranking(
            stub,
            f"rank_kernels({recording})",
            findings,
            {name: told[name]["launch_count"] for name in names},
        )
    judge_ranking(
        stub, f"rank_kernels({Path(recording).name}, {show(launches)})", findings, launches
    )


@task("ex_31.rank_kernels")
def test_ranking_of_made_findings(stub, seed):
    rng = random.Random(seed)
    for _ in range(5):
        findings, launches = [], {}
        for number in range(rng.randint(2, 6)):
            name, duration = f"kernel_{number}", rng.uniform(1e4, 1e7)
            launches[name] = rng.choice((0, 1, rng.randrange(100)))
            for _ in range(rng.choice((1, 1, 3))):
                category = rng.choice(CAUSES)
                saving = rng.choice((0.0, rng.random()))
                whole = rng.choice((f"void {name}<float>(T1 *)", f"{name}(int)", name))
                findings.append(finding(whole, category, duration, saving * duration))
        launches["not profiled"] = 7
        rng.shuffle(findings)
        judge_ranking(stub, f"rank_kernels(made, {show(launches)})", findings, launches)


@task("ex_31.rank_kernels")
def test_ranking_on_a_slip_of_paper(stub):
    findings = [
        finding("at_its_ceiling(float *)", "memory_bound", 1000.0, 0.0),
        finding("void b<int, (bool)1>(T1 *)", "divergence", 10.0, 5.0),
        finding("a(int)", "bank_conflicts", 10.0, 5.0),
        finding("rare(int)", "small_grid", 1000.0, 900.0),
        finding("c(int)", "low_occupancy", 20.0, 5.0),
    ]
    launches = {"at_its_ceiling": 50, "a": 100, "b": 100, "c": 100, "other": 3}
    judge_ranking(stub, "rank_kernels(drawn)", findings, launches)
    judge_ranking(stub, "rank_kernels([], …)", [], launches)
    several = [
        finding("void b<float>(T1 *)", "memory_bound", 10.0, 0.0),
        finding("b(int)", "bank_conflicts", 10.0, 5.0),
        finding("a(int)", "small_grid", 30.0, 1.0),
        finding("b(int)", "divergence", 40.0, 5.0),
    ]
    judge_ranking(stub, "rank_kernels(one function three times)", several, launches)
    with stub.raises(ValueError, r"\bc\b", "a program cannot launch a kernel less than never"):
        stub.rank_kernels(findings, launches | {"c": -1})
