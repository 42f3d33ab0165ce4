"""Runs compilers, and programs made from the code under judgement: plainly, or as the grader has it.

Both ways a command starts in an empty folder of its own, gets files there, and leaves files there; a check
cannot tell which it was.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

MAX_KEPT_BYTES = 64 * 2**20

_elsewhere: Callable[..., Completed] | None = None


@dataclass(frozen=True)
class Completed:
    """How a command ended. returncode: minus the signal that ended it. files: those to keep that it left.

    cause: why it was ended, one of `grading.runner.results.CAUSES`, "" if it ended by itself.
    """

    returncode: int
    stdout: str
    stderr: str
    files: dict[str, bytes] = field(default_factory=dict)
    cause: str = ""


def run_elsewhere(runs: Callable[..., Completed] | None) -> None:
    """From here on this function runs the commands of this process, as `run` does; None: plainly."""
    global _elsewhere
    _elsewhere = runs


def run(
    argv: Sequence[str | Path],
    *,
    timeout_s: float,
    files: Mapping[str, bytes] | None = None,
    keep: Iterable[str] = (),
    readable: Iterable[Path] = (),
    environment: Mapping[str, str] | None = None,
    loopback: bool = False,
) -> Completed:
    """Run a command to its end, or for timeout_s seconds.

    files: put into its folder first. keep: names of files in its folder that are read afterwards; those that
    are no plain files, or larger than 64 MB, count as not there. readable: files and folders that it needs
    besides the system and this Python's environment. environment: its variables; by default those of this
    process, in a sandbox only a few of them. loopback: in a sandbox it may reach itself by the internet
    protocols, and nobody else.
    Raises OSError if the command cannot be started.
    """
    argv, keep = [str(part) for part in argv], list(keep)
    if _elsewhere is not None:
        return _elsewhere(
            argv,
            timeout_s=timeout_s,
            files=files or {},
            keep=keep,
            readable=readable,
            environment=environment,
            loopback=loopback,
        )
    with tempfile.TemporaryDirectory(prefix="lab-command-") as name:
        folder = Path(name)
        for file, data in (files or {}).items():
            (folder / file).write_bytes(data)
        try:
            ended = subprocess.run(
                argv,
                capture_output=True,
                cwd=folder,
                env=None if environment is None else dict(environment),
                timeout=timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            return Completed(
                -9, _text(error.stdout or b""), _text(error.stderr or b""), {}, "time-out"
            )
        left = {file: data for file in keep if (data := _plain(folder / file)) is not None}
    return Completed(ended.returncode, _text(ended.stdout), _text(ended.stderr), left)


def _plain(file: Path) -> bytes | None:
    if file.is_symlink() or not file.is_file() or file.stat().st_size > MAX_KEPT_BYTES:
        return None
    return file.read_bytes()


def _text(data: bytes | str) -> str:
    return data if isinstance(data, str) else data.decode("utf-8", "replace")
