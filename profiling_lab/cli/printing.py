"""Diagnoses, findings and comparisons as text on the screen."""

from __future__ import annotations

import sys

import click

from profiling_lab.cli.screen import LAB, bar, bold, dim, width, wrap
from profiling_lab.compare import CAUSES
from profiling_lab.diagnosis import Diagnosis, cannot_show, largest
from profiling_lab.findings import CATEGORIES, Finding
from profiling_lab.functions import Functions
from profiling_lab.units import evidence, format_ns, format_quantity, format_share


def show_diagnosis(diagnosis: Diagnosis, functions: Functions | None) -> None:
    """Print one diagnosis: finding, evidence, time, gaps, waits, and what cannot be seen."""
    from profiling_lab.reports.model import clean_text

    finding = diagnosis.finding
    click.echo(bold(clean_text(diagnosis.name)) + dim(f"  {about(diagnosis)}"))
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


def about(diagnosis: Diagnosis) -> str:
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
        click.echo(f"    {cut(name, 30):<30} {format_ns(ns):>9} {share}")
    click.echo()


def why_not(diagnosis: Diagnosis, name: str) -> str:
    return diagnosis.unanswered.get(name, f"{name} gave no answer")


def cut(text: str, room: int) -> str:
    mark = "…" if len(text) > room else ""
    return text[: room - len(mark)] + mark


def show_title(title: str) -> None:
    """Print a title with a line to the end of the screen."""
    line = "─" if sys.stdout.encoding and sys.stdout.encoding.lower().startswith("utf") else "-"
    click.echo(bold(title) + " " + dim(line * (width() - len(title) - 1)))
