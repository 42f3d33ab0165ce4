"""`lab diagnose`: captures in, findings out."""

from __future__ import annotations

import contextlib
import json
import shlex
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import click

from profiling_lab import needs
from profiling_lab.captures import Kind, Part, cutting, inputs
from profiling_lab.cli import verdicts
from profiling_lab.cli.app import complain
from profiling_lab.cli.options import against_option, range_option, seconds_option
from profiling_lab.cli.printing import show_verdict, why_not
from profiling_lab.cli.screen import LAB, note_while, wrap
from profiling_lab.errors import LabError
from profiling_lab.findings import CATEGORIES, Finding, is_borderline
from profiling_lab.mine import asking, limits
from profiling_lab.mine.asking import ask_all, range_fits
from profiling_lab.mine.functions import functions_for

if TYPE_CHECKING:
    from profiling_lab.diagnosis.engine import Verdict as EngineVerdict
    from profiling_lab.mine.asking import Verdict


@click.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option(
    "--mine", is_flag=True, help="Use the functions you wrote, and compare with the engine."
)
@against_option
@click.option("--each", is_flag=True, help="Diagnose every FILE by itself, even files of one run.")
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print the verdict as JSON: an object; with --mine or --against a list of findings.",
)
@click.option(
    "--fail-on",
    "fail_on",
    metavar="CATEGORY",
    multiple=True,
    help="Exit with 1 if any finding has this category, or if more than this share of the time is "
    'unexplained ("unexplained=5%"). Repeat it, or separate by commas.',
)
@range_option
@seconds_option
def diagnose(
    files: tuple[str, ...],
    mine: bool,
    against: str | None,
    each: bool,
    as_json: bool,
    fail_on: tuple[str, ...],
    nvtx_range: str | None,
    seconds: str | None,
) -> int:
    """Name what is wrong with a program, from captures of it.

    Prints the main finding with its evidence and what to do, other findings, where the time went, what
    would be saved, and what the verdict is based on. With --mine the functions of the exercises that you have
    written give the verdict, and it is compared with the engine's (--against uses another tree's functions).

    \b
    FILE is the name of a capture of the course, or one of these:
      Nsight Systems   .sqlite, or .nsys-rep where nsys is installed
      Nsight Compute   .csv of the raw page, or .ncu-rep where ncu or the
                       Python package ncu-report is installed
      PyTorch          .json, .json.gz; a folder with a trace of each rank

    Files of one run are read together: those of the ranks of one job (traces that say so, or timelines with
    collectives that were recorded at the same time), and a timeline or trace with pages of its kernels. A
    kernel then counts by the time it takes in that run. Other files are diagnosed one after the other.

    \b
      uv run lab diagnose torch_inference_baseline --against solutions
      uv run lab diagnose my_run.nsys-rep my_kernels.ncu-rep
      uv run lab diagnose trace_rank0.json trace_rank1.json
      uv run lab diagnose my_run.sqlite --range "step 5"
      uv run lab diagnose long_run.sqlite --seconds 10:12.5
      uv run lab diagnose my_run.sqlite --json --fail-on sync_bound

    \b
    How to get FILE from your own program:
      nsys profile --trace=cuda,nvtx -o my_run python my_program.py
      nsys export --type sqlite my_run.nsys-rep        (makes my_run.sqlite)
      ncu --set full -k my_kernel -c 1 --page raw --csv ./my_program > my.csv
      torch.profiler's export_chrome_trace("my_run.json")

    A .nsys-rep is exported into its folder, as nsys stats does. An SQLite file may have any size. A verdict takes
    0.4 GB of memory for every million events, with --mine 1.5 GB. If that much is not free, only the part around
    the middle is read, and the output says so. Other files may have at most 512 MiB of text.

    Exits with 1 if --fail-on found its category, and with 2 if a FILE cannot be read; else with 0.
    """
    rest, limit = verdicts.unexplained_limit(fail_on)
    unwanted = _categories(tuple(rest))
    with note_while("reading"):
        if each:
            parts = [part for file in dict.fromkeys(files) for part in inputs.read([file])]
        else:
            parts = inputs.read(files)
        parts, notes = cutting.to_look_at(parts, seconds)
    runs = [[part] for part in parts] if each else inputs.runs(parts)
    for note in notes:
        click.echo(wrap(note), err=True)
    _can_be_judged(runs, nvtx_range)
    own = mine or against is not None
    if not own:
        return _by_engine(runs, nvtx_range, as_json=as_json, unwanted=unwanted, limit=limit)
    found: list[tuple[str, Finding]] = []
    silent: list[tuple[str, str]] = []
    for number, run in enumerate(runs):
        title = " + ".join(part.name for part in run)
        with note_while(f"reading {title}"):
            verdict = ask_all(run, partial(functions_for, against=against), nvtx_range)
        found += [(title, finding) for finding in verdict.findings]
        silent += [] if verdict.findings else [(title, why_not(verdict))]
        if not as_json:
            if number:
                click.echo()
            whole = None
            with contextlib.suppress(LabError):  # left out of this course, or it has no verdict
                whole = verdicts.judge(run, nvtx_range)
            looked_at = {"--range": nvtx_range, "--seconds": seconds}
            _show(run, title, verdict, against, looked_at, whole, mine)
    if as_json:
        if silent:
            raise LabError(f"{silent[0][0]}: no finding: {silent[0][1]}")
        rows = [
            finding.to_dict()
            | {"borderline": is_borderline(finding)}
            | ({"capture": title} if len(runs) > 1 else {})
            for title, finding in found
        ]
        click.echo(json.dumps(rows, indent=2, ensure_ascii=False))
    hits = [f"{title} is {f.category}" for title, f in found if f.category in unwanted]
    if hits:
        return complain(f"--fail-on: {', '.join(dict.fromkeys(hits))}", code=1)
    if unwanted and silent:
        return complain("--fail-on cannot judge: there is no finding")
    return 0


