"""The report and the progress page in a real browser: what a hand, a keyboard and a screen reader get.

Needs Playwright (`uv sync --inexact --group browser`) and a Chromium that is installed; with
LAB_NEEDS_BROWSER=1, which CI sets, their absence is a failure and no skip.
"""

# Long because one page in one browser is tried in all of them.

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from grading.runner.scoring import installed
from profiling_lab.course import manifest as course
from profiling_lab.course import progress
from profiling_lab.course.progress import Verdict
from profiling_lab.findings import Finding
from profiling_lab.reports import (
    CaptureSection,
    Lane,
    MetricSeries,
    Place,
    Table,
    render_report,
)
from profiling_lab.reports.progress import render_progress, steps

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.proof
OPTIONS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
PHONE = {"viewport": {"width": 375, "height": 812}, "has_touch": True, "is_mobile": True}
STEP_NS = 10_000


def _missing(what: str) -> NoReturn:
    message = f"not run: no {what} on this machine, so no page was tried in a browser"
    if os.environ.get("LAB_NEEDS_BROWSER"):
        pytest.fail(message)
    pytest.skip(message)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    names = ("chromium", "chromium-browser", "google-chrome")
    path = next(filter(None, map(shutil.which, names)), None)
    if path is None:
        _missing("Chromium")
    sync_playwright = installed("playwright.sync_api").sync_playwright
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=OPTIONS)
        yield started
        started.close()


@pytest.fixture
def show(browser: Browser, tmp_path: Path) -> Iterator[Callable[..., Page]]:
    """Opens the text of a page; whatever the browser complains about fails the test."""
    said: list[str] = []
    with contextlib.ExitStack() as stack:

        def opened(text: str, **context: Any) -> Page:
            file = tmp_path / f"page{len(said)}.html"
            file.write_text(text, encoding="utf-8")
            # Scrolls at once.
            shown = browser.new_context(reduced_motion="reduce", **context)
            page = stack.enter_context(contextlib.closing(shown)).new_page()
            page.on("pageerror", lambda error: said.append(str(error)))
            page.on("console", lambda line: _errors(said, line.type, line.text))
            page.on("request", lambda asked: _only_itself(said, asked.url))
            page.goto(file.as_uri())
            return page

        yield opened
    assert not said, f"the browser complained: {said}"


def _errors(said: list[str], kind: str, text: str) -> None:
    if kind == "error":
        said.append(text)


def _only_itself(said: list[str], url: str) -> None:
    if not url.startswith(("file:", "data:", "blob:")):
        said.append(f"asked for {url}")


def section(name: str = "run", **more: Any) -> CaptureSection:
    """Ten steps of two kernels on a device, a wait on the host, memory that grows."""
    starts = [STEP_NS * at for at in range(10)]
    device = Lane(
        "GPU 0",
        "Stream 7",
        [start + offset for start in starts for offset in (0, 5_000)],
        [start + offset for start in starts for offset in (4_000, 7_000)],
        ["gemm", "softmax"] * 10,
        ["kernel"] * 20,
        ["gemm<float>", ""] * 10,
        key="stream:7",
        device=0,
    )
    host = Lane("Host", "CUDA calls", [42_000], [49_000], ["cudaStreamSynchronize"], ["wait"])
    given: dict[str, Any] = {
        "window_ns": (0, 100_000),
        "lanes": [host, device],
        "where_the_time_went": [("kernels", 60_000, "kernel"), ("idle", 40_000, "idle")],
        "gaps": [(7_000, 10_000), (97_000, 100_000)],
        "busy_ns": {0: 60_000},
        "metrics": [
            MetricSeries(
                "GPU 0", "In use", [0, 50_000], [1e6, 3e6], "bytes", 3e6, True, key="memory"
            )
        ],
        "findings": [
            Finding("sync_bound", "device:0", {"recoverable_ns": 7_000}, "ask less often"),
            Finding("latency_bound", "kernel:softmax", {"duration_ns": 2_000}, "more warps"),
        ],
        "tables": [
            Table(
                "Kernels", "By total time", [("Kernel", ""), ("Total", "ns")], [("softmax", 20_000)],
                places=[Place("Longest", 5_000, 7_000, 1)], subjects=["kernel:softmax"],
            )
        ],
    }  # fmt: skip
    return CaptureSection(name, **(given | more))


def view(page: Page) -> tuple[float, float]:
    """What the drawing shows, which is what the page believes it shows."""
    wanted, drawn = page.evaluate(
        """[[labTimeline.view.start, labTimeline.view.end],
            ["min", "max"].map((end) => labTimeline.charts[0].u.scales.x[end])]"""
    )
    assert drawn == wanted, "the drawing did not follow the view"
    return drawn[0], drawn[1]


