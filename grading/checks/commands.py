"""Runs compilers, and programs made from the code under judgement: plainly, or in the grader's sandbox.

Both ways a command starts in an empty folder of its own, gets files there, and leaves files there; a check
cannot tell which it was.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

MAX_KEPT_BYTES = 64 * 2**20
# What a command in the sandbox is told of this process's environment.
PASSED_ON = ("PATH", "CUDA_VISIBLE_DEVICES", "CUBLAS_LIBRARY")

_sandbox: str | None = None
_longest_s = float("inf")


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


def use_sandbox(address: str | None, *, longest_s: float = float("inf")) -> None:
    """From here on commands of this process run in the sandbox at this address; None: plainly.

    longest_s: no command may take longer, whatever is asked for.
    """
    global _sandbox, _longest_s
    _sandbox, _longest_s = address, longest_s


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
    process, in a sandbox only PASSED_ON of them. loopback: in a sandbox it may reach itself by the internet
    protocols, and nobody else.
    Raises OSError if the command cannot be started.
    """
    argv, keep = [str(part) for part in argv], list(keep)
    timeout_s = min(timeout_s, _longest_s)
    if _sandbox is not None:
        from grading.grader.sandbox import client

        done = client.run(
            _sandbox,
            argv,
            files=dict(files or {}),
            readable=list(readable),
            environment=dict(_passed_on() if environment is None else environment),
            timeout_s=timeout_s,
            keep=keep,
            loopback=loopback,
        )
        return Completed(
            done.returncode, _text(done.stdout), _text(done.stderr), dict(done.files), done.cause
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


def _passed_on() -> dict[str, str]:
    return {"PATH": os.defpath} | {n: os.environ[n] for n in PASSED_ON if n in os.environ}


def _plain(file: Path) -> bytes | None:
    if file.is_symlink() or not file.is_file() or file.stat().st_size > MAX_KEPT_BYTES:
        return None
    return file.read_bytes()


def _text(data: bytes | str) -> str:
    return data if isinstance(data, str) else data.decode("utf-8", "replace")
