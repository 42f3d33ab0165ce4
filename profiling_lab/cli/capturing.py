"""`lab diagnose`, `compare`, `report` and `demo`: captures in, findings out."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from profiling_lab.cli.app import complain
from profiling_lab.cli.screen import LAB, bar, bold, dim, note_while, short, width, wrap
from profiling_lab.compare import CAUSES, SHOWN_KERNELS, TOLERANCE, Compared, Row
from profiling_lab.compare import compare as compare_diagnoses
from profiling_lab.diagnosis import Diagnosis, cannot_show, display_name
from profiling_lab.errors import EmptyCapture, LabError
from profiling_lab.findings import CATEGORIES, Finding
from profiling_lab.functions import Functions, FunctionUnavailable, functions_for
from profiling_lab.units import evidence, format_ns, format_quantity, format_ratio, format_share

if TYPE_CHECKING:
    from profiling_lab.nsys_export import NsysCapture
    from profiling_lab.reports import CaptureSection

DEMO_PAIRS = (
    ("torch_inference_baseline", "torch_inference_improved", "PyTorch inference"),
    ("cuda_pipeline_baseline", "cuda_pipeline_improved", "CUDA C++ pipeline"),
)
DEMO_FILE = "lab-demo.html"
MOST_GAPS = 5000  # of a page; the rest is too short to be seen on it
_against = click.option(
    "--against",
    metavar="PATH",
    help="Whose functions to use: another tree (solutions), a clone of the course, or a Python "
    "file. Without it: your own.",
)
_range = click.option(
    "--range", "nvtx_range", metavar="NVTX", help="Look at the NVTX ranges of this name only."
)


@click.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@_against
@click.option("--json", "as_json", is_flag=True, help="Print a list of findings as JSON.")
@click.option(
    "--fail-on",
    "fail_on",
    metavar="CATEGORY",
    multiple=True,
    help="Exit with 1 if a finding is of this category; repeat it, or separate by commas.",
)
@_range
def diagnose(
    files: tuple[str, ...],
    against: str | None,
    as_json: bool,
    fail_on: tuple[str, ...],
    nvtx_range: str | None,
) -> int:
    """Name what is wrong with a capture, with the functions you wrote.

    FILE is the name of a capture of the course, or a file: SQLite that Nsight Systems exported, the
    raw page of Nsight Compute as CSV, or a trace of the PyTorch profiler (.json, .json.gz).
    Functions that are still to do are named with their task; the rest is shown all the same.

    \b
      uv run lab diagnose torch_inference_baseline --against solutions
      uv run lab diagnose my_run.sqlite --range "step 5"
      uv run lab diagnose my_run.sqlite --json --fail-on sync_bound

    \b
    How to get FILE from your own program:
      nsys profile --trace=cuda,nvtx -o my_run python my_program.py
      nsys export --type sqlite my_run.nsys-rep
      ncu --set full -k my_kernel -c 1 --page raw --csv ./my_program > my_run.csv
      torch.profiler's export_chrome_trace("my_run.json")

    Exits with 0; with 1 on a --fail-on hit; with 2 if FILE cannot be read.
    """
    unwanted = _categories(fail_on)
    found: list[tuple[str, Finding]] = []
    silent: list[tuple[str, str]] = []
    for number, name in enumerate(files):
        if number and not as_json:
            click.echo()
        title, findings, why = _findings(name, against, nvtx_range, quiet=as_json)
        found += [(title, finding) for finding in findings]
        silent += [(title, why)] if why else []
    if as_json:
        if silent:
            raise LabError(f"{silent[0][0]}: no finding: {silent[0][1]}")
        rows = [
            finding.to_dict() | ({"capture": title} if len(files) > 1 else {})
            for title, finding in found
        ]
        click.echo(json.dumps(rows, indent=2, ensure_ascii=False))
    hits = [f"{title} is {f.category}" for title, f in found if f.category in unwanted]
    if hits:
        return complain(f"--fail-on: {', '.join(dict.fromkeys(hits))}", code=1)
    if unwanted and silent:
        return complain("--fail-on cannot judge: there is no finding")
    return 0


def _findings(
    name: str, against: str | None, nvtx_range: str | None, *, quiet: bool
) -> tuple[str, list[Finding], str]:
    """A capture's title, its findings, and why there are none; shown unless `quiet`."""
    from profiling_lab import captures
    from profiling_lab.diagnosis import FINDING_FUNCTIONS, findings_of

    kind = captures.kind(name)
    if kind == "counters":
        raise LabError(f"{name}: counters for a roofline; draw it: {LAB} report {name}")
    functions = functions_for(kind, against)
    if kind == "timeline":
        diagnosis = _diagnosed(name, functions, nvtx_range)
        if not quiet:
            show_diagnosis(diagnosis, functions)
        if diagnosis.finding is None:
            return diagnosis.name, [], _why(diagnosis, "name_bottleneck")
        return diagnosis.name, [diagnosis.finding], ""
    if nvtx_range is not None:
        raise LabError(f"--range belongs to timelines; {name} is a capture of kind {kind}")
    title, why, findings = Path(name).name, "", []
    try:
        with note_while(f"reading {title}"):
            findings = findings_of(kind, name, functions)
    except FunctionUnavailable as error:
        why = str(error)
    if not quiet:
        show_findings(title, findings, why, functions, FINDING_FUNCTIONS[kind])
    return title, findings, why