def _zoomed(page: Page, most_ns: float) -> tuple[float, float]:
    """The view, once it is no wider than that: a wheel's event comes when the browser sees fit."""
    for _ in range(100):
        start, end = view(page)
        if end - start < most_ns:
            return start, end
        page.wait_for_timeout(50)
    pytest.fail(f"the view is still {end - start} ns wide")


def said(page: Page) -> str:
    return page.locator("#say").text_content() or ""


def ink(page: Page, lane: int) -> list[int]:
    """The colour in the middle of a lane's first operation, as the canvas has it."""
    return page.evaluate(
        """async (index) => {
          // Off the screen it is drawn once the view rests.
          await new Promise((resolve) => setTimeout(resolve, 300));
          const chart = labTimeline.charts[0], row = chart.layout.rows.find((r) => r.index === index);
          const canvas = chart.plot.querySelector("canvas"), ratio = devicePixelRatio;
          const lane = chart.section.lanes[index], u = chart.u;
          const x = u.bbox.left + ((lane.start[0] + lane.end[0]) / 2 - labTimeline.view.start)
            / (labTimeline.view.end - labTimeline.view.start) * u.bbox.width;
          const y = u.bbox.top + (row.y + row.height * 0.2) * ratio;
          return [...canvas.getContext("2d").getImageData(x, y, 1, 1).data];
        }""",
        lane,
    )


def test_a_finding_leads_to_its_place(show: Callable[..., Page]) -> None:
    page = show(render_report([section()], title="A"))
    page.get_by_role("button", name="Show on the timeline: Longest wait").click()
    start, end = view(page)
    assert start < 42_000 < 49_000 < end < 60_000, "the wait does not fill the view"
    assert page.evaluate("document.activeElement.className") == "plot", "the focus stayed behind"
    # By keyboard, and to a row of a table.
    button = page.get_by_role("button", name="Show on the timeline: Longest idle gap")
    button.focus()
    page.keyboard.press("Enter")
    start, end = view(page)
    assert start < 7_000 < 10_000 < end < 20_000
    page.get_by_role("link", name="Row in “Kernels”").click()
    row = page.locator("tr:target")
    assert row.count() == 1 and "softmax" in (row.text_content() or "")


def test_the_timeline_by_keys(show: Callable[..., Page]) -> None:
    page = show(render_report([section()], title="A"))
    page.get_by_role("application", name="Timeline of run").focus()
    page.keyboard.press("+")
    start, end = view(page)
    assert end - start == pytest.approx(70_000)
    page.keyboard.press("ArrowRight")
    assert view(page)[0] > start
    page.keyboard.press("0")
    assert view(page) == (0, 100_000)
    page.keyboard.press("ArrowDown")
    assert said(page).startswith("Host, CUDA calls: cudaStreamSynchronize, Synchronising call")
    page.keyboard.press("ArrowDown")
    assert said(page).startswith("GPU 0, Stream 7: gemm, Kernel, starts at 0 ns, lasts 4.00 µs")
    page.keyboard.press("n")
    assert said(page).startswith("softmax, Kernel, starts at 5.00 µs")
    assert page.locator("#tip").is_visible()
    page.keyboard.press("Enter")
    start, end = view(page)
    assert start == pytest.approx(4_700) and end == pytest.approx(7_300)
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "find"


def test_from_a_launch_to_its_kernel_and_back(show: Callable[..., Page]) -> None:
    calls = Lane(
        "Host", "CUDA calls", [1_000, 40_000], [2_000, 41_000], ["cudaLaunchKernel"] * 2, ["api"] * 2,
        launches=[1, 2],
    )  # fmt: skip
    kernels = Lane(
        "GPU 0", "Stream 7", [5_000, 60_000], [9_000, 70_000], ["gemm", "softmax"], ["kernel"] * 2,
        device=0, shapes=["grid 8 × 1 × 1, block 128 × 1 × 1, 32 registers a thread", ""], launches=[1, 2],
    )  # fmt: skip
    page = show(render_report([section(lanes=[calls, kernels])], title="A"))
    page.get_by_role("application", name="Timeline of run").focus()
    page.keyboard.press("ArrowDown")
    assert said(page).startswith("Host, CUDA calls: cudaLaunchKernel")
    page.keyboard.press("l")
    assert said(page).startswith("GPU 0, Stream 7: gemm, Kernel, starts at 5.00 µs")
    told = page.locator("#tip").inner_text()
    assert "32 registers a thread" in told and "Stream 7" in told
    assert "Launched by" in told and "3.00 µs" in told
    page.keyboard.press("l")
    assert said(page).startswith("Host, CUDA calls: cudaLaunchKernel, ")
    page.keyboard.press("n")
    page.keyboard.press("l")
    assert said(page).startswith("GPU 0, Stream 7: softmax")


