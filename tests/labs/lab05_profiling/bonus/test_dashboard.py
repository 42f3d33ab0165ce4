"""Checks of the dashboard: the page is parsed, and everything on it compared with what was given."""

from __future__ import annotations

import random
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from grading.checks import task
from grading.checks.assertions import fail
from profiling_lab import devices
from profiling_lab.roofline import format_flops_per_s

PROBE = Path(__file__).resolve().with_name("probes") / "dashboard.py"
VOID = {"meta", "br", "hr", "img", "input", "link", "base", "wbr", "col", "embed", "source", "area"}
FORBIDDEN = {
    *("script", "link", "img", "iframe", "frame", "object", "embed", "base", "form", "input"),
    *("video", "audio", "source", "image", "use", "a", "applet", "portal"),
}
HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(2)>',
    "' onmouseover='alert(3)",
    "</style></title></svg><b>bold</b>",
    "void reduce<float, 4>(T*, int) & more",
    "{heading} {0} %s",
    "&lt;already escaped&gt;",
]


class Element:
    """A tag with its attributes, what is inside, and the text of all that."""

    def __init__(self, tag: str, attributes: dict[str, str]) -> None:
        self.tag, self.attributes = tag, attributes
        self.inside: list[Element | str] = []

    @property
    def text(self) -> str:
        parts = [part if isinstance(part, str) else part.text for part in self.inside]
        return re.sub(r"\s+", " ", "".join(parts)).strip()

    @property
    def shown(self) -> str:
        """As `text`, with a space between the texts of different elements: cells stand apart."""
        parts = [part if isinstance(part, str) else f" {part.shown} " for part in self.inside]
        return re.sub(r"\s+", " ", "".join(parts)).strip()

    def all(self, tag: str, kind: str | None = None) -> list[Element]:
        found = []
        for part in self.inside:
            if isinstance(part, Element):
                classes = part.attributes.get("class", "").split()
                if tag in ("*", part.tag) and (kind is None or kind in classes):
                    found.append(part)
                found += part.all(tag, kind)
        return found

    def one(self, tag: str, kind: str | None = None) -> Element:
        found = self.all(tag, kind)
        if not found:
            fail(f"the page has no <{tag}{f' class={kind!r}' if kind else ''}>")
        return found[0]