@click.command()
@click.argument("before")
@click.argument("after")
@_against
@_range
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
    functions, why = _functions_if_any(against)
    (first, second) = (_diagnosed(name, functions, nvtx_range) for name in (before, after))
    result = compare_diagnoses(first, second, tolerance=tolerance)
    if as_json:
        click.echo(json.dumps(result.to_dict(), indent=2, ensure_ascii=False))
    else:
        show_comparison(result)
        for sentence in _not_shown((first, second), functions, why):
            click.echo()
            click.echo(dim(wrap(f"Not shown: {sentence}", "  ")))
    return 1 if result.is_regression else 0


@click.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option(
    "--output",
    "-o",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("lab-report.html"),
    show_default=True,
    help="Where to write the page.",
)
@_against
@_range
def report(
    files: tuple[str, ...], output: Path, against: str | None, nvtx_range: str | None
) -> int:
    """Write captures and what your functions found as one HTML page that works offline.

    FILE is a timeline, a page of kernels, a trace, or a capture of counters, which becomes a roofline.
    With two timelines the page also compares the first with the second.

    \b
      uv run lab report my_run.sqlite --output my_run.html
      uv run lab report before.sqlite after.sqlite
      uv run lab report roofline_counters ncu_memory
    """
    from profiling_lab import captures

    _writable(output)
    kinds = {name: captures.kind(name) for name in files}
    diagnoses, sections, missing = [], [], []
    for name, kind in kinds.items():
        if kind == "timeline":
            functions, why = _functions_if_any(against)
            diagnoses.append(_diagnosed(name, functions, nvtx_range))
            sections.append(section(diagnoses[-1]))
            missing += _not_shown(diagnoses[-1:], functions, why)
        else:
            made, more = _section_without_timeline(name, kind, against)
            sections.append(made)
            missing += more
    comparisons = [compare_diagnoses(*diagnoses)] if len(diagnoses) == 2 == len(files) else []
    with note_while(f"writing {output}"):
        title = ", ".join(made.name for made in sections)
        write_page(output, sections, comparisons, title=title)
    for sentence in dict.fromkeys(missing):
        click.echo(dim(wrap(f"Not shown: {sentence}")), err=True)
    click.echo(f"{output}  {output.stat().st_size / 1e6:.1f} MB, one file, works offline")
    return 0


@click.command()
@click.option(
    "--output",
    "-o",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path(DEMO_FILE),
    show_default=True,
    help="Where to write the page.",
)
@click.option("--open", "open_page", is_flag=True, help="Open the page in the browser.")
def demo(output: Path, open_page: bool) -> int:
    """Diagnose real captures of an H200, before and after, with the reference functions.

    Two pairs ship with the course: PyTorch inference, and a pipeline in CUDA C++. The page that is
    written shows both on a timeline. Needs no GPU.
    """
    from profiling_lab import captures

    _writable(output)
    known = captures.names()
    pairs = [pair for pair in DEMO_PAIRS if pair[0] in known and pair[1] in known]
    if not pairs:
        wanted = ", ".join(name for pair in DEMO_PAIRS for name in pair[:2])
        raise LabError(
            f"{captures.folder()}: holds none of the demo's captures ({wanted}); run lab demo "
            "inside a whole clone of the course"
        )
    functions = functions_for("timeline", _reference())
    diagnoses: list[Diagnosis] = []
    results = []
    for before, after, title in pairs:
        pair = [_diagnosed(name, functions, None) for name in (before, after)]
        diagnoses += pair
        results.append(compare_diagnoses(*pair))
        if len(results) > 1:
            click.echo()
        _rule(title)
        show_pair(results[-1])
    with note_while(f"writing {output}"):
        sections = [section(diagnosis) for diagnosis in diagnoses]
        write_page(output, sections, results, title="Two pipelines, before and after")
    click.echo()
    size = output.stat().st_size / 1e6
    click.echo(bold("Report: ") + f"{short(output.resolve())}  ({size:.1f} MB, works offline)")
    click.echo(bold("Next:   ") + f"{LAB}" + dim("   where to begin writing these functions"))
    if open_page:
        click.launch(output.resolve().as_uri())
    return 0


