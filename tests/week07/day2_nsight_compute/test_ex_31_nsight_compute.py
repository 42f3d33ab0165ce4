"""Checks of `ex_31`: what each function says about recorded, generated and drawn kernels.

Expected values come from a reader of the checks' own (`grading.checking.ncu`), from closed forms, from
NVIDIA's occupancy calculator, from a simulated kernel's truth, and from fixed twins that were recorded
beside the sick kernels. A wrong answer is compared with what typical mistakes give, so that the message
can say which evidence it contradicts.
"""

from __future__ import annotations

import csv
import gzip
import io
import math
import random
import re
import shlex
from collections.abc import Callable, Iterable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from grading.checking import ncu, occupancy, task
from grading.checking.fixtures import MOST_SEED, SEED_VARIABLE, recordings
from grading.checking.generate.ncu import Raw
from profiling_lab import captures
from profiling_lab.errors import CaptureError, NoSuchCapture
from profiling_lab.findings import CATEGORIES, Finding, problems

Kernel = dict[str, Any]
Variants = Iterable[tuple[Any, str]]

MEMORY, SHARED = "ncu_memory", "ncu_shared"

# -- words ----------------------------------------------------------------------------------------


def show(value: Any) -> str:
    """A value in a line: long ones shortened."""
    if type(value) is float:
        return f"{value:.6g}"
    if type(value) is dict:
        text = "{" + ", ".join(f"{key!r}: {show(item)}" for key, item in value.items()) + "}"
    elif type(value) is list:
        text = "[" + ", ".join(map(show, value)) + "]"
    else:
        text = repr(value)
    return text if len(text) <= 400 else text[:397] + "…"


def agree(got: Any, want: Any, tolerance: float = 1e-9) -> bool:
    """Equal; numbers to a relative tolerance, int or float alike."""
    if type(want) in (int, float):
        return type(got) in (int, float) and math.isclose(
            got, want, rel_tol=tolerance, abs_tol=1e-12
        )
    if type(got) is not type(want):
        return False
    if isinstance(want, dict):
        return got.keys() == want.keys() and all(
            agree(got[key], want[key], tolerance) for key in want
        )
    if isinstance(want, (list, tuple)):
        return len(got) == len(want) and all(
            agree(a, b, tolerance) for a, b in zip(got, want, strict=True)
        )
    return bool(got == want)


def judge(
    call: str, got: Any, want: Any, why: str, mistakes: Variants = (), *, where: str = ""
) -> None:
    """Fail unless got is want; with the sentence of the mistake that gives the same value."""
    if agree(got, want):
        return
    for value, sentence in mistakes:
        if agree(got, value):
            why = sentence
            break
    if isinstance(want, dict) and isinstance(got, dict):
        if missing := [key for key in want if key not in got]:
            why = f"Keys missing: {', '.join(map(repr, missing))}. {why}"
        elif extra := [key for key in got if key not in want]:
            why = f"Keys that should not be there: {', '.join(map(repr, extra))}. {why}"
        else:
            wrong = [key for key in want if not agree(got[key], want[key])]
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
        if not agree(got[key], value):
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
PROGRAM = ["python3", "train.py", "--set", "full", "--launch-count=3", "64 x 2"]
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
                "(one option a word, long names).",
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
        elif given[name] != value:
            out.append(f"--{name}={given[name]} is not what was asked: {why[name]}")
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
@pytest.mark.parametrize("question", SECTIONS)
def test_one_question_needs_its_sections(stub, question):
    judge_ncu(stub, [question], ["./app"], "report")


@task("ex_31.ncu_command")
@pytest.mark.parametrize("question", ["warm_caches", "own_clocks"])
def test_what_the_tool_does_to_the_machine_can_be_left_out(stub, question):
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


@task("ex_31.ncu_command")
@pytest.mark.parametrize(
    ("questions", "words"),
    [
        (["bandwidth"], "bandwidth"),
        (["memory", "Memory"], "Memory"),
        (["stall", "stalls"], r"stall\b"),
    ],
)
def test_unknown_question_is_refused(stub, questions, words):
    with stub.raises(ValueError, words, "a question that is not in the list has no answer"):
        stub.ncu_command(questions, ["./app"], "report")


