"""`lab compare`: runs of the same work before and after a change, side by side."""

from __future__ import annotations

import glob
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from profiling_lab import captures
from profiling_lab.analysis.compare import TOLERANCE, compare_runs
from profiling_lab.analysis.measures import Run
from profiling_lab.captures import Kind, inputs
from profiling_lab.cli import verdicts
from profiling_lab.cli.comparison import markdown, show_comparison
from profiling_lab.cli.options import range_option
from profiling_lab.cli.screen import note_while
from profiling_lab.errors import CaptureError, LabError


class Sides(click.Command):
    """A command whose --before and --after take all that follows, up to the next option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        side, spelled = "", []
        for argument in args:
            if argument in ("--before", "--after"):
                side = argument
            elif argument.startswith("-") and argument != "-":
                side = ""
                spelled.append(argument)
            else:
                spelled += [side, argument] if side else [argument]
        return super().parse_args(ctx, spelled)


@click.command(cls=Sides)
@click.argument("captures", metavar="[BEFORE AFTER]", nargs=-1)
@click.option("--before", metavar="FILE...", multiple=True, help="Several runs before the change.")
@click.option("--after", metavar="FILE...", multiple=True, help="Several runs after it.")
@range_option
@click.option(
    "--tolerance",
    type=click.FloatRange(0),
    default=TOLERANCE,
    show_default=True,
    help="How much longer AFTER may take, as a share of BEFORE.",
)
@click.option("--json", "as_json", is_flag=True, help="Print all rows as JSON.")
@click.option("--markdown", "as_markdown", is_flag=True, help="Print it for a pull request.")
def compare(
    captures: tuple[str, ...],
    before: tuple[str, ...],
    after: tuple[str, ...],
    nvtx_range: str | None,
    tolerance: float,
    as_json: bool,
    as_markdown: bool,
) -> int:
    """Compare captures of the same work before and after a change.

    Takes timelines, traces of PyTorch, or pages of Nsight Compute. Each side is a capture, a folder of
    captures, or a pattern in quotes. With several runs on each side it compares medians, with a 95 %
    interval. A difference that these runs cannot establish is called noise. The screen shows what
    changed most; --json has all rows.

    Exits with 1 if the window (for traces the mean step, for pages any kernel) got longer by more than
    the tolerance, and by more than noise. Other times that grew by more than that share of the
    window are marked, so that you know where to look.

    \b
      uv run lab compare torch_inference_baseline torch_inference_improved
      uv run lab compare main.sqlite branch.sqlite --tolerance 0.05 --markdown
      uv run lab compare --before main_*.sqlite --after branch_*.sqlite
    """
    if captures and (before or after):
        raise click.UsageError("name both sides by --before and --after, or neither")
    if captures:
        if len(captures) != 2:
            raise click.UsageError(
                f"two captures are compared, and {len(captures)} are named; of several runs: "
                "--before FILE... --after FILE..."
            )
        before, after = (captures[0],), (captures[1],)
    if not before or not after:
        raise click.UsageError("name a capture before and one after: lab compare BEFORE AFTER")
    if as_json and as_markdown:
        raise click.UsageError("--json or --markdown, not both")
    sides = [[_run(name, nvtx_range) for name in _named(s)] for s in (before, after)]
    result = compare_runs(*sides, tolerance=tolerance)
    if as_json:
        click.echo(json.dumps(result.to_dict(), indent=2, ensure_ascii=False))
    elif as_markdown:
        click.echo("\n".join(markdown(result)))
    else:
        show_comparison(result)
    return 1 if result.is_regression else 0


def _named(side: Sequence[str]) -> Iterator[str]:
    """The captures that a side names: patterns and folders of captures, in the order of their names."""
    for name in side:
        if any(char in name for char in "*?[") and not Path(name).exists():
            if not (found := sorted(glob.glob(name))):
                raise CaptureError(f"{name}: no file fits this pattern")
            yield from found
            continue
        place = Path(name)
        if place.is_dir() and not (captures.folder() / name).is_dir():
            inside = [entry for entry in sorted(place.iterdir()) if _is_capture(entry)]
            if inside and not _is_capture(place):
                yield from map(str, inside)
                continue
        yield name


def _is_capture(place: Path) -> bool:
    try:
        return bool(captures.kind(place))
    except (CaptureError, OSError):
        return False


def _run(name: str, nvtx_range: str | None) -> Run:
    """One capture, opened and measured."""
    (part,) = inputs.read([name])
    if part.kind == Kind.COUNTERS:
        raise LabError(f"{name}: a capture of kind {part.kind} cannot be compared")
    with note_while(f"reading {part.name}"):
        return verdicts.measured(part, verdicts.judge([part], nvtx_range))
