"""Notebooks are what their sources give, run to their ends, say what they show, and end where work begins."""

from __future__ import annotations

import copy
import os
import re
from pathlib import Path
from typing import Any

import pytest

from grading.classroom import answers
from profiling_lab.course import manifest as course
from profiling_lab.mine.functions import load_file
from scripts.lesson_parts import notebooks, pages

pytestmark = [
    pytest.mark.proof,
    pytest.mark.needs("jupytext", "nbclient", "nbformat", "jupyterlab", "matplotlib"),
]

ROOT = Path(__file__).resolve().parents[2]
COURSE = course.load(ROOT)

NAMES = [file.parent.relative_to(ROOT).as_posix() for file in notebooks.made() if file.is_file()]
DAY1 = "week07/day1_nsight_systems"
MOST_BYTES = 300_000
MOST_PICTURE_BYTES = 60_000
LAB = "labs/"  # one exercise, not a day or a module: its notebook is a look at one picture


@pytest.fixture(scope="module")
def again() -> Any:
    """All notebooks, run again in one process."""
    return notebooks.run(map(file_of, NAMES), small=False)


def file_of(name: str) -> Path:
    return ROOT / name / notebooks.FILE


def committed(name: str) -> Any:
    """The notebook in its folder. Its reader may have run or changed it: only CI minds."""
    notebook = notebooks.committed(file_of(name))
    if not notebooks.is_as_written(notebook) and not os.environ.get("CI"):
        pytest.skip(f"{name}/{notebooks.FILE} was changed since it was written")
    return notebook


def again_by(name: str) -> str:
    return f"uv run scripts/lessons.py --write {name}/{notebooks.FILE}"