# -- running the functions ----------------------------------------------------------------------


def _diagnosed(name: str, functions: Functions | None, nvtx_range: str | None) -> Diagnosis:
    """A capture, opened and asked; its tables stay readable as long as the process lives."""
    from profiling_lab import captures
    from profiling_lab.diagnosis import diagnose as run

    with note_while(f"reading {display_name(captures.path(name))}"):
        recording: NsysCapture = captures.open(name)
        return run(recording, functions, nvtx_range=nvtx_range)


def _functions_if_any(
    against: str | None, kind: str = "timeline"
) -> tuple[Functions | None, str | None]:
    """The functions, or why there are none: captures can be compared without them."""
    try:
        return functions_for(kind, against), None
    except FunctionUnavailable as error:
        return None, str(error)


def _not_shown(
    diagnoses: Iterable[Diagnosis], functions: Functions | None, why: str | None
) -> list[str]:
    """What is missing from a comparison or a page, and why; each sentence once."""
    if functions is None:
        return [why or "no functions"]
    sentences = (text for d in diagnoses for text in d.explain_unanswered(functions.tasks))
    return list(dict.fromkeys(sentences))


def _reference() -> str:
    """The reference tree of the course around here, else of the one this library belongs to."""
    from profiling_lab import course as manifest
    from profiling_lab.errors import CourseError

    for start in (Path.cwd(), Path(__file__).resolve().parent):
        with contextlib.suppress(CourseError):
            return str(manifest.find_root(start) / manifest.SOLUTIONS)
    raise LabError("lab demo needs a clone of the course: change into it and try again")


def _categories(fail_on: tuple[str, ...]) -> set[str]:
    import difflib

    names = {name.strip() for text in fail_on for name in text.split(",")} - {""}
    for name in sorted(names - set(CATEGORIES)):
        close = difflib.get_close_matches(name, CATEGORIES, n=1, cutoff=0.5)
        hint = f"did you mean {close[0]}?" if close else f"one of {', '.join(CATEGORIES)}"
        raise LabError(f"--fail-on {name}: no such category; {hint}")
    return names


def _writable(output: Path) -> None:
    folder = output.resolve().parent
    if not folder.is_dir():
        raise LabError(f"{output}: there is no folder {folder}")
    try:
        with output.open("ab"):
            pass
        if not output.stat().st_size:
            output.unlink()
    except OSError as error:
        raise LabError(f"{output}: cannot be written ({error.strerror})") from None


# -- printing -----------------------------------------------------------------------------------