@task("ex_31.ncu_command")
@pytest.mark.parametrize(
    ("questions", "filters", "why"),
    [
        ([], {}, "a report that answers nothing should not be made"),
        (
            ["warm_caches", "own_clocks"],
            {},
            "neither asks for a section: nothing would be measured",
        ),
        (["ceilings"], {"skip": -1}, "a number of launches cannot be negative"),
        (["ceilings"], {"count": 0}, "nothing would be profiled"),
        (["ceilings"], {"count": -1}, "nothing would be profiled"),
    ],
)
def test_command_without_sense_is_refused(stub, questions, filters, why):
    with stub.raises(ValueError, why=why):
        stub.ncu_command(questions, ["./app"], "report", **filters)


# == read_metrics =================================================================================


def judge_kernels(call: str, got: Any, want: Iterable[Kernel], where: str = "") -> None:
    """Fail unless these are the kernels, with the metric that differs and how the file writes it."""
    want = list(want)
    if type(got) is not list or len(got) != len(want):
        what = f"{len(got)} kernels" if type(got) is list else show(got)
        pytest.fail(
            f"{call} returned {what}; expected a list of {len(want)}. {where}", pytrace=False
        )
    keys = {"id", "name", "grid", "block", "cc", "metrics"}
    for number, (entry, expected) in enumerate(zip(got, want, strict=True)):
        here = f"{call}[{number}]"
        if type(entry) is not dict or entry.keys() != keys:
            judge(here, entry, dict.fromkeys(sorted(keys), "…"), "Keys as in the docstring.")
        for key in ("id", "name", "grid", "block", "cc"):
            judge(
                f"{here}[{key!r}]",
                entry[key],
                expected[key],
                "The columns before CC name the launch.",
            )
        metrics, right = entry["metrics"], expected["metrics"]
        if type(metrics) is not dict or metrics.keys() != right.keys():
            missing = sorted(right.keys() - set(metrics))[:3]
            extra = sorted(set(metrics) - right.keys())[:3]
            pytest.fail(
                f"{here}['metrics'] lacks {missing} and has {extra}: every column behind CC is a "
                f"metric, and no other. {where}",
                pytrace=False,
            )
        for name, value in right.items():
            if not agree(metrics[name], value):
                pytest.fail(
                    f"{here}['metrics'][{name!r}] is {show(metrics[name])}; expected {show(value)}. "
                    f"{why_value(metrics[name], value)} {where}",
                    pytrace=False,
                )


def why_value(got: Any, want: Any) -> str:
    """What a wrong value looks like."""
    if want is None:
        return "The cell holds no number: a counter that was not measured is missing, not a value."
    if type(want) is str:
        return "Text that is no number stays as it is."
    if type(got) not in (int, float):
        return "It is a number (commas separate thousands)."
    if not want or not got:
        return "A value is lost."
    factor = got / want
    for worth in (10.0**n for n in range(-12, 13, 3) if n):
        if math.isclose(factor, worth, rel_tol=1e-6):
            return f"It is off by {worth:g}: the row of units says in which unit a column is."
    return "The row of units says in which unit a column is."


@task("ex_31.read_metrics")
@recordings(MEMORY, SHARED)
def test_recorded_kernels_in_base_units(stub, recording):
    got = stub.read_metrics(recording)
    judge_kernels(f"read_metrics({Path(recording).name!r})", got, ncu.kernels(recording))


def some_table(seed: int, units: str = "auto", *, preamble: bool = True) -> Raw:
    """Two to five kernels with metrics of every kind, some of them missing."""
    rng = random.Random(seed)
    table = Raw(seed, units, preamble=preamble)
    odd = f"odd__name_{rng.randrange(1000)}.avg"
    for number in range(rng.randint(2, 5)):
        scale = 10 ** rng.uniform(0, 6)
        metrics: dict[str, Any] = {
            "gpu__time_duration.sum": 50_000 * scale,
            "dram__bytes_read.sum": int(1e4 * scale * rng.uniform(1, 9)),
            "dram__bytes_write.sum": rng.choice((0, int(1e4 * scale))),
            "dram__bytes_read.sum.per_second": rng.uniform(1e10, 4e12),
            "gpc__cycles_elapsed.avg.per_second": rng.uniform(1e9, 2e9),
            "gpc__cycles_elapsed.max": int(1e5 * scale),
            "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": int(1e5 * scale),
            "lts__t_sector_hit_rate.pct": rng.uniform(0, 100),
            "smsp__thread_inst_executed_per_inst_executed.ratio": rng.uniform(1, 32),
            "launch__registers_per_thread": rng.randint(16, 255),
            "launch__shared_mem_per_block_static": rng.choice((0, 1024, 49_152)),
            "launch__func_cache_config": "CachePreferNone",
            odd: rng.choice((None, rng.uniform(-5, 5))),
        }
        for name in rng.sample(sorted(metrics), 2):
            metrics[name] = None
        table.add(
            f"void scale<float, {number}>(T1 *, int)",
            metrics,
            grid=(rng.randint(1, 9999), rng.randint(1, 9), 1),
            block=(32 * rng.randint(1, 32), 1, 1),
            cc=rng.choice(("7.0", "8.9", "9.0")),
        )
    return table


