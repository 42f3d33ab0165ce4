"""The command `grade`: a class at a time.

Exit codes: 0 all graded, whatever the scores; 2 usage, or something to fix before grading can begin;
3 something could not be judged or kept for want of infrastructure; 130 stopped by Ctrl-C.
"""

from __future__ import annotations

# Imported late: a command imports what it runs when it runs; help and faulty usage are answered at once.
import functools
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from profiling_lab.cli.app import prepare_streams
from profiling_lab.cli.screen import WIDTH, load_course
from profiling_lab.errors import LabError

GRADED, USAGE, INFRASTRUCTURE, INTERRUPTED = 0, 2, 3, 130
UNPROTECTED = "I know that submissions can harm this machine"

SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": WIDTH}


def _path(**more: Any) -> click.Path:
    return click.Path(path_type=Path, **more)


@click.command(
    context_settings=SETTINGS,
    epilog="Later: grade status DIR says how far a batch is, also while it runs. grade report DIR "
    "writes the reports again, say under another --policy, without grading. grade sheet DIR writes the table "
    "for points that a person gives.",
)
@click.version_option(package_name="gpu-profiling-lab", prog_name="grade")
@click.argument("submissions", type=_path())
@click.option("--out", required=True, type=_path(), metavar="DIR", help="Where results are kept.")
@click.option(
    "--exercise",
    "exercises",
    multiple=True,
    metavar="ID",
    help="Only this exercise (ex_30), or those of a folder of the course (week07, "
    "week07/day1_nsight_systems); may be given several times.",
)
@click.option(
    "--student",
    "students",
    multiple=True,
    metavar="NAME",
    help="Judge only this student now (name of the entry, name or other entry of the class list). The "
    "others keep their results.",
)
@click.option(
    "--jobs",
    type=click.IntRange(1, 4096),
    help="How many exercises at a time; by default one for each core. With --engine slurm: how many jobs.",
)
@click.option(
    "--engine",
    type=click.Choice(["local", "slurm"]),
    default="local",
    show_default=True,
    help="Judge on this machine, or as jobs of a Slurm cluster.",
)
@click.option(
    "--slurm",
    multiple=True,
    metavar="KEY=VALUE",
    help="Options of the jobs, in sbatch's words (partition=cpu, account=…, gres=gpu:1) and "
    "cpus=, mem_gb=, minutes=, units= (exercises a job).",
)
@click.option(
    "--seed",
    type=click.IntRange(1, 99_999),
    help="Seed of the inputs that checks generate. By default it is drawn once and kept in DIR, so that "
    "all students and all runs get the same inputs.",
)
@click.option("--cases", type=_path(), metavar="DIR", help="Further, private cases.")
@click.option("--policy", type=_path(), metavar="FILE", help="Weights, deadline, hidden checks.")
@click.option("--roster", type=_path(), metavar="FILE", help="The class list, CSV.")
@click.option("--live", is_flag=True, help="Add the checks that need this machine's GPUs.")
@click.option(
    "--retries",
    type=click.IntRange(0, 20),
    default=2,
    show_default=True,
    help="How often to try again what could not be judged because this machine failed.",
)
@click.option(
    "--again", is_flag=True, help="Judge again what has a verdict, and say which verdicts differ."
)
@click.option(
    "--unprotected",
    metavar="WORDS",
    help=f'Run submissions without a sandbox. The words are: "{UNPROTECTED}".',
)
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
def grade(
    submissions: Path,
    out: Path,
    exercises: tuple[str, ...],
    students: tuple[str, ...],
    jobs: int | None,
    engine: str,
    slurm: tuple[str, ...],
    seed: int | None,
    cases: Path | None,
    policy: Path | None,
    roster: Path | None,
    live: bool,
    retries: int,
    again: bool,
    unprotected: str | None,
    as_json: bool,
) -> int:
    """Grade a folder of SUBMISSIONS with the checks that learners run.

    Each entry of the folder is one student's: a folder, a clone, a zip or a tar. The students' code
    runs in a sandbox and cannot reach the checks, the scores or the network.

    \b
      uv run grade submissions --out graded
      uv run grade submissions --out graded --exercise week07 --roster class.csv
      uv run grade submissions --out graded --policy policy.toml --cases private

    Each result is saved at once. If the run was stopped, run the same command again: it continues
    where it was. New or changed submissions are judged, the others keep their verdict.

    Reports: DIR/gradebook.csv, DIR/class.html, and feedback for each student. Exits with 0 if all
    was graded, whatever the scores; 2 for wrong usage; 3 if something could not be judged (never
    a zero: run it again).
    """
    from grading.grader.batches import batch

    options = batch.Options(
        source=submissions,
        out=out,
        exercises=exercises,
        students=students,
        jobs=jobs or _cores(),
        engine=engine,
        seed=seed,
        cases=cases,
        policy=policy,
        roster=roster,
        sandbox=_sandbox(unprotected),
        retries=retries,
        live=live,
        again=again,
        slurm=_pairs(slurm, engine),
    )
    course = load_course()
    try:
        summary = batch.grade(course, options, say=lambda text: click.echo(text, err=True))
    except (batch.Stopped, KeyboardInterrupt) as stopped:
        left = f"{stopped}; " if isinstance(stopped, batch.Stopped) else ""
        complain(f"stopped; what was judged is kept; {left}run the same command again to go on")
        return INTERRUPTED
    return _end(summary, as_json)