def code_of(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def texts_of(notebook: Any) -> list[str]:
    return [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]


def pictures_of(cell: Any) -> list[Any]:
    return [o for o in cell.outputs if notebooks.PNG in o.get("data", {})]


def test_every_day_module_and_part_of_lab_05_has_a_notebook() -> None:
    folders = {p.parent for p in (ROOT / "modules").glob("*/README.md")}
    folders |= {p.parent for p in (ROOT / "week07").glob("*/README.md")}
    parts = ("lab05", "lab05_techniques", "lab05_jax")
    folders |= {ROOT / COURSE.exercise(name).folder for name in parts}
    assert {file.parent for file in notebooks.made()} == folders
    assert {file_of(name) for name in NAMES} == set(notebooks.made()), "scripts/lessons.py --write"


@pytest.mark.concerns("name")
@pytest.mark.parametrize("name", NAMES)
def test_notebook_is_what_its_source_gives(name: str) -> None:
    assert notebooks.is_as_written(committed(name)), f"{name}: changed since it was written"
    why = notebooks.matches_source(committed(name), notebooks.read(file_of(name)))
    assert not why, f"{name}: {why}: {again_by(name)}"


@pytest.mark.parametrize("name", NAMES)
def test_notebook_runs_and_shows_what_it_showed(name: str, again: Any) -> None:
    have, now = committed(name), again[file_of(name)]
    for cell, new in zip(notebooks.shown(have), notebooks.shown(now), strict=True):
        assert cell == new, (
            f"{name}: shows something else than was committed; look at it, and write it again: "
            f"{again_by(name)}"
        )


@pytest.mark.parametrize("name", NAMES)
def test_every_cell_has_run_in_order_and_without_error(name: str) -> None:
    cells = code_of(committed(name))
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    kinds = {output.output_type for cell in cells for output in cell.outputs}
    assert "error" not in kinds
    warned = [c.id for c in cells for o in c.outputs if o.get("name") == "stderr"]
    assert not warned, f"{name}: warnings are shown in {warned}"


@pytest.mark.parametrize("name", NAMES)
def test_figures_are_described_and_small(name: str) -> None:
    pictures = 0
    for cell in code_of(committed(name)):
        shown = pictures_of(cell)
        pictures += len(shown)
        alt = notebooks.alternative_text(cell)
        assert bool(shown) == bool(alt), f"{cell.id}: a figure and `# figure: …` go together"
        for output in shown:
            assert len(alt) >= 60, f"{cell.id}: is hardly described for those who cannot see it"
            assert output.metadata[notebooks.PNG]["alt"] == alt
            assert len(output.data[notebooks.PNG]) < MOST_PICTURE_BYTES, cell.id
    least = 1 if name.startswith(LAB) else 4
    assert pictures >= least, f"{name}: is to be looked at, and shows {pictures} figures"
    size = file_of(name).stat().st_size
    assert size < MOST_BYTES, f"{name}: {size:,} bytes"


@pytest.mark.parametrize("name", NAMES)
def test_asks_before_it_tells(name: str) -> None:
    text = "\n".join(texts_of(committed(name)))
    asked = [match.start() for match in re.finditer(r"\*\*Question\.\*\*", text)]
    told = [match.start() for match in re.finditer("<details>", text)]
    assert (2 if name.startswith(LAB) else 5) <= len(asked) <= 9
    # Every question but the last has its answer, folded, before the next question.
    assert len(told) == len(asked) - 1
    between = zip(asked, told, asked[1:], strict=False)
    assert all(question < answer < following for question, answer, following in between)
    assert text.count("</details>") == len(told)


@pytest.mark.parametrize("name", NAMES)
def test_ends_where_a_stub_begins(name: str) -> None:
    whole = "\n\n".join(texts_of(committed(name)))
    core = whole.split("\n## Further\n")[0]
    check = re.compile(r"```console\nuv run lab check (\S+)\n```\s*$")
    found = check.search(core) or check.search(whole)
    assert found, f"{name}: does not end with the check of a task"
    task = COURSE.tasks[found[1]]
    exercise = task.id.partition(".")[0]
    folder = (ROOT / COURSE.exercise(exercise).stub).parent
    assert ROOT / name in (folder, *folder.parents), "it is another exercise's"


@pytest.mark.parametrize("name", NAMES)
def test_links_lead_somewhere(name: str) -> None:
    folder = ROOT / name
    for text in texts_of(committed(name)):
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", text):
            assert (folder / target).exists(), f"{name}: there is no {target}"


@pytest.mark.parametrize("name", NAMES)
def test_commands_and_options_are_real(name: str, tmp_path: Path) -> None:
    lessons = load_file(ROOT / "tests" / "harness" / "test_lesson_plots.py", "test_lesson_plots")
    page = tmp_path / "page.md"
    page.write_text("\n\n".join(texts_of(committed(name))), encoding="utf-8")
    lessons.test_lab_commands_exist(str(page))
    lessons.test_profiler_options_are_those_of_the_recorded_tool(str(page))


@pytest.mark.parametrize("name", NAMES)
def test_no_measured_number_is_typed(name: str) -> None:
    assert not typed_numbers(notebooks.read(file_of(name)))


def typed_numbers(source: Any) -> list[str]:
    return pages.loose_numbers("\n\n".join(texts_of(source)))


def test_no_answer_stands_in_a_notebook(tmp_path: Path) -> None:
    files = []
    for name in NAMES:
        files.append(tmp_path / f"{Path(name).name}.py")
        code = "\n\n".join(cell.source for cell in code_of(committed(name)))
        files[-1].write_text(code, encoding="utf-8")
    # What would be found: a reference's code, in the middle of a cell.
    planted = tmp_path / "planted.py"
    reference = (COURSE.solution(COURSE.exercise("ex_30").stub)).read_text(encoding="utf-8")
    planted.write_text("x = 1\n" + reference, encoding="utf-8")
    found = answers.found(COURSE, [*files, planted])
    assert any("planted" in place and "busy_time" in place for place in found)
    assert [place for place in found if "planted" not in place] == []


# -- the checks, checked ----------------------------------------------------------------------------


def test_a_changed_text_cell_or_number_is_a_difference() -> None:
    source = notebooks.read(file_of(DAY1))
    assert any(notebooks.EXPRESSION.search(text) for text in texts_of(source))
    assert not notebooks.matches_source(source, source)
    for number in (0, 1):
        changed = copy.deepcopy(source)
        changed.cells[number].source += "!"
        assert f"cell {number + 1} has another text" in notebooks.matches_source(changed, source)
    shorter = copy.deepcopy(source)
    del shorter.cells[-1]
    assert "cells" in notebooks.matches_source(shorter, source)
    shown = committed(DAY1)
    for change in ("source", "output"):
        changed = copy.deepcopy(shown)
        if change == "source":
            changed.cells[0].source = changed.cells[0].source.replace("ms", "s")
        else:
            code_of(changed)[0].outputs[0].text += "9"
        assert notebooks.shown(changed) != notebooks.shown(shown)


def test_a_notebook_that_its_reader_ran_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    ran = notebooks.read(file_of(DAY1))
    text = notebooks.text_of(ran)
    assert notebooks.is_as_written(ran) and notebooks.MARK in text
    code_of(ran)[0].execution_count = 7
    assert not notebooks.is_as_written(ran)
    monkeypatch.setattr(notebooks, "committed", lambda file: ran)
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception):
        committed(DAY1)
    monkeypatch.setenv("CI", "true")
    assert committed(DAY1) is ran