@task("ex_31.read_metrics")
@pytest.mark.parametrize("units", ["auto", "base", "old"])
def test_generated_table_in_any_units(stub, seed, tmp_path, units):
    truth = some_table(seed, units, preamble=units != "base").save(tmp_path)
    got = stub.read_metrics(str(tmp_path))
    judge_kernels("read_metrics(made)", got, truth, f"Units: {units}. {repeat(seed)}")


def drawn_csv(folder: Path, *lines: str, name: str = "kernels.csv") -> str:
    """A raw page written by hand: the columns up to CC are filled in for rows that begin with a dot."""
    header = "ID,Process ID,Process Name,Host Name,Kernel Name,Context,Stream,Block Size,Grid Size,Device,CC"
    row = '0,1,app,host,"void f<int>(int *, float)",1,7,"(32, 2, 1)","(7, 8, 9)",0,9.0'
    text = [
        line.replace("HEADER", header).replace("UNITS", "," * 10).replace("KERNEL", row)
        for line in lines
    ]
    data = ("\n".join(text) + "\n").encode()
    (folder / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return str(folder)


@task("ex_31.read_metrics")
@pytest.mark.parametrize(
    ("unit", "cell", "value"),
    [
        ("us", "1.5", 1500.0),
        ("ms", '"1,234.5"', 1234.5e6),
        ("second", "2", 2e9),
        ("nsecond", "7", 7.0),
        ("Mbyte", "3.25", 3.25e6),
        ("Kbyte/block", "1.02", 1020.0),
        ("Gbyte/s", "2.5", 2.5e9),
        ("Gbyte/second", "2.5", 2.5e9),
        ("byte/us", "4", 4e6),
        ("cycle/nsecond", "1.98", 1.98e9),
        ("GHz", "1.98", 1.98e9),
        ("Mhz", "3,201.5".join('""'), 3201.5e6),
        ("hz", "5", 5.0),
        ("inst/cycle", "2.75", 2.75),
        ("%", "93.31", 93.31),
        ("", "-12", -12.0),
        ("inst", '"1,234,567"', 1_234_567.0),
        ("", "1e3", 1000.0),
        ("us", "0", 0.0),
        ("us", "n/a", None),
        ("", "nan", None),
        ("%", "-nan", None),
        ("", "inf", None),
        ("us", "", None),
        ("", "N/A", None),
        ("", "CachePreferNone", "CachePreferNone"),
        ("", "4 (1; 3)", "4 (1; 3)"),
    ],
)
def test_each_kind_of_cell(stub, tmp_path, unit, cell, value):
    folder = drawn_csv(tmp_path, "HEADER,m", f"UNITS,{unit}", f"KERNEL,{cell}")
    got = stub.read_metrics(folder)
    call = f"read_metrics of {cell!r} in a column of unit {unit!r}"
    metric = got[0]["metrics"]["m"] if type(got) is list and got else got
    judge(call, metric, value, why_value(metric, value))


@task("ex_31.read_metrics")
def test_lines_of_the_tool_and_compression_do_not_matter(stub, tmp_path):
    lines = ("==PROF== Connected, ID 5", "==WARNING== x", "HEADER,m", "UNITS,us", "KERNEL,2")
    folder = drawn_csv(tmp_path, *lines, name="kernels.csv.gz")
    want = {
        "id": 0,
        "name": "void f<int>(int *, float)",
        "grid": (7, 8, 9),
        "block": (32, 2, 1),
        "cc": "9.0",
        "metrics": {"m": 2000.0},
    }
    judge_kernels("read_metrics(made)", stub.read_metrics(folder), [want])


@task("ex_31.read_metrics")
@pytest.mark.parametrize(
    ("lines", "words", "why"),
    [
        ((), "kernels.csv", "an empty file is no table"),
        (("==ERROR== no kernels were profiled",), "kernels.csv", "there is no header"),
        (("HEADER,m",), "kernels.csv", "there are neither units nor kernels"),
        (("HEADER,m", "UNITS,us"), "kernels.csv", "there is no kernel"),
        (("HEADER,m", "KERNEL,2", "KERNEL,3"), "unit", "without units no number means anything"),
        (("HEADER,m,n", "UNITS,us,", "KERNEL,2,3", "KERNEL,2"), "4", "the last line was cut off"),
        (("HEADER,m", "UNITS,us", "KERNEL,2,3"), "3", "a row is longer than the header"),
        (("HEADER,m", "UNITS", "KERNEL,2"), "2", "the row of units is shorter than the header"),
        (("==PROF== x", "HEADER,m", "UNITS,us", "KERNEL,2", "0,1,app"), "5", "a row was cut off"),
        (("ID,Kernel Name,CC,m", ",,,us", "0,f,9.0,1"), "Grid Size", "a column is missing"),
    ],
)
def test_table_that_is_not_whole_is_refused(stub, tmp_path, lines, words, why):
    folder = drawn_csv(tmp_path, *lines)
    with stub.raises(CaptureError, words, why):
        stub.read_metrics(folder)


@task("ex_31.read_metrics")
def test_capture_that_is_not_there(stub, tmp_path):
    with stub.raises(NoSuchCapture):
        stub.read_metrics("no_such_capture")
    with stub.raises(CaptureError, "kernels.csv", "the folder holds no such file"):
        stub.read_metrics(str(tmp_path))


# == theoretical_occupancy ========================================================================

LIMIT_ORDER = ("warps", "blocks", "registers", "shared")
WARPS = {name: numbers[0] for name, numbers in occupancy.PROPERTIES.items()}
WHY_LIMIT = {
    "warps": "warps of the SM over warps of a block, whole blocks only",
    "blocks": "each compute capability has its own number of blocks per SM",
    "registers": "registers are granted by the warp, in one of four partitions",
    "shared": "what a block needs, with the driver's part, in whole units, out of what the SM sets aside",
}


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
            if name in got["limits"] and not agree(got["limits"][name], limit):
                pytest.fail(
                    f"{call} says that {name} allow {got['limits'][name]} blocks; {source} says "
                    f"{limit}. Think of: {WHY_LIMIT[name]}.",
                    pytrace=False,
                )
    judge(call, got, expected, f"By {source}.")


@task("ex_31.theoretical_occupancy")
def test_as_the_occupancy_calculator_says(stub, seed):
    launches = occupancy.tabled()
    for launch, want in random.Random(seed).sample(launches, 200):
        judge_occupancy(stub, launch, want, "cuda_occupancy.h")


@task("ex_31.theoretical_occupancy")
def test_as_the_calculator_compiled_here_says(stub, seed):
    launches = occupancy.sample(seed, 200)
    if not occupancy.available():  # the table above stands in for it
        launches = []
    for launch, want in zip(launches, occupancy.compute(launches) if launches else [], strict=True):
        judge_occupancy(stub, launch, want, "cuda_occupancy.h")


@task("ex_31.theoretical_occupancy")
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


@task("ex_31.theoretical_occupancy")
@recordings(MEMORY, SHARED)
def test_as_the_profiler_says_of_recorded_launches(stub, recording):
    for kernel in ncu.kernels(recording):
        metrics = kernel["metrics"]
        name = ncu.short(kernel["name"])
        threads = math.prod(kernel["block"])
        arguments = [kernel["cc"], threads, *map(int, profiled_launch(recording, kernel))]
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
                judge(
                    f"{call}, the launch of {name}: limits[{key!r}]",
                    got["limits"].get(key) if type(got) is dict else got,
                    said,
                    f"The profiler's {metric}. Think of: {WHY_LIMIT[key]}.",
                )
        theoretical = metrics.get("sm__maximum_warps_per_active_cycle_pct")
        if theoretical is not None and not agree(100 * got["occupancy_ratio"], theoretical, 1e-3):
            pytest.fail(
                f"{call}, the launch of {name}, says {show(got['occupancy_ratio'])}; the profiler's "
                f"sm__maximum_warps_per_active_cycle_pct is {show(theoretical)} %",
                pytrace=False,
            )


def profiled_launch(recording: str, kernel: Kernel) -> tuple[float, float, float, float]:
    """Registers, static, dynamic and set-aside shared bytes; rounded ones put back to whole units.

    With automatic units the tool writes 16.38 Kbyte for 16,384 bytes: the nearest multiple of 4 for
    what a block asks, of 1,024 for what the SM sets aside.
    """
    metrics = kernel["metrics"]
    return (
        metrics["launch__registers_per_thread"],
        4 * round(metrics["launch__shared_mem_per_block_static"] / 4),
        4 * round(metrics["launch__shared_mem_per_block_dynamic"] / 4),
        1024 * round(metrics["launch__shared_mem_config_size"] / 1024),
    )


@task("ex_31.theoretical_occupancy")
def test_unknown_compute_capability_lists_the_known_ones(stub):
    for unknown in ("6.1", "9", "90", "", "11.0"):
        with stub.raises(ValueError, r"7\.0.*8\.9.*12\.0", "the message lists the known ones"):
            stub.theoretical_occupancy(unknown, 256, 32)


@task("ex_31.theoretical_occupancy")
@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ((0, 32), "a block has at least one thread"),
        ((-32, 32), "a block has at least one thread"),
        ((1025, 32), "a block has at most 1,024 threads"),
        ((256, -1), "registers cannot be negative"),
        ((256, 256), "a thread has at most 255 registers"),
        ((256, 32, -1), "bytes cannot be negative"),
        ((256, 32, 4096, -4096), "bytes cannot be negative"),
        ((256, 32, 0, 0, -1), "bytes cannot be negative"),
        ((256, 32, 0, 0, 228 * 1024 + 1), "the SM of 9.0 has 228 kB of shared memory"),
    ],
)
def test_launch_that_cannot_be_asked_for(stub, arguments, why):
    with stub.raises(ValueError, why=why):
        stub.theoretical_occupancy("9.0", *arguments)