def _by_engine(
    runs: Sequence[Sequence[Part]],
    nvtx_range: str | None,
    *,
    as_json: bool,
    unwanted: set[str],
    limit: float | None,
) -> int:
    """The engine's verdicts; the exit code."""
    found: list[tuple[str, EngineVerdict]] = []
    for number, run in enumerate(runs):
        title = " + ".join(part.name for part in run)
        with note_while(f"reading {title}"):
            verdict = verdicts.judge(run, nvtx_range)
        found.append((title, verdict))
        if not as_json:
            if number:
                click.echo()
            given = shlex.join(name for part in run for name in part.given)
            # A page is drawn with what the course brings.
            report = f"{LAB} report {given}" if needs.IN_A_CLONE else ""
            verdicts.show(title, verdict, report)
    if as_json:
        click.echo(json.dumps(verdicts.as_data(found), indent=2, ensure_ascii=False))
    hits = [
        f"{title} is {f.category}"
        for title, v in found
        for f in v.findings
        if f.category in unwanted
    ]
    if limit is not None:
        hits += [
            f"{title} leaves {share:.1%} unexplained"
            for title, v in found
            if (share := verdicts.unexplained_ratio(v)) > limit
        ]
    if hits:
        return complain(f"--fail-on: {', '.join(dict.fromkeys(hits))}", code=1)
    return 0


def _can_be_judged(runs: Sequence[Sequence[Part]], nvtx_range: str | None) -> None:
    """Raise LabError for captures that cannot be diagnosed, or not with these options."""
    for run in runs:
        if run[0].kind == Kind.COUNTERS:
            given = shlex.join(run[0].given)
            raise LabError(f"{given}: counters for a roofline; draw it: {LAB} report {given}")
        range_fits(run, nvtx_range)


def _show(
    run: Sequence[Part],
    title: str,
    verdict: Verdict,
    against: str | None,
    looked_at: dict[str, str | None],
    whole: EngineVerdict | None,
    mine: bool,
) -> None:
    """looked_at: the options that say which part of the run, by their names. whole: what the
    engine says; with `mine` it is shown beside the functions' verdict.
    """
    options = (word for name, value in looked_at.items() if value for word in (name, value))
    given = shlex.join([*(name for part in run for name in part.given), *options])
    devices = asking.busy_devices(run[0], verdict, partial(functions_for, against=against))
    unseen = limits.of_run(run)
    places = verdicts.places(whole, verdict.findings[0]) if whole and verdict.findings else []
    beside = partial(verdicts.show_beside, whole, verdict.findings) if mine and whole else None
    show_verdict(title, verdict, unseen, places, f"{LAB} report {given}", devices, beside)


def _categories(fail_on: tuple[str, ...]) -> set[str]:
    import difflib

    names = {name.strip() for text in fail_on for name in text.split(",")} - {""}
    for name in sorted(names - set(CATEGORIES)):
        close = difflib.get_close_matches(name, CATEGORIES, n=1, cutoff=0.5)
        hint = f"did you mean {close[0]}?" if close else f"one of {', '.join(CATEGORIES)}"
        raise LabError(f"--fail-on {name}: no such category; {hint}")
    return names
