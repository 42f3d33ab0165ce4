"""The book, built whole, in a real browser and from disk: links, scripts, width, contrast, search, live figures.

Needs what `test_report_browser.py` needs, and the group `book`.
"""

from __future__ import annotations

import gzip
import os
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import pytest

from grading.runner.scoring import installed
from profiling_lab.course import manifest
from tests.harness.test_report_browser import (
    _only_itself,
    browser,  # noqa: F401 - a fixture
    unnamed,
)

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.proof
COURSE = manifest.load(manifest.find_root(Path(__file__)))
MOST_BYTES = 40_000_000
LOOKED_AT = [
    "index.html", "week07/README.html", "week07/day1_nsight_systems/README.html",
    "week07/day1_nsight_systems/lesson.html", "week07/day1_nsight_systems/hints.html",
    "week07/day4_bottleneck_analysis/README.html", "labs/docs/06_profiling.html",
    "modules/02-nsight-compute/ex03-roofline-practice/README.html",
    "docs/metrics-cheat-sheet.html", "search.html",
]  # fmt: skip
LIVE = "modules/01-nsight-systems/ex02-kernel-overlap/README.html"


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    installed("sphinx")
    # Here: without the group it is not there to be imported.
    from profiling_lab.book import build

    folder = tmp_path_factory.mktemp("book")
    assert build.build(COURSE, folder) == []
    return folder


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:  # noqa: F811
    """A page; whatever the browser complains about, or asks of elsewhere, fails the test."""
    said: list[str] = []
    context = browser.new_context(reduced_motion="reduce", viewport={"width": 390, "height": 844})
    opened = context.new_page()
    opened.on("pageerror", lambda error: said.append(str(error)))
    opened.on("console", lambda line: said.append(line.text) if line.type == "error" else None)
    opened.on("request", lambda asked: _only_itself(said, asked.url))
    yield opened
    context.close()
    assert not said


