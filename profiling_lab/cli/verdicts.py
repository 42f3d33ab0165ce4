"""The engine's verdict as text on the screen, and beside what the learner's functions say."""

from __future__ import annotations

import importlib
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from profiling_lab.cli.printing import (
    cut,
    finding_in_few_words,
    name_of_main,
    show_finding,
    show_list,
    show_others,
    show_places,
    show_table,
)
from profiling_lab.cli.screen import bar, bold, dim, width, wrap
from profiling_lab.course import cases
from profiling_lab.errors import LabError
from profiling_lab.findings import OVERLAP, Finding, base_name, readable
from profiling_lab.mine import parting
from profiling_lab.reports.model import clean_text
from profiling_lab.units import format_ns, format_share

# Imported late: a course may come without the engine, and so without the modules that it alone rests on.

if TYPE_CHECKING:
    from profiling_lab.analysis.measures import Run
    from profiling_lab.captures import Part
    from profiling_lab.diagnosis.engine import Seen, Verdict

MOST_SHOWN = 5
MOST_LAUNCHES = 12
_UNEXPLAINED = re.compile(r"unexplained\s*=\s*([\d.]+)\s*(%?)")


def judge(run: Sequence[Part], nvtx_range: str | None) -> Verdict:
    """The engine's verdict. Raises LabError where it was left out of the course, or is the learner's to find."""
    cases.refuse(part.path for part in run)
    return engine().judge(run, nvtx_range)


def engine() -> Any:
    """The engine. Raises LabError where it was left out of the course."""
    try:
        return importlib.import_module("profiling_lab.diagnosis.engine")
    except ModuleNotFoundError as error:
        if error.name != "profiling_lab.diagnosis.engine":
            raise
        raise LabError(
            "this course comes without the engine; your own functions answer with --mine"
        ) from None


def measured(part: Part, verdict: Verdict) -> Run:
    """The numbers of a capture, with the engine's verdict on it."""
    from profiling_lab.analysis import measured_runs

    return measured_runs.of_verdict(part, verdict)


def places(verdict: Verdict, finding: Finding) -> list[str]:
    """Where on the timeline a finding can be seen."""
    from profiling_lab.diagnosis import where

    return where.of(verdict.seen[0], finding) if verdict.seen else []


def show(title: str, verdict: Verdict, report: str) -> None:
    """Print a verdict: findings, the two tables, what took the time by name, and what it rests on.

    report: the command that draws it, "" where there is none.
    """
    from profiling_lab.diagnosis import contributors

    about = f"window {format_ns(verdict.seen[0].spent[0].length_ns)}" if verdict.seen else "kernels"
    if verdict.seen and (
        ns := contributors.outside_ns(verdict.seen[0].recording, verdict.seen[0].window_ns)
    ):
        about += f"; {format_ns(ns)} of the recording are outside it"
    fits = len(title) + 2 + len(about) <= width()
    click.echo(bold(clean_text(title)) + ("  " if fits else "\n  ") + dim(about))
    click.echo(click.style(wrap(verdict.headline), bold=True))
    click.echo()
    show_finding(verdict.findings[0])
    if verdict.begin_with:
        begin = next(f for f in verdict.findings if f.category == verdict.begin_with)
        text = f"begin with {begin.category}: less effort, and {finding_in_few_words(begin)}"
        click.echo(wrap(text, "    ", "  → "))
    if found := places(verdict, verdict.findings[0]):
        show_places(found, report)
    show_others(verdict.findings)
    click.echo()
    _show_run(verdict)
    _show_kernels(verdict)
    show_list("What this rests on, and what it lacks", verdict.rests_on)


