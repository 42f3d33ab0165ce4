"""`lab report` and `demo`: captures and findings as one HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from profiling_lab import captures
from profiling_lab.analysis.compare import compare_runs
from profiling_lab.captures import Kind, Part, cutting, inputs
from profiling_lab.cli import verdicts
from profiling_lab.cli.comparison import show_pair
from profiling_lab.cli.options import against_option, range_option, seconds_option
from profiling_lab.cli.pages import counters, write_page
from profiling_lab.cli.printing import show_title
from profiling_lab.cli.screen import LAB, bold, dim, load_course, note_while, short, wrap
from profiling_lab.cli.status import waiting
from profiling_lab.course import cases, progress
from profiling_lab.course.doctor import capabilities
from profiling_lab.errors import LabError
from profiling_lab.reports.progress import steps, write_progress
from profiling_lab.units import format_bytes

if TYPE_CHECKING:
    from profiling_lab.analysis.measures import Run
    from profiling_lab.reports import CaptureSection

DEMO_PAIRS = (
    ("torch_inference_baseline", "torch_inference_improved", "PyTorch inference"),
    ("cuda_pipeline_baseline", "cuda_pipeline_improved", "CUDA C++ pipeline"),
)
DEMO_FILE = "lab-demo.html"
REPORT_FILE = "lab-report.html"
PROGRESS_FILE = "lab-progress.html"


@click.command()
@click.argument("files", metavar="[FILE...]", nargs=-1)
@click.option(
    "--output",
    "-o",
    type=click.Path(dir_okay=False, path_type=Path),
    help=f"Where to write the page: {REPORT_FILE}, or {PROGRESS_FILE} with --progress.",
)
@click.option("--progress", "show_progress", is_flag=True, help="What you have done, what is next.")
@click.option("--open", "open_page", is_flag=True, help="Open the page in the browser.")
@against_option
@range_option
@seconds_option
def report(
    files: tuple[str, ...],
    output: Path | None,
    show_progress: bool,
    open_page: bool,
    against: str | None,
    nvtx_range: str | None,
    seconds: str | None,
) -> int:
    """Write captures and the verdict on them as one HTML page that works offline.

    FILE is what lab diagnose takes, or a capture of counters, which becomes a roofline. Files of one run
    are read together, as there. If you give two timelines or two traces, the page also compares the first with
    the second. With --progress and no FILE, the page shows your progress through the course.

    \b
      uv run lab report my_run.sqlite --output my_run.html
      uv run lab report before.sqlite after.sqlite
      uv run lab report roofline_counters ncu_memory
      uv run lab report --progress
    """
    if bool(files) == show_progress:
        raise click.UsageError("name one or more captures, or give --progress without any")
    output = output or Path(PROGRESS_FILE if show_progress else REPORT_FILE)
    if show_progress:
        _write_progress(output)
    else:
        _write_captures(output, files, against, nvtx_range, seconds)
    click.echo(f"{output}  {format_bytes(output.stat().st_size)}, one file, works offline")
    if open_page:
        click.launch(output.resolve().as_uri())
    return 0


def _write_progress(output: Path) -> None:
    course = load_course()
    _writable(output)
    verdicts = progress.verdicts(course)
    following = steps(course, verdicts, capabilities())
    write_progress(output, course, verdicts, following, waiting(course, verdicts))


def _write_captures(
    output: Path,
    files: tuple[str, ...],
    against: str | None,
    nvtx_range: str | None,
    seconds: str | None,
) -> None:
    _writable(output)
    sections: list[CaptureSection] = []
    runs: list[Run] = []
    missing: list[str] = []
    parts, notes = cutting.to_look_at(inputs.read(files), seconds)
    for note in notes:
        click.echo(wrap(note), err=True)
    for run in inputs.runs(parts):
        with note_while(f"reading {' + '.join(part.name for part in run)}"):
            if run[0].kind == Kind.COUNTERS:
                made, more = counters(run[0], against, len(sections))
                sections.append(made)
                missing += more
                continue
            if cases.open_task(part.path for part in run):
                # Here: a course without the engine comes without this, too.
                from profiling_lab.reports import unjudged

                sections += [unjudged.section(part) for part in run]
                missing.append("the engine's verdict, which stays closed until yours is written")
                continue
            made_of_run, measures = drawn(run, nvtx_range, len(sections))
        sections += made_of_run
        runs.append(measures)
    comparisons = (
        [compare_runs([runs[0]], [runs[1]])] if _are_a_pair(parts) and len(runs) == 2 else []
    )
    with note_while(f"writing {output}"):
        title = ", ".join(made.name for made in sections)
        write_page(output, sections, comparisons, title=title)
    for sentence in dict.fromkeys(missing):
        click.echo(dim(wrap(f"Not shown: {sentence}")), err=True)


def drawn(
    run: Sequence[Part], nvtx_range: str | None = None, number: int = 0
) -> tuple[list[CaptureSection], Run]:
    """A run judged by the engine: its sections, the first with a number, and its numbers for a comparison."""
    verdict = verdicts.judge(run, nvtx_range)
    # Here: a course without the engine comes without this, too.
    from profiling_lab.reports import from_verdict

    return from_verdict.sections(verdict, run, number), verdicts.measured(run[0], verdict)


def _are_a_pair(parts: list[Part]) -> bool:
    """Whether the page compares: two timelines, or two traces, or two folders of traces."""
    return len(parts) == 2 and parts[0].kind == parts[1].kind and parts[0].kind.is_of_a_run


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
    """Diagnose real captures of an H200, before and after.

    There are two pairs: PyTorch inference, and a pipeline in CUDA C++. The command also writes a page
    that shows both on a timeline. It needs no GPU.
    """
    _writable(output)
    known = captures.names()
    pairs = [pair for pair in DEMO_PAIRS if pair[0] in known and pair[1] in known]
    if not pairs:
        wanted = ", ".join(name for pair in DEMO_PAIRS for name in pair[:2])
        raise LabError(
            f"none of the demo's captures is here ({wanted}): call it in a whole clone of the course"
        )
    sections: list[CaptureSection] = []
    results = []
    for before, after, title in pairs:
        with note_while(f"reading {title}"):
            pair = [drawn(inputs.read([name])) for name in (before, after)]
        sections += [made for (made,), _ in pair]
        results.append(compare_runs(*([run] for _, run in pair)))
        if len(results) > 1:
            click.echo()
        show_title(title)
        show_pair(results[-1], sections[-2:])
    with note_while(f"writing {output}"):
        write_page(output, sections, results, title="Two pipelines, before and after")
    click.echo()
    size = format_bytes(output.stat().st_size)
    click.echo(bold("Report: ") + f"{short(output.resolve())}  ({size}, works offline)")
    click.echo(
        bold("Next:   ") + f"{LAB}" + dim("   where to begin writing such an engine yourself")
    )
    if open_page:
        click.launch(output.resolve().as_uri())
    return 0


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
