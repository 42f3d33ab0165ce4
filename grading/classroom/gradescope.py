"""Gradescope: a zip with `setup.sh` and `run_autograder`, and the course that they install and run.

Layout as documented (gradescope-autograders.readthedocs.io, "Autograder Specifications"): the zip's
content lies in /autograder/source, a submission in /autograder/submission, and the results are wanted
in /autograder/results/results.json.
"""

from __future__ import annotations

import json
import secrets
import tempfile
import zipfile
from collections.abc import Collection, Iterator
from pathlib import Path

from grading.classroom import class_repo
from grading.classroom.class_repo import TEMPLATES
from grading.grader.batches.batch import MOST_SEED
from profiling_lab import needs
from profiling_lab.atomic_files import replaced
from profiling_lab.course.manifest import Course
from profiling_lab.errors import LabError

ZIP_DATE = (1980, 1, 1, 0, 0, 0)  # the same course gives the same file
TIMEOUT_S = 540  # the smallest limit that Gradescope offers is ten minutes


def build(
    course: Course,
    file: Path,
    *,
    exercises: Collection[str] = (),
    title: str = "",
    policy: Path | None = None,
    cases: Path | None = None,
    seed: int | None = None,
    unprotected: str = "",
    timeout_s: int = TIMEOUT_S,
) -> list[str]:
    """Write the autograder's zip; returns the names in it.

    The course in it is that of a class repository: no references. seed: of what the checks draw; drawn
    now by default, so that every submission to this bundle meets the same. policy: its deadline is left
    out. unprotected: the words that
    `grade --unprotected` wants. Raises LabError.
    """
    if file.suffix != ".zip":
        raise LabError(f"{file}: Gradescope takes a .zip; name the file so")
    if policy is not None and not policy.is_file():
        raise LabError(f"--policy {policy}: no such file")
    if cases is not None and not cases.is_dir():
        raise LabError(f"--cases {cases}: no such folder")
    settings = {
        "seed": 1 + secrets.randbelow(MOST_SEED) if seed is None else seed,
        "timeout_s": timeout_s,
        "policy": "policy.toml" if policy else "",
        "cases": "cases" if cases else "",
        "unprotected": unprotected,
    }
    try:
        if not file.parent.is_dir():
            raise LabError(f"{file}: there is no folder {file.parent}")
        with tempfile.TemporaryDirectory(prefix="gradescope_") as scratch:
            built = class_repo.build(
                course, Path(scratch) / "course", exercises=exercises, title=title, git=False
            )
            chosen = [each for each in course.exercises if not exercises or each.id in exercises]
            setup = class_repo.installing("setup.sh", chosen)
            return _pack(file, dict(_members(built, setup, settings, policy, cases)))
    except OSError as error:
        raise LabError(f"{error.filename or file}: cannot be written ({error.strerror})") from None


def _members(
    built: class_repo.Built, setup: str, settings: dict, policy: Path | None, cases: Path | None
) -> Iterator[tuple[str, tuple[bytes, int]]]:
    """Name in the zip, content and mode."""
    yield "setup.sh", (setup.encode(), 0o755)
    yield "run_autograder", ((TEMPLATES / "run_autograder.py").read_bytes(), 0o755)
    yield "settings.json", ((json.dumps(settings, indent=1) + "\n").encode(), 0o644)
    if policy is not None:
        yield "policy.toml", (for_gradescope(policy).encode(), 0o644)
    if cases is not None:
        for place in sorted(cases.rglob("*")):
            if place.is_file() and "__pycache__" not in place.parts:
                yield f"cases/{place.relative_to(cases).as_posix()}", (place.read_bytes(), 0o644)
    for name in built.files:
        place = built.folder / name
        yield f"course/{name}", (place.read_bytes(), place.stat().st_mode & 0o777)


def for_gradescope(policy: Path) -> str:
    """A policy without its deadline, and without tasks for a person: Gradescope has its own ways for both."""
    tomlkit = needs.module("tomlkit")
    try:
        document = tomlkit.parse(policy.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise LabError(f"--policy {policy}: cannot be read ({error})") from None
    for table in ("deadline", "by_hand"):
        document.pop(table, None)
    return tomlkit.dumps(document)


def _pack(file: Path, members: dict[str, tuple[bytes, int]]) -> list[str]:
    with replaced(file) as draft, zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, (content, mode) in members.items():
            info = zipfile.ZipInfo(name, ZIP_DATE)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.create_system = 3  # Unix, so that the modes count
            info.external_attr = (0o100000 | mode) << 16
            archive.writestr(info, content)
    return list(members)
