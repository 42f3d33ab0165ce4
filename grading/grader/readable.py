"""What of the course a submission can read while it is judged: an allow-list, by place and kind."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from profiling_lab.course.manifest import Course

# What decides by itself what slows a program down: in the sandbox it would answer for the learner.
ENGINE = ("analysis", "diagnosis")
# Recordings, as regular expressions for paths from the course's root. Pages, recipes and programs say what was
# planted; only headers are there, for given programs include them.
RECORDED = r"(csv|gz|json|ncu-rep|nsys-rep|sql|sqlite|txt)"
RECORDINGS = (
    rf"captures/(?!case_|programs/)[^/]+/.*\.{RECORDED}",
    rf"captures/case_[^/]+/(?!provenance\.json).*\.{RECORDED}",  # how a case was started is its answer
    r"captures/programs/(?!case_).*\.cuh",
)


def readable(course: Course) -> list[Path]:
    """Files and folders: of the library all but the engine and the analysis that it rests on; by name what the
    manifest gives with an exercise, and probes. What else lies in their folders is not, and of captures
    what `is_recorded` says.
    """
    library = sorted((course.root / "profiling_lab").glob("*"))
    given = {course.root / file for exercise in course.exercises for file in exercise.given}
    paths = [entry for entry in library if entry.name not in ENGINE] + sorted(given)
    paths += sorted({p for e in course.exercises for stub in e.stubs for p in course.probes(stub)})
    return [path for path in paths if path.exists()]


def is_recorded(inside: PurePosixPath) -> bool:
    """Whether a submission can read a file of the captures."""
    return any(re.fullmatch(pattern, str(inside)) for pattern in RECORDINGS)


def copy_recordings(course: Course, folder: Path) -> None:
    """Make `folder`: the captures, with only what a submission can read."""

    def left_out(where: str, names: Iterable[str]) -> set[str]:
        inside = PurePosixPath(Path(where).relative_to(course.root).as_posix())
        return {
            name
            for name in names
            if not os.path.isdir(os.path.join(where, name)) and not is_recorded(inside / name)
        }

    shutil.copytree(course.root / "captures", folder, ignore=left_out)
