"""The teaching texts say what the captures say."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiling_lab.functions import load_file

ROOT = Path(__file__).resolve().parents[2]
figures = load_file(ROOT / "scripts" / "lesson_figures.py", "lesson_figures")

TEXTS = [str(path.relative_to(ROOT)) for path in figures.texts()]


@pytest.fixture(scope="module")
def names() -> dict:
    return figures.namespace()


@pytest.mark.proof
@pytest.mark.parametrize("text", TEXTS)
def test_every_figure_is_what_its_source_says(text: str, names: dict) -> None:
    wrong = figures.differences(ROOT / text, names)
    assert not wrong, (
        "figures that differ (expression, in the text, right); "
        f"mend with: uv run python scripts/lesson_figures.py --write {text}: {wrong}"
    )


@pytest.mark.parametrize("text", TEXTS)
def test_no_measured_number_stands_without_a_source(text: str) -> None:
    if Path(text).name == "hints.md":
        return  # hints make numbers up to ask about them
    loose = figures.loose_numbers(ROOT / text)
    assert not loose, f"{text}: numbers with a unit but no source: {loose}"


def test_a_wrong_figure_is_found(tmp_path: Path) -> None:
    text = tmp_path / "lesson.md"
    text.write_text("It took <!--= ms(1_500_000) -->1.4 ms<!--/-->, and 7 ms more.\n")
    assert figures.differences(text, {"ms": figures.ms}) == [("ms(1_500_000)", "1.4 ms", "1.5 ms")]
    assert figures.loose_numbers(text) == ["7 ms"]
    assert figures.write(text, {"ms": figures.ms}) == 1
    assert "-->1.5 ms<!--/-->" in text.read_text()
