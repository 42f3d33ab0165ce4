"""A comparison of two sides on the screen, and as Markdown for a pull request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from profiling_lab.analysis.compare import HOST_NAMED, Compared, Row, Side, named_rows
from profiling_lab.analysis.measures import NAMED, STEP
from profiling_lab.captures import Kind
from profiling_lab.cli.printing import cut, finding_in_few_words, name_of_main
from profiling_lab.cli.screen import bold, dim, width, wrap
from profiling_lab.findings import CAUSE_IN_WORDS, base_name
from profiling_lab.reports.model import clean_text
from profiling_lab.reports.terminal import print_time_bars
from profiling_lab.units import format_ns, format_quantity, format_ratio

if TYPE_CHECKING:
    from profiling_lab.findings import Finding
    from profiling_lab.reports import CaptureSection

SHOWN_CHANGE_PCT = 5  # counters of a kernel that changed by less are left to --json
FIGURE_CELLS = 47  # what a row takes besides its name, a mark included
MARKDOWN_ROWS = 20
MOST_EVIDENCE = 4  # numbers of a finding
ARROW = " → "


# -- on the screen --------------------------------------------------------------------------------

_GROUPS = {
    "time": "Time",
    "spent": "Where the time went",
    "saved": "What would be saved without …",
    "stages": "Ranges, host time of each name",
    "kernels": "Kernels, total of each name",
    "copies": "Copies",
    "gaps": "Gaps of the device, by what ran before and after",
    "calls": "CUDA calls, total of each name",
    "operators": "Operators, host time with all inside",
}
# Where the time went says most. Of the rest the screen names what changed most. Host time of calls and operators is
# mostly waiting, which moves from one to the other: the screen leaves it out.
CHANGED = ("stages", "kernels", "copies", "gaps")
MOST_CHANGED = 3
# To the engine, a copy that is read back is waiting, whatever the call; the functions of Day 1 count it with copies.
_SAVED_WORDS = CAUSE_IN_WORDS | {"waits": f"{CAUSE_IN_WORDS['waits']}, in copies too"}
_WORDS = {
    "gaps": "gap",
    "calls": "call",
    "stages": "range",
    "operators": "operator",
    "kernels": "kernel",
}
_OF_PAGES = {"kernels": "Kernels, mean of their launches"}
ALWAYS_SHOWN = ("time",)


def show_comparison(result: Compared) -> None:
    """Print two sides, what grew marked."""
    for label, side in (("before", result.before), ("after", result.after)):
        told = dim(f"  {_about(side)}") if _about(side) else ""
        click.echo(f"  {label:<6}  {bold(clean_text(side.name))}{told}")
    click.echo()
    _show_verdict(result)
    if change := main_change_text(result):
        click.echo(wrap(clean_text(change), "  "))
    for change in _finding_changes(result):
        click.echo(wrap(f"Main finding: {change}", "  "))
    for label, claim, evidence in _claims(result):
        click.echo(wrap(claim, "            ", f"    {label:<8}"))
        if evidence:
            click.echo(dim(wrap(evidence, "            ")))
    click.echo()
    head = f"    {'':<{width() - FIGURE_CELLS}} {'before':>10} {'after':>10} {'after÷before':>13}"
    click.echo(dim(head))
    titles = _GROUPS | (_OF_PAGES if not result.before.length_ns else {})
    left_out: list[Row] = []
    for group, title in titles.items():
        rows, hidden = _shown_on_screen(result, group)
        left_out += hidden
        if not rows:
            continue
        click.echo()
        note = _note(result, group)
        click.echo(bold(f"  {title}") + (dim(f"  {note}") if note else ""))
        for row in rows:
            _show_row(row)
            for counter in _changed_counters(result, row):
                click.echo(dim(_cells(counter, counter.what.rpartition(": ")[2], "      ")))
    if left_out:
        click.echo()
        more = and_more(left_out)
        told = f"{more}, CUDA calls and operators among them (all with --json)"
        click.echo(dim(wrap(told, "  ")))


def and_more(hidden: Sequence[Row]) -> str:
    """How many rows are left out, and how many of these grew."""
    grew = sum(row.grew for row in hidden)
    return f"and {len(hidden):,} more" + (f", {grew:,} of which grew" if grew else "")


def main_change_text(result: Compared) -> str:
    """What changed most of what fills the device's time, in one sentence; "" where nothing did."""
    if result.doubt or result.main_change is None:
        return ""
    row, share = result.main_change
    old, new = (format_ns(value or 0) for value in (row.before, row.after))
    name = f"{_WORDS[row.group]} {row.what}" if row.group in _WORDS else row.what
    return f"The largest part of the change ({share:.0%}): {name}, {old} to {new}"