def test_a_typed_number_is_found() -> None:
    source = notebooks.read(file_of(DAY1))
    source.cells[0].source += "\nIt took 17.3 ms."
    assert typed_numbers(source)


def test_a_cell_that_fails_is_named() -> None:
    from nbformat.v4 import new_code_cell, new_notebook, new_output

    error = new_output("error", ename="ZeroDivisionError", evalue="division by zero")
    cells = [new_code_cell("x = 0", id="day1-01"), new_code_cell("1 / x", id="day1-02")]
    notebooks.raise_errors(new_notebook(cells=cells))
    cells[1].outputs = [error]
    with pytest.raises(RuntimeError, match="day1-02: ZeroDivisionError: division by zero"):
        notebooks.raise_errors(new_notebook(cells=cells))


def _another_count(notebook: Any) -> None:
    code_of(notebook)[0].execution_count = 99


def _no_alternative_text(notebook: Any) -> None:
    cell = next(cell for cell in code_of(notebook) if pictures_of(cell))
    pictures_of(cell)[0].metadata[notebooks.PNG]["alt"] = ""


def _an_answer_first(notebook: Any) -> None:
    cell = next(cell for cell in notebook.cells if "**Question.**" in cell.source)
    cell.source = cell.source.replace("**Question.**", "")


def _ends_in_the_air(notebook: Any) -> None:
    notebook.cells[-1].source += "\nAnd so on."


def _a_task_that_is_not(notebook: Any) -> None:
    notebook.cells[-1].source = "```console\nuv run lab check ncu_ex01.warp_sectors\n```"


def _a_dead_link(notebook: Any) -> None:
    notebook.cells[0].source += "\n[there](nowhere.md)"


@pytest.mark.parametrize(
    ("check", "spoil"),
    [
        (test_every_cell_has_run_in_order_and_without_error, _another_count),
        (test_figures_are_described_and_small, _no_alternative_text),
        (test_asks_before_it_tells, _an_answer_first),
        (test_ends_where_a_stub_begins, _ends_in_the_air),
        (test_ends_where_a_stub_begins, _a_task_that_is_not),
        (test_links_lead_somewhere, _a_dead_link),
        (test_notebook_is_what_its_source_gives, _another_count),
    ],
)
def test_a_spoilt_notebook_is_refused(
    check: Any, spoil: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoilt = copy.deepcopy(notebooks.committed(file_of(DAY1)))
    spoil(spoilt)
    monkeypatch.setenv("CI", "true")
    monkeypatch.setattr(notebooks, "committed", lambda file: spoilt)
    with pytest.raises(AssertionError):
        check(DAY1)
