"""The guides in docs/: links lead somewhere, names exist in their tools, commands are understood."""

from __future__ import annotations

import csv
import functools
import io
import itertools
import json
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from grading.proof import patience
from grading.runner.scoring import installed
from profiling_lab import captures
from profiling_lab.course import manifest as course
from profiling_lab.tools import launch_plan, unified_profiler
from profiling_lab.tools.gpu_summary import DeviceSummary

ROOT = Path(__file__).resolve().parents[2]
COURSE = course.load(ROOT)
HELPS = ROOT / "captures" / "tool_help"
GUIDES = sorted(str(page.relative_to(ROOT)) for page in (ROOT / "docs").glob("*.md"))
PAGES = [*GUIDES, "modules/README.md"]
WANTED = {
    "COMPREHENSIVE-PROFILING-GUIDE.md",
    "PROFILER-COMPARISON.md",
    "README.md",
    "instructor-guide.md",
    "metrics-cheat-sheet.md",
    "tool-installation.md",
    "vocabulary.md",
}
# Whose `raw` pages the columns of the cheat sheet are looked up in.
NCU_CAPTURES = ("ncu_memory", "ncu_compute", "ncu_shared", "ncu_triton")
NCU_NAME = re.compile(r"(?:sm|smsp|gpu|dram|l1tex|lts|launch|derived)__\w+(?:\.\w+)*")
NSYS_NAME = re.compile(
    r"(?:CUPTI_ACTIVITY|OSRT|NVTX|TARGET_INFO|META_DATA|ENUM|GPU_METRICS|PROFILER_OVERHEAD)\w*"
    r"|StringIds|ProcessStreams|PROCESSES"
)
LAUNCHERS = ("torchrun", "python", "deepspeed", "srun", "nsys", "ncu", "docker", "env")


@functools.cache
def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


