"""The commands behind `lab dev class-repo`, `lab dev github-classroom` and `lab dev gradescope`."""

from __future__ import annotations

# Imported late: a command imports what it runs when it runs; help and faulty usage are answered at once.
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from profiling_lab.cli.app import complain, prepare_streams
from profiling_lab.cli.screen import LAB, bold, load_course, short
from profiling_lab.errors import LabError


def _path() -> click.Path:
    return click.Path(path_type=Path)


@click.group()
def commands() -> None:
    """Hand the course out to a class."""


@commands.command("class-repo")
@click.argument("folder", type=_path())
@click.option("--exercise", "exercises", multiple=True)
@click.option("--title", default="")
@click.option("--due", default="")
@click.option("--update", is_flag=True)
@click.option("--git/--no-git", default=True)
@click.option("--engine/--no-engine", default=True)
def class_repository(
    folder: Path,
    exercises: tuple[str, ...],
    title: str,
    due: str,
    update: bool,
    git: bool,
    engine: bool,
) -> None:
    """Build a class repository."""
    from grading.classroom import class_repo

    built = class_repo.build(
        load_course(),
        folder,
        exercises=exercises,
        title=title,
        due=due,
        update=update,
        git=git,
        engine=engine,
    )
    click.echo(f"{bold(short(built.folder))}  {len(built.files):,} files, no reference among them")
    if built.commit:
        click.echo(f"commit {built.commit}")
    click.echo(f"Next:  {LAB} dev github-classroom {short(built.folder)}, or push it as it is")


@commands.command("github-classroom")
@click.argument("folder", type=_path())
def github_classroom(folder: Path) -> None:
    """Write the workflow."""
    from grading.classroom import github

    file, commit = github.write_workflow(folder.resolve())
    click.echo(f"written  {short(file)}")
    if commit:
        click.echo(f"commit   {commit}")
    click.echo("Next: push the repository, and make it the template of an assignment")


@commands.command("points")
@click.argument("score", type=_path())
def points(score: Path) -> None:
    """Report a score file to GitHub Classroom's reporter; run by the workflow."""
    from grading.classroom import github

    result = github.points(load_course(), score)
    text = github.summary(result)
    click.echo(text)
    for name, line in (
        ("GITHUB_OUTPUT", f"result={github.encoded(result)}\n"),
        ("GITHUB_STEP_SUMMARY", text),
    ):
        if file := os.environ.get(name):
            with Path(file).open("a", encoding="utf-8") as stream:
                stream.write(line)


@commands.command("gradescope")
@click.argument("file", type=_path())
@click.option("--exercise", "exercises", multiple=True)
@click.option("--title", default="")
@click.option("--policy", type=_path())
@click.option("--cases", type=_path())
@click.option("--seed", type=click.IntRange(1, 99_999))
@click.option("--timeout-s", type=click.IntRange(60, 36_000))
@click.option("--unprotected", default="")
def gradescope_bundle(
    file: Path,
    exercises: tuple[str, ...],
    title: str,
    policy: Path | None,
    cases: Path | None,
    seed: int | None,
    timeout_s: int | None,
    unprotected: str,
) -> None:
    """Build the autograder's zip."""
    from grading.classroom import gradescope
    from grading.cli import UNPROTECTED

    if unprotected and unprotected.strip().rstrip(".").casefold() != UNPROTECTED.casefold():
        raise LabError(f'--unprotected takes these words and no others: "{UNPROTECTED}"')
    names = gradescope.build(
        load_course(),
        file.resolve(),
        exercises=exercises,
        title=title,
        policy=policy,
        cases=cases,
        seed=seed,
        unprotected=unprotected,
        timeout_s=timeout_s or gradescope.TIMEOUT_S,
    )
    size = file.stat().st_size / 1e6
    click.echo(f"{bold(short(file.resolve()))}  {len(names):,} files, {size:.1f} MB")
    click.echo("Next: Gradescope, Configure Autograder, upload it; then test it with your own work")


@commands.command("policy")
def policy() -> None:
    """An example of policy.toml with every key."""
    from grading.gradebook.policy import example

    click.echo(example(), nl=False)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one of the commands; ends the process with its exit code."""
    prepare_streams()
    try:
        commands.main(arguments, prog_name="grading.classroom", standalone_mode=False)
    except (LabError, click.ClickException) as error:
        said = error.format_message() if isinstance(error, click.ClickException) else str(error)
        sys.exit(complain(said))
    except (click.Abort, KeyboardInterrupt):
        sys.exit(complain("stopped; nothing was written", code=130))