def _shown(result: Compared, group: str) -> tuple[list[Row], list[Row]]:
    """The rows of a group to print, and those to leave out."""
    if group in NAMED:
        return named_rows(result.rows, group)
    rows = [row for row in result.rows if row.group == group]
    return [row for row in rows if group in ALWAYS_SHOWN or row.before or row.after], []


def _shown_on_screen(result: Compared, group: str) -> tuple[list[Row], list[Row]]:
    """The rows of a group to print, of what is named by what changed most, and those to leave out."""
    if not result.before.length_ns or group not in (*CHANGED, *HOST_NAMED):
        return _shown(result, group)
    rows = [row for row in result.rows if row.group == group and (row.before or row.after)]
    if group in HOST_NAMED:
        return [], rows
    changed = [
        row
        for row in rows
        if _change(row)
        > result.tolerance * (result.before.length_ns if row.unit == "ns" else row.before or 0)
    ]
    changed.sort(key=lambda row: (row.unit == "ns", -_change(row)))
    most = sum(row.unit != "ns" for row in changed) + MOST_CHANGED
    shown = changed[:most] + [row for row in changed[most:] if row.grew][:MOST_CHANGED]
    return shown, [row for row in rows if row not in shown]


def _change(row: Row) -> float:
    return abs((row.after or 0) - (row.before or 0))


def _note(result: Compared, group: str) -> str:
    """Which time a group of rows is about, where the title does not say it."""
    runs = [side.runs[0] for side in (result.before, result.after)]
    if group == "time" and runs[0].kind in (Kind.TRACE, Kind.TRACES) and runs[0].get("time", STEP):
        return "from the first to the last device operation of the steps"
    judged = [
        run.findings[""].evidence.get("window_ns") if "" in run.findings else None for run in runs
    ]
    if group == "saved" and None not in judged:
        return "of the time judged: {} and {}".format(*map(format_ns, judged))
    return ""


def _about(side: Side) -> str:
    window = f"window {format_ns(side.length_ns)}" if side.length_ns else ""
    return ", ".join(
        text for text in (clean_text(side.runs[0].conditions.get("device", "")), window) if text
    )


def _show_row(row: Row) -> None:
    mark = click.style("  grew", fg="yellow") if row.grew else ""
    mark = mark or (dim("  noise") if row.is_noise else "")
    name = _SAVED_WORDS.get(row.what, row.what) if row.group == "saved" else clean_text(row.what)
    click.echo((_cells(row, name, "    ") + mark).rstrip())
    if row.change:
        click.echo(dim(wrap(clean_text(row.change), "        ", "      ")))


