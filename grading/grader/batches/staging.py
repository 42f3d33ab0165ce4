"""Where submissions lie while they are judged: taken in anew by each run, and removed after it."""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from grading.grader.batches.output_folder import StoreError, trouble
from grading.grader.batches.store import WORK
from grading.grader.intake import submissions
from grading.grader.intake.submissions import Submission
from profiling_lab.course.manifest import Course
from profiling_lab.errors import LabError

if TYPE_CHECKING:
    pass


@contextlib.contextmanager
def staging_folder(out: Path) -> Iterator[Path]:
    """A private folder for what was taken in; what a killed run left there is removed."""
    folder = out.resolve() / WORK / "submissions"
    shutil.rmtree(folder, ignore_errors=True)
    try:
        folder.mkdir(parents=True, mode=0o700)
    except OSError as error:
        raise StoreError(
            f"{folder}: cannot be made: {trouble(error)}; fix that or choose another --out"
        ) from None
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(OSError):
            folder.parent.rmdir()


def read_json(file: Path) -> dict[str, str]:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def take_in(
    source: Path,
    course: Course,
    staging: Path,
    say: Callable[[str], None],
    broke_reader: dict[str, str] | None = None,
) -> list[Submission]:
    """Every submission of a folder, staged. Raises LabError if there is none, or no room for them."""
    try:
        taken = submissions.take_in(
            source,
            course,
            staging,
            notice=say,
            progress=_taking_in,
            broke_reader=broke_reader,
        )
    except OSError as error:
        raise LabError(
            f"{error.filename or source}: {trouble(error)}, while taking submissions in (nothing was "
            "lost); fix that and run the same command again"
        ) from None
    for submission in taken:
        if submission.error:
            say(f"{submission.student}: not taken: {submission.error}")
    return taken


def _taking_in(done: int, of: int) -> None:
    if sys.stderr.isatty():
        end = "\r\033[K" if done == of else ""
        sys.stderr.write(f"\rtaking in {done} of {of} submissions{end}")
        sys.stderr.flush()