def test_finding_operations_by_name(show: Callable[..., Page]) -> None:
    page = show(render_report([section()], title="A"))
    full = ink(page, 1)
    field = page.get_by_role("searchbox", name="Find")
    field.fill("SoftMax")
    page.get_by_text("10 matches").wait_for()
    assert ink(page, 1) != full, "what does not match looks as before"
    page.keyboard.press("Enter")
    page.get_by_text("1 of 10").wait_for()
    start, end = view(page)
    assert start <= 5_000 < 7_000 <= end < 40_000
    page.get_by_role("button", name="Previous match").click()
    page.get_by_text("10 of 10").wait_for()
    assert view(page)[1] > 97_000
    field.fill("gemm<float>")
    page.get_by_text("10 matches").wait_for()
    field.press("Escape")
    page.evaluate("labTimeline.setView(0, labTimeline.whole)")
    assert ink(page, 1) == full
    field.fill("nothing of that name")
    page.get_by_text("0 matches").wait_for()
    assert page.get_by_role("button", name="Next match").is_disabled()


def test_mouse_and_touch(show: Callable[..., Page]) -> None:
    page = show(render_report([section()], title="A"))
    plot = page.locator(".plot .u-over")
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    assert box
    middle = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.move(*middle)
    page.mouse.down()
    page.mouse.up()
    page.mouse.wheel(0, -400)
    start = _zoomed(page, 80_000)[0]
    page.mouse.down()
    page.mouse.move(middle[0] - 100, middle[1], steps=4)
    page.mouse.up()
    assert view(page)[0] > start, "dragging does not move the view"
    phone = show(render_report([section()], title="A"), **PHONE)
    phone.evaluate(
        """() => {
          const over = document.querySelector(".u-over"), box = over.getBoundingClientRect();
          const finger = (type, id, x) => over.dispatchEvent(new PointerEvent(type, {
            pointerId: id, pointerType: "touch", clientX: box.left + x, clientY: box.top + 60, bubbles: true }));
          over.setPointerCapture = () => {};
          finger("pointerdown", 1, 100); finger("pointerdown", 2, 140);
          finger("pointermove", 2, 220); finger("pointerup", 1, 100); finger("pointerup", 2, 220);
        }"""
    )
    start, end = view(phone)
    assert end - start == pytest.approx(100_000 / 3, rel=0.01), "pinching does not zoom"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_follow_the_system_and_the_switch(show: Callable[..., Page], scheme: str) -> None:
    page = show(render_report([section()], title="A"), color_scheme=scheme)
    colour = "getComputedStyle(document.body).backgroundColor"
    other = "dark" if scheme == "light" else "light"
    before, drawn = page.evaluate(colour), ink(page, 1)
    page.get_by_role("button", name=other.title()).click()
    assert page.evaluate(colour) != before
    assert drawn[3] == 255, "nothing is drawn there"
    assert ink(page, 1) != drawn, "the drawing kept its colours"
    assert page.get_by_role("button", name=other.title()).get_attribute("aria-pressed") == "true"
    page.get_by_role("button", name="Auto").click()
    assert (page.evaluate(colour), ink(page, 1)) == (before, drawn)


def unnamed(page: Page) -> list[str]:
    """What a screen reader is given to work or look at, and no name for it."""
    tree = page.context.new_cdp_session(page).send("Accessibility.getFullAXTree")["nodes"]
    roles = {"link", "button", "image", "textbox", "searchbox", "checkbox", "Iframe", "application"}
    return [
        node["role"]["value"]
        for node in tree
        if not node.get("ignored")
        and node.get("role", {}).get("value") in roles
        and not node.get("name", {}).get("value")
    ]


def pages() -> dict[str, str]:
    known = course.load(course.find_root(Path(__file__)))
    verdicts = progress.verdicts(known)
    verdicts["ex_30.idle_gaps"] = Verdict("failed", "w" * 300 + " <script>window.hit=1</script>")
    done = steps(known, verdicts, {"linux"})
    columns = [("Kernel", ""), *((f"Throughput {number}", "ns") for number in range(12))]
    row = ("k" * 80, *range(1_000, 1_012))
    wide = Table("Kernels", "Wide", columns, [row], places=[Place("Longest", 0, 4_000, 1)])
    sections = [section("a" * 60, tables=[wide]), section("b" * 60)]
    return {
        "report": render_report(sections, title="t" * 90),
        "progress": render_progress(known, verdicts, done),
    }