def _show_run(verdict: Verdict) -> None:
    from profiling_lab.diagnosis import advice, contributors

    if not verdict.seen:
        return
    for number, one in enumerate(verdict.seen):
        _show_spent(one, f"rank {number}, " if len(verdict.seen) > 1 else "")
    seen = verdict.seen[0]
    length = seen.spent[0].length_ns
    of = "of what was judged" if seen.setup_ns else "of the window"
    show_table("What would be saved without …", advice.saved_rows(seen), seen.judged_ns, of)
    found = contributors.of(seen, MOST_SHOWN)
    _show_steps(found["steps"])
    kernels = [
        (readable(row["name"]), row["total_ns"], row["count"], row["mean_ns"])
        for row in found["kernels"]
    ]
    _show_by_name("Kernels", "all launches of a name", kernels, length)
    for key, title, note in (
        ("operators", "Operators", "device time of what each launched itself"),
        ("modules", "Modules", "device time of what was launched in their forward pass"),
        ("ranges", "Ranges", "device time of what their thread launched in them"),
    ):
        own = "own_device_ns" if key == "operators" else "device_ns"
        rows = [
            (row["name"], row[own], row["count"], row[own] / max(1, row["count"]))
            for row in found[key]
            if row[own]
        ]
        _show_by_name(title, note, sorted(rows, key=lambda row: -row[1]), length)
    _show_shapes(found["shapes"])


def _show_by_name(
    title: str, note: str, rows: Sequence[tuple[str, int, int, float]], length: int
) -> None:
    """rows: name, total in ns, how often, mean in ns."""
    if not rows:
        return
    room = max(20, min(60, width() - 46))
    click.echo(bold(f"  {title}") + dim(f"  {note}"))
    click.echo(dim(f"    {'':<{room}} {'total':>9} {'share':>7} {'count':>9} {'mean':>9}"))
    for name, total, count, mean in rows:
        figures = f"{format_ns(total):>9} {format_share(total, length):>7} {count:>9,} {format_ns(mean):>9}"
        click.echo(f"    {cut(clean_text(name), room):<{room}} {figures}")
    if any(total > length for _, total, _, _ in rows):
        click.echo(dim(wrap(OVERLAP, "    ")))
    click.echo()


def _show_steps(steps: dict[str, Any]) -> None:
    if not steps:
        return
    text = (
        f"{steps['count']} ({clean_text(steps['name'])}): mean {format_ns(steps['mean_ns'])}, standard deviation "
        f"{format_ns(steps['stdev_ns'])}; the slowest is number {steps['slowest']} with {format_ns(steps['slowest_ns'])}"
    )
    click.echo(wrap(text, "         ", "  Steps  "))
    click.echo()


def _show_shapes(shapes: Sequence[dict[str, Any]]) -> None:
    """What operators reached, by shape, where their work is known."""
    known = [row for row in shapes if "flops_per_s" in row or "bytes_per_s" in row]
    if not known:
        return
    room = max(20, min(60, width() - 46))
    click.echo(bold("  By shape") + dim("  work by the shapes, with the roofs of the device"))
    click.echo(
        dim(f"    {'':<{room}} {'mean':>9} {'TFLOP/s':>8} {'roof':>5} {'TB/s':>6} {'roof':>5}")
    )
    for row in known:
        name = f"{row['name'].removeprefix('aten::')} ({row['shape']})"
        cells = [
            "" if row.get(key) is None else text.format(row[key] * by)
            for key, by, text in (
                ("flops_per_s", 1e-12, "{:.1f}"),
                ("flops_ratio", 1, "{:.0%}"),
                ("bytes_per_s", 1e-12, "{:.2f}"),
                ("bytes_ratio", 1, "{:.0%}"),
            )
        ]
        figures = f"{format_ns(row['mean_ns']):>9} {cells[0]:>8} {cells[1]:>5} {cells[2]:>6} {cells[3]:>5}"
        click.echo(f"    {cut(clean_text(name), room):<{room}} {figures}")
    click.echo()


def _show_kernels(verdict: Verdict) -> None:
    """The launches on pages of kernels: how full their fullest unit is, and how far it is to a peak."""
    from profiling_lab.diagnosis import kernels

    longest = sorted(verdict.kernels, key=lambda one: -(one.kernel.duration_ns or 0))
    if not longest:
        return
    click.echo(bold("  How full units were"))
    for one in longest[:MOST_LAUNCHES]:
        name = clean_text(base_name(one.kernel.name))
        cells, room = max(5, min(15, width() - 80)), max(20, min(28, width() - 60))
        unit = f"{one.ceiling_ratio:.0%} {kernels.WORDS.get(one.unit, 'not recorded')}"
        figures = (
            f"{format_ns(round(one.kernel.duration_ns or 0)):>9}  {bar(one.ceiling_ratio, cells)}"
        )
        peak = f"to a peak {one.headroom_ratio:.0%}" if one.class_ else ""
        click.echo(f"    {cut(name, room):<{room}} {figures}  {cut(unit, 22):<22} {peak}".rstrip())
    if len(longest) > MOST_LAUNCHES:
        click.echo(dim(f"    and {len(longest) - MOST_LAUNCHES} more launches"))
    click.echo()


