"""What every way of making a capture has in common."""

from __future__ import annotations

import abc
import gzip
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from profiling_lab.record import tools
from profiling_lab.record.errors import RecordError

if TYPE_CHECKING:
    from profiling_lab.record.recipes import Recipe

COMPRESS_ABOVE_BYTES = 64 * 1024


@dataclass(frozen=True)
class Setting:
    """What one call of the recorder gives to its profilers.

    prefix: the words before a command that isolate it (see `tools.isolation`).
    own_names: names of this host and user, which no shipped byte may hold.
    """

    captures: Path
    deadline: tools.Deadline
    say: Callable[[str], None]
    prefix: tuple[str, ...] = ()
    own_names: tuple[bytes, ...] = ()


class Profiler(abc.ABC):
    """One way of making a capture; one object for a call of the recorder.

    name: as in `captures.toml`. keys: what a capture may say there beside the common keys.
    concatenated: keys whose list is added to that of `[defaults.<name>]`; of the others, the
    capture's own value stands. help_texts: file of `tool_help/` to the arguments that print it.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    keys: ClassVar[frozenset[str]] = frozenset()
    concatenated: ClassVar[frozenset[str]] = frozenset(("options",))
    help_texts: ClassVar[dict[str, tuple[str, ...]]] = {}

    def __init__(self, setting: Setting, given: str | None = None) -> None:
        self.setting = setting
        self.tool = self.find(given)

    # -- what a recipe says ---------------------------------------------------------------------

    @classmethod
    @abc.abstractmethod
    def command(cls, recipe: Recipe, program: Sequence[str]) -> list[str]:
        """The command line as a reader would type it; `program` is the program's part of it."""

    @classmethod
    @abc.abstractmethod
    def main_file(cls, recipe: Recipe) -> str:
        """The file without which a capture is missing."""

    # -- the tool -------------------------------------------------------------------------------

    @classmethod
    @abc.abstractmethod
    def find(cls, given: str | None) -> Path | None:
        """The program of the tool, None where there is none to find. Raises RecordError."""

    @abc.abstractmethod
    def version(self) -> str: ...

    def schema_version(self, folder: Path) -> str | None:
        """The version of the layout of the files in `folder`, where they have one."""
        return None

    # -- a recording ----------------------------------------------------------------------------

    @abc.abstractmethod
    def profile(self, recipe: Recipe, program: Sequence[str], work: Path) -> str:
        """Run `program` in `work` and return what it printed. Raises RecordError."""

    @abc.abstractmethod
    def collect(self, recipe: Recipe, work: Path, fresh: Path) -> None:
        """Put what is kept of `work` into `fresh`, scrubbed. Raises RecordError."""

    def finish(self) -> None:
        """What is done once, after the last recording; most have nothing to do."""
        return

    # -- for those that follow ------------------------------------------------------------------

    def isolated(
        self, recipe: Recipe, command: Sequence[str], work: Path, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in `work`, isolated and with a neutral environment."""
        extra = {**environment, **recipe.environment}
        if recipe.gpus > 1:
            extra = {**tools.NO_MULTICAST, **extra}
        return tools.run(
            [*self.setting.prefix, *command],
            deadline=self.setting.deadline,
            folder=work,
            environment=tools.neutral_environment(extra),
        )

    def run_tool(self, *arguments: str, folder: Path | None = None):
        """Run the tool itself, on files or for a text."""
        if self.tool is None:
            raise RecordError(f"{self.title} has no program of its own")
        return tools.run(
            [str(self.tool), *arguments],
            deadline=self.setting.deadline,
            folder=folder or Path("/"),
            environment=tools.neutral_environment({}),
        )


def ended_well(done: subprocess.CompletedProcess[str], program: Sequence[str], before: str = ""):
    """Raise RecordError with the program's last line if it failed."""
    if done.returncode:
        raise RecordError(
            f"{' '.join(program)} ended with status {done.returncode}:"
            f" {last_line(done.stdout, before=before)}"
        )


def last_line(text: str, before: str = "") -> str:
    """The last line that says something, of those before the first that starts with `before`."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if before:
        cut = next((i for i, line in enumerate(lines) if line.startswith(before)), len(lines))
        lines = lines[:cut]
    return lines[-1] if lines else "no output"


def keep(folder: Path, name: str, data: bytes) -> Path:
    """Write one file of a capture, compressed under `name`.gz where it is large."""
    large = len(data) > COMPRESS_ABOVE_BYTES
    file = folder / (f"{name}.gz" if large else name)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(gzip.compress(data, 9, mtime=0) if large else data)
    return file