@pytest.mark.parametrize("which", ["report", "progress"])
def test_pages_on_a_phone_and_for_a_screen_reader(show: Callable[..., Page], which: str) -> None:
    text = pages()[which]
    for context in (PHONE, {"viewport": {"width": 1280, "height": 900}}):
        page = show(text, **context)
        wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, f"{wide} px wider than the screen"
        assert page.evaluate("window.hit") is None
        # Everything that can be worked has a name, headings go down by one, one is the first.
        assert not unnamed(page)
        # What is wider than its place is reached by keyboard, and shaded where it goes on.
        hidden = page.evaluate(
            """[...document.querySelectorAll("*")].filter((node) => node.scrollWidth > node.clientWidth + 1
                 && ["auto", "scroll"].includes(getComputedStyle(node).overflowX))
               .filter((node) => node.tabIndex < 0 || !getComputedStyle(node).backgroundImage.includes("gradient"))
               .map((node) => node.outerHTML.slice(0, 200))"""
        )
        assert not hidden, "clipped without a cue, or not to be scrolled by keyboard"
        levels = page.evaluate(
            '[...document.querySelectorAll("h1,h2,h3")].map((node) => +node.tagName[1])'
        )
        assert levels[0] == 1 and levels.count(1) == 1
        assert all(b - a <= 1 for a, b in itertools.pairwise(levels))
        twice = page.evaluate(
            """(() => { const ids = [...document.querySelectorAll("[id]")].map((node) => node.id);
               return ids.filter((id, at) => ids.indexOf(id) !== at); })()"""
        )
        assert not twice, f"ids that are there twice: {twice}"
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"


def test_contrast_of_text(show: Callable[..., Page]) -> None:
    """WCAG 2.1 asks 4.5 to 1 for text of this size."""
    text = pages()["progress"]
    for scheme in ("light", "dark"):
        page = show(text, color_scheme=scheme)
        low = page.evaluate(
            """(() => {
              const part = (v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
              const light = (c) => { const [r, g, b] = c.match(/[\\d.]+/g).map(Number);
                return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b); };
              const clear = (c) => /, 0\\)$/.test(c) || c === "transparent";
              return [...document.querySelectorAll("p, span, dt, dd, th, td, h1, h2, code, button")]
                .filter((node) => node.checkVisibility() && node.textContent.trim()).map((node) => {
                  let at = node; while (at && clear(getComputedStyle(at).backgroundColor)) at = at.parentElement;
                  const back = light(getComputedStyle(at || document.body).backgroundColor);
                  const fore = light(getComputedStyle(node).color);
                  return [(Math.max(fore, back) + 0.05) / (Math.min(fore, back) + 0.05), node.outerHTML.slice(0, 90)];
                }).filter(([ratio]) => ratio < 4.5).slice(0, 3);
            })()"""
        )
        assert not low, f"{scheme}: {low}"


def test_paper_has_the_whole_page(show: Callable[..., Page]) -> None:
    page = show(render_report([section()], title="A"), color_scheme="dark")
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    assert page.locator("details:not([open])").count() == 0
    assert not page.get_by_role("searchbox").is_visible()
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.evaluate("document.documentElement.dataset.theme") is None


def test_a_flame_graph_of_stacks_fits_and_answers(show: Callable[..., Page]) -> None:
    flame = {
        "n": "all threads", "v": 1_000_000, "k": "other",
        "c": [
            {"n": "train.py(3): <b>main", "v": 900_000, "k": "python", "c": [
                {"n": "aten::mm", "v": 400_000, "k": "operator"}]},
        ],
    }  # fmt: skip
    made = section()
    made.flame = flame
    page = show(render_report([made], title="A"))
    page.wait_for_selector(".flame rect")
    assert page.evaluate("document.querySelectorAll('.flame rect').length") == 3
    page.hover(".flame g >> nth=2")
    assert "aten::mm, 400 µs (40.0%)" in page.inner_text(".flame-said")
    page.click(".flame g >> nth=1", force=True)
    assert "<b>main" in page.inner_text(".flame-said"), "a name is read as markup"
    wide = page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert wide and not render_report([section()], title="A").count("flame-data")
