"""`lab diagnose`, `report` and `demo`: captures in, findings out."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import click

from profiling_lab.cli.app import complain
from profiling_lab.cli.comparing import show_pair
from profiling_lab.cli.options import against_option, range_option
from profiling_lab.cli.pages import section, section_without_timeline, write_page
from profiling_lab.cli.printing import (
    show_diagnosis,
    show_findings,
    show_title,
    why_not,
)
from profiling_lab.cli.running import diagnosed, not_shown
from profiling_lab.cli.screen import LAB, bold, dim, note_while, short, wrap
from profiling_lab.compare import compare as compare_diagnoses
from profiling_lab.diagnosis import Diagnosis
from profiling_lab.errors import LabError
from profiling_lab.findings import CATEGORIES, Finding
from profiling_lab.functions import (
    FunctionUnavailable,
    functions_for,
    functions_if_any,
)

DEMO_PAIRS = (
    ("torch_inference_baseline", "torch_inference_improved", "PyTorch inference"),
    ("cuda_pipeline_baseline", "cuda_pipeline_improved", "CUDA C++ pipeline"),
)
DEMO_FILE = "lab-demo.html"


@click.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@against_option
@click.option("--json", "as_json", is_flag=True, help="Print a list of findings as JSON.")
@click.option(
    "--fail-on",
    "fail_on",
    metavar="CATEGORY",
    multiple=True,
    help="Exit with 1 if a finding is of this category; repeat it, or separate by commas.",
)
@range_option
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
        diagnosis = diagnosed(name, functions, nvtx_range)
        if not quiet:
            show_diagnosis(diagnosis, functions)
        if diagnosis.finding is None:
            return diagnosis.name, [], why_not(diagnosis, "name_bottleneck")
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
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option(
    "--output",
    "-o",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("lab-report.html"),
    show_default=True,
    help="Where to write the page.",
)
@against_option
@range_option
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
            functions, why = functions_if_any("timeline", against)
            diagnoses.append(diagnosed(name, functions, nvtx_range))
            sections.append(section(diagnoses[-1]))
            missing += not_shown(diagnoses[-1:], functions, why)
        else:
            made, more = section_without_timeline(name, kind, against)
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
        pair = [diagnosed(name, functions, None) for name in (before, after)]
        diagnoses += pair
        results.append(compare_diagnoses(*pair))
        if len(results) > 1:
            click.echo()
        show_title(title)
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


def _reference() -> str:
    """The reference tree of the course around here, else of the one this library belongs to."""
    from profiling_lab import course as manifest
    from profiling_lab.errors import CourseError

    for start in (Path.cwd(), Path(__file__).resolve().parent):
        with contextlib.suppress(CourseError):
            reference = manifest.find_root(start) / manifest.SOLUTIONS
            if reference.is_dir():
                return str(reference)
            raise LabError(
                "lab demo shows what the references find, and this copy of the course comes without "
                "them; diagnose with your own: lab diagnose torch_inference_baseline"
            )
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
