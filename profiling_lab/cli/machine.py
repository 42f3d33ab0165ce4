"""`lab doctor` and `lab record`: this machine, and recording with it."""

from __future__ import annotations

import dataclasses
import json

import click

from profiling_lab import record as recorder
from profiling_lab.cli.screen import LAB, note_while, width
from profiling_lab.course import doctor as machine


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print what was found as JSON.")
def doctor(as_json: bool) -> int:
    """Show what this machine can do, and what each missing thing means for you.

    Looks for a GPU, its driver, Nsight Systems and Nsight Compute, nvcc, PyTorch, Triton, JAX and
    disk space. It installs and changes nothing, takes some seconds, and also works outside the course.
    """
    with note_while("looking at this machine"):
        items = machine.examine()
    if as_json:
        click.echo(json.dumps([dataclasses.asdict(item) for item in items], indent=2))
        return 0
    from rich.console import Console

    console = Console(width=width(), highlight=False)
    with console.capture() as captured:
        console.print(machine.render(items))
    for line in captured.get().splitlines():  # rich pads lines to the full width
        click.echo(line.rstrip())
    click.echo(f"Next: {LAB}")
    return 0


@click.command(
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def record(arguments: tuple[str, ...]) -> int:
    """Record the course's captures again, on a machine with a GPU and Nsight Systems.

    \b
      uv run lab record --missing
      uv run lab record --only NAME
      uv run lab record --help
    """
    return recorder.main(list(arguments)) or 0