def _cells(row: Row, name: str, indent: str) -> str:
    cells = [format_quantity(value, row.unit) for value in (row.before, row.after)]
    ratio = "" if row.ratio is None else format_ratio(row.ratio)
    room = width() - FIGURE_CELLS + 4 - len(indent)
    if row.group == "gaps" and ARROW in name and len(name) > room:
        before_gap, _, after_gap = name.partition(ARROW)
        half = max((room - len(ARROW)) // 2, room - len(ARROW) - len(after_gap))
        before_gap = cut(before_gap, half)
        name = f"{before_gap}{ARROW}{cut(after_gap, room - len(ARROW) - len(before_gap))}"
    return f"{indent}{cut(name, room):<{room}} {cells[0]:>10} {cells[1]:>10} {ratio:>13}"


def _changed_counters(result: Compared, kernel: Row) -> list[Row]:
    """The counters of a kernel that changed enough to be shown."""
    return [
        row
        for row in result.rows
        if row.group == "counters"
        and row.what.startswith(f"{kernel.what}: ")
        and row.ratio is not None
        and abs(row.ratio - 1) > SHOWN_CHANGE_PCT / 100
    ]


def _finding_changes(result: Compared) -> list[str]:
    """The main finding, or of pages each kernel's where it changed, with what each would save."""
    old, new = (side.runs[0].findings for side in (result.before, result.after))
    out = []
    for subject in dict.fromkeys([*old, *new]):
        found = [side.get(subject) for side in (old, new)]
        names = [finding.category if finding else "none" for finding in found]
        if subject and names[0] == names[1]:
            continue
        if not subject:
            names = [name_of_main(finding) if finding else "none" for finding in found]
        told = [
            _with_share(f) if subject and f else name for name, f in zip(names, found, strict=True)
        ]
        change = " → ".join(told) if names[0] != names[1] else f"{names[0]} before and after"
        out.append(f"{base_name(clean_text(subject))}: {change}" if subject else change)
    return out


def _with_share(finding: Finding) -> str:
    """A category, and the share that could be saved, if any."""
    ratio = finding.evidence.get("recoverable_ratio")
    return finding.category + (f" ({ratio:.0%})" if ratio else "")


def _claims(result: Compared) -> list[tuple[str, str, str]]:
    """The verdict on each side in words, and its main evidence, where there is one of the whole."""
    out = []
    for label, side in (("before", result.before), ("after", result.after)):
        run = side.runs[0]
        if run.claim:
            main = run.findings.get("")  # pages of kernels have one each, told where they changed
            told = finding_in_few_words(main, MOST_EVIDENCE) if main else ""
            evidence = f"{main.category}: {told}" if main else ""
            out.append((label, clean_text(run.claim), evidence))
    return out


def _show_verdict(result: Compared) -> None:
    colors = {"regression": "red", "faster": "green"}
    text = f"  {verdict_text(result)}"
    color = colors.get(result.verdict, "yellow" if result.doubt else None)
    click.echo(click.style(wrap(text.strip(), "  "), fg=color, bold=True))
    for note in result.notes:
        click.echo(wrap(clean_text(note), "    ", "  ! "))


def verdict_text(result: Compared) -> str:
    """The verdict in one sentence."""
    deciding = result.deciding
    if not deciding:
        return "Nothing to judge: the two hold nothing in common"
    first = max(deciding, key=lambda row: abs((row.ratio or 1) - 1))
    if len(deciding) == 1 and first.group == "time":
        ratio = first.ratio or 1.0
        times = f"{format_ns(first.before)} to {format_ns(first.after)}"
        if result.doubt:
            gate = "; the longer one fails as a gate" if result.is_regression else ""
            return f"These look like different programs: {result.doubt} ({times}{gate})"
        if first.what != "Window":
            times = f"{first.what}: {times}"
        noise = ""
        if first.interval is not None:
            low, high = first.interval
            if result.verdict == "faster":
                low, high = 1 / high, 1 / low
            noise = f"; 95 % interval {format_ratio(low)} to {format_ratio(high)}"
        if result.verdict == "regression":
            tolerance = f"tolerance {result.tolerance:.1%}"
            return f"Regression: {format_ratio(ratio)} as long ({times}{noise}; {tolerance})"
        if result.verdict == "faster":
            return f"{format_ratio(1 / ratio)} faster under the profiler ({times}{noise})"
        if first.is_noise:
            return f"No difference that these runs can show ({times}{noise})"
        return f"No change beyond the tolerance of {result.tolerance:.1%} ({times}{noise})"
    slower = [row for row in deciding if row.grew]
    ratio = result.window_ratio
    total = f"{format_ratio(ratio)} as long" if ratio > 1 else f"{format_ratio(1 / ratio)} faster"
    if abs(ratio - 1) <= result.tolerance:
        total = "as long as before"
    if result.verdict == "regression":
        worst = max(slower, key=lambda row: row.ratio or 0)
        return (
            f"Regression: {len(slower)} of {len(deciding)} kernels take longer, "
            f"{clean_text(worst.what, 50)} {format_ratio(worst.ratio)} "
            f"(tolerance {result.tolerance:.1%}); all together {total}"
        )
    if result.verdict == "faster":
        return f"No kernel takes longer; all {len(deciding)} together {total}"
    if result.verdict == "unclear":
        return "No difference that these runs can show"
    return f"No kernel changed beyond the tolerance of {result.tolerance:.1%}"


def show_pair(result: Compared, sections: Sequence[CaptureSection]) -> None:
    """Print a pair in a few lines: where the time went on one scale, the verdicts, how much faster."""
    from rich.console import Console

    print_time_bars(sections, Console(highlight=False, width=width()))
    click.echo()
    for label, section in zip(("before", "after"), sections, strict=True):
        name = section.findings[0].category
        color = "green" if name == "healthy" else "yellow"
        click.echo(f"  {label:<8}{click.style(name, fg=color, bold=True)}")
        click.echo(wrap(section.claim, "          "))
        click.echo(wrap(section.first, "            ", "          → "))
    _show_verdict(result)


# -- for a pull request ---------------------------------------------------------------------------


def markdown(result: Compared) -> Iterator[str]:
    """The comparison in Markdown: the verdict, then a table, details folded away."""
    yield f"**{_escape(verdict_text(result))}**"
    yield ""
    if change := main_change_text(result):
        yield _escape(change)
        yield ""
    yield f"before: {_code(result.before.name)} {_escape(_about(result.before))}  "
    yield f"after: {_code(result.after.name)} {_escape(_about(result.after))}"
    yield ""
    if changes := _finding_changes(result):
        yield "; ".join(_escape(change) for change in changes)
        yield ""
    for label, claim, evidence in _claims(result):
        yield f"- {label}: {_escape(claim)}" + "  " * bool(evidence)
        if evidence:
            yield f"  {_escape(evidence)}"
    if _claims(result):
        yield ""
    first = "time" if result.before.length_ns else "kernels"
    main = [row for row in result.rows if row.group == first or row.grew]
    main, hidden = main[:MARKDOWN_ROWS], main[MARKDOWN_ROWS:]
    yield from _table(main)
    if hidden:
        yield f"{and_more(hidden)} (all with `--json`)"
        yield ""
    details = [row for group in _GROUPS for row in _shown(result, group)[0] if row not in main]
    if details:
        yield "<details><summary>More</summary>"
        yield ""
        yield from _table(details)
        yield "</details>"
        yield ""
    for note in result.notes:
        yield f"- {_escape(note)}"


def _table(rows: Sequence[Row]) -> Iterator[str]:
    if not rows:
        return
    yield "| | before | after | after÷before | |"
    yield "|---|--:|--:|--:|---|"
    for row in rows:
        name = _escape(row.what)
        if row.group == "saved":
            name = _escape(f"saved without {_SAVED_WORDS.get(row.what, row.what)}")
        elif row.group in _WORDS and row.unit == "ns":
            name = f"{_WORDS[row.group]} {_code(row.what)}"
        cells = [format_quantity(value, row.unit) for value in (row.before, row.after)]
        ratio = "" if row.ratio is None else format_ratio(row.ratio)
        mark = "**grew**" if row.grew else "noise" if row.is_noise else ""
        change = ", ".join(text for text in (mark, _escape(row.change)) if text)
        yield f"| {name} | {cells[0]} | {cells[1]} | {ratio} | {change} |"
    yield ""


def _escape(text: str) -> str:
    """Text that Markdown and HTML take as it is: names come from the program that was profiled."""
    out = clean_text(text)
    for char in "\\`*_{}[]<>#|":
        out = out.replace(
            char, f"\\{char}" if char not in "<>" else {"<": "&lt;", ">": "&gt;"}[char]
        )
    return out


def _code(text: str) -> str:
    return f"`{clean_text(text, 120).replace('`', chr(39)).replace('|', '¦')}`"
