"""Running a program that is linked to the stand-in, and reading what it issued."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from grading.checks import commands
from grading.checks.commands import Completed
from grading.checks.cuda import toolchain
from grading.checks.cuda.schedule import Schedule, read_lines

RUN_TIMEOUT_S = 60  # a guard against a program that hangs; a run takes some 10 ms
SCHEDULE_FILE = "schedule.jsonl"


class RunError(Exception):
    """The program did not come to its end: says how it ended and what CUDA call was refused."""


def record(
    source: Path, given: Path, *, batches: int, elements: int, warmup_batches: int
) -> Schedule:
    """Compile a pipeline, run it on the stand-in, return the schedule that its host code issued.

    batches, warmup_batches: of the measured run and of the one before it. elements: floats a batch.
    Raises BuildError, RunError, ToolchainError.
    """
    program = toolchain.build(source, given)
    arguments = ["--batches", str(batches), "--elements", str(elements)]
    arguments += ["--warmup-batches", str(warmup_batches)]
    called = f"{source.name} with {' '.join(arguments)}"
    command = [str(program.executable), *arguments]
    result, lines = run_on_stand_in(called, command, LAB_VARIANT=str(program.variant))
    if result.returncode != 0:
        raise RunError(_how_it_ended(called, result, lines))
    return Schedule(lines, elements)


def run_on_stand_in(
    called: str, command: Sequence[str], **environment: str
) -> tuple[Completed, list[dict[str, Any]]]:
    """Run a program that is linked to the stand-in: how it ended, and what its host code issued.

    called: the run in words, for the message. Raises RunError if it does not end.
    """
    done = commands.run(
        command,
        timeout_s=RUN_TIMEOUT_S,
        keep=[SCHEDULE_FILE],
        readable=[Path(command[0])],
        environment={"PATH": os.defpath, "LAB_SCHEDULE_FILE": SCHEDULE_FILE, **environment},
    )
    if done.cause == "time-out":
        raise RunError(
            f"{called} did not end within {RUN_TIMEOUT_S} s; "
            "on the stand-in every wait returns at once, so a loop of its own does not end"
        )
    return done, read_lines(done.files.get(SCHEDULE_FILE, b""))


def _how_it_ended(called: str, result: Completed, lines: list[dict[str, Any]]) -> str:
    code = result.returncode
    ended = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
    text = f"{called} {ended}"
    for line in lines:
        if line["kind"] == "refused":
            text += f"\n{line['function']} refused: {line['error']}, {line['why']}"
    if stderr := result.stderr.strip():
        text += "\n" + "\n".join(stderr.splitlines()[-5:])
    return text
