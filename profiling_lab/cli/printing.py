"""Diagnoses, findings and comparisons as text on the screen."""

from __future__ import annotations

import sys

import click

from profiling_lab.cli.pages import section
from profiling_lab.cli.screen import LAB, bar, bold, dim, width, wrap
from profiling_lab.compare import CAUSES, SHOWN_KERNELS, Compared, Row
from profiling_lab.diagnosis import Diagnosis, cannot_show, largest
from profiling_lab.findings import CATEGORIES, Finding
from profiling_lab.functions import Functions
from profiling_lab.units import evidence, format_ns, format_quantity, format_ratio, format_share


def show_diagnosis(diagnosis: Diagnosis, functions: Functions | None) -> None:
    """Print one diagnosis: finding, evidence, time, gaps, waits, and what cannot be seen."""
    from profiling_lab.reports.model import clean_text

    finding = diagnosis.finding
    click.echo(bold(clean_text(diagnosis.name)) + dim(f"  {_about(diagnosis)}"))
    click.echo()
    if finding is not None:
        _show_finding(finding)
    else:
        click.echo(wrap(f"no finding: {why_not(diagnosis, 'name_bottleneck')}", "  "))
    click.echo()
    _show_time(diagnosis)
    _show_gaps(diagnosis)
    _show_table(
        "Host time in blocking calls",
        [(clean_text(name), ns) for name, ns in largest(diagnosis.blocking_ns)],
        diagnosis.length_ns,
    )
    _show_table(
        "What would be saved without …",
        [
            (CAUSES.get(name, clean_text(name)), ns)
            for name, ns in largest(diagnosis.recoverable_ns)
        ],
        diagnosis.length_ns,
    )
    if lines := cannot_show(diagnosis.capture):
        click.echo(bold("  This capture cannot show"))
        for line in lines:
            click.echo(wrap(line, "    ", "  - "))
    if diagnosis.unanswered:
        click.echo()
        click.echo(bold("  Without an answer"))
        tasks = functions.tasks if functions is not None else {}
        for sentence in diagnosis.explain_unanswered(tasks):
            click.echo(wrap(sentence, "    ", "  - "))
        first = next((name for name in diagnosis.unanswered if name in diagnosis.todo), None)
        if first in tasks:
            text = f"Write {first} next: {LAB} hint {tasks[first]}; or see all that the reference "
            click.echo(wrap(f"{text}finds with --against solutions", "  "))


def show_findings(
    title: str, findings: list[Finding], why: str, functions: Functions, asked: str
) -> None:
    """Print the findings of a capture of kernels or a trace."""
    from profiling_lab.reports.model import clean_text

    click.echo(bold(clean_text(title)))
    for finding in findings:
        click.echo()
        _show_finding(finding)
    if why:
        click.echo()
        click.echo(wrap(f"no finding: {why}", "  "))
        if task := functions.tasks.get(asked):
            text = f"{LAB} hint {task}; or see what the reference finds with --against solutions"
            click.echo(wrap(text, "  "))


def _show_finding(finding: Finding) -> None:
    from profiling_lab.reports.model import clean_text

    nothing_to_do = finding.category == "healthy" or finding.recommendation == "none"
    name = click.style(finding.category, fg="green" if nothing_to_do else "yellow", bold=True)
    click.echo(f"  {name}  {clean_text(finding.subject)}")
    click.echo(wrap(CATEGORIES[finding.category].definition, "  "))
    for key, value in finding.evidence.items():
        what, value, unit = evidence(key, value)
        click.echo(f"    {clean_text(what):<20} {format_quantity(value, unit):>10}")
    if finding.recommendation != "none":
        click.echo(wrap(clean_text(finding.recommendation), "    ", "  → "))


def _about(diagnosis: Diagnosis) -> str:
    names = {diagnosis.device_name(device) for device in diagnosis.devices} - {""}
    parts = [", ".join(sorted(names)), f"window {format_ns(diagnosis.length_ns)}"]
    if diagnosis.nvtx_range is not None:
        parts.append(f"range {diagnosis.nvtx_range}")
    return ", ".join(part for part in parts if part)


def _show_time(diagnosis: Diagnosis) -> None:
    if diagnosis.busy_ns is None or diagnosis.window_ns is None:
        return
    click.echo(bold("  Where the time went"))
    for device in diagnosis.devices:
        idle = diagnosis.idle_ns(device)
        if idle is None:
            continue
        busy = diagnosis.busy_ns[device]
        share = busy / diagnosis.length_ns
        label = f"device {device}"
        text = f"busy {format_share(busy, diagnosis.length_ns)}, idle {format_ns(idle)}"
        cells = max(10, width() - len(label) - len(text) - 8)
        click.echo(f"    {label}  {bar(share, cells)}  {text}")
        shares = diagnosis.shares(device)
        if len(shares) > 2:
            for name, ns, _ in shares:
                figures = f"{format_ns(ns):>9} {format_share(ns, diagnosis.length_ns):>7}"
                click.echo(f"      {name:<30} {figures}")
        active = (diagnosis.active or {}).get(device)
        if active:
            click.echo(
                wrap(
                    f"while kernels ran for {active['busy_ratio']:.1%} of the window, SMs were "
                    f"active for {active['sm_active_ratio']:.1%} on average and DRAM was used at "
                    f"{active['dram_ratio']:.1%}",
                    "      ",
                )
            )
    if diagnosis.overhead_ns:
        text = f"the profiler itself was at work for {format_ns(diagnosis.overhead_ns)} of it"
        click.echo(f"    {text}")
    click.echo()


