"""The pages are what their sources give, and say what the captures say."""

from __future__ import annotations

from pathlib import Path

import pytest

from grading.runner.scoring import require_for
from profiling_lab.errors import LabError
from scripts.lesson_parts import pages

ROOT = Path(__file__).resolve().parents[2]
TEXTS = [path.relative_to(ROOT).as_posix() for path in pages.texts()]
MADE = [path.relative_to(ROOT).as_posix() for path in pages.made()]


@pytest.mark.concerns("page")
@pytest.mark.proof
@pytest.mark.parametrize("page", MADE)
def test_page_is_what_its_source_gives(page: str) -> None:
    try:
        wrong = pages.difference(ROOT / page)
    except LabError as error:
        require_for(str(error))
        raise
    assert not wrong, (
        f"{page} is not what scripts/lesson_sources/{page} gives: {wrong}. "
        f"Change the source, then: uv run scripts/lessons.py --write {page}"
    )


def test_every_source_is_of_a_page_that_teaches() -> None:
    assert set(MADE) <= set(TEXTS)


@pytest.mark.parametrize("text", TEXTS)
def test_no_page_holds_a_comment(text: str) -> None:
    assert "<!--" not in (ROOT / text).read_text(encoding="utf-8"), f"{text}: notes to its source"


@pytest.mark.parametrize("text", TEXTS)
def test_no_measured_number_stands_without_a_source(text: str) -> None:
    if Path(text).name == "hints.md":
        return  # hints make numbers up to ask about them
    loose = pages.loose_numbers(pages.typed(ROOT / text))
    assert not loose, f"{text}: numbers with a unit but no source: {loose}"


def test_a_page_that_differs_is_found_and_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    monkeypatch.setattr(pages, "SOURCES", tmp_path / "sources")
    monkeypatch.setattr(pages, "namespace", lambda place: {"ms": pages.ms})
    source, page = tmp_path / "sources/week07/README.md", tmp_path / "week07/README.md"
    for file in (source, page):
        file.parent.mkdir(parents=True)
    source.write_text('# {{"{{"}}\n\nIt took {{ms(1_500_000)}}.\n', encoding="utf-8")
    assert pages.made() == [page]
    assert pages.difference(page) == "is missing"
    page.write_text("# {{\n\nIt took 1.4 ms.\n", encoding="utf-8")
    wrong = "line 3 is 'It took 1.4 ms.', its source gives 'It took 1.5 ms.'"
    assert pages.difference(page) == wrong
    pages.write([page])
    assert page.read_text(encoding="utf-8") == "# {{\n\nIt took 1.5 ms.\n"
    assert not pages.difference(page)
    page.write_text("# {{\n\nIt took 1.5 ms.\n\nMore.\n", encoding="utf-8")
    assert pages.difference(page).endswith("line 5 is 'More.', its source gives None")


def test_an_expression_that_fails_is_named() -> None:
    with pytest.raises(LabError, match=r"^day/README.md, line 2: \{\{1 / 0\}\}: ZeroDivisionError"):
        pages.render("One\n{{1 / 0}}\n", {}, "day/README.md")


def test_a_typed_number_is_found() -> None:
    assert pages.loose_numbers("It took {{ms(1_500_000)}}, and 7 ms more; `8 ms`.") == ["7 ms"]