def show_diagnosis(diagnosis: Diagnosis, functions: Functions | None) -> None:
    """Print one diagnosis: finding, evidence, time, gaps, waits, and what cannot be seen."""
    from profiling_lab.reports.model import clean_text

    finding = diagnosis.finding
    click.echo(bold(clean_text(diagnosis.name)) + dim(f"  {_about(diagnosis)}"))
    click.echo()
    if finding is not None:
        _show_finding(finding)
    else:
        click.echo(wrap(f"no finding: {_why(diagnosis, 'name_bottleneck')}", "  "))
    click.echo()
    _show_time(diagnosis)
    _show_gaps(diagnosis)
    _show_table(
        "Host time in blocking calls",
        [(clean_text(name), ns) for name, ns in _largest(diagnosis.blocking_ns)],
        diagnosis.length_ns,
    )
    _show_table(
        "What would be saved without …",
        [
            (CAUSES.get(name, clean_text(name)), ns)
            for name, ns in _largest(diagnosis.recoverable_ns)
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
        what, shown = _evidence(key, value)
        click.echo(f"    {clean_text(what):<20} {shown:>10}")
    if finding.recommendation != "none":
        click.echo(wrap(clean_text(finding.recommendation), "    ", "  → "))


def _evidence(key: str, value: Any) -> tuple[str, str]:
    """A piece of evidence as label and text; shares of either sign in percent."""
    what, value, unit = evidence(key, value)
    if unit == "ratio" and -1 <= value < 0:
        value, unit = 100 * value, "pct"
    return what, format_quantity(value, unit)


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


def _largest(values: dict[str, int] | None, count: int = 5) -> list[tuple[str, int]]:
    ordered = sorted((values or {}).items(), key=lambda item: -item[1])
    return [item for item in ordered if item[1] > 0][:count]


def _show_table(title: str, rows: list[tuple[str, int]], window_ns: int) -> None:
    if not rows:
        return
    click.echo(bold(f"  {title}"))
    for name, ns in rows:
        share = f"{format_share(ns, window_ns):>7} of the window"
        click.echo(f"    {_cut(name, 30):<30} {format_ns(ns):>9} {share}")
    click.echo()


def _why(diagnosis: Diagnosis, name: str) -> str:
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


def _rule(title: str) -> None:
    line = "─" if sys.stdout.encoding and sys.stdout.encoding.lower().startswith("utf") else "-"
    click.echo(bold(title) + " " + dim(line * (width() - len(title) - 1)))


# -- the page -----------------------------------------------------------------------------------


def section(diagnosis: Diagnosis) -> CaptureSection:
    """The section of a report for a diagnosed capture."""
    from profiling_lab.reports import section_from_capture

    if not diagnosis.devices:
        raise EmptyCapture(f"{diagnosis.capture.file}: no device did anything")
    busiest = max(diagnosis.devices, key=lambda device: (diagnosis.busy_ns or {}).get(device, 0))
    return section_from_capture(
        diagnosis.capture,
        window_ns=diagnosis.window_ns or diagnosis.span_ns,
        findings=[diagnosis.finding] if diagnosis.finding else [],
        busy=diagnosis.busy_ns,
        gaps=diagnosis.largest_gaps(MOST_GAPS),
        where_the_time_went=diagnosis.shares(busiest),
        facts=_facts(diagnosis),
        name=diagnosis.name,
    )


def _section_without_timeline(
    name: str, kind: str, against: str | None
) -> tuple[CaptureSection, list[str]]:
    """The section of a report for kernels, a trace or counters, and what could not be shown."""
    from profiling_lab import captures, roofline
    from profiling_lab.diagnosis import FINDING_FUNCTIONS, findings_of, roofline_of
    from profiling_lab.errors import CaptureError
    from profiling_lab.reports import CaptureSection

    place = captures.file(name, captures.MAIN_FILES[kind])
    made = CaptureSection(name=Path(name).name, provenance=captures.provenance_beside(place))
    missing = []
    if kind in FINDING_FUNCTIONS:
        functions, why = _functions_if_any(against, kind)
        try:
            made.findings = findings_of(kind, name, functions) if functions else ()
        except FunctionUnavailable as error:
            why = str(error)
        missing += [why] if why else []
    try:
        counters = captures.file(name, captures.MAIN_FILES["counters"])
    except CaptureError:
        return made, missing
    if counters == place and kind != "counters":  # a file by itself, not a folder
        return made, missing
    functions, why = _functions_if_any(against, "counters")
    try:
        if functions:
            roofs, points, without = roofline_of(name, functions)
            caption = "Measured work under the ceilings of the device."
            if without:
                caption += f" Not placed, for want of a count or a peak: {', '.join(without)}."
            made.drawings = [(caption, roofline.svg(roofs, points))]
    except FunctionUnavailable as error:
        why = str(error)
    return made, missing + ([why] if why else [])


def _facts(diagnosis: Diagnosis) -> list[tuple[Any, ...]]:
    facts: list[tuple[Any, ...]] = []
    for name, ns in _largest(diagnosis.blocking_ns):
        facts.append((f"Host in {name}", ns, "ns", "time in a call that holds the host up"))
    for name, ns in _largest(diagnosis.recoverable_ns):
        facts.append(
            (
                f"Saved without {CAUSES.get(name, name)}",
                ns,
                "ns",
                "how much earlier the last device operation would have ended",
            )
        )
    for device, active in (diagnosis.active or {}).items():
        facts.append((f"SMs active, device {device}", 100 * active["sm_active_ratio"], "pct"))
        facts.append((f"DRAM used, device {device}", 100 * active["dram_ratio"], "pct"))
    if diagnosis.overhead_ns:
        facts.append(("Profiler at work", diagnosis.overhead_ns, "ns"))
    for line in cannot_show(diagnosis.capture):
        facts.append(("Not in this capture", line))
    return facts


def write_page(
    output: Path, sections: list[CaptureSection], comparisons: list[Compared], *, title: str
) -> None:
    """Write captures, findings and comparisons as one HTML page."""
    from profiling_lab.reports import write_report

    write_report(
        output,
        sections,
        title=title,
        comparison=comparisons[0].to_report() if comparisons else None,
    )