@click.command("grade status", context_settings=SETTINGS)
@click.argument("folder", metavar="DIR", type=_path())
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
def status(folder: Path, as_json: bool) -> int:
    """How far a batch is, also while it runs. Exits with 3 if something is left."""
    from grading.grader.batches import plans, reports
    from grading.grader.batches.output_folder import holder
    from grading.grader.batches.store import Store

    course = load_course()
    with Store(folder, writing=False) as store:
        summary = reports.summarise(plans.kept_plan(course, store), store)
        if who := holder(folder):
            summary.notes.append(f"being graded by {who}")
    return _end(summary, as_json)


@click.command("grade report", context_settings=SETTINGS)
@click.argument("folder", metavar="DIR", type=_path())
@click.option("--policy", type=_path(), metavar="FILE", help="By default the last run's.")
@click.option("--roster", type=_path(), metavar="FILE", help="By default the last run's.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
def report(folder: Path, policy: Path | None, roster: Path | None, as_json: bool) -> int:
    """Write the reports of a graded folder again, without grading."""
    from grading.grader.batches import batch

    return _end(batch.report(load_course(), folder, policy=policy, roster=roster), as_json)


@click.command("grade sheet", context_settings=SETTINGS)
@click.argument("folder", metavar="DIR", type=_path())
@click.option("--policy", type=_path(), metavar="FILE", help="By default the last run's.")
def sheet(folder: Path, policy: Path | None) -> int:
    """Write DIR/by_hand.csv, in which a person enters points and comments for the tasks of [by_hand] in the policy.

    Points that are entered already stay. `grade report DIR` then counts them.
    """
    from grading.grader.batches import batch

    click.echo(f"by_hand.csv: {batch.write_sheet(load_course(), folder, policy)}")
    return GRADED


COMMANDS: dict[str, click.Command] = {"status": status, "report": report, "sheet": sheet}


def main(arguments: Sequence[str] | None = None) -> None:
    """The entry point of the `grade` command: ends the process with its exit code."""
    prepare_streams()
    words = list(sys.argv[1:] if arguments is None else arguments)
    command, name = grade, "grade"
    # A folder of submissions that is called "status" can be given as ./status.
    if words and words[0] in COMMANDS:
        command, name = COMMANDS[words[0]], f"grade {words.pop(0)}"
    sys.exit(_run(functools.partial(command.main, words, name, standalone_mode=False)))


def _run(command: Callable[[], Any]) -> int:
    from grading.errors import SandboxError, SandboxUnavailable
    from grading.grader.batches.engines import Broken
    from grading.grader.batches.store import DiskError

    extra = {"color": False} if os.environ.get("NO_COLOR") else {}
    try:
        code = command(**extra)
    except SandboxUnavailable as error:
        hint = f'or take the risk: --unprotected "{UNPROTECTED}"'
        return complain(f"{error}; {hint}", USAGE)
    except (DiskError, Broken, SandboxError) as error:
        return complain(str(error), INFRASTRUCTURE)
    except LabError as error:
        return complain(str(error), USAGE)
    except click.UsageError as error:
        message = error.format_message().rstrip(".").replace("\n", " ")
        return complain(f"{message[:1].lower()}{message[1:]}; see grade --help", USAGE)
    except click.ClickException as error:
        return complain(error.format_message(), USAGE)
    except (click.Abort, KeyboardInterrupt):
        return complain("stopped; what was judged is kept; run it again to go on", INTERRUPTED)
    return code if isinstance(code, int) else GRADED


def complain(message: str, code: int = USAGE) -> int:
    """Print an error as one line on the error stream; returns the exit code."""
    line = " ".join(message.split())
    click.echo(click.style("grade: ", fg="red", bold=True) + line, err=True)
    return code


def _end(summary: Any, as_json: bool) -> int:
    from grading.grader.batches import reports

    if as_json:
        click.echo(json.dumps(summary.to_dict(), indent=1))
    else:
        for line in reports.in_words(summary):
            click.echo(line)
    return INFRASTRUCTURE if summary.infrastructure or summary.ungraded else GRADED


def _sandbox(words: str | None) -> str:
    if words is None:
        return "auto"
    if " ".join(words.split()).rstrip(".").casefold() != UNPROTECTED.casefold():
        raise click.UsageError(
            f'--unprotected takes these words and no others: "{UNPROTECTED}": without a sandbox a '
            "submission can read, change and send whatever you can, its score included"
        )
    return "none"


def _pairs(given: tuple[str, ...], engine: str) -> dict[str, str]:
    if given and engine != "slurm":
        raise click.UsageError("--slurm says how Slurm runs the jobs; add --engine slurm")
    pairs = {}
    for pair in given:
        key, equals, value = pair.partition("=")
        if not (key and equals and value):
            raise click.UsageError(f"--slurm {pair}: should be KEY=VALUE, say partition=cpu")
        pairs[key] = value
    return pairs


def _cores() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


if __name__ == "__main__":
    main()
