"""Opening captures and asking the functions of a tree about them, for the commands that do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from profiling_lab import captures
from profiling_lab.cli.screen import note_while
from profiling_lab.mine.diagnosis import Diagnosis, display_name
from profiling_lab.mine.diagnosis import diagnose as run
from profiling_lab.mine.functions import Functions

if TYPE_CHECKING:
    from profiling_lab.captures.nsys_export import NsysCapture


def diagnosed(name: str, functions: Functions | None, nvtx_range: str | None) -> Diagnosis:
    """A capture, opened and asked; its tables stay readable as long as the process lives."""
    with note_while(f"reading {display_name(captures.path(name))}"):
        recording: NsysCapture = captures.open(name)
        return run(recording, functions, nvtx_range=nvtx_range)
