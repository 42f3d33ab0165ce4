"""Reports that are drawn, with names that mean harm, and a page read back."""

from __future__ import annotations

import base64
import html.parser
import json
import sys
from array import array

from profiling_lab.findings import Finding
from profiling_lab.reports import (
    CaptureSection,
    Comparison,
    ComparisonRow,
    Gap,
    Lane,
    MetricSeries,
    Place,
    Table,
    render_report,
)

EVIL = [
    "<script>window.hit=1</script>",
    "</script><img src=x onerror=window.hit=1>",
    "\"'><svg onload=window.hit=1>",
    "line\u2028separator\u2029here",
    "{{ 7 * 191 }}{% raw %}",
    "<!--<script>",
    "esc\x1b[31mape\x00nul\u202ereversed",
    "lone\ud800surrogate",
    "javascript:alert(1)//http://example.invalid/a.js",
]


class Elements(html.parser.HTMLParser):
    """Tags with their attributes, and the text of each script and style."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.inside: dict[str, list[str]] = {"script": [], "style": []}
        self.open = ""
        self.text: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))
        if tag in self.inside:
            self.open = tag
            self.inside[tag].append("")

    def handle_endtag(self, tag: str) -> None:
        if tag == self.open:
            self.open = ""

    def handle_data(self, data: str) -> None:
        if self.open:
            self.inside[self.open][-1] += data
        else:
            self.text.append(data)


def lane(names: list[str], **more) -> Lane:
    starts = [1_000 + 2_000 * at for at in range(len(names))]
    return Lane(
        "GPU 0",
        more.pop("label", "Stream 7"),
        starts,
        [start + 1_500 for start in starts],
        names,
        ["kernel"] * len(names),
        key="stream:7",
        device=0,
        **more,
    )


def section(name: str = "baseline", names: list[str] | None = None, **more) -> CaptureSection:
    names = names or ["gemm", "softmax"]
    given = {
        "window_ns": (0, 100_000),
        "lanes": [lane(names)],
        "where_the_time_went": [("kernels", 60_000, "kernel"), ("idle", 40_000, "idle")],
        "gaps": [{"device": 0, "start_ns": 60_000, "end_ns": 100_000}],
        "busy_ns": {0: 60_000},
        "findings": [
            Finding(
                "transfer_bound",
                "stream:7",
                {"recoverable_ns": 1_563_579, "moved_bytes": 4_194_304, "wait_count": 6},
                "overlap the copies",
            )
        ],
        "facts": [("copy rate", 25.3e9, "bytes_per_s", "both directions")],
        "metrics": [MetricSeries("GPU 0", "SM active", [10_000, 20_000], [10, 90.5])],
    }
    return CaptureSection(name, **(given | more))


def compared() -> Comparison:
    return Comparison(
        "baseline",
        "improved",
        [
            ComparisonRow("window", 10_696_526, 4_419_000, "ns", better="lower"),
            ComparisonRow("device busy", 45.8, 59.3, "pct", better="higher"),
            ComparisonRow("copied", 12_000_000, 12_000_000, "bytes"),
            ComparisonRow("missing", None, 3, "count"),
        ],
    )


def payload(page: str) -> dict:
    return json.loads(Elements(page).inside["script"][0])


def unpack(packed: dict) -> list:
    code = {
        "Uint8Array": "B", "Uint16Array": "H", "Uint32Array": "I",
        "Float64Array": "d", "Float32Array": "f",
    }[packed["type"]]  # fmt: skip
    values = array(code, base64.b64decode(packed["data"]))
    if sys.byteorder == "big":
        values.byteswap()
    return list(values)


def every_part_evil() -> str:
    """A page in which every text that can come from outside is planted."""
    sections = [
        section(
            name=evil,
            names=EVIL,
            lanes=[
                lane(EVIL, label=evil, details=EVIL),
                Lane(evil, evil, [5], [9], [evil], ["nvtx"], [evil]),
            ],
            where_the_time_went=[(evil, 60_000, evil), ("idle", 40_000, "idle")],
            gaps=[Gap(1, 2, 0, evil)],
            findings=[Finding(evil, f"kernel:{evil}", {evil: 1, "a_ns": evil}, evil)],
            facts=[(evil, evil, evil, evil), (evil, 5, evil, evil)],
            metrics=[MetricSeries(evil, evil, [1, 2], [3, 4], evil, 4.0, True)],
            notes={evil: evil},
            shares_note=evil,
            links={f"kernel:{evil}": [(evil, "row-0-0-0")]},
            tables=[
                Table(
                    evil,
                    evil,
                    [(evil, ""), (evil, "ns")],
                    [(evil, 5), (5, evil)],
                    evil,
                    [Place(evil, 5, 9, 0)],
                    [f"kernel:{evil}"],
                )
            ],
            provenance={evil: evil, "nested": {evil: [evil]}, "gpu": [{"name": evil}]},
            devices={0: evil},
        )
        for evil in EVIL
    ]
    rows = [ComparisonRow(evil, 1, 2, evil) for evil in EVIL]
    comparison = Comparison(EVIL[0], EVIL[1], rows, EVIL[2])
    return render_report(sections, title=" ".join(EVIL), comparison=comparison)