def _show_spent(seen: Seen, prefix: str) -> None:
    from profiling_lab.diagnosis import advice

    click.echo(bold("  Where the time went"))
    for label, rows in advice.table(seen):
        click.echo(f"    {prefix}{label}")
        length = seen.spent[0].length_ns
        for name, ns in rows:
            if ns < 0.0005 * length:
                continue
            figures = f"{format_ns(ns):>9} {format_share(ns, length):>7}"
            cells = max(10, min(30, width() - 56))
            click.echo(f"      {cut(name, 24):<24} {figures}  {bar(ns / length, cells)}")
    click.echo()


def show_beside(verdict: Verdict, own: Sequence[Finding]) -> None:
    """Print the engine's verdict beside the learner's: where they part, by how much, why, and where that is taught."""
    main = verdict.findings[0]
    click.echo()
    click.echo(bold("  What the engine says"))
    if not own:
        told = finding_in_few_words(main, of_window=bool(verdict.seen))
        click.echo(wrap(f"{name_of_main(main)}, {told}", "    "))
        return
    if not verdict.seen and len(own) > 1:
        _show_kernels_beside(verdict, own)
    for name, finding in (("yours", own[0]), ("engine", main)):
        text = f"{name_of_main(finding)}, {finding_in_few_words(finding, of_window=bool(verdict.seen))}"
        click.echo(wrap(text, "            ", f"    {name:<8}"))
    found = parting.of(verdict, own[0])
    click.echo(wrap(found.says, "    "))
    if found.lesson is not None:
        click.echo(wrap(f"taught in {found.lesson}", "      ", "    → "))


def _show_kernels_beside(verdict: Verdict, own: Sequence[Finding]) -> None:
    """A table of both verdicts on each kernel, and the gain that the learner's functions expect."""
    engine = {one.subject: one.category for one in verdict.findings}
    room = max(20, width() - 60)
    click.echo(dim(f"    {'kernel':<{room}}  {'yours':<19} {'engine':<19} expected gain"))
    for one in list({one.subject: one for one in own}.values())[:MOST_LAUNCHES]:
        name = cut(clean_text(base_name(one.subject.partition(":")[2])), room)
        left = 1 - one.evidence["recoverable_ratio"]
        gain = f"{1 / left:.2f}×" if left > 0 else ""
        said = f"{one.category:<19} {engine.get(one.subject, ''):<19}"
        click.echo(f"    {name:<{room}}  {said} {gain:>13}")
    click.echo()


def as_data(verdicts: Sequence[tuple[str, Verdict]]) -> dict[str, Any]:
    """One verdict as an object; of several an object that holds them."""
    rows = [verdict.to_dict() | {"file": title} for title, verdict in verdicts]
    if len(rows) == 1:
        return rows[0]
    return {
        "schema_version": rows[0]["schema_version"],
        "tool_version": rows[0]["tool_version"],
        "runs": rows,
    }


def unexplained_limit(fail_on: Sequence[str]) -> tuple[list[str], float | None]:
    """--fail-on without a share of unexplained time ("unexplained=5%"), and that share."""
    rest, limit = [], None
    for text in fail_on:
        kept = []
        for word in text.split(","):
            if found := _UNEXPLAINED.fullmatch(word.strip()):
                limit = float(found[1]) / (100 if found[2] else 1)
            else:
                kept.append(word)
        rest.append(",".join(kept))
    return rest, limit


def unexplained_ratio(verdict: Verdict) -> float:
    """The largest share that nothing recorded explains: of a device's window, or of kernels' time."""
    from profiling_lab.analysis.spent import UNEXPLAINED

    of_kernels = [
        one.kernel.duration_ns or 0.0 for one in verdict.kernels if verdict.seen or one.class_
    ]
    whole = sum(one.kernel.duration_ns or 0.0 for one in verdict.kernels)
    shares = [
        one.classes[UNEXPLAINED] / one.length_ns for seen in verdict.seen for one in seen.spent
    ]
    return max([*shares, 1 - sum(of_kernels) / whole if whole else 0.0])