@task("ex_31.theoretical_occupancy")
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
    ],
)
def test_launch_on_a_slip_of_paper(stub, launch, blocks, limits):
    want = occupancy.Occupancy(blocks, limits)
    judge_occupancy(stub, occupancy.Launch(*launch), want, "the rules of the docstring")


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
        "resident_ratio": achieved * busy / theoretical if have and busy is not None else None,
        "waves_ratio": None if not waves else waves / math.ceil(waves),
    }


def made_occupancy(rng: random.Random) -> Kernel:
    theoretical = 6.25 * rng.randint(1, 16)
    elapsed = rng.randrange(10_000, 1_000_000)
    values = (
        theoretical,
        theoretical * rng.uniform(0.1, 1),
        elapsed * rng.uniform(0.05, 1),
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
    zero = made_occupancy(rng)
    for name in ("gpc__cycles_elapsed.max", "launch__waves_per_multiprocessor"):
        kernel = zero | {"metrics": zero["metrics"] | {name: 0}}
        call, why = (
            f"occupancy_gap with {name} = 0",
            {"": "Nothing is known of a share of nothing."},
        )
        judge_keys(call, stub.occupancy_gap(kernel), gap_of(kernel), why)


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
    parts = []
    for op, name in (("ld", "load"), ("st", "store")):
        count, requests, used = (metrics.get(metric) for metric in sectors(op))
        known = bool(count) and used is not None
        out[f"{name}_ratio"] = used / 32 if known else None
        out[f"sectors_per_{name}_ratio"] = ratio(count, requests)
        if known:
            parts.append((count * used, count * 32))
    moved = sum(part[1] for part in parts)
    out["used_ratio"] = ratio(sum(part[0] for part in parts), moved)
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
)
WHY_BANKS = {
    "conflicts_count": "Wavefronts beyond those that the accesses need anyway.",
    "conflict_ratio": "Conflicts over wavefronts.",
    "pipe_ratio": "The conflicts' share of the time in which the pipe serves shared memory; per cent over 100.",
    "": "It is the metric's value.",
}


