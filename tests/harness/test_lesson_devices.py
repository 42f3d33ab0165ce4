"""What pages and figures say of devices follows the table: with two more rows they say what is then right."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from profiling_lab import devices
from scripts.lesson_parts import pages, plots
from scripts.lesson_sources import source
from scripts.lesson_sources.drawing import compared

# Beyond all others on both sides: little arithmetic for its memory, and very much.
ADDED = {
    "X100": {
        "memory_bandwidth_bytes_per_s": 5e12,
        "peak_flops_per_s": {"float32": 1e13, "float16": 2e13},
    },
    "X900": {
        "memory_bandwidth_bytes_per_s": 1e12,
        "peak_flops_per_s": {"float32": 1e15, "tfloat32": 2e15, "float16": 4e15, "bfloat16": 4e15},
    },
}
COUNTED = re.compile(
    r"(?i)\b(two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|\d+)"
    r" (?:other |of these |known )?devices\b"
)


@pytest.fixture
def longer_table(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    table = copy.deepcopy(devices._file())
    for name, figures in ADDED.items():
        table["devices"][name] = copy.deepcopy(table["devices"]["H200"]) | {
            "aliases": [],
            **figures,
        }
    caches = (devices._devices, devices._by_key)
    for cached in caches:
        cached.cache_clear()
    monkeypatch.setattr(devices, "_file", lambda: table)
    yield
    for cached in caches:
        cached.cache_clear()


def lists_devices(page: Path) -> bool:
    """Whether a page, or a Python file beside its source, goes through the table."""
    source_file = pages.source_of(page)
    texts = [file.read_text("utf-8") for file in (source_file, *source_file.parent.glob("*.py"))]
    return any(re.search(r"compared\(\)|devices\.names\(\)", text) for text in texts)


@pytest.mark.proof
@pytest.mark.needs("torch", "matplotlib")
@pytest.mark.usefixtures("longer_table")
def test_a_longer_table_changes_pages_and_figures_rightly() -> None:
    assert compared()[-2:] == list(ADDED)
    shown = [page for page in pages.made() if lists_devices(page)]
    assert len(shown) >= 5, "which pages show the table?"
    for page in shown:
        assert pages.difference(page), f"{page}: the same with two more devices: look at it"
        typed = pages.EXPRESSION.sub("", pages.typed(page))
        assert not COUNTED.findall(typed), f"{page}: counts devices by hand: look at it"
        for figure in plots.made():
            if figure.parent == page.parent / "figures":
                _, faults = plots.look(figure)
                assert not faults, f"{figure}, with two more devices: {faults}"


def test_what_the_chapter_says_of_the_rule_of_thumb_holds_for_every_device() -> None:
    chapter = source("labs/docs")
    lowest, highest = chapter.RULE
    assert min(chapter.ridges16().values()) > highest, "06_profiling.md says: for none in 16 bit"
    assert min(chapter.ridges("float32").values()) > lowest, (
        "06_profiling.md says: the others lie inside"
    )
