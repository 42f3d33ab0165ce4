"""Running a program that is linked to the stand-in, and reading what it issued."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

from grading.checking.cuda import toolchain
from grading.checking.cuda.schedule import Schedule, read_lines

RUN_TIMEOUT_S = 60  # a guard against a program that hangs; a run takes some 10 ms


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
    with tempfile.TemporaryDirectory(prefix="lab-schedule-") as folder:
        file = Path(folder) / "schedule.jsonl"
        command = [str(program.executable), "--batches", str(batches), "--elements", str(elements)]
        command += ["--warmup-batches", str(warmup_batches)]
        environment = {
            "PATH": os.defpath,
            "LAB_SCHEDULE_FILE": str(file),
            "LAB_VARIANT": str(program.variant),
        }
        try:
            result = subprocess.run(
                command,
                capture_output=True,
                text=True,
                errors="replace",
                cwd=folder,
                env=environment,
                timeout=RUN_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise RunError(
                f"{source.name} with {' '.join(command[1:])} did not end within {RUN_TIMEOUT_S} s; "
                "on the stand-in every wait returns at once, so a loop of its own does not end"
            ) from None
        lines = read_lines(file) if file.exists() else []
        if result.returncode != 0:
            raise RunError(_how_it_ended(source, command, result, lines))
        return Schedule(lines, elements)


def _how_it_ended(
    source: Path,
    command: list[str],
    result: subprocess.CompletedProcess[str],
    lines: list[dict],
) -> str:
    code = result.returncode
    ended = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
    text = f"{source.name} with {' '.join(command[1:])} {ended}"
    for line in lines:
        if line["kind"] == "refused":
            text += f"\n{line['function']} refused: {line['error']}, {line['why']}"
    if stderr := result.stderr.strip():
        text += "\n" + "\n".join(stderr.splitlines()[-5:])
    return text