def banks_of(kernel: Kernel) -> dict[str, float | None]:
    wavefronts, ideal, use = (kernel["metrics"].get(name) for name in BANK_METRICS)
    conflicts = wavefronts - ideal if None not in (wavefronts, ideal) else None
    share = ratio(conflicts, wavefronts)
    return {
        "wavefronts_count": wavefronts,
        "conflicts_count": conflicts,
        "conflict_ratio": share,
        "pipe_ratio": share * use / 100 if None not in (share, use) else None,
    }


@task("ex_31.bank_conflicts")
@recordings(MEMORY, SHARED)
def test_conflicts_of_recorded_kernels(stub, recording):
    for kernel in ncu.kernels(recording):
        polluted = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"
        got = stub.bank_conflicts(only(kernel, (*BANK_METRICS, polluted)))
        judge_keys(f"bank_conflicts({ncu.short(kernel['name'])})", got, banks_of(kernel), WHY_BANKS)


@task("ex_31.bank_conflicts")
def test_conflicts_of_made_kernels(stub, seed):
    rng = random.Random(seed)
    for missing in (*[None] * 10, *BANK_METRICS):
        wavefronts = rng.choice((0, rng.randrange(1, 10**8)))
        values = (wavefronts, rng.randint(0, wavefronts), rng.uniform(0, 100))
        kernel = made(dict(zip(BANK_METRICS, values, strict=True)))
        kernel = without(kernel, missing, seed) if missing else kernel
        call = f"bank_conflicts of {show(kernel['metrics'])}"
        why = dict.fromkeys((*WHY_BANKS, *banks_of(kernel)), WHY_NONE) if missing else WHY_BANKS
        judge_keys(call, stub.bank_conflicts(kernel), banks_of(kernel), why, repeat(seed))