class _Links(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.addresses: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.ids |= {given[key] or "" for key in ("id", "name") if key in given}
        keys = ("href", "src", "data-frame")
        self.addresses += [found for key in keys if (found := given.get(key))]


def test_no_link_is_dead_and_the_book_is_small(book: Path) -> None:
    files = [file for file in book.rglob("*") if file.is_file()]
    assert sum(file.stat().st_size for file in files) < MOST_BYTES
    names = set(map(str, files))
    read = {
        str(file): _Links(file.read_text(encoding="utf-8"))
        for file in files
        if file.suffix == ".html"
    }
    reports = str(book / "reports")
    dead = []
    for file, links in read.items():
        for address in links.addresses:
            parts = urlsplit(address)
            if parts.scheme or address.startswith("//"):
                continue
            # As text: asking the disk about each link took twice the time of reading the pages.
            folder = os.path.dirname(file)
            target = (
                os.path.normpath(os.path.join(folder, unquote(parts.path))) if parts.path else file
            )
            anchor = unquote(parts.fragment)
            if target not in names or (
                anchor and target in read and os.path.dirname(target) != reports
                and anchor not in read[target].ids
            ):  # fmt: skip
                dead.append(f"{os.path.relpath(file, book)}: {address}")
    assert not dead, dead[:20]


def test_a_page_shows_its_text_with_few_bytes(book: Path) -> None:
    """As static hosts send them: 0.4 s at 1.6 Mbit/s, beside which a slow phone asks twice, 150 ms each."""
    for name in LOOKED_AT:
        text = (book / name).read_text(encoding="utf-8")
        styles = re.findall(r'rel="stylesheet"[^>]*href="([^"?]+)', text)
        files = [book / name, *((book / name).parent / style for style in styles)]
        assert len(styles) > 1
        assert sum(len(gzip.compress(file.read_bytes())) for file in files) < 80_000, name


def test_serving_watches_what_pages_are_made_of(book: Path) -> None:
    # Here: as in `book`.
    from profiling_lab.book import build

    watched = build.watched(COURSE)
    for made_of in ("week07/README.md", "course.toml", "labs/lab05_profiling/README.md"):
        assert any((COURSE.root / made_of).is_relative_to(place) for place in watched)
    for other in (".venv", "book", "tests"):
        assert not any((COURSE.root / other).is_relative_to(place) for place in watched)


def test_every_task_has_one_box_and_no_answer_is_there(book: Path) -> None:
    pages = [f.read_text(encoding="utf-8") for f in book.rglob("README.html")]
    boxes = [name for text in pages for name in re.findall(r'id="task-([\w.-]+)"', text)]
    assert sorted(boxes) == sorted(COURSE.tasks), "boxes and tasks differ"
    for place in ("solutions", "tests", "grading"):
        assert not (book / place).exists()
    for report in (book / "reports").glob("case_*.html"):
        text = report.read_text(encoding="utf-8")
        assert (
            'class="category"' not in text and "--trouble" not in text and "--variant" not in text
        )


def test_further_tasks_stand_apart_and_folders_in_the_order_of_the_page_above(book: Path) -> None:
    pages = [f.read_text(encoding="utf-8") for f in book.rglob("README.html")]
    apart = r'<div class="further docutils container">.{0,200}?id="task-([\w.-]+)"'
    found = {name for text in pages for name in re.findall(apart, text, re.DOTALL)}
    assert found == {task.id for task in COURSE.tasks.values() if task.further} and found
    text = (book / "modules/README.html").read_text(encoding="utf-8")
    listed = re.findall(r'class="toctree-l2[^"]*"><a[^>]*href="([\w-]+)/README.html"', text)
    named = (COURSE.root / "modules/README.md").read_text(encoding="utf-8")
    assert len(listed) > 5 and listed == sorted(listed, key=named.find)


@pytest.mark.parametrize("name", LOOKED_AT)
def test_a_page_on_a_phone(book: Path, page: Page, name: str) -> None:
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        page.goto((book / name).as_uri())
        wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, f"{wide} px wider than the screen"
        assert not page.evaluate(CONTRAST), f"too little contrast, {scheme}"
    assert not unnamed(page), "a screen reader has no name for it"
    page.emulate_media(media="print")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "cut off on paper"
    assert not page.locator(".skip-to-content").is_visible(), "stands on the text, on paper"


def test_a_search_from_disk_leads_to_the_task(book: Path, page: Page) -> None:
    page.goto((book / "search.html").as_uri() + "?q=busy_time")
    page.locator("#search-results li a").first.click()
    assert urlsplit(page.url).fragment == "task-ex_30.busy_time"
    page.goto((book / "search.html").as_uri() + "?q=warp+divergence")
    assert page.locator("#search-results li a").first.is_visible()


def test_a_live_figure_from_disk(book: Path, page: Page) -> None:
    page.set_viewport_size({"width": 1280, "height": 900})
    page.goto((book / "labs/docs/06_profiling.html").as_uri())
    assert not page.locator("iframe").count(), "loaded before it comes into view"
    page.goto((book / LIVE).as_uri())
    live = page.locator("details.live[open]").first
    live.scroll_into_view_if_needed()
    frame = live.frame_locator("iframe")
    plot = frame.get_by_role("application")
    plot.focus()
    page.keyboard.press("ArrowDown")
    assert frame.locator("#say").text_content()
    frame.get_by_role("searchbox").fill("cuda")
    frame.get_by_text(re.compile(r"\d matches")).wait_for()
    frame.get_by_role("button", name="Zoom in").click()
    frame.get_by_text(" wide").wait_for()
    page.evaluate("document.body.dataset.theme = 'dark'")
    frame.locator("html[data-theme=dark]").wait_for()
    page.emulate_media(media="print")
    assert not live.is_visible(), "paper has the picture"
    page.emulate_media(media="screen")
    live.get_by_role("link", name="The whole report").click()
    page.locator("#timeline").wait_for()
    page.goto(page.url.split("?")[0] + "?start=1000&end=90000#timeline")
    assert page.evaluate("[labTimeline.view.start, labTimeline.view.end]") == [1000, 90000]


# Elements with text of their own whose contrast is under 4.5 (3 where it is large), by WCAG 2.
CONTRAST = """() => {
  const part = (value) => (value /= 255) <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  const parse = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
  const behind = (node) => {
    for (; node; node = node.parentElement) {
      const colour = parse(getComputedStyle(node).backgroundColor);
      if (colour.length === 3 || colour[3] > 0.5) return colour;
    }
    return [255, 255, 255];
  };
  const bad = [];
  for (const node of document.querySelectorAll("article *")) {
    if (![...node.childNodes].some((n) => n.nodeType === 3 && n.data.trim())) continue;
    const style = getComputedStyle(node), box = node.getBoundingClientRect();
    if (!box.width || style.visibility === "hidden" || style.opacity === "0") continue;
    const [a, b] = [light(parse(style.color)), light(behind(node))].sort((x, y) => y - x);
    const large = parseFloat(style.fontSize) >= 24;
    if ((a + 0.05) / (b + 0.05) < (large ? 3 : 4.5)) bad.push(node.tagName + " " + node.className + ": " + node.textContent.slice(0, 30) + " " + style.color + " on " + behind(node));
  }
  return bad.slice(0, 5);
}"""