class Reader(HTMLParser):
    """Reads a page into elements."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.top = Element("", {})
        self.open = [self.top]
        self.faults: list[str] = []
        self.feed(page)
        self.close()
        if len(self.open) > 1:
            self.faults.append(f"<{self.open[-1].tag}> is never closed")

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {key: value or "" for key, value in attrs})
        self.open[-1].inside.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open[-1].inside.append(Element(tag, {key: value or "" for key, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID:
            return
        if self.open[-1].tag != tag or len(self.open) == 1:
            self.faults.append(f"</{tag}> closes <{self.open[-1].tag}>")
            return
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].inside.append(data)


def made_up(seed: int, names: list[str], **more: Any) -> dict[str, Any]:
    """Results with these components, one of them without operations."""
    pick = random.Random(seed)
    components = [
        {
            "name": name,
            "time_ns": round(10 ** pick.uniform(4, 5.2), 1),
            "flops": pick.randrange(10**6, 10**9),
            "bytes": pick.randrange(10**5, 10**7),
        }
        for name in names
    ]
    components[1]["flops"] = 0
    whole = sum(component["time_ns"] for component in components) * pick.uniform(0.7, 0.95)
    shapes = {"batch": pick.randrange(2, 99), "tokens": pick.randrange(100, 9999)}
    return {
        **{"title": "Layer seven", "device": "NVIDIA H200", "dtype": "bfloat16", "shapes": shapes},
        **{"components": components, "whole_ns": whole},
        **more,
    }


NAMES = ["norm", "mask", "scores", "softmax", "mix", "a_kernel_with_quite_a_long_name_" * 3]


def page_of(stub: Any, results: dict[str, Any]) -> Element:
    """The page, parsed."""
    page = stub.dashboard(results)
    if type(page) is not str:
        fail(f"dashboard(…) returned {type(page).__name__}, expected the page as text")
    reader = Reader(page)
    if reader.faults:
        fail(f"dashboard(…): the page is not well formed: {reader.faults[0]}")
    if not page.lstrip().lower().startswith("<!doctype html>"):
        fail("dashboard(…): the page does not begin with <!doctype html>; browsers then guess")
    return reader.top


def number(text: str) -> float:
    """A number as it stands on a page."""
    found = re.sub(r"[,\s  ]|%|µs", "", text)
    try:
        return float(found)
    except ValueError:
        return float("nan")


def one_decimal(text: str) -> bool:
    return re.search(r"\d\.\d(?!\d)", text) is not None


def cells(row: Element) -> list[str]:
    return [
        part.text for part in row.inside if isinstance(part, Element) and part.tag in ("th", "td")
    ]


@task("lab05_bonus.dashboard")
def test_every_component_with_its_numbers(stub: Any, seed: int) -> None:
    results = made_up(seed, NAMES)
    table = page_of(stub, results).one("table", "components")
    rows = table.one("tbody").all("tr")
    components = results["components"]
    total = sum(component["time_ns"] for component in components)
    if [cells(row)[:1] for row in rows] != [[component["name"]] for component in components]:
        fail(
            f"dashboard(…): the rows of the table are of {[cells(row)[:1] for row in rows]}, expected "
            f"{[component['name'] for component in components]}"
        )
    for row, component in zip(rows, components, strict=True):
        name, *found = cells(row)
        want = {
            "time (µs)": component["time_ns"] / 1e3,
            "share (%)": component["time_ns"] / total * 100,
            "operations per byte": component["flops"] / component["bytes"],
        }
        if len(found) != len(want):
            fail(f"dashboard(…): the row of {name} has {1 + len(found)} cells, expected 4")
        if row.all("th") == [] or row.all("th")[0].attributes.get("scope") != "row":
            fail(f'dashboard(…): the name {name!r} is in no <th scope="row">')
        for (what, right), text in zip(want.items(), found, strict=True):
            if not abs(number(text) - right) <= 0.0501 or not one_decimal(text):
                fail(f"dashboard(…): {what} of {name} reads {text!r}, expected {right:,.1f}")


@task("lab05_bonus.dashboard")
def test_the_longest(stub: Any, seed: int) -> None:
    results = made_up(seed, ["norm", "mask", "scores"])
    found = page_of(stub, results).one("p", "longest").text
    components = results["components"]
    longest = max(components, key=lambda component: component["time_ns"])
    share = longest["time_ns"] / sum(component["time_ns"] for component in components) * 100
    said = [number(word) for word in re.findall(r"\d+\.\d(?=\s*(?:%|percent))", found)]
    if longest["name"] not in found or not any(abs(one - share) <= 0.0501 for one in said):
        fail(
            f"dashboard(…): the longest component reads {found!r}, expected {longest['name']!r} with "
            f"{share:.1f} % of the sum"
        )


@task("lab05_bonus.dashboard")
def test_sum_and_whole(stub: Any, seed: int) -> None:
    results = made_up(seed, NAMES)
    foot = page_of(stub, results).one("table", "components").one("tfoot").all("tr")
    total = sum(component["time_ns"] for component in results["components"])
    want = [
        ("sum", total, 100.0),
        ("whole", results["whole_ns"], results["whole_ns"] / total * 100),
    ]
    if [cells(row)[0] for row in foot] != ["sum", "whole"]:
        fail(
            f"dashboard(…): the foot's rows are {[cells(row)[:1] for row in foot]}, expected sum, whole"
        )
    for row, (what, time_ns, share) in zip(foot, want, strict=True):
        _, time_text, share_text, *_ = cells(row)
        near = abs(number(time_text) - time_ns / 1e3) <= 0.0501
        if not near or not abs(number(share_text) - share) <= 0.0501:
            fail(
                f"dashboard(…): the row {what!r} reads {time_text!r}, {share_text!r}; expected "
                f"{time_ns / 1e3:,.1f} µs and {share:.1f} %: the parts are held against the whole"
            )


@task("lab05_bonus.dashboard")
def test_bars_in_proportion(stub: Any, seed: int) -> None:
    results = made_up(seed, NAMES)
    plot = page_of(stub, results).one("svg", "bars")
    box = [float(part) for part in plot.attributes.get("viewbox", "").split()]
    if len(box) != 4:
        fail("dashboard(…): the bars have no viewBox of four numbers, so they cannot be scaled")
    bars = plot.all("rect", "bar")
    names = [component["name"] for component in results["components"]]
    said = [bar.one("title").text if bar.all("title") else None for bar in bars]
    if said != names:
        fail(f"dashboard(…): the bars are titled {said}, expected {names}")
    longest = max(component["time_ns"] for component in results["components"])
    try:
        places = [
            [float(bar.attributes.get(key, "nan")) for key in ("x", "y", "width", "height")]
            for bar in bars
        ]
        texts = [(float(text.attributes.get("y", "nan")), text.text) for text in plot.all("text")]
    except ValueError as error:
        fail(f"dashboard(…): a length in the bars is no plain number: {error}")
    widest = max(place[2] for place in places)
    if widest < 0.4 * box[2]:
        fail(f"dashboard(…): the longest bar is {widest} of {box[2]} wide: there is room for more")
    for name, component, place in zip(names, results["components"], places, strict=True):
        x, y, width, height = place
        share = component["time_ns"] / longest
        if not abs(width / widest - share) <= 0.01:
            fail(
                f"dashboard(…): the bar of {name} is {width / widest:.1%} of the longest, its time is "
                f"{share:.1%} of the longest"
            )
        inside = box[0] <= x and x + width <= box[0] + box[2] + 0.01
        inside = inside and box[1] <= y and y + height <= box[1] + box[3] + 0.01
        if not (inside and height > 0):
            fail(f"dashboard(…): the bar of {name} at {place} is not inside the viewBox {box}")
    for (one, first), (other, second) in zip(
        zip(names, places, strict=True), list(zip(names, places, strict=True))[1:], strict=False
    ):
        if not first[1] + first[3] <= second[1]:
            fail(f"dashboard(…): the bars of {one} and {other} overlap: {first}, {second}")
    times = {c["name"]: c["time_ns"] / 1e3 for c in results["components"]}
    middles = [place[1] + place[3] / 2 for place in places]
    for name, middle in zip(names, middles, strict=True):
        own = [y for y, text in texts if text.startswith(name[:16])]
        time_text = f"{times[name]:,.1f}"
        if not any(text.startswith(name[:16]) and time_text in text for _, text in texts):
            fail(f"dashboard(…): no <text> among the bars says that {name} took {time_text} µs")
        if not own:
            fail(f"dashboard(…): no <text> among the bars begins with {name[:16]!r}")
        nearest = min(own, key=lambda y: abs(y - middle))
        if abs(nearest - middle) > min(abs(nearest - m) for m in middles) + 0.01:
            fail(f"dashboard(…): the name of {name} stands nearer to another bar than to its own")
        if not box[1] <= nearest <= box[1] + box[3]:
            fail(f"dashboard(…): the name of {name} is outside the viewBox {box}")


@task("lab05_bonus.dashboard")
def test_the_roofline(stub: Any, seed: int) -> None:
    results = made_up(seed, [*NAMES, *(f"part {number}" for number in range(3))])
    for place, component in enumerate(results["components"]):
        component["flops"] = 0 if place in (1, 3) else component["flops"]
    page = page_of(stub, results)
    plots = page.all("svg")
    if len(plots) < 2:
        fail(f"dashboard(…): the page has {len(plots)} plots, expected the bars and the roofline")
    roof = plots[1].text
    peak = format_flops_per_s(devices.get("H200").peak(results["dtype"]))
    for word in ("H200", "ridge", peak):
        if word not in roof:
            fail(
                f"dashboard(…): the second plot does not say {word!r}: it is no roofline of the device "
                f"and {results['dtype']}"
            )
    for component in results["components"]:
        there = component["name"][:16] in roof
        if there != bool(component["flops"]):
            fail(
                f"dashboard(…): {component['name']} has {component['flops']:,} operations, and on the "
                f"roofline it is {'there' if there else 'missing'}"
            )
        if there:
            point = component["flops"] / component["bytes"]
            rate = component["flops"] / component["time_ns"] * 1e9
            marks = [t.text for t in plots[1].all("title") if component["name"][:16] in t.text]
            if not any(f"{point:.3g} operations per byte" in mark for mark in marks):
                fail(
                    f"dashboard(…): the point of {component['name']} is not at {point:.3g} FLOP/B: {marks}"
                )
            if not any(format_flops_per_s(rate) in mark for mark in marks):
                fail(
                    f"dashboard(…): the point of {component['name']} is not at {rate:.3g} FLOP/s: {marks}"
                )
    captions = [figure.one("figcaption").text for figure in page.all("figure") if figure.all("svg")]
    if not any(re.search(r"\b2\b", caption) for caption in captions[1:]):
        fail(
            f"dashboard(…): two components have no operations, and no caption says so: {captions[1:]}"
        )


@task("lab05_bonus.dashboard")
def test_head_and_shapes(stub: Any, seed: int) -> None:
    results = made_up(seed, NAMES)
    page = page_of(stub, results)
    for tag in ("title", "h1"):
        text = page.one(tag).text
        for word in (results["title"], "H200", results["dtype"]):
            if word not in text:
                fail(
                    f"dashboard(…): <{tag}> reads {text!r} and does not name {word!r}: numbers without "
                    "device and data type mean nothing"
                )
    body = page.one("body").shown
    for name, value in results["shapes"].items():
        there = re.search(rf"\b(?:{value}|{value:,})\b", body)
        if name not in body or not there:
            fail(f"dashboard(…): the shape {name} = {value} is nowhere on the page")
    metas = [meta.attributes for meta in page.all("meta")]
    if not any(meta.get("charset", "").lower() == "utf-8" for meta in metas):
        fail('dashboard(…): there is no <meta charset="utf-8">, so µ may show as Âµ')
    if not any(
        meta.get("name") == "viewport" and "width=device-width" in meta.get("content", "")
        for meta in metas
    ):
        fail("dashboard(…): there is no viewport for a phone, which then shows the page tiny")
    if page.one("html").attributes.get("lang", "") == "":
        fail("dashboard(…): <html> has no lang, which screen readers go by")
    style = " ".join(element.text for element in page.all("style"))
    dark = r"@media\s*\(\s*prefers-color-scheme:\s*dark\s*\)\s*\{[^{}]*\{[^{}]*:"
    if not re.search(dark, style):
        fail(
            "dashboard(…): there are no colours for dark surroundings, in a rule inside "
            "@media (prefers-color-scheme: dark) { … }"
        )
    figures = [figure for figure in page.all("figure") if figure.all("svg")]
    if sum(len(figure.all("svg")) for figure in figures) != len(page.all("svg")):
        fail("dashboard(…): a plot stands outside of every <figure>")
    for figure in figures:
        plot = figure.one("svg")
        if not figure.one("figcaption").text:
            fail("dashboard(…): a figure has an empty caption")
        if plot.attributes.get("role") != "img" or "viewbox" not in plot.attributes:
            fail('dashboard(…): a plot has no role="img", or no viewBox')


@task("lab05_bonus.dashboard")
def test_names_are_text(stub: Any, seed: int) -> None:
    shapes = {"<i>batch</i>": 3, "layout": "<u>NHWC</u>"}
    hostile = made_up(seed, HOSTILE, title="<h2>Fast & loose</h2>", shapes=shapes)
    page = page_of(stub, hostile)
    found = [cells(row)[0] for row in page.one("table", "components").one("tbody").all("tr")]
    if found != HOSTILE:
        wrong = next(
            (pair for pair in zip(found, HOSTILE, strict=False) if pair[0] != pair[1]), found
        )
        fail(f"dashboard(…): a name in the table does not read as it was given: {wrong}")
    tame = page_of(
        stub, made_up(seed, [f"n{i}" for i in range(len(HOSTILE))], title="t", shapes=shapes)
    )
    here, there = ({element.tag for element in one.all("*")} for one in (page, tame))
    if here != there:
        fail(f"dashboard(…): names became tags: {', '.join(sorted(here ^ there))}")
    for text in ("<i>batch</i>", "<u>NHWC</u>"):
        if text not in page.one("body").text:
            fail(f"dashboard(…): the shape {text!r} does not read as it was given")
    if "<h2>Fast & loose</h2>" not in page.one("title").text:
        fail("dashboard(…): the title does not read as it was given")
    bars = [bar.one("title").text for bar in page.one("svg", "bars").all("rect", "bar")]
    if bars != HOSTILE:
        fail(f"dashboard(…): the bars are titled {bars}, expected {HOSTILE}")


@task("lab05_bonus.dashboard")
def test_nothing_from_elsewhere(stub: Any, seed: int) -> None:
    for names in (NAMES, HOSTILE):
        page = page_of(stub, made_up(seed, names))
        for element in page.all("*"):
            if element.tag in FORBIDDEN:
                fail(
                    f"dashboard(…): the page has a <{element.tag}>: it shall need nothing, and run nothing"
                )
            for key, value in element.attributes.items():
                if key in ("src", "href", "xlink:href", "action", "srcset", "data", "poster"):
                    fail(f"dashboard(…): <{element.tag}> refers to another place: {key}={value!r}")
                if key.startswith("on"):
                    fail(f"dashboard(…): <{element.tag}> runs something: {key}={value!r}")
                if "url(" in value or (
                    value.startswith(("http", "//")) and not key.startswith("xmlns")
                ):
                    fail(f"dashboard(…): <{element.tag}> refers to another place: {key}={value!r}")
        for style in page.all("style"):
            if re.search(r"@import|url\s*\(|https?:", style.text):
                fail("dashboard(…): the style loads something from another place")


@task("lab05_bonus.dashboard")
def test_the_file(stub: Any, seed: int) -> None:
    results = made_up(seed, NAMES, title="Where the µs go")
    told = stub.probe(PROBE, "written", results)
    if told["names"] != ["page.html"]:
        fail(f"dashboard(…, path): beside the page there is {told['names']}; it shall be one file")
    if told["file"] != told["page"].encode("utf-8"):
        fail(
            "dashboard(…, path): the file is not the page that was returned, in UTF-8, and nothing else"
        )
    if told["page"] != stub.dashboard(results):
        fail("dashboard(…) of the same results gives another page the second time: what changed?")


@task("lab05_bonus.dashboard")
def test_results_that_make_no_sense(stub: Any, seed: int) -> None:
    def changed(**more: Any) -> dict[str, Any]:
        results = made_up(seed, ["a", "b", "c"])
        results["components"][2] |= more
        return results

    cases: list[tuple[str, dict[str, Any], str]] = [
        ("no components", changed() | {"components": []}, "ValueError"),
        ("two components of one name", changed(name="a"), "ValueError"),
        *((f"a time of {t!r}", changed(time_ns=t), "ValueError") for t in (0, -1.0, "7")),
        ("an infinite time", changed(time_ns=float("inf")), "ValueError"),
        ("a time that is NaN", changed(time_ns=float("nan")), "ValueError"),
        *(
            (f"whole_ns = {value!r}", changed() | {"whole_ns": value}, "ValueError")
            for value in (0, float("inf"))
        ),
        *((f"flops = {f!r}", changed(flops=f), "ValueError") for f in (-1, 1.5)),
        *((f"bytes = {b!r}", changed(bytes=b), "ValueError") for b in (0, 2.5)),
        ("an unknown device", changed() | {"device": "H2000"}, "LabError"),
        ("an unknown data type", changed() | {"dtype": "float17"}, "LabError"),
    ]
    for what, results, kind in cases:
        told = stub.probe(PROBE, "refused", results)
        if kind not in told["kinds"]:
            fail(
                f"dashboard(…) with {what}: {told['kinds'][:1] or 'no error'}, expected a "
                f"{'DeviceError' if kind == 'LabError' else kind}"
            )
        key = what.partition(" ")[0]
        if key in ("flops", "bytes", "whole_ns") and key not in told["said"]:
            fail(f"dashboard(…) with {what} says {told['said']!r}, which does not name {key}")
        if told["names"]:
            fail(f"dashboard(…) with {what} raised, and left {told['names']} behind")
    stub.dashboard(changed(bytes=1, flops=0, time_ns=1))
