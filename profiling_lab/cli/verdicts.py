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
    show_finding,
    show_list,
    show_others,
    show_table,
)
from profiling_lab.cli.screen import bar, bold, dim, width, wrap
from profiling_lab.errors import LabError
from profiling_lab.findings import CATEGORIES, Finding
from profiling_lab.units import format_ns, format_share

if TYPE_CHECKING:
    from profiling_lab.captures import Part
    from profiling_lab.diagnosis.engine import Seen, Verdict

MOST_KERNELS = 5
MOST_LAUNCHES = 12
# A share that closer verdicts agree on: recordings of one program differ by as much.
SAME_RATIO = 0.02
_UNEXPLAINED = re.compile(r"unexplained\s*=\s*([\d.]+)\s*(%?)")


def judge(run: Sequence[Part], nvtx_range: str | None) -> Verdict:
    """The engine's verdict. Raises LabError where the engine was left out of the course."""
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


def show(title: str, verdict: Verdict) -> None:
    """Print a verdict: findings, the two tables, the kernels, and what it rests on."""
    from profiling_lab.diagnosis import headline
    from profiling_lab.reports.model import clean_text

    about = f"window {format_ns(verdict.seen[0].spent[0].length_ns)}" if verdict.seen else "kernels"
    click.echo(bold(clean_text(title)) + dim(f"  {about}"))
    click.echo(click.style(wrap(headline.of(verdict)), bold=True))
    click.echo()
    show_finding(verdict.findings[0])
    if verdict.begin_with:
        begin = next(f for f in verdict.findings if f.category == verdict.begin_with)
        text = f"begin with {begin.category}: less effort, and {finding_in_few_words(begin)}"
        click.echo(wrap(text, "    ", "  → "))
    show_others(verdict.findings[1:])
    click.echo()
    _show_run(verdict)
    _show_kernels(verdict)
    show_list("What this rests on, and what it lacks", verdict.rests_on)


def _show_run(verdict: Verdict) -> None:
    from profiling_lab.diagnosis import advice, contributors
    from profiling_lab.reports.model import clean_text

    if not verdict.seen:
        return
    for number, one in enumerate(verdict.seen):
        _show_spent(one, f"rank {number}, " if len(verdict.seen) > 1 else "")
    seen = verdict.seen[0]
    length = seen.spent[0].length_ns
    show_table("What would be saved without …", advice.saved_rows(seen), length)
    kernels = contributors.kernels(seen.recording, seen.window_ns, MOST_KERNELS)
    show_table("Kernels", [(clean_text(k["name"]), k["total_ns"]) for k in kernels], length)


def _show_kernels(verdict: Verdict) -> None:
    """The launches on pages of kernels: how full their fullest unit is, and how far it is to a peak."""
    from profiling_lab.diagnosis import contributors, kernels
    from profiling_lab.reports.model import clean_text

    longest = sorted(verdict.kernels, key=lambda one: -(one.kernel.duration_ns or 0))
    if not longest:
        return
    click.echo(bold("  How full units were"))
    for one in longest[:MOST_LAUNCHES]:
        name = clean_text(contributors.short(one.kernel.name))
        cells = max(5, min(15, width() - 84))
        unit = f"{kernels.WORDS.get(one.unit, 'not recorded')} {one.ceiling_ratio:.0%}"
        figures = (
            f"{format_ns(round(one.kernel.duration_ns or 0)):>9}  {bar(one.ceiling_ratio, cells)}"
        )
        room = f"to a peak {one.headroom_ratio:.0%}" if one.class_ else ""
        click.echo(f"    {cut(name, 28):<28} {figures}  {cut(unit, 30):<30} {room}".rstrip())
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
    """Print the engine's verdict beside the learner's: where they part, and by how much."""
    main = verdict.findings[0]
    click.echo()
    click.echo(bold("  The engine beside it"))
    if not own:
        click.echo(wrap(f"{main.category}, {finding_in_few_words(main)}", "    "))
        return
    mine = own[0]
    both = (mine.category, main.category)
    shares = [f.evidence.get("recoverable_ratio") for f in (mine, main)]
    for name, finding in (("yours", mine), ("engine", main)):
        click.echo(
            wrap(
                f"{finding.category}, {finding_in_few_words(finding)}",
                "            ",
                f"    {name:<8}",
            )
        )
    apart = abs(shares[0] - shares[1]) if None not in shares else None  # type: ignore[operator]
    if CATEGORIES[main.category].parent == mine.category:
        text = f"They agree: {main.category} is the narrower name of {mine.category}"
    elif both[0] != both[1]:
        text = f"They part: {_why(verdict, mine, main)}"
    elif apart is not None and apart > SAME_RATIO:
        text = f"They agree on the category, and part by {apart:.1%} of the window"
    else:
        text = "They agree"
    click.echo(wrap(text, "    "))


def _why(verdict: Verdict, mine: Finding, main: Finding) -> str:
    """Which refinement of the engine makes the difference."""
    if not verdict.seen:
        room = main.evidence["headroom_ratio"]
        return f"the engine saves {finding_in_few_words(main)}, and is {room:.0%} from the nearest peak"
    seen = verdict.seen[0]
    if mine.category == "healthy":
        return (
            f"{seen.lost_ns / seen.judged_ns:.1%} is idle or exposed, and the engine says healthy only where "
            "that stays under a tenth"
        )
    if main.category == "transfer_bound":
        return "the engine counts exposed copies whether or not they can be hidden"
    if main.category == "healthy" and seen.setup_ns:
        return f"{format_ns(seen.setup_ns)} were set-up, which the engine does not judge"
    if main.category in ("communication_bound", "rank_imbalance", "pipeline_bubble"):
        return (
            "the engine tells waiting that all ranks share from a rank that is late again and again"
        )
    return (
        f"the engine saves {finding_in_few_words(main)} without {CATEGORIES[main.category].words}"
    )


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
