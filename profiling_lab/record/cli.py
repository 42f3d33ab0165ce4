"""The recorder's command line."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from profiling_lab.record import recipes, tools
from profiling_lab.record.errors import RecordError
from profiling_lab.record.profilers import PROFILERS

if TYPE_CHECKING:
    from profiling_lab.record.session import Session

LIMIT_S = 480.0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="lab record",
        description=(
            "Record captures of the course on this machine's GPU. Without an option: those that"
            " are missing. What is done stays done; run again to go on."
        ),
    )
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--missing", action="store_true", help="record what is missing (default)")
    choice.add_argument(
        "--only", action="append", metavar="NAME", help="record this one, even if it is there"
    )
    choice.add_argument(
        "--stale", action="store_true", help="record again where program or command changed"
    )
    choice.add_argument("--list", action="store_true", help="show each capture and its state")
    choice.add_argument(
        "--help-texts", action="store_true", help="keep the tools' own help texts, record nothing"
    )
    parser.add_argument(
        "--captures", type=Path, default=Path("captures"), metavar="DIR", help="default: captures"
    )
    for name, profiler in PROFILERS.items():
        if profiler.help_texts:
            parser.add_argument(f"--{name}", metavar="PATH", help=f"the {name} to use")
    parser.add_argument(
        "--limit-s", type=float, default=LIMIT_S, metavar="S", help="default: %(default)g seconds"
    )
    parser.add_argument(
        "--keep-work",
        action="store_true",
        help=f"leave the unscrubbed recordings in {tools.WORK_FOLDER}",
    )
    parser.add_argument(
        "--no-isolation",
        action="store_true",
        help="let the profiler see the machine's other processes (the scrubber removes them)",
    )
    return parser


def main(argv: list[str] | None = None) -> int:
    """0: all that was asked for is there; 1: something is left or failed; 2: bad input."""
    arguments = _parser().parse_args(argv)
    try:
        return _run(arguments)
    except RecordError as error:
        print(f"lab record: {error}", file=sys.stderr)
        return 2


def _say(line: str) -> None:
    print(line, flush=True)


def _run(arguments: argparse.Namespace) -> int:
    captures: Path = arguments.captures
    known = recipes.load(captures)
    if arguments.list:
        width = max((len(name) for name in known), default=0)
        for name, recipe in known.items():
            _say(f"{name:{width}}  {recipes.state(recipe, captures)}")
        return 0

    chosen = _choose(arguments, known, captures)
    if not chosen and not arguments.help_texts:
        _say("nothing to record")
        return 0

    # Imported here: a listing needs nothing of it.
    from profiling_lab.record.session import Session

    tools.WORK_FOLDER.mkdir(mode=0o755, parents=True, exist_ok=True)
    deadline = tools.Deadline(arguments.limit_s)
    session = Session(
        captures,
        deadline,
        _say,
        given={name: getattr(arguments, name, None) for name in PROFILERS},
        isolate=not arguments.no_isolation,
        keep_work=arguments.keep_work,
    )
    if arguments.help_texts:
        _say(f"help texts: {session.save_help(_with_help(session))}")
        return 0
    # A tool that is missing ends the call before anything is recorded.
    used = [session.profiler(name) for name in dict.fromkeys(recipe.tool for recipe in chosen)]
    versions = ", ".join(f"{profiler.title} {profiler.version()}" for profiler in used)
    _say(f"{versions}; {session.gpu_count} GPU(s); {len(chosen)} to record")

    done, failed, left = 0, 0, []
    for recipe in chosen:
        if deadline.left_s < min(30.0, arguments.limit_s / 4):
            left.append(recipe.name)
            continue
        if recipe.gpus > session.gpu_count:
            _say(f"- {recipe.name}: needs {recipe.gpus} GPUs, here are {session.gpu_count}")
            left.append(recipe.name)
            continue
        before = deadline.left_s
        try:
            folder = session.record(recipe)
        except RecordError as error:
            failed += 1
            _say(f"! {recipe.name}: {error}")
            continue
        done += 1
        size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        _say(f"+ {recipe.name}: {size / 1e6:.2f} MB in {before - deadline.left_s:.0f} s")
    session.finish()
    _say(
        f"{done} recorded, {failed} failed, {len(left)} left{': ' if left else ''}{', '.join(left)}"
    )
    return 1 if failed or left else 0


def _with_help(session: Session) -> list[str]:
    """The profilers that are here and have help texts. Raises RecordError where there is none."""
    found, errors = [], []
    for name, profiler in PROFILERS.items():
        if profiler.help_texts:
            try:
                session.profiler(name)
                found.append(name)
            except RecordError as error:
                errors.append(error)
    if not found:
        raise errors[0]
    return found


def _choose(
    arguments: argparse.Namespace, known: dict[str, recipes.Recipe], captures: Path
) -> list[recipes.Recipe]:
    if arguments.only:
        if unknown := [name for name in arguments.only if name not in known]:
            raise RecordError(
                f"no capture named {', '.join(unknown)} in {captures / 'captures.toml'};"
                f" there are: {', '.join(known)}"
            )
        return [known[name] for name in arguments.only]
    if arguments.help_texts:
        return []
    wanted = "stale" if arguments.stale else "missing"
    return [
        recipe for recipe in known.values() if recipes.state(recipe, captures).startswith(wanted)
    ]
