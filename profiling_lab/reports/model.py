"""What a report is made of. Times are integer nanoseconds on the capture's own clock."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from profiling_lab.findings import base_name, is_bound
from profiling_lab.units import evidence, format_ratio, is_number

if TYPE_CHECKING:
    from profiling_lab.findings import Finding

# The kinds of rectangle, in the order of the legend, and what each is called.
KINDS: dict[str, str] = {
    "kernel": "Kernel",
    "collective": "Collective",
    "graph": "CUDA graph",
    "copy_in": "Copy to device",
    "copy_out": "Copy to host",
    "copy_device": "Other copy",
    "memset": "Memset",
    "api": "CUDA call",
    "wait": "Synchronising call",
    "os": "Call of the operating system",
    "operator": "Operator",
    "python": "Python function",
    "nvtx": "Range",
}
# Shares of time may also be idle, or of a kind of their own.
SHARE_KINDS = (*KINDS, "beside", "idle", "other")
T = TypeVar("T")

SAME = 1.005  # a ratio that is shown as 1.00
MAX_NAME_CHARACTERS = 600


def clean_text(text: Any, limit: int = MAX_NAME_CHARACTERS) -> str:
    """Text from a capture made safe to show: no control or direction characters, bounded length.

    Names come from the profiled program, so a terminal must not obey an escape sequence in one and
    a reader must not see it reordered. Escaping for HTML and JSON is done where those are written.
    """
    out = "".join(
        "\N{REPLACEMENT CHARACTER}"
        if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp")
        else char
        for char in str(text)[: limit + 1]
    )
    return out if len(out) <= limit else out[: limit - 1] + "…"


def sentence(text: Any, limit: int = 2000) -> str:
    """Text with a capital first letter, unless it begins with a name (`reduce_kernel`, `cudaFree`)."""
    text = clean_text(text, limit)
    first = text.split(" ", 1)[0].rstrip(",.:;")
    return text[:1].upper() + text[1:] if first.isalpha() and first.islower() else text


# Said only where there are some.
_ONLY_IF_ANY = ("left_out_count", "unjudged_count", "pageable_bytes", "late_work_ns")


def evidence_of(finding: Finding, without: Sequence[str] = ()) -> list[tuple[str, Any, str]]:
    """A finding's evidence in words: (what, value, unit), without some keys.

    The distance from the share that counts is left out where the share itself is told.
    """
    out = []
    for key, value in finding.evidence.items():
        told = key in without
        told = told or (key == "margin_ratio" and "recoverable_ratio" in finding.evidence)
        # Of a kernel the window is its duration.
        told = told or (key == "window_ns" and "duration_ns" in finding.evidence)
        if told or (key in _ONLY_IF_ANY and not value):
            continue
        label, value, unit = evidence(clean_text(key), value)
        if key == "recoverable_ratio" and "duration_ns" in finding.evidence:
            label = "of its duration"
        if key == "recoverable_ns" and is_bound(finding):
            label = "could be saved at most"
        out.append((label, value if is_number(value) else clean_text(value), unit))
    return out


def grouped(findings: Sequence[Finding]) -> list[list[Finding]]:
    """Findings that say the same of several subjects together, in the order of the first of each."""
    groups: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.category, finding.recommendation), []).append(finding)
    return list(groups.values())


def short_subject(finding: Finding) -> str:
    """What a finding is about, a kernel by its short name."""
    kind, _, name = finding.subject.partition(":")
    return clean_text(base_name(name) if kind == "kernel" else finding.subject)


@dataclass(frozen=True)
class TimeShare:
    """One part of the window: its length in ns, and a kind in `SHARE_KINDS` that picks its look."""

    label: str
    ns: int
    kind: str = ""


@dataclass(frozen=True)
class Fact:
    """One number about the capture; `unit` as `profiling_lab.units.format_quantity` takes it."""

    label: str
    value: Any
    unit: str = ""
    explanation: str = ""


@dataclass(frozen=True)
class Gap:
    """A stretch in which a device did nothing, and what is known about it."""

    start_ns: int
    end_ns: int
    device: int = 0
    note: str = ""

    @classmethod
    def of(cls, gap: Any) -> Gap:
        """A gap from a Gap, a mapping with start_ns and end_ns (device, note), or (start, end)."""
        if isinstance(gap, Gap):
            return gap
        if isinstance(gap, Mapping):
            note = gap.get("note") or gap.get("cause") or ""
            return cls(
                int(gap["start_ns"]), int(gap["end_ns"]), int(gap.get("device", 0)), str(note)
            )
        start, end, *rest = gap
        return cls(int(start), int(end), int(rest[0]) if rest else 0)


@dataclass
class Lane:
    """One row of the timeline: rectangles in columns, ordered by start.

    group: the heading that it stands under ("GPU 0"); key: what findings refer to ("stream:7");
    rank: of several processes the one that it is of.
    kinds: one of `KINDS` a rectangle; details: more about each, shown on hover, or empty; shapes: how a
    kernel was launched, in words, or empty. launches: a number that a call and what it launched share, 0 for
    none, or empty.
    """

    group: str
    label: str
    start_ns: Sequence[int]
    end_ns: Sequence[int]
    names: Sequence[str]
    kinds: Sequence[str]
    details: Sequence[str] = ()
    key: str = ""
    device: int | None = None
    rank: str = ""
    shapes: Sequence[str] = ()
    launches: Sequence[int] = ()

    def __post_init__(self) -> None:
        size = len(self.start_ns)
        if not (len(self.end_ns) == len(self.names) == len(self.kinds) == size):
            raise ValueError(f"lane {self.label!r}: columns of different lengths")
        if any(len(given) not in (0, size) for given in (self.details, self.shapes, self.launches)):
            raise ValueError(f"lane {self.label!r}: details for some rectangles only")
        unknown = set(self.kinds) - set(KINDS)
        if unknown:
            raise ValueError(f"lane {self.label!r}: unknown kinds {sorted(unknown)}")


@dataclass
class MetricSeries:
    """A number over time, drawn 0 … `maximum`; unit as `profiling_lab.units.format_quantity` takes it.

    holds_on: a value holds until the next one (memory in use); else it covers the time since the one
    before (samples of a rate). key: what places refer to.
    """

    group: str
    label: str
    timestamp_ns: Sequence[int]
    values: Sequence[float]
    unit: str = "pct"
    maximum: float = 100.0
    holds_on: bool = False
    key: str = ""


@dataclass(frozen=True)
class Place:
    """Where on the timeline to look, on the capture's clock, and in words what is there.

    lane: index of the lane; None marks the whole height.
    """

    label: str
    start_ns: int
    end_ns: int
    lane: int | None = None


@dataclass(frozen=True)
class Table:
    """Rows of a section, under the heading `topic`.

    columns: (heading, unit) with a unit of `format_quantity`, or "" for text. places: beside each row
    where on the timeline to look, if anywhere. subjects: beside each row what a finding calls it
    ("kernel:gemm"), so that the finding leads here.
    """

    topic: str
    title: str
    columns: Sequence[tuple[str, str]]
    rows: Sequence[Sequence[Any]]
    note: str = ""
    places: Sequence[Place | None] = ()
    subjects: Sequence[str] = ()


@dataclass
class CaptureSection:
    """One capture in a report.

    window_ns: start and end of the window under examination. where_the_time_went: parts of it that
    sum to its length; shares_note: what a reader must know of them. busy_ns: per device, as the
    caller computed it. notes: words beside the heading of a group of lanes. places: for a finding's
    subject, where on the timeline to look. links: for a subject, (words, id) of elements of the page,
    such as a point of a drawing. tables: more of what was recorded. drawings: (caption, SVG text) of
    plots that this library drew (`profiling_lab.roofline.svg`), shown as they are. provenance: how it
    was recorded. claim, first: the verdict in words, what is wrong and what to do first; begin_with: a
    finding's category of less effort. rests_on: what the verdict rests on and lacks, a sentence each. flame: host
    time by call path (`reports.flame`).
    """

    name: str
    provenance: Mapping[str, Any] = field(default_factory=dict)
    window_ns: tuple[int, int] = (0, 0)
    lanes: list[Lane] = field(default_factory=list)
    where_the_time_went: Sequence[TimeShare | tuple] = ()
    shares_note: str = ""
    gaps: Sequence[Any] = ()
    findings: Sequence[Finding] = ()
    facts: Sequence[Fact | tuple] = ()
    metrics: list[MetricSeries] = field(default_factory=list)
    busy_ns: Mapping[int, int] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)
    devices: Mapping[int, str] = field(default_factory=dict)
    places: Mapping[str, Place] = field(default_factory=dict)
    links: Mapping[str, Sequence[tuple[str, str]]] = field(default_factory=dict)
    tables: Sequence[Table] = ()
    drawings: Sequence[tuple[str, str]] = ()
    claim: str = ""
    first: str = ""
    begin_with: str = ""
    rests_on: Sequence[str] = ()
    flame: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        start, end = (int(edge) for edge in self.window_ns)
        if end < start:
            raise ValueError(f"section {self.name!r}: its window ends before it starts")
        self.window_ns = (start, end)
        self.where_the_time_went = _all_of(TimeShare, self.where_the_time_went)
        self.facts = _all_of(Fact, self.facts)
        self.gaps = [Gap.of(gap) for gap in self.gaps]

    @property
    def duration_ns(self) -> int:
        """The window's length."""
        return self.window_ns[1] - self.window_ns[0]

    def shares(self) -> list[TimeShare]:
        """The parts of the window, with what they leave out as one part of its own."""
        shares = _all_of(TimeShare, self.where_the_time_went)
        missing = self.duration_ns - sum(share.ns for share in shares)
        # Rounding of shares to whole ns is not worth a row of its own.
        if shares and missing > len(shares):
            shares.append(TimeShare("not accounted for", missing, "other"))
        return shares


