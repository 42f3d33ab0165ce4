"""The report page asks nothing of the network, trusts no name, and gives every number its unit."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import shutil
import sqlite3
from pathlib import Path
from types import SimpleNamespace

import pytest

from grading.proof import patience
from profiling_lab import captures
from profiling_lab.analysis.compare import Compared, Row
from profiling_lab.findings import Finding
from profiling_lab.reports import (
    CaptureSection,
    Comparison,
    Gap,
    Lane,
    Place,
    render_report,
    section_from_capture,
    write_report,
)
from tests.harness.drawn_reports import (
    EVIL,
    Elements,
    compared,
    every_part_evil,
    lane,
    payload,
    section,
    unpack,
)

CHROMIUM = next(
    (
        path
        for name in ("chromium", "chromium-browser", "google-chrome")
        if (path := shutil.which(name))
    ),
    None,
)


# -- the page ------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", ["plain", "planted"])
def test_page_refers_to_nothing_outside(page: str) -> None:
    text = (
        render_report([section(), section("improved")], title="A", comparison=compared())
        if page == "plain"
        else every_part_evil()
    )
    elements = Elements(text)
    fetching = ("src", "srcset", "href", "action", "data", "poster", "background", "ping")
    for tag, attributes in elements.tags:
        for name in fetching:
            value = attributes.get(name, "data:")
            inside = value.startswith("data:") or (name == "href" and value.startswith("#"))
            assert inside, f"<{tag} {name}={value!r}> fetches from outside"
        assert not any(name.startswith("on") for name in attributes), f"<{tag}> has a handler"
        assert "url(" not in attributes.get("style", "")
    for style in elements.inside["style"]:
        assert "url(" not in style and "@import" not in style
    if page == "plain":
        assert not re.search(r"(?:https?|wss?):", text), "an address is in the page"
    allowed = """
        html head meta link title style script body main header section article noscript
        h1 h2 h3 p span div ul li dl dt dd button kbd figure figcaption details summary
        table caption thead tbody tr th td a label input
    """
    assert {tag for tag, _ in elements.tags} <= set(allowed.split())


def test_only_the_shipped_scripts_may_run() -> None:
    elements = Elements(every_part_evil())
    scripts = [attributes for tag, attributes in elements.tags if tag == "script"]
    assert len(scripts) == 4, "names from a capture made a script element"
    assert scripts[0]["type"] == "application/json"
    policy = next(
        attributes["content"]
        for tag, attributes in elements.tags
        if attributes.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy.startswith("default-src 'none';")
    directive = next(part for part in policy.split("; ") if part.startswith("script-src"))
    hashes = {
        "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"
        for text in elements.inside["script"][1:]
    }
    assert set(directive.split()[1:]) == hashes, "the policy does not name exactly these scripts"


def test_planted_names_are_text_and_nothing_else() -> None:
    page = every_part_evil()
    elements = Elements(page)
    data = elements.inside["script"][0]
    assert not re.search(r"[<>&\u2028\u2029]", data), "the data could close its element"
    shown = " ".join(elements.text)
    assert EVIL[0] in shown and "{{ 7 * 191 }}" in shown, "a name is not shown as it is"
    assert "1337" not in page, "a name was run as a template"
    for character in "\x00\x1b\u202e\u2028":
        assert character not in page, f"{character!r} from a name is in the page"
    names = {name for part in json.loads(data)["sections"] for name, *_ in part["names"]}
    assert EVIL[1] in names
    page.encode("utf-8")


def test_timeline_holds_every_rectangle_exactly() -> None:
    origin = 123_456_789_012
    starts = [origin - 500, origin + 10, origin + 5_000_000_000]
    # The first is the longest: the second begins and ends inside it.
    ends = [origin + 4_000_000_000, origin + 20, origin + 5_000_000_002]
    drawn = Lane("GPU 1", "Stream 7", starts, ends, ["a", "b", "a"], ["kernel", "copy_in", "graph"])
    shuffled = Lane(
        "GPU 1", "Stream 8", starts[::-1], ends[::-1], ["a", "b", "c"], ["kernel", "wait", "api"]
    )
    given = section(window_ns=(origin, origin + 6_000_000_000), lanes=[drawn, shuffled], gaps=[])
    data = payload(render_report([given], title="A"))
    first, second = data["sections"][0]["lanes"]
    assert unpack(first["start"]) == [-500, 10, 5_000_000_000]
    assert unpack(first["end"]) == [4_000_000_000, 20, 5_000_000_002]
    assert unpack(first["reach"]) == [4_000_000_000, 4_000_000_000, 5_000_000_002]
    kinds = [data["kinds"][kind]["id"] for kind in unpack(first["kind"])]
    assert kinds == ["kernel", "copy_in", "graph"]
    names = [data["sections"][0]["names"][at][0] for at in unpack(first["name"])]
    assert names == ["a", "b", "a"]
    assert unpack(second["start"]) == [-500, 10, 5_000_000_000], "not ordered by start"
    assert [data["sections"][0]["names"][at][0] for at in unpack(second["name"])] == ["c", "b", "a"]
    assert unpack(data["sections"][0]["series"][0]["value"]) == [10, 90.5]


def test_numbers_have_units_and_exact_values() -> None:
    page = render_report([section(), section("improved")], title="A", comparison=compared())
    for shown, exact in (
        ("1.56 ms", "1,563,579 ns"),
        ("4.19 MB", "4,194,304 bytes"),
        ("10.7 ms", "10,696,526 ns"),
        ("25.3 GB/s", "25,300,000,000 bytes/s"),
        ("45.8%", "45.8 %"),
        ("60.0 µs", "60,000 ns"),
    ):
        assert f'title="{exact}">{shown}</span>' in page, f"{shown} with {exact} is not there"
    assert '<p class="figure">2.42× faster</p>' in page
    assert "1.29× more" in re.sub(r"<[^>]+>", "", page)
    assert "the same" in page and "n/a" in page
    bare = re.findall(r'<span class="num" title="[^"]*">([\d.,]+)</span>', page)
    assert set(bare) == {"6", "3"}, "only counts stand without a unit"


def test_findings_lead_to_their_place() -> None:
    lanes = [
        lane(["gemm", "softmax", "gemm"]),
        Lane("Host", "NVTX", [3_000, 9_000], [5_000, 12_000], ["step", "step"], ["nvtx"] * 2),
    ]
    lanes[0].end_ns[2] += 100  # type: ignore[index]
    subjects = ["kernel:gemm", "range:step", "stream:7", "device:0", "rank:3", "kernel:none"]
    findings = [Finding("sync_bound", subject, {}) for subject in subjects]
    page = render_report(
        [section(lanes=lanes, findings=findings, gaps=[], window_ns=(500, 50_500))], title="A"
    )
    places = [
        tuple(int(attributes[f"data-{key}"]) for key in ("start", "end", "lane"))
        for tag, attributes in Elements(page).tags
        if tag == "button" and attributes.get("class") == "goto"
    ]
    assert places == [(4_500, 6_100, 0), (2_500, 4_500, 1), (0, 50_000, 0), (0, 50_000, 0)]
    placed = section(
        findings=findings[4:5], places={"rank:3": Place("", 700, 900)}, window_ns=(500, 9_000)
    )
    assert 'data-start="200" data-end="400"' in render_report([placed], title="A")


def test_shares_that_miss_time_say_so() -> None:
    page = render_report([section(where_the_time_went=[("kernels", 60_000)])], title="A")
    assert "Not accounted for" in page and "40.0%" in page
    assert "Not accounted for" not in render_report([section()], title="A")


@pytest.mark.parametrize("window_ns", [(0, 0), (5, 1_000)])
def test_empty_sections_are_written(tmp_path: Path, window_ns: tuple[int, int]) -> None:
    written = write_report(
        tmp_path / "new" / "report.html",
        [CaptureSection("nothing", window_ns=window_ns)],
        title="Empty",
    )
    page = written.read_text(encoding="utf-8")
    assert "No findings were given" in page
    # Of a window it is worth knowing that it is empty; a section without one has no timeline at all.
    has_window = window_ns != (0, 0)
    assert ("Nothing was recorded inside this window" in page) == has_window
    assert ("The timeline in text" in page) == has_window
    assert "Provenance" not in page, "a heading with nothing below it"
    assert sorted(path.name for path in written.parent.iterdir()) == ["report.html"]
    both = render_report(
        [section(), CaptureSection("nothing")], title="A", comparison=Comparison("a", "b")
    )
    assert "Timeline of baseline" in both
    assert "Timeline of nothing" not in both, "an empty drawing"
    assert render_report([], title="None")


def test_a_section_without_a_window_still_says_how_it_was_recorded() -> None:
    page = render_report([CaptureSection("kernels", provenance={"gpu": "H200"})], title="A")
    assert "Provenance" in page and "How it was recorded: kernels" in page
    assert "The timeline in text" not in page


def test_a_section_with_a_drawing_needs_no_findings() -> None:
    drawn = CaptureSection("counters", drawings=[("under the roof", "<svg></svg>")])
    page = render_report([drawn, section()], title="A")
    assert (
        page.count("finding-group") == Elements(page).inside["style"][0].count("finding-group") + 1
    )
    assert "No findings were given" not in page


def test_the_tool_is_told_apart_from_what_it_ran_on() -> None:
    provenance = {"gpu": "H200", "tool": {"name": "the program itself", "version": "Python 3.12"}}
    page = render_report([CaptureSection("a", provenance=provenance)], title="A")
    assert "H200 · recorded by the program itself Python 3.12" in page


def test_changes_within_the_tolerance_are_neither_better_nor_worse() -> None:
    before, after = (SimpleNamespace(name=name, length_ns=1_000) for name in "ab")
    rows = [
        Row("time", "Window", 1_000, 900),
        Row("kernels", "gemm", 500, 505),
        Row("kernels", "copy", 500, 300),
        Row("copies", "of these pageable", 10, 0, "bytes"),
        Row("kernels", "Kernels", 3, 2, "count"),
    ]
    shown = Compared(before, after, 0.02, rows).to_report().rows  # type: ignore[arg-type]
    assert [row.verdict() for row in shown] == ["better", "", "better", "better", ""]
    rows[0] = Row(
        "time", "Window", 1_000, 999
    )  # in an equal window nothing is better for being less
    shown = Compared(before, after, 0.02, rows).to_report().rows  # type: ignore[arg-type]
    assert [row.verdict() for row in shown] == [""] * 5


def test_a_window_that_ends_before_it_starts_is_refused() -> None:
    with pytest.raises(ValueError, match="ends before it starts"):
        CaptureSection("a", window_ns=(5, 4))
    with pytest.raises(ValueError, match="unknown kinds"):
        Lane("g", "l", [1], [2], ["n"], ["mystery"])


def test_text_says_what_the_drawing_says() -> None:
    elements = Elements(render_report([section()], title="A"))
    text = " ".join(" ".join(elements.text).split())
    assert "Longest operations on the devices" in text and "softmax" in text
    plots = [a for t, a in elements.tags if a.get("class") == "plot"]
    assert plots[0]["tabindex"] == "0" and "arrows move" in plots[0]["aria-label"]


# -- a capture -----------------------------------------------------------------------------------


def small_capture(folder: Path) -> Path:
    """An export with one kernel, one copy, one graph, calls and a range, written by hand."""
    file = folder / "timeline.sqlite"
    connection = sqlite3.connect(file)
    connection.executescript(
        """
        CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
        INSERT INTO StringIds VALUES (1, 'gemm'), (2, 'void gemm<float>(float*)'),
            (3, 'cudaStreamSynchronize_v3020'), (4, 'cudaLaunchKernel_v7000');
        CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, "end", deviceId, streamId, correlationId,
            globalPid, shortName, demangledName, gridX, gridY, gridZ, blockX, blockY, blockZ,
            registersPerThread, staticSharedMemory, dynamicSharedMemory);
        INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES
            (2000, 5000, 0, 7, 11, 16777216, 1, 2, 1, 1, 1, 32, 1, 1, 16, 0, 0),
            (90000, 95000, 0, 7, 12, 16777216, 1, 2, 1, 1, 1, 32, 1, 1, 16, 0, 0);
        CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start, "end", deviceId, streamId, correlationId,
            globalPid, bytes, copyKind, srcKind, dstKind);
        INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES
            (1000, 1800, 0, 9, 10, 16777216, 4194304, 1, 0, 2);
        CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start, "end", globalTid, correlationId, nameId,
            returnValue);
        INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES
            (1900, 1950, 16777220, 11, 4, 0), (1960, 5100, 16777220, 13, 3, 0);
        CREATE TABLE NVTX_EVENTS (start, "end", eventType, text, globalTid, textId, domainId);
        INSERT INTO NVTX_EVENTS VALUES (900, 6000, 59, 'step', 16777220, NULL, 0),
            (950, 5500, 59, 'inner', 16777220, NULL, 0);
        """
    )
    connection.commit()
    connection.close()
    (folder / "provenance.json").write_text('{"gpu": "NVIDIA H200"}', encoding="utf-8")
    return file


def test_lanes_are_what_was_recorded(tmp_path: Path) -> None:
    with captures.open(small_capture(tmp_path)) as capture:
        drawn = section_from_capture(
            capture,
            window_ns=(1_000, 6_000),
            findings=[],
            busy=3_800,
            gaps=[(1_800, 2_000)],
            where_the_time_went=[("kernels", 5_000, "kernel")],
        )
    lanes = {(lane.group, lane.label): lane for lane in drawn.lanes}
    assert list(lanes) == [
        ("Host", "NVTX"), ("Host", ""), ("Host", "CUDA calls"), ("GPU 0", "Stream 7"),
        ("GPU 0", "Stream 9"),
    ]  # fmt: skip
    assert lanes["Host", ""].names == ["inner"]
    assert lanes["Host", "CUDA calls"].kinds == ["api", "wait"]
    kernels = lanes["GPU 0", "Stream 7"]
    assert (kernels.start_ns, kernels.end_ns) == ([2_000], [5_000]), "outside the window"
    assert (kernels.names, kernels.details) == (["gemm"], ["void gemm<float>(float*)"])
    copies = lanes["GPU 0", "Stream 9"]
    assert copies.kinds == ["copy_in"]
    assert copies.details == ["4.19 MB, pageable to device"]
    assert drawn.busy_ns == {0: 3_800} and drawn.gaps == [Gap(1_800, 2_000)]
    page = render_report([drawn], title="A")
    assert "NVIDIA H200" in page and "gemm&lt;float&gt;" in page


# -- a real browser ------------------------------------------------------------------------------


def browser(folder: Path, page: Path, *arguments: str) -> str:
    command = [
        str(CHROMIUM), "--headless", "--disable-gpu", "--disable-quic", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync",
        f"--user-data-dir={folder / 'profile'}", *arguments, page.as_uri(),
    ]  # fmt: skip
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.insert(1, "--no-sandbox")
    return patience.run(command, errors="replace").stdout


@pytest.mark.proof
def test_page_draws_in_a_browser(tmp_path: Path) -> None:
    if CHROMIUM is None:
        pytest.skip("not run: no Chromium on this machine, so the page was not seen in one")
    page = tmp_path / "report.html"
    page.write_text(every_part_evil(), encoding="utf-8")
    document = Elements(browser(tmp_path, page, "--dump-dom"))
    root = dict(document.tags)["html"]
    assert "data-ready" in root, "the page's script did not run to its end"
    tags = [tag for tag, _ in document.tags]
    assert tags.count("canvas") == len(EVIL), "not every capture has its drawing"
    assert "img" not in tags and "svg" not in tags, "a planted name became an element"
    write_report(page, [section(), section("improved")], title="A", comparison=compared())
    for width, height in ((1280, 900), (375, 812)):
        image = tmp_path / f"{width}.png"
        browser(tmp_path, page, f"--screenshot={image}", f"--window-size={width},{height}")
        assert image.read_bytes().startswith(b"\x89PNG"), "no screenshot was made"
        assert image.stat().st_size > 5_000, "the page is blank"
