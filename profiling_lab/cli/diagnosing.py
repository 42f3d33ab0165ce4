"""`lab diagnose`: captures in, findings out."""

from __future__ import annotations

import json
from pathlib import Path

import click

from profiling_lab.cli.app import complain
from profiling_lab.cli.options import against_option, range_option
from profiling_lab.cli.printing import (
    show_diagnosis,
    show_findings,
    why_not,
)
from profiling_lab.cli.running import diagnosed
from profiling_lab.cli.screen import LAB, note_while
from profiling_lab.errors import LabError
from profiling_lab.findings import CATEGORIES, Finding
from profiling_lab.functions import (
    FunctionUnavailable,
    functions_for,
)


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


def _categories(fail_on: tuple[str, ...]) -> set[str]:
    import difflib

    names = {name.strip() for text in fail_on for name in text.split(",")} - {""}
    for name in sorted(names - set(CATEGORIES)):
        close = difflib.get_close_matches(name, CATEGORIES, n=1, cutoff=0.5)
        hint = f"did you mean {close[0]}?" if close else f"one of {', '.join(CATEGORIES)}"
        raise LabError(f"--fail-on {name}: no such category; {hint}")
    return names
