"""Diagnoses, findings and comparisons as text on the screen."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import click

from profiling_lab.cli.screen import LAB, bar, bold, dim, width, wrap
from profiling_lab.course import manifest
from profiling_lab.errors import CourseError
from profiling_lab.findings import (
    CATEGORIES,
    CAUSE_IN_WORDS,
    Finding,
    is_below_floor,
    is_borderline,
    is_bound,
)
from profiling_lab.mine.diagnosis import Busy, Diagnosis, largest
from profiling_lab.mine.functions import EXERCISES
from profiling_lab.mine.questions import RANK_FUNCTIONS
from profiling_lab.reports.model import clean_text, evidence_of, grouped, short_subject
from profiling_lab.units import format_ns, format_quantity, format_share

if TYPE_CHECKING:
    from profiling_lab.mine.asking import Verdict


MOST_OTHERS = 8  # findings below the second that are named
MOST_MEMBERS = 4  # of equal findings
MOST_CHARACTERS = 2000  # of a sentence


def show_verdict(
    title: str,
    verdict: Verdict,
    limits: Sequence[str],
    places: Sequence[str],
    report: str,
    devices: Sequence[Busy] = (),
    beside: Callable[[], None] | None = None,
) -> None:
    """Print what was found in one run: the findings, where the time went, and what cannot be seen.

    limits: what the captures cannot show. places: where to look for the main finding. report: the
    command that draws it. devices: all that worked, as far as it is known for how long. beside: prints
    another verdict right below the findings.
    """
    facts = "; ".join(about(diagnosis) for diagnosis in verdict.diagnoses)
    click.echo(bold(clean_text(title)) + dim(f"  {facts}" if facts else ""))
    if verdict.unjudged:
        click.echo("as far as could be judged: not whether ranks wait for each other (see →)")
    click.echo()
    if verdict.findings:
        show_finding(verdict.findings[0])
        if places:
            show_places(places, report)
        show_others(verdict.findings)
        said = verdict.optional.union(RANK_FUNCTIONS if verdict.unjudged else ())
        names = ", ".join(name for name in verdict.unanswered if name not in said)
        if verdict.findings[0].category == "healthy" and names:
            click.echo()
            click.echo(wrap(f"as far as could be asked: no answer from {names} (see below)", "  "))
    else:
        click.echo(wrap("no finding yet: no function that gives one has an answer", "  "))
    if beside is not None:
        beside()
    click.echo()
    for diagnosis in verdict.diagnoses:
        _show_details(diagnosis)
    _show_steps([device for device in devices if device.steps])
    several = len(verdict.diagnoses) > 1 or " + " in title
    show_list("These captures cannot show" if several else "This capture cannot show", limits)
    _show_unanswered(verdict)


def _show_steps(devices: Sequence[Busy]) -> None:
    """How much of its steps each device of a trace worked."""
    if not devices:
        return
    note = "in the steps; what was issued earlier is not recorded"
    click.echo(bold("  Where the time went") + dim(f"  {note}"))
    for device in devices:
        _show_busy(device)
    click.echo()


def _show_busy(device: Busy) -> None:
    idle_ns = device.window_ns - device.busy_ns
    text = f"busy {format_share(device.busy_ns, device.window_ns)}, idle {format_ns(idle_ns)}"
    cells = max(10, width() - len(device.device) - len(text) - 8)
    click.echo(f"    {device.device}  {bar(device.busy_ns / device.window_ns, cells)}  {text}")


def why_not(verdict: Verdict) -> str:
    """Why there is no finding, in one sentence."""
    return "; ".join(verdict.explain_unanswered()) or "nothing was asked"


def _show_details(diagnosis: Diagnosis) -> None:
    """Where the time of a timeline went: what the functions besides the findings say."""
    _show_time(diagnosis)
    _show_gaps(diagnosis)
    show_table(
        "Host time in blocking calls, of all threads",
        [(clean_text(name), ns) for name, ns in largest(diagnosis.blocking_ns)],
        diagnosis.length_ns,
    )
    show_table(
        "What would be saved without …",
        [
            (CAUSE_IN_WORDS.get(name, clean_text(name)), ns)
            for name, ns in largest(diagnosis.recoverable_ns)
        ],
        diagnosis.length_ns,
    )


def _show_unanswered(verdict: Verdict) -> None:
    """The functions without an answer: those still to do by the exercise that teaches them, the further last.

    Modules are optional: once a cause is named, their functions that are still to do are left out.
    """
    exercises = {name: task.rpartition(".")[0] for name, task in verdict.tasks.items()}
    names = sorted(verdict.unanswered, key=verdict.further.__contains__)
    if verdict.findings and verdict.findings[0].category != "healthy":
        here = ("", *EXERCISES.values())
        names = [n for n in names if n not in verdict.todo or exercises.get(n, "") in here]
    if not names:
        return
    todo: dict[str, list[str]] = {}
    for name in names:
        if name in verdict.todo:
            mark = " (further)" if name in verdict.further else ""
            todo.setdefault(exercises.get(name, ""), []).append(f"{name}{mark}")
    lines = [
        f"still to do{f' in {exercise}' if exercise else ''}: {', '.join(marked)}"
        for exercise, marked in todo.items()
    ]
    lines += [verdict.unanswered[name] for name in names if name not in verdict.todo]
    click.echo()
    show_list("Without an answer", lines)
    needed = (name for name in names if name in verdict.tasks and name not in verdict.optional)
    first = next(needed, None)
    if first is None:
        return
    task = verdict.tasks[first]
    if first not in verdict.todo:
        click.echo(wrap(f"Mend {first} first: {LAB} check {task}", "  "))
        return
    text = f"Write {first} next: {LAB} hint {task}"
    if has_references():
        text += "; or see all that the reference finds with --against solutions"
    click.echo(wrap(text, "  "))


def has_references() -> bool:
    """Whether the course around here holds the references; a class repository does not."""
    try:
        return manifest.load().has_references
    except CourseError:
        return False


def show_list(title: str, lines: Sequence[str]) -> None:
    if not lines:
        return
    click.echo(bold(f"  {title}"))
    for line in lines:
        click.echo(wrap(clean_text(line, MOST_CHARACTERS), "    ", "  - "))


def show_places(places: Sequence[str], report: str) -> None:
    click.echo()
    click.echo(bold("  Where to look") + dim("  from the window's start"))
    for place in places:
        click.echo(wrap(clean_text(place), "      ", "    "))
    if report:
        click.echo(wrap(clean_text(f"drawn by: {report}", MOST_CHARACTERS), "      ", "    "))


def show_finding(finding: Finding) -> None:
    heading = _heading(finding, width() - 2)
    click.echo(f"  {heading}")
    subject = clean_text(finding.subject)
    if subject not in heading:  # it was cut: the main finding's is shown whole
        click.echo(wrap(subject, "      ", "    "))
    click.echo(wrap(CATEGORIES[finding.category].definition, "  "))
    for what, value, unit in evidence_of(finding):
        click.echo(f"    {what:<30} {format_quantity(value, unit):>10}")
    if finding.recommendation != "none":
        click.echo(wrap(clean_text(finding.recommendation, MOST_CHARACTERS), "    ", "  → "))


def show_others(findings: Sequence[Finding]) -> None:
    """What is below the main finding, equal findings together: the second, of the others their names."""
    groups = grouped(findings)
    if len(groups[0]) > 1:
        click.echo(wrap(f"the same of {_members(groups[0][1:])}", "    ", "  + "))
    if len(groups) < 2:
        return
    click.echo()
    second, *rest = groups[1:]
    click.echo(f"  {dim('second')}  {_heading(second[0], width() - 10)}")
    click.echo(wrap(", ".join(_compact(second[0])), "    "))
    if len(second) > 1:
        click.echo(wrap(f"the same of {_members(second[1:])}", "      ", "    + "))
    if second[0].recommendation != "none":
        click.echo(wrap(clean_text(second[0].recommendation, MOST_CHARACTERS), "    ", "  → "))
    for group in rest[:MOST_OTHERS]:
        if len(group) == 1:
            saved = _saving(group[0])
            heading = _heading(group[0], width() - len(saved) - 12)
            click.echo(f"  {dim('then')}    {heading}  {saved}")
        else:
            click.echo(
                wrap(f"{group[0].category}, {_members(group)}", "            ", "  then    ")
            )
    if len(rest) > MOST_OTHERS:
        click.echo(dim(f"  and {len(rest) - MOST_OTHERS} more (all with --json)"))


def _members(group: Sequence[Finding]) -> str:
    """How many a group holds, which, and what each would save ("3 kernels: scale 425 µs (81.0%), …")."""
    kinds = {finding.subject.partition(":")[0] for finding in group}
    kind = kinds.pop() if len(kinds) == 1 else "other"
    told = [
        short_subject(f) + (f" {_saving(f)}" if f.evidence.get("recoverable_ns") else "")
        for f in group[:MOST_MEMBERS]
    ]
    more = len(group) - len(told)
    names = ", ".join(told) + (f" and {more} more" if more else "")
    return f"{len(group)} {kind}{'s' if len(group) > 1 else ''}: {names}"


def _saving(finding: Finding, of_window: bool = False) -> str:
    """What could be saved, and which share that is; "" where the finding does not say."""
    saved, ratio, window = (
        finding.evidence.get(key) for key in ("recoverable_ns", "recoverable_ratio", "window_ns")
    )
    if saved is None:
        return ""
    of = f" of {format_ns(window)}" if of_window and window else ""
    return format_ns(saved) + of + (f" ({ratio:.1%})" if ratio is not None else "")


def _compact(finding: Finding, of_window: bool = False) -> list[str]:
    """The evidence in few words: what could be saved, then what else is measured."""
    saved = _saving(finding, of_window)
    told = ("recoverable_ns", "recoverable_ratio", "window_ns", "margin_ratio") if saved else ()
    rest = evidence_of(finding, without=told)
    said = [f"{what} {format_quantity(value, unit)}" for what, value, unit in rest]
    most = " at most" if is_bound(finding) else ""
    return ([f"{saved} could be saved{most}"] if saved else []) + said


def finding_in_few_words(finding: Finding, most: int = 2, *, of_window: bool = False) -> str:
    """What a finding measured: what could be saved, then its evidence. of_window: also of how long a window."""
    return ", ".join(_compact(finding, of_window)[:most])


def name_of_main(finding: Finding) -> str:
    """A main finding's category, or that no cause reaches the floor and which comes closest."""
    close = f"no cause saves a tenth; most: {finding.category}"
    return close if is_below_floor(finding) else finding.category


