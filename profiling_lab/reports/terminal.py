"""The same report for a terminal of 80 columns.

Colour and bold are only used where the output is a terminal; written to a file or a pipe it is
plain text of the same shape. Where the output's encoding has no block characters, ASCII stands in.
Names from captures are never read as markup, and control characters in them are shown as "?".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from profiling_lab import units
from profiling_lab.reports.model import CaptureSection, clean_text, sentence

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text


WIDTH = 80
LABEL = 28
EIGHTHS = " ▏▎▍▌▋▊▉█"
HEIGHTS = " ▁▂▃▄▅▆▇█"
_ASCII = str.maketrans({"µ": "u", "×": "x", "…": "~", "–": "-", "→": ">", "·": "-", "\ufffd": "?"})


def _console(console: Console | None) -> Console:
    from rich.console import Console

    return console or Console(highlight=False)


def _speaks_unicode(console: Console) -> bool:
    return console.encoding.lower().replace("-", "").startswith("utf")


class _Page:
    """Lines for one console: its width, and words in its encoding."""

    def __init__(self, console: Console | None) -> None:
        self.console = _console(console)
        self.unicode = _speaks_unicode(self.console)
        self.width = max(40, min(self.console.width, 100))

    def words(self, text: Any, limit: int = 2000) -> str:
        out = clean_text(text, limit)
        if self.unicode:
            return out
        return out.translate(_ASCII).encode("ascii", "replace").decode("ascii")

    def fit(self, text: Any, width: int) -> str:
        """Text cut to a width in cells, with an ellipsis where it is cut."""
        from rich.cells import cell_len, set_cell_size

        text = self.words(text)
        if cell_len(text) <= width:
            return text
        cut = set_cell_size(text, max(0, width - 1)).rstrip()
        return cut + ("…" if self.unicode else "~")

    def line(self, *parts: str | tuple[str, str]) -> Text:
        from rich.text import Text

        return Text.assemble(*parts, no_wrap=True, overflow="crop", end="")

    def put(self, *parts: str | tuple[str, str]) -> None:
        text = self.line(*parts)
        text.rstrip()
        self.console.print(text, soft_wrap=True)

    def bar(self, share: float, width: int) -> str:
        """A bar of a share 0 … 1, to an eighth of a character; something is drawn for any share."""
        share = min(max(share, 0.0), 1.0)
        if not self.unicode:
            return "#" * max(round(share * width), 1 if share else 0)
        eighths = max(round(share * width * 8), 1 if share else 0)
        return EIGHTHS[8] * (eighths // 8) + EIGHTHS[eighths % 8].strip()


def print_time_bars(
    sections: CaptureSection | Sequence[CaptureSection], console: Console | None = None
) -> None:
    """Per capture: where the time went, a bar per share, and one line a device, busy or idle.

    All bars and lines of one call have the same scale: a shorter window is a shorter line. A cell
    of the line is as high as the part of it in which the device had work, by the gaps given.
    """
    page = _Page(console)
    if isinstance(sections, CaptureSection):
        sections = [sections]
    longest = max((section.duration_ns for section in sections), default=0)
    for number, section in enumerate(sections):
        if number:
            page.put()
        length = page.words(units.format_ns(section.duration_ns))
        page.put((page.fit(section.name, page.width - len(length) - 2), "bold"), "  ", (length, ""))
        wide = max(10, page.width - LABEL - 2 - 20)
        for share in section.shares():
            drawn = page.bar(share.ns / longest if longest else 0.0, wide)
            amount = page.words(units.format_ns(share.ns))
            part = units.format_share(share.ns, section.duration_ns)
            page.put(
                f"  {page.fit(sentence(share.label), LABEL - 2):<{LABEL - 2}}",
                (f"{drawn:<{wide}}", "cyan"),
                f"{amount:>11} {part:>8}",
            )
        for device in _devices(section):
            strip = _strip(page, section, device, longest)
            busy = section.busy_ns.get(device)
            note = "" if busy is None else f"busy {units.format_share(busy, section.duration_ns)}"
            room = page.width - 8 - 14
            page.put(f"  GPU {device:<2}", (f"{strip:<{room}}", "blue"), (f"{note:>14}", "dim"))


def _devices(section: CaptureSection) -> list[int]:
    """The devices whose busy and idle times the caller gave."""
    return sorted({*section.busy_ns, *(gap.device for gap in section.gaps)})


def _strip(page: _Page, section: CaptureSection, device: int, longest_ns: int) -> str:
    """One line of block characters: how much of each cell lies outside the given gaps."""
    room = page.width - 8 - 14
    if longest_ns <= 0 or not section.duration_ns:
        return ""
    cell_ns = longest_ns / room
    cells = max(1, round(section.duration_ns / cell_ns))
    cell_ns = section.duration_ns / cells
    idle = [0.0] * cells
    start = section.window_ns[0]
    for gap in section.gaps:
        if gap.device != device:
            continue
        low = max(gap.start_ns - start, 0)
        high = min(gap.end_ns - start, section.duration_ns)
        if high <= low:
            continue
        for at in range(int(low / cell_ns), min(cells, int(high / cell_ns) + 1)):
            idle[at] += max(0.0, min(high, (at + 1) * cell_ns) - max(low, at * cell_ns))
    out = ""
    for part in idle:
        busy = 1 - min(1.0, part / cell_ns)
        if page.unicode:
            # A sliver of work is drawn; idle is a dot at the foot, so that it is seen as time.
            level = round(busy * 8)
            out += "·" if busy < 0.005 else HEIGHTS[max(1, level)]
        else:
            out += "." if busy < 0.005 else ("#" if busy >= 0.5 else "-")
    return out