def _show_gaps(diagnosis: Diagnosis) -> None:
    gaps = diagnosis.largest_gaps()
    if not gaps or diagnosis.window_ns is None:
        return
    assert diagnosis.gaps is not None
    several = len(diagnosis.devices) > 1
    click.echo(bold("  Largest gaps") + dim(f"  of {len(diagnosis.gaps)}; from the window's start"))
    for gap in gaps:
        start = gap["start_ns"] - diagnosis.window_ns[0]
        length = gap["end_ns"] - gap["start_ns"]
        device = f"device {gap['device']}  " if several else ""
        click.echo(f"    {device}{format_ns(length):>9}  at {format_ns(start)}")
    click.echo()


def _show_table(title: str, rows: list[tuple[str, int]], window_ns: int) -> None:
    if not rows:
        return
    click.echo(bold(f"  {title}"))
    for name, ns in rows:
        share = f"{format_share(ns, window_ns):>7} of the window"
        click.echo(f"    {_cut(name, 30):<30} {format_ns(ns):>9} {share}")
    click.echo()


def why_not(diagnosis: Diagnosis, name: str) -> str:
    return diagnosis.unanswered.get(name, f"{name} gave no answer")


def _cut(text: str, room: int) -> str:
    mark = "…" if len(text) > room else ""
    return text[: room - len(mark)] + mark


_GROUPS = {
    "time": "Time",
    "host": "Host",
    "copies": "Copies",
    "saved": "What would be saved without …",
    "kernels": "Kernels, total of each name",
}


def show_comparison(result: Compared) -> None:
    """Print two captures side by side, what grew marked."""
    _show_head(result)
    for group, title in _GROUPS.items():
        rows = [row for row in result.rows if row.group == group]
        if group != "time":
            rows = [row for row in rows if row.before or row.after]
        if not rows:
            continue
        click.echo()
        click.echo(bold(f"  {title}"))
        hidden = []
        if group == "kernels":
            counts = [row for row in rows if row.unit == "count"]
            times = [row for row in rows if row.unit != "count"]
            rows, hidden = counts + times[:SHOWN_KERNELS], times[SHOWN_KERNELS:]
            rows += [row for row in hidden if row.grew]
            hidden = [row for row in hidden if not row.grew]
        for row in rows:
            _show_row(row)
        if hidden:
            click.echo(dim(f"    and {len(hidden)} more names (all with --json)"))
    click.echo()
    _show_verdict(result)


def show_pair(result: Compared) -> None:
    """Print a pair in a few lines: where the time went on one scale, the findings, how much faster."""
    from rich.console import Console

    from profiling_lab.reports.terminal import print_time_bars

    pair = (("before", result.before), ("after", result.after))
    console = Console(highlight=False, width=width())
    print_time_bars([section(diagnosis) for _, diagnosis in pair], console)
    click.echo()
    for label, diagnosis in pair:
        finding = diagnosis.finding
        if finding is None:
            continue
        color = "green" if finding.category == "healthy" else "yellow"
        saved = finding.evidence.get("recoverable_ns")
        text = ""
        if saved is not None:
            share = format_share(saved, diagnosis.length_ns)
            most = "at most " if finding.category == "healthy" else ""
            text = f"{most}{format_ns(saved)} ({share}) could be saved"
        name = click.style(finding.category, fg=color, bold=True)
        click.echo(f"  {label:<8}{name}  {text}")
        if finding.recommendation != "none":
            click.echo(wrap(finding.recommendation, "            ", "          → "))
    _show_verdict(result)


def _show_head(result: Compared) -> None:
    click.echo(f"  before  {bold(result.before.name)}" + dim(f"  {_about(result.before)}"))
    click.echo(f"  after   {bold(result.after.name)}" + dim(f"  {_about(result.after)}"))
    click.echo()
    click.echo(dim(f"    {'':<34} {'before':>10} {'after':>10} {'after÷before':>13}"))


def _show_row(row: Row) -> None:
    from profiling_lab.reports.model import clean_text

    name = CAUSES.get(row.what, row.what) if row.group == "saved" else clean_text(row.what)
    before = format_quantity(row.before, row.unit)
    after = format_quantity(row.after, row.unit)
    ratio = "" if row.ratio is None else format_ratio(row.ratio)
    mark = click.style("  grew", fg="yellow") if row.grew else ""
    click.echo(f"    {_cut(name, 34):<34} {before:>10} {after:>10} {ratio:>13}{mark}")


def _show_verdict(result: Compared) -> None:
    ratio = result.window_ratio
    times = f"{format_ns(result.before.length_ns)} to {format_ns(result.after.length_ns)}"
    if result.is_regression:
        text = f"Regression: {format_ratio(ratio)} as long ({times}; tolerance "
        click.echo(click.style(f"  {text}{result.tolerance:.1%})", fg="red", bold=True))
    elif ratio < 1 - result.tolerance:
        text = f"  {format_ratio(1 / ratio)} faster ({times})"
        click.echo(click.style(text, fg="green", bold=True))
    else:
        click.echo(bold(f"  No change beyond the tolerance of {result.tolerance:.1%} ({times})"))
    for note in result.notes:
        click.echo(wrap(note, "    ", "  ! "))


def show_title(title: str) -> None:
    """Print a title with a line to the end of the screen."""
    line = "─" if sys.stdout.encoding and sys.stdout.encoding.lower().startswith("utf") else "-"
    click.echo(bold(title) + " " + dim(line * (width() - len(title) - 1)))