def _heading(finding: Finding, room: int) -> str:
    """Category, subject, and whether it is a close call, in at most `room` characters."""
    nothing_to_do = finding.category == "healthy" or finding.recommendation == "none"
    name = click.style(finding.category, fg="green" if nothing_to_do else "yellow", bold=True)
    mark = "  borderline" if is_borderline(finding) else ""
    subject = cut(clean_text(finding.subject), max(12, room - len(finding.category + mark) - 2))
    return f"{name}  {subject}{dim(mark)}"


def about(diagnosis: Diagnosis) -> str:
    """What a timeline is of: device, window, NVTX range."""
    names = {diagnosis.device_name(device) for device in diagnosis.devices} - {""}
    parts = [", ".join(sorted(names)), f"window {format_ns(diagnosis.length_ns)}"]
    if diagnosis.nvtx_range is not None:
        parts.append(f"range {diagnosis.nvtx_range}")
    return ", ".join(part for part in parts if part)


def _show_time(diagnosis: Diagnosis) -> None:
    if diagnosis.busy_ns is None or diagnosis.window_ns is None:
        return
    note = "busy includes waiting in collectives" if diagnosis.capture.collectives.height else ""
    click.echo(bold("  Where the time went") + dim(f"  {note}" if note else ""))
    for device in diagnosis.devices:
        idle = diagnosis.idle_ns(device)
        if idle is None:
            continue
        busy = diagnosis.busy_ns[device]
        share = busy / diagnosis.length_ns
        label = f"device {device}"
        if share > 1:
            told = f"busy for longer than the window: {LAB} check ex_30.busy_time"
            click.echo(wrap(told, "      ", f"    {label}  "))
            continue
        _show_busy(Busy(label, busy, diagnosis.length_ns))
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


def show_table(
    title: str, rows: list[tuple[str, int]], window_ns: int, of: str = "of the window"
) -> None:
    if not rows:
        return
    click.echo(bold(f"  {title}"))
    for name, ns in rows:
        share = f"{format_share(ns, window_ns):>7} {of}"
        click.echo(f"    {cut(name, 30):<30} {format_ns(ns):>9} {share}")
    click.echo()


def cut(text: str, room: int) -> str:
    """A text in at most `room` characters, marked where it was cut."""
    mark = "…" if len(text) > room else ""
    return text[: room - len(mark)] + mark


def show_title(title: str) -> None:
    """Print a title with a line to the end of the screen."""
    line = "─" if sys.stdout.encoding and sys.stdout.encoding.lower().startswith("utf") else "-"
    click.echo(bold(title) + " " + dim(line * (width() - len(title) - 1)))
