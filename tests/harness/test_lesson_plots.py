"""Figures of the lessons are what the captures say; examples in the lessons run, commands exist."""

from __future__ import annotations

import functools
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from grading.cli import grade, report, status
from grading.proof.prove import Run
from grading.runner.scoring import installed, require_for
from profiling_lab.cli import lab
from profiling_lab.course import manifest as course
from profiling_lab.tools.unified_profiler import parser
from scripts.lesson_parts import plots

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROOT = Path(__file__).resolve().parents[2]
COURSE = course.load(ROOT)
# A lesson that several exercises share stands here once.
LESSONS = sorted({str(COURSE.lesson(exercise).relative_to(ROOT)) for exercise in COURSE.exercises})
# Chapters, maps and guides: they belong to no exercise.
PAGES = LESSONS + sorted(
    {
        str(page.relative_to(ROOT))
        for pattern in ("labs/docs/*.md", "docs/*.md", "modules/README.md", "modules/*/README.md")
        for page in ROOT.glob(pattern)
    }
    - set(LESSONS)
)


def blocks(lesson: str, language: str) -> list[str]:
    """The fenced blocks of one language in a lesson."""
    text = (ROOT / lesson).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)


def commands(lesson: str) -> Iterator[list[str]]:
    """The commands of a lesson's console blocks, as words."""
    for block in blocks(lesson, "console"):
        for line in block.splitlines():
            if words := shlex.split(line, comments=True):
                yield words


FIGURES = sorted(
    str(file.relative_to(ROOT))
    for folder in ("week07", "labs", "modules", "docs")
    for file in (ROOT / folder).rglob("figures/*.svg")
)


@pytest.mark.concerns("figure")
@pytest.mark.proof
@pytest.mark.parametrize("figure", FIGURES)
def test_figure_is_what_the_captures_say(figure: str) -> None:
    installed("matplotlib")
    why = plots.difference(ROOT / figure)
    assert not why, (
        f"{figure}: {why}; draw it again, look at it, and commit: "
        f"uv run scripts/lessons.py --write {figure}"
    )


@pytest.fixture
def panel() -> Iterator[Axes]:
    plt = pytest.importorskip("matplotlib.pyplot", reason="matplotlib draws the figures")
    figure, axes = plt.subplots(figsize=(4, 3))
    axes.plot([1, 2, 3], [1, 2, 3], "o")
    axes.text(1.5, 2.5, "a label")
    yield axes
    plt.close(figure)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda axes: None, None),
        (
            lambda axes: axes.set_xlim(1.5, 4),
            "1 of 3 points of a Line2D are cut off, one at (1, 1)",
        ),
        (lambda axes: axes.barh([1], [9]) and axes.set_xlim(0, 5), "of a Rectangle are cut off"),
        (lambda axes: axes.text(1.55, 2.5, "another"), "'a label' and 'another' stand over each"),
        (lambda axes: axes.text(3, 1, "far too long a label"), "stands beyond the picture's edge"),
        (lambda axes: axes.plot([1.5, 2.5], [2.55, 2.5]), "a line runs through 'a label'"),
        (lambda axes: axes.plot([1.6], [2.55], "o"), "a marker stands on 'a label'"),
        (lambda axes: axes.annotate("", (1, 2.2), (2, 3), arrowprops={}), "an arrow runs through"),
        (lambda axes: axes.plot([0, 9], [0, 9]) and axes.set(xlim=(0, 4), ylim=(0, 4)), None),
    ],
)
def test_what_is_cut_off_or_overprinted_is_found(
    panel: Axes, spoil: Callable[[Axes], Any], words: str | None
) -> None:
    spoil(panel)
    # Imported late: Matplotlib is in the group notebooks.
    from scripts.lesson_parts import layout

    found = "; ".join(layout.faults(panel.get_figure()))
    assert words in found if words else not found, found


def test_a_moved_bar_is_a_difference() -> None:
    assert plots.same(b'<rect x="10.001"/>', b'<rect x="10.002"/>')
    assert not plots.same(b'<rect x="10.0"/>', b'<rect x="11.0"/>')
    assert not plots.same(b'<rect x="10.0"/>', b'<rect y="10.0"/>')


def test_every_drawn_figure_is_shown_and_every_shown_one_is_described() -> None:
    shown = {}
    for lesson in PAGES:
        text = (ROOT / lesson).read_text(encoding="utf-8")
        found = re.findall(r'!\[(.*?)\]\((\S*?)(?: "[^"]*")?\)', text, re.DOTALL)
        shown |= {(ROOT / lesson).parent / path: alt for alt, path in found}
    drawn = set(plots.made())
    assert drawn == set(shown)
    assert drawn == {ROOT / figure for figure in FIGURES}, "uv run scripts/lessons.py --write"
    short = [path.name for path, alt in shown.items() if len(alt) < 60]
    assert not short, f"figures that are hardly described for those who cannot see them: {short}"


@pytest.mark.concerns("lesson")
@pytest.mark.parametrize("lesson", LESSONS)
def test_every_lesson_has_an_example(lesson: str) -> None:
    assert blocks(lesson, "python")


@pytest.mark.proof
@pytest.mark.background("examples")
@pytest.mark.parametrize("lesson", [page for page in PAGES if blocks(page, "python")])
def test_examples_run_as_written(lesson: str, background: Callable[..., Run]) -> None:
    run = background("examples", lesson)
    if run.exit_code != 0:
        require_for(run.output)
    assert run.exit_code == 0, run.output


