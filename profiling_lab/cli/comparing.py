"""`lab compare`: two captures of the same work, side by side."""

from __future__ import annotations

import json

import click

from profiling_lab.cli.options import against_option, range_option
from profiling_lab.cli.pages import section
from profiling_lab.cli.printing import about, cut
from profiling_lab.cli.running import diagnosed, not_shown
from profiling_lab.cli.screen import bold, dim, width, wrap
from profiling_lab.compare import CAUSES, SHOWN_KERNELS, TOLERANCE, Compared, Row
from profiling_lab.compare import compare as compare_diagnoses
from profiling_lab.functions import functions_if_any
from profiling_lab.units import format_ns, format_quantity, format_ratio, format_share


@click.command()
@click.argument("before")
@click.argument("after")
@against_option
@range_option
@click.option(
    "--tolerance",
    type=click.FloatRange(0),
    default=TOLERANCE,
    show_default=True,
    help="By how much the window may grow, as a share of the window before.",
)
@click.option("--json", "as_json", is_flag=True, help="Print all rows as JSON.")
def compare(
    before: str,
    after: str,
    against: str | None,
    nvtx_range: str | None,
    tolerance: float,
    as_json: bool,
) -> int:
    """Two captures of the same work side by side.

    Window, busy and idle time, causes, copies, and the total of every kernel. Exits with 1 if the
    window got longer by more than the tolerance; other times that grew by more than that share of
    the window are marked, as the places to look at.

    \b
      uv run lab compare torch_inference_baseline torch_inference_improved
      uv run lab compare main.sqlite branch.sqlite --tolerance 0.05
    """
    functions, why = functions_if_any("timeline", against)
    (first, second) = (diagnosed(name, functions, nvtx_range) for name in (before, after))
    result = compare_diagnoses(first, second, tolerance=tolerance)
    if as_json:
        click.echo(json.dumps(result.to_dict(), indent=2, ensure_ascii=False))
    else:
        show_comparison(result)
        for sentence in not_shown((first, second), functions, why):
            click.echo()
            click.echo(dim(wrap(f"Not shown: {sentence}", "  ")))
    return 1 if result.is_regression else 0


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
    click.echo(f"  before  {bold(result.before.name)}" + dim(f"  {about(result.before)}"))
    click.echo(f"  after   {bold(result.after.name)}" + dim(f"  {about(result.after)}"))
    click.echo()
    click.echo(dim(f"    {'':<34} {'before':>10} {'after':>10} {'after÷before':>13}"))


def _show_row(row: Row) -> None:
    from profiling_lab.reports.model import clean_text

    name = CAUSES.get(row.what, row.what) if row.group == "saved" else clean_text(row.what)
    before = format_quantity(row.before, row.unit)
    after = format_quantity(row.after, row.unit)
    ratio = "" if row.ratio is None else format_ratio(row.ratio)
    mark = click.style("  grew", fg="yellow") if row.grew else ""
    click.echo(f"    {cut(name, 34):<34} {before:>10} {after:>10} {ratio:>13}{mark}")


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
