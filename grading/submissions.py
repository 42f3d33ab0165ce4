"""Takes submissions in: folders, archives and clones become trees that hold the course's stub files and no more."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Submission:
    """One student's work, staged.

    student: the entry's name, without an archive's suffix. tree: a folder with the taken files at the paths
    of the manifest, and nothing else. sha256: of these files with their paths. files: by path of the manifest,
    "submitted", "missing" or "refused: why". extra: what else was there, not taken. error: why nothing
    could be taken; "" otherwise. submitted_at: seconds since 1970 of the last commit or change, None if unknown.
    """

    student: str
    tree: Path
    sha256: str
    files: dict[str, str] = field(default_factory=dict)
    extra: tuple[str, ...] = ()
    extra_count: int = 0
    error: str = ""
    submitted_at: float | None = None