@pytest.mark.concerns("lesson")
@pytest.mark.parametrize("lesson", PAGES)
def test_lab_commands_exist(lesson: str) -> None:
    import click

    ids = {task.id for exercise in COURSE.exercises for task in exercise.tasks}
    ids |= {exercise.id for exercise in COURSE.exercises}
    for words in commands(lesson):
        if words[:3] != ["uv", "run", "lab"] or len(words) == 3:
            continue
        command, rest = lab.get_command(click.Context(lab), words[3]), words[4:]
        while isinstance(command, click.Group) and rest:
            command, rest = command.get_command(click.Context(command), rest[0]), rest[1:]
        assert command is not None, f"{lesson}: there is no `{' '.join(words[2:])}`"
        options = {name for parameter in command.params for name in parameter.opts}
        for word in rest:
            if word.startswith("--"):
                assert word.split("=")[0] in options, f"{lesson}: {' '.join(words)}: no {word}"
            elif words[3] in ("check", "hint", "solution", "reset", "watch"):
                assert word in ids, f"{lesson}: {' '.join(words)}: no exercise or task {word}"


@pytest.mark.concerns("lesson")
@pytest.mark.parametrize("lesson", LESSONS)
def test_every_task_has_its_place_in_the_lesson(lesson: str) -> None:
    checked = [
        words[-1] for words in commands(lesson) if words[:4] == ["uv", "run", "lab", "check"]
    ]
    checked = [word for word in checked if word != "--live"]
    for exercise in COURSE.exercises:
        if COURSE.lesson(exercise) != ROOT / lesson:
            continue
        wanted = [task.id for task in exercise.tasks if not task.live]
        assert [word for word in checked if word in wanted] == wanted, (
            f"{lesson} asks for the tasks in another order than course.toml, or leaves one out"
        )


HELPS = ROOT / "captures" / "tool_help"
PROGRAMS = (".py", ".cu", ".cuh", ".sbatch", ".yml", "Makefile")


def options_of_programs(page: str) -> str:
    """The text of the programs beside a page and of those that come with the project; torchrun's help."""
    beside = (ROOT / page).parent
    folders = [beside, ROOT / "captures" / "programs", ROOT / "profiling_lab" / "tools"]
    texts = [
        file.read_text(encoding="utf-8")
        for folder in folders
        for file in folder.rglob("*")
        if file.name.endswith(PROGRAMS)
    ]
    return "\n".join([*texts, torchrun_help()])


@functools.cache
def own_options() -> frozenset[str]:
    """The options of every command of `lab` and of `grade`, and pytest's of this project."""
    import click

    def walk(command: click.Command) -> Iterator[str]:
        for parameter in command.params:
            yield from parameter.opts
        for name in (
            command.list_commands(click.Context(command))
            if isinstance(command, click.Group)
            else ()
        ):
            below = command.get_command(click.Context(command), name)
            assert below is not None
            yield from walk(below)

    return frozenset(
        {*walk(lab), *walk(grade), *walk(report), *walk(status), "--live", "--against"}
    )


@functools.cache
def torchrun_help() -> str:
    run = installed("torch.distributed.run")
    return run.get_args_parser().format_help()


@pytest.mark.parametrize("lesson", PAGES)
def test_profiler_options_are_those_of_the_recorded_tool(lesson: str) -> None:
    for words in commands(lesson):
        if words[0] not in ("nsys", "ncu"):
            continue
        help_of = f"nsys_{words[1]}" if words[0] == "nsys" else "ncu"
        text = (HELPS / f"{help_of}.txt").read_text(encoding="utf-8")
        for word in words[1:]:
            if word.startswith("--"):
                option = word.split("=")[0]
                assert re.search(rf"{option}(?![\w-])", text), f"{lesson}: {help_of} {option}"
    mentioned = re.findall(r"`(--[a-z][\w-]+)", (ROOT / lesson).read_text(encoding="utf-8"))
    text = "\n".join(file.read_text(encoding="utf-8") for file in sorted(HELPS.glob("*.txt")))
    unknown = [
        o for o in mentioned if o not in own_options() and not re.search(rf"{o}(?![\w-])", text)
    ]
    if unknown:
        programs = options_of_programs(lesson)
        unknown = [o for o in unknown if not re.search(rf"{o}(?![\w-])", programs)]
    assert not unknown, (
        f"{lesson} speaks of options that no tool recorded or shipped has: {unknown}"
    )


@pytest.mark.parametrize("lesson", PAGES)
def test_commands_of_the_unified_profiler_are_understood(lesson: str) -> None:
    for words in commands(lesson):
        tool = next((n for n, word in enumerate(words) if "unified_profiler" in word), None)
        if tool is None or words[tool + 1 :] == ["--help"]:
            continue
        options = parser().parse_args(words[tool + 1 :])
        assert options.command, f"{lesson}: {' '.join(words)} names no script"


@pytest.mark.parametrize("lesson", PAGES)
def test_make_targets_exist(lesson: str) -> None:
    for words in commands(lesson):
        if words[0] == "make":
            makefile = (ROOT / words[words.index("-C") + 1] / "Makefile").read_text(
                encoding="utf-8"
            )
            assert re.search(rf"^{words[-1]}:", makefile, re.MULTILINE), " ".join(words)