def _all_of(kind: type[T], items: Iterable[Any]) -> list[T]:
    return [item if isinstance(item, kind) else kind(*item) for item in items]


@dataclass(frozen=True)
class ComparisonRow:
    """One measure before and after. ratio: before ÷ after or after ÷ before, as the caller means
    it; left out, the larger over the smaller is shown with "less" or "more".
    better: "lower", "higher" or "" where neither is better by itself."""

    what: str
    before: float | int | None
    after: float | int | None
    unit: str = "ns"
    ratio: float | None = None
    better: str = ""

    def change(self) -> tuple[float | None, str]:
        """The ratio to show and its word ("less", "more", "the same", or "" if unknown)."""
        if not (is_number(self.before) and is_number(self.after)):
            return self.ratio, ""
        assert self.before is not None and self.after is not None
        if self.before == self.after:
            return self.ratio or 1.0, "the same"
        word = "less" if self.after < self.before else "more"
        low, high = sorted((abs(self.before), abs(self.after)))
        if low and high / low < SAME and (self.before < 0) == (self.after < 0):
            return 1.0, "the same"  # as far as the figures beside it show
        if self.ratio is not None:
            return (1 / self.ratio if 0 < self.ratio < 1 else self.ratio), word
        if not low or (self.before < 0) != (self.after < 0):
            return None, word
        return high / low, word

    def verdict(self) -> str:
        """ "better", "worse" or "": from `better` alone, nothing is decided here."""
        word = self.change()[1]
        if not self.better or word not in ("less", "more"):
            return ""
        return "better" if (word == "less") == (self.better == "lower") else "worse"


@dataclass(frozen=True)
class Comparison:
    """Two captures side by side; the first row is the main figure.

    doubt: why they look like different programs; then there is no figure.
    """

    before_name: str
    after_name: str
    rows: Sequence[ComparisonRow] = ()
    headline: str = ""
    doubt: str = ""

    def main_figure(self) -> tuple[str, str]:
        """The large figure and the words under it; ("", "") without rows."""
        if not self.rows:
            return "", ""
        if self.doubt:
            return "Different programs?", f"{self.doubt}; {self.rows[0].what.lower()}"
        row = self.rows[0]
        ratio, word = row.change()
        if row.unit == "ns" and row.better == "lower":
            word = {"less": "faster", "more": "slower"}.get(word, word)
        if ratio is None:
            return word, self.headline or row.what
        figure = f"{format_ratio(ratio)} {word}".strip() if word != "the same" else "No change"
        return figure, self.headline or row.what