# == rank_stalls ==================================================================================

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
        {"reason": reason, "warps_ratio": count, "share_ratio": count / total}
        for reason, count in warps.items()
        if total and reason != "selected"
    ]
    return sorted(rows, key=lambda row: (-row["warps_ratio"], row["reason"]))


def judge_stalls(call: str, got: Any, want: list[dict[str, Any]], where: str = "") -> None:
    if agree(got, want):
        return
    if type(got) is list and all(type(row) is dict for row in got):
        names, right = [row.get("reason") for row in got], [row["reason"] for row in want]
        if "selected" in names:
            why = "selected is the warp that was issued; it waits for nothing."
        elif sorted(map(str, names)) != sorted(right):
            why = f"The reasons are {', '.join(right)}; missing metrics have no place among them."
        elif names != right:
            why = f"In this order: {', '.join(right)}."
        else:
            why = "A share is of the whole life of a warp, the moment of issue included."
    else:
        why = "It must be a list of dictionaries."
    pytest.fail(f"{call} says {show(got)}; expected {show(want)}. {why} {where}", pytrace=False)


def stall_metrics(kernel: Kernel) -> list[str]:
    return [name for name in kernel["metrics"] if "issue_stalled" in name]


@task("ex_31.rank_stalls")
@recordings(MEMORY, SHARED)
def test_stalls_of_recorded_kernels(stub, recording):
    for kernel in ncu.kernels(recording):
        got = stub.rank_stalls(only(kernel, stall_metrics(kernel)))
        judge_stalls(f"rank_stalls({ncu.short(kernel['name'])})", got, stalls_of(kernel))


@task("ex_31.rank_stalls")
def test_stalls_of_made_kernels(stub, seed):
    rng = random.Random(seed)
    for _ in range(10):
        metrics: dict[str, Any] = {
            STALL.format(reason): rng.choice((rng.uniform(0, 9), float(rng.randint(0, 2))))
            for reason in rng.sample(REASONS, rng.randint(2, len(REASONS)))
        }
        metrics[STALL.format("selected")] = 1.0
        metrics[STALL.format(rng.choice(REASONS))] = None
        metrics["smsp__average_warp_latency_per_inst_issued.ratio"] = 12.5
        metrics["smsp__pcsamp_warps_issue_stalled_wait"] = 77
        metrics[STALL.format("wait").removesuffix(".ratio") + ".pct"] = 50.0
        kernel = made(metrics)
        call = f"rank_stalls of {show(metrics)}"
        judge_stalls(call, stub.rank_stalls(kernel), stalls_of(kernel), repeat(seed))


@task("ex_31.rank_stalls")
def test_no_stalls_at_all(stub):
    nothing = {STALL.format(reason): 0.0 for reason in REASONS}
    for metrics in ({}, nothing, {STALL.format("wait"): None}):
        judge_stalls(
            "rank_stalls of a kernel that never waits", stub.rank_stalls(made(metrics)), []
        )


# == unit_use =====================================================================================

