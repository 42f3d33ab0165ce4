"""Colours mean the same on pages, in plots and in notebooks: all come from `profiling_lab.palette`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from profiling_lab import palette
from profiling_lab.roofline import layout

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted((ROOT / "scripts/lesson_sources").rglob("*.py"))
NOTEBOOKS = [path for path in SOURCES if path.name == "notebook.py"]
HEX = re.compile(r"#[0-9a-fA-F]{6}\b")
# Greys ("0.6"), white and black say nothing; other names of Matplotlib would be colours beside the palette.
NAMED = re.compile(
    r"""["'](tab:\w+|C\d|red|green|blue|orange|yellow|purple|pink|brown|cyan|magenta|gold|navy|teal"""
    r"""|(?:dark|light|steel|medium|royal)\w+)["']"""
)


def of(module: object) -> set[str]:
    """The colours that a module defines."""
    values = [one for value in vars(module).values() for one in _flat(value)]
    return {one.upper() for one in values if isinstance(one, str) and HEX.fullmatch(one)}


def _flat(value: object) -> list[object]:
    return list(value) if isinstance(value, tuple) else [value]


def test_the_light_page_has_the_colours_of_the_palette() -> None:
    css = (ROOT / "profiling_lab/reports/templates/report.css").read_text("utf-8")
    light = css[: css.index("@media")]
    told = {name: re.findall(rf"--{name}: (#\w+);", light) for name in palette.LOOKS}
    assert told == {name: [colour.lower()] for name, colour in palette.LOOKS.items()}


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.parent.name + "/" + path.name))
def test_a_lesson_types_no_colour(path: Path) -> None:
    text = path.read_text("utf-8")
    drawn = [line for line in text.splitlines() if re.search(r"colou?r|\bec=", line)]
    found = HEX.findall(text) + [one for line in drawn for one in NAMED.findall(line)]
    assert not found, f"a colour of its own beside profiling_lab/palette.py: {found}"


def test_a_lesson_that_types_a_colour_is_found() -> None:
    assert HEX.findall('x = "#12aB9f"') and NAMED.findall('color="tab:blue", ec="red"')
    assert not NAMED.findall('color="0.6", ec="white"')


def test_plots_hold_no_other_colour() -> None:
    known = of(palette) | of(layout) | {"#000000"}
    folders = [ROOT / name for name in ("week07", "labs", "modules", "docs")]
    plots = [path for folder in folders for path in folder.rglob("figures/*.svg")]
    assert len(plots) > 100
    other = {
        path.name: found
        for path in plots
        if (found := {one.upper() for one in HEX.findall(path.read_text("utf-8"))} - known)
    }
    assert not other


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.parent.name)
def test_notebooks_begin_with_the_palette(path: Path) -> None:
    assert "plt.rcParams.update(palette.NOTEBOOK)" in path.read_text("utf-8")


def test_kernels_have_one_colour() -> None:
    lines = [line for path in SOURCES for line in path.read_text("utf-8").splitlines()]
    drawn = re.compile(r'(?:\.kernels, (?:\d, )?|"kernels?": \(?(?:\d, )?)(?:palette\.)?([A-Z]+)\b')
    found = [colour for line in lines for colour in drawn.findall(line)]
    assert len(found) > 8 and set(found) <= {"KERNEL", "ORANGE"}
