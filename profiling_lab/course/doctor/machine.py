"""The computer that the doctor asks; tests put another one in its place."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from profiling_lab.record.errors import RecordError
from profiling_lab.record.tools import check_importer

# Hang guards, not limits: a cold disk takes half a minute to load torch.
TOOL_GUARD_S = 30.0
FRAMEWORK_GUARD_S = 180.0


@dataclass(frozen=True)
class Answer:
    """How a command ended. outcome: "done", "absent" (no such program), "hung" or "crashed"."""

    outcome: Literal["done", "absent", "hung", "crashed"]
    output: str = ""
    errors: str = ""
    code: int = 0

    @property
    def good(self) -> bool:
        """Whether the command ran to its end and reported success."""
        return self.outcome == "done" and self.code == 0


class Machine:
    """All that the doctor asks of a computer; tests put another computer in its place.

    root: the folder that stands for "/" when files of the system are read.
    """

    def __init__(self) -> None:
        self.platform: str = sys.platform
        self.architecture: str = platform.machine()
        self.python: str = platform.python_version()
        self.environ: Mapping[str, str] = os.environ
        self.root: Path = Path("/")
        self.here: Path = Path.cwd()

    def system(self) -> str:
        """The operating system with its version, in words."""
        if self.platform == "linux":
            with contextlib.suppress(OSError):
                return platform.freedesktop_os_release().get("PRETTY_NAME", "Linux")
        return f"{platform.system()} {platform.release()}"

    def read(self, path: str) -> str | None:
        """The text of a system file ("proc/version"); None where it cannot be read."""
        try:
            return (self.root / path).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None

    def glob(self, pattern: str) -> list[Path]:
        """The system's files that match, the newest version last."""
        try:
            return sorted(self.root.glob(pattern), key=version_order)
        except OSError:
            return []

    def which(self, program: str) -> str | None:
        """Where a program lies on PATH."""
        return shutil.which(program, path=self.environ.get("PATH", ""))

    def module(self, name: str) -> Path | None:
        """The folder or file of an installed top-level module, found without importing it."""
        for entry in sys.path:
            folder = Path(entry or ".") / name
            for place in (folder, folder.with_suffix(".py")):
                if place.exists():
                    return place
        return None

    def run(self, command: Sequence[str], guard_s: float = TOOL_GUARD_S) -> Answer:
        """Run a command, whatever it does: hang, crash or flood."""
        return run_guarded(command, guard_s, self.environ)

    def importer_trouble(self, nsys: str) -> str:
        """What keeps Nsight Systems from turning a recording into a report; "" where nothing."""
        try:
            check_importer(Path(nsys))
        except (OSError, RecordError) as error:
            return str(error)
        return ""

    def disk_free_bytes(self) -> int | None:
        """Free space where captures would be written, in bytes."""
        try:
            return shutil.disk_usage(self.here).free
        except OSError:
            return None


def run_guarded(
    command: Sequence[str], guard_s: float, environ: Mapping[str, str] | None = None
) -> Answer:
    """Run a command in a process group of its own and give up on it after `guard_s` seconds.

    Its output goes to files: a pipe stays open as long as any grandchild lives. A process stuck in
    the kernel (a wedged driver) survives SIGKILL, so the end of a killed one is not waited for.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        try:
            process = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=None if environ is None else dict(environ),
                start_new_session=os.name == "posix",
            )
        except FileNotFoundError:
            return Answer("absent")
        except OSError as error:
            return Answer("crashed", errors=str(error))
        try:
            code = process.wait(guard_s)
        except subprocess.TimeoutExpired:
            _kill(process)
            return Answer("hung", _tail(out), _tail(err))
        outcome = "crashed" if code < 0 or code > 0x3FFFFFFF else "done"
        return Answer(outcome, _tail(out), _tail(err), code)


def _kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(OSError):
        if os.name == "posix":
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(1)


def _tail(file: Any, most_bytes: int = 200_000) -> str:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - most_bytes))
    return file.read().decode("utf-8", errors="replace").strip()


def version_order(path: Path) -> list[tuple[int, str]]:
    """Sort key under which 2025.10 comes after 2025.3."""
    return [
        (int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", str(path))
    ]


def why(answer: Answer, guard_s: float = TOOL_GUARD_S) -> str:
    """One line on why a command gave no answer."""
    if answer.outcome == "absent":
        return "no such program"
    if answer.outcome == "hung":
        return f"no answer within {guard_s:.0f} s"
    lines = [line.strip() for line in (answer.errors or answer.output).splitlines() if line.strip()]
    last = shorten(lines[-1]) if lines else ""
    if answer.outcome == "crashed":
        ended = f"it crashed (exit status {answer.code})" if answer.code else "it could not start"
        return f"{ended}: {last}" if last else ended
    return last or f"it ended with exit status {answer.code} and no message"


def shorten(text: str, most: int = 160) -> str:
    """A text on one line, cut off after so many characters."""
    text = " ".join(text.split())
    return text if len(text) <= most else text[: most - 1] + "…"


@dataclass(frozen=True)
class Probe:
    """The answer of one Python probe: what it printed, or why it printed nothing."""

    data: Mapping[str, Any] = field(default_factory=dict)
    trouble: str = ""


def ask_python(machine: Machine, code: str, guard_s: float = FRAMEWORK_GUARD_S) -> Probe:
    """Run a probe in a Python of its own."""
    answer = machine.run([sys.executable, "-c", code], guard_s)
    if answer.good:
        with contextlib.suppress(ValueError, IndexError):
            data = json.loads(answer.output.splitlines()[-1])
            if isinstance(data, dict):
                return Probe(data)
    return Probe(trouble=why(answer, guard_s))


def version_of(machine: Machine, program: str | None) -> tuple[str, str]:
    """(version, "") of a program, or ("", why not); ("", "absent") where there is none."""
    if program is None:
        return "", "absent"
    # Microsoft's compiler knows no --version, and greets with its version when called bare.
    bare = Path(program).stem.lower() == "cl"
    answer = machine.run([program] if bare else [program, "--version"])
    if not answer.good and not bare:
        return "", why(answer)
    match = re.search(r"\d+\.\d+(?:\.\d+)*", _release_line(answer.output or answer.errors))
    return (match.group(), "") if match else ("", "it did not tell its version")


def _release_line(text: str) -> str:
    """The line of a tool's --version that holds the version, from there on."""
    for mark in ("release ", "Version ", "version "):
        if mark in text:
            return text[text.index(mark) :]
    return text