@functools.cache
def prose(page: str) -> str:
    """The page without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", text_of(page), flags=re.DOTALL | re.MULTILINE)


def in_code(page: str) -> list[str]:
    """What is in backticks."""
    return re.findall(r"`([^`\n]+)`", prose(page))


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text_of(page), re.DOTALL | re.MULTILINE)


def commands(page: str, *languages: str) -> Iterator[list[str]]:
    """The commands of the blocks in these languages, as words; a line that ends in \\ goes on."""
    for language in languages:
        for block in blocks(page, language):
            for line in block.replace("\\\n", " ").splitlines():
                if not line.startswith(("torch.", "options ")):
                    yield shlex.split(line, comments=True)


# -- links ----------------------------------------------------------------------------------------


def slug(heading: str) -> str:
    """The anchor that GitHub makes of a heading."""
    plain = re.sub(r"\[(.*?)\]\(.*?\)", r"\1", heading).replace("`", "")
    return re.sub(r"[^\w\- ]", "", plain.strip().lower()).replace(" ", "-")


def anchors(file: Path) -> set[str]:
    page = re.sub(r"^```.*?^```$", "", file.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    return {slug(heading) for heading in re.findall(r"^#+ (.*)$", page, re.MULTILINE)}


def links(page: str) -> list[tuple[str, str]]:
    return re.findall(r"\[([^\[\]]*)\]\(([^)\s]+)\)", prose(page))


def test_the_guides_are_there() -> None:
    assert {Path(page).name for page in GUIDES} == WANTED
    map_of_guides = {target for _, target in links("docs/README.md")}
    assert WANTED - {"README.md"} <= map_of_guides, "docs/README.md leaves a guide out"


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    wrong = []
    for _, target in links(page):
        if target.startswith("https://"):
            continue
        path, _, anchor = target.partition("#")
        file = ((ROOT / page).parent / path).resolve() if path else ROOT / page
        if not file.exists() or (anchor and anchor not in anchors(file)):
            wrong.append(target)
    assert not wrong, f"{page}: {wrong}"


@pytest.mark.parametrize("page", GUIDES)
def test_exercises_are_linked_by_their_own_id(page: str) -> None:
    lessons = {each.id: Path(ROOT, COURSE.lesson(each)).resolve() for each in COURSE.exercises}
    for name, target in links(page):
        found = re.match(r"(?:ex_\d+|[a-z]+_ex\d+|lab05\w*)\b", name)
        if found is None:
            continue
        assert found[0] in lessons, f"{page}: there is no exercise {found[0]}"
        file = ((ROOT / page).parent / target.partition("#")[0]).resolve()
        assert file == lessons[found[0]], f"{page}: [{name}] leads to {target}"


@pytest.mark.concerns()
def test_the_weeks_hours_are_those_of_the_manifest() -> None:
    rows = re.findall(r"\| (\d+) hours \| \[(\w+)\]", text_of("week07/README.md"))
    minutes: dict[str, int] = {}
    for exercise in COURSE.exercises:
        folder = exercise.stub.parent.name
        minutes[folder] = minutes.get(folder, 0) + exercise.minutes
    assert len(rows) == 5
    assert {folder: int(hours) for hours, folder in rows} == {
        folder: round(minutes[folder] / 60) for _, folder in rows
    }


@pytest.mark.concerns()
def test_functions_to_begin_with_are_tasks() -> None:
    section = text_of("docs/COMPREHENSIVE-PROFILING-GUIDE.md").split("## What to read first")[1]
    tasks = {task.id.split(".")[1] for each in COURSE.exercises for task in each.tasks}
    for row in re.findall(r"^\| (?!you have|---)(.*) \|$", section.split("\n## ")[0], re.MULTILINE):
        asked, learned = row.split(" | ")[1:3]
        named = re.findall(r"`(\w+)`", asked)
        ids = re.findall(r"\[(\w+)\]", learned)
        here = {task.id.split(".")[1] for e in COURSE.exercises if e.id in ids for task in e.tasks}
        assert set(named) <= tasks, f"no such functions: {set(named) - tasks}"
        assert set(named) <= here, f"{set(named) - here} belong to other exercises than {ids}"


# -- names ----------------------------------------------------------------------------------------


@functools.cache
def ncu_columns() -> set[str]:
    pages = (captures.text(name, "kernels.csv") for name in NCU_CAPTURES)
    return {column for page in pages for column in next(csv.reader(io.StringIO(page)))}


@pytest.mark.parametrize("page", GUIDES)
def test_metrics_are_those_of_the_tools(page: str) -> None:
    import pynvml

    schema = (HELPS / "nsys_schema.sql").read_text(encoding="utf-8")
    tables = set(re.findall(r"CREATE TABLE (\w+)", schema))
    for name in in_code(page):
        if NCU_NAME.fullmatch(name):
            assert name in ncu_columns(), f"{page}: no capture has the column {name}"
        elif NSYS_NAME.fullmatch(name):
            assert name in tables, f"{page}: the schema has no table {name}"
        elif re.fullmatch(r"nvml\w+|NVML_\w+", name):
            assert hasattr(pynvml, name), f"{page}: pynvml has no {name}"


def test_the_cheat_sheet_names_metrics_of_every_tool() -> None:
    names = in_code("docs/metrics-cheat-sheet.md")
    assert sum(bool(NCU_NAME.fullmatch(name)) for name in names) >= 20
    assert sum(bool(NSYS_NAME.fullmatch(name)) for name in names) >= 8
    assert sum(name.startswith(("nvml", "NVML")) for name in names) >= 6


def test_sampled_metrics_were_sampled() -> None:
    named = {name for page in GUIDES for name in in_code(page) if name.endswith("[Throughput %]")}
    with captures.open("torch_inference_improved") as recording:
        sampled = set(recording.gpu_metrics["metric"])
    assert named
    assert named <= sampled


def test_fields_of_the_monitor_and_of_torch_exist() -> None:
    fields = {name for page in GUIDES for name in re.findall(r"`GPUMonitor`: `(\w+)`", prose(page))}
    assert fields
    assert fields <= set(DeviceSummary.__dataclass_fields__)
    rows = json.loads(captures.text("training_phases_ready", "key_averages.json"))
    columns = {name for page in GUIDES for name in in_code(page) if name.startswith("self_")}
    assert columns
    assert columns <= set(rows[0])


# -- commands -------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", GUIDES)
def test_console_blocks_hold_commands_that_tests_read(page: str) -> None:
    for words in commands(page, "console"):
        assert words[0] in ("nsys", "ncu") or words[:3] in (
            ["uv", "run", "lab"],
            ["uv", "run", "python"],
            ["uv", "run", "grade"],  # tests/harness/classroom/test_instructor_guide.py
        ), f"{page}: nothing checks {shlex.join(words)}"
        if words[2:3] == ["python"] and words[3:5] != ["-m", "grading.classroom"]:
            assert (ROOT / words[3]).is_file(), f"{page}: there is no {words[3]}"


def test_text_blocks_have_their_source_beside_them() -> None:
    for page in GUIDES:
        parts = re.split(r"^(```\w*\n.*?^```)$", text_of(page), flags=re.DOTALL | re.MULTILINE)
        for number, part in enumerate(parts):
            if not part.startswith("```text"):
                continue
            before = parts[number - 1].strip().rpartition("\n\n")[2]
            after = parts[number + 1].strip().partition("\n\n")[0]
            assert re.search(r"[Ss]ource:", before + after), f"{page}: no source beside\n{part}"


def options_of(tool: str, words: list[str]) -> str:
    """The help text that the options after this word have to be in; "" for what is not here."""
    if tool == "nsys":
        file = HELPS / f"nsys_{words[0]}.txt" if words else HELPS / "none"
        return file.read_text(encoding="utf-8") if file.is_file() else ""
    if tool == "ncu":
        return (HELPS / "ncu.txt").read_text(encoding="utf-8")
    if tool == "torchrun":
        run = installed("torch.distributed.run")
        return run.get_args_parser().format_help()
    if tool.endswith("recorded_run.py"):
        return (ROOT / "profiling_lab/tools/recorded_run.py").read_text(encoding="utf-8")
    return ""


@pytest.mark.proof
@pytest.mark.parametrize("page", GUIDES)
def test_options_are_those_of_the_tools(page: str) -> None:
    for words in commands(page, "console", "text"):
        starts = [n for n, word in enumerate(words) if word in LAUNCHERS or word.endswith(".py")]
        for start, end in itertools.pairwise([*starts, len(words)]):
            known = options_of(words[start], words[start + 1 :])
            for word in words[start + 1 : end] if known else []:
                option = word.partition("=")[0]
                if option.startswith("--"):
                    assert re.search(rf"{option}(?![\w-])", known), f"{page}: {words[start]} {word}"


@pytest.mark.parametrize("page", GUIDES)
def test_commands_of_the_unified_profiler_make_a_plan(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()
    monkeypatch.setattr(launch_plan, "_first_node", lambda environ: "node0")
    for words in commands(page, "console"):
        if not any("unified_profiler" in word for word in words):
            continue
        arguments = words[words.index("profiling_lab/tools/unified_profiler.py") + 1 :]
        assert arguments[0] == "--dry-run", "a guide shows what would be run"
        assert unified_profiler.main(arguments) == 0, capsys.readouterr().err
        assert "train.py" in capsys.readouterr().out


TRAIN = """\
import torch
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(12):
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
"""


@pytest.mark.proof
def test_one_trace_a_rank_runs_as_shown(tmp_path: Path) -> None:
    installed("torch")
    shown = next(
        words
        for words in commands("docs/COMPREHENSIVE-PROFILING-GUIDE.md", "text")
        if words[0] == "torchrun"
    )
    (tmp_path / "train.py").write_text(TRAIN)
    runner = "profiling_lab/tools/recorded_run.py"
    words = [str(ROOT / runner) if word == runner else word for word in shown[1:]]
    words[words.index("--nproc-per-node=4")] = "--nproc-per-node=2"
    done = patience.run([sys.executable, "-m", "torch.distributed.run", *words], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    written = sorted(file.name for file in (tmp_path / "traces").iterdir())
    assert written == ["trace_rank0.json.gz", "trace_rank1.json.gz"]