UNITS = {
    "dram": ("gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",),
    "l2": (
        "lts__t_sectors.avg.pct_of_peak_sustained_elapsed",
        "lts__t_tag_requests.avg.pct_of_peak_sustained_elapsed",
        "lts__lts2xbar_cycles_active.avg.pct_of_peak_sustained_elapsed",
        "lts__xbar2lts_cycles_active.avg.pct_of_peak_sustained_elapsed",
    ),
    "l1": ("l1tex__throughput.avg.pct_of_peak_sustained_active",),
    "issue": ("smsp__issue_active.avg.pct_of_peak_sustained_active",),
    "pipe": (
        "sm__pipe_alu_cycles_active.avg.pct_of_peak_sustained_active",
        "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active",
        "sm__pipe_fp64_cycles_active.avg.pct_of_peak_sustained_active",
        "sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active",
        "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed",
    ),
}
BUSY = ("sm__cycles_active.avg", "gpc__cycles_elapsed.max")
UNIT_METRICS = (*(name for names in UNITS.values() for name in names), *BUSY)
WHY_UNITS = {
    "dram": "Per cent over 100.",
    "l2": "Per cent over 100.",
    "l1": "A share of the time in which an SM was active is not a share of the duration.",
    "issue": "A share of the time in which an SM was active is not a share of the duration.",
    "pipe": "The busiest pipe counts, over the whole duration and not only while an SM is active.",
}


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


def made_units(rng: random.Random) -> Kernel:
    metrics: dict[str, Any] = {
        name: rng.uniform(0, 100) for names in UNITS.values() for name in names
    }
    metrics |= {BUSY[0]: rng.uniform(1e3, 1e5), BUSY[1]: rng.randrange(100_000, 200_000)}
    return made(metrics)


@task("ex_31.unit_use")
@recordings(MEMORY, SHARED)
def test_units_of_recorded_kernels(stub, recording):
    for kernel in ncu.kernels(recording):
        got = stub.unit_use(only(kernel, UNIT_METRICS))
        judge_keys(f"unit_use({ncu.short(kernel['name'])})", got, use_of(kernel), WHY_UNITS)


@task("ex_31.unit_use")
def test_units_of_made_kernels(stub, seed):
    rng = random.Random(seed)
    for _ in range(20):
        kernel = made_units(rng)
        for name in rng.sample(UNITS["pipe"], rng.randint(0, 4)):
            kernel = without(kernel, name, rng.randrange(99))
        call = f"unit_use of {show(kernel['metrics'])}"
        judge_keys(call, stub.unit_use(kernel), use_of(kernel), WHY_UNITS, repeat(seed))


@task("ex_31.unit_use")
def test_units_with_a_metric_missing(stub, seed):
    rng = random.Random(seed)
    for name in UNIT_METRICS:
        kernel = without(made_units(rng), name, seed)
        want = use_of(kernel)
        why = dict.fromkeys(want, WHY_NONE)
        judge_keys(f"unit_use without {name}", stub.unit_use(kernel), want, why)
    judge_keys(
        "unit_use without metrics", stub.unit_use(made({})), use_of(made({})), {"": WHY_NONE}
    )


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
    for kernel in ncu.kernels(recording):
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


def source_csv(folder: Path, *lines: str) -> str:
    """A source page written by hand; rows of an instruction begin with a dot."""
    text = [line if line[:1] != "." else f",,{line[1:]}" for line in lines]
    (folder / "source.csv").write_text("\n".join(text) + "\n", encoding="utf-8")
    return str(folder)


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
    for kernel in ncu.kernels(recording):
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
        instruction(3, 1, 10),
        instruction(2, 2, 5),
        instruction(2, 3, 5),
        instruction(1, 4, 10),
    ]
    judge_hottest("hottest_line(equal lines)", stub.hottest_line(equal), equal)
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
            counts[CLASS_OF.get(re.split(r"[.\s;]", opcode)[0], "other")] += row["executed"] or 0
    return {name: count / sum(counts.values()) for name, count in counts.items()}


WHY_MIX = {
    "": "An instruction counts as often as warps executed it, each address once; its class is told by the "
    "opcode before the first dot, behind a predicate if there is one."
}


@task("ex_31.instruction_mix")
@recordings("ncu_compute", SHARED)
def test_mix_of_recorded_kernels(stub, recording):
    for kernel in ncu.kernels(recording):
        name = ncu.short(kernel["name"])
        listing = list(ncu.listing(recording, name))
        if len(listing) < 1000 and any(row["executed"] for row in listing):
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
        "EXIT;",
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
