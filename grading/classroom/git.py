"""git for class repositories: without anybody's configuration or hooks, and with the same commit each time."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

from profiling_lab.course import manifest
from profiling_lab.course.manifest import Course
from profiling_lab.errors import LabError

# Who commits, so that the same course gives the same commit everywhere.
IDENTITY = {"NAME": "Course", "EMAIL": "course@example.invalid"}
NO_DATE = "2000-01-01T00:00:00+00:00"  # where the course is no clone and so has no date


def run_git(folder: Path, *arguments: str, environment: dict[str, str] | None = None) -> str:
    """Run git without anybody's configuration or hooks; returns what it wrote. Raises LabError."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    clean |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C"}
    options = ["-c", "core.hooksPath=/dev/null", "-c", "core.autocrlf=false", "-c", "gc.auto=0"]
    options += [
        "-c",
        "safe.directory=*",
        "-c",
        "core.quotePath=false",
        "-c",
        "commit.gpgSign=false",
    ]
    done = subprocess.run(
        ["git", *options, *arguments],
        cwd=folder,
        env=clean | (environment or {}),
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise LabError(
            f"{folder}: git {arguments[0]} failed: {said[-1] if said else 'no word why'}"
        )
    return done.stdout


def head(course: Course) -> tuple[str, str]:
    """The course's commit and its date; ("", NO_DATE) where it is no clone."""
    try:
        commit, date = run_git(course.root, "log", "-1", "--format=%H %cI").split()
    except (LabError, OSError, ValueError):
        return "", NO_DATE
    return commit, date


def commit(folder: Path, course: Course, names: Iterable[str], message: str = "") -> str:
    """Commit files, and what of them is gone; returns the commit that is then the newest."""
    _, date = head(course)
    people = {
        f"GIT_{who}_{key}": IDENTITY[key] for who in ("AUTHOR", "COMMITTER") for key in IDENTITY
    }
    people |= {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
    # By name and by force: .gitignore is for what learners produce, not for what is handed out.
    with tempfile.TemporaryDirectory() as scratch:
        listing = Path(scratch) / "names"
        listing.write_text("\0".join(names), encoding="utf-8")
        by_name = (f"--pathspec-from-file={listing}", "--pathspec-file-nul")
        run_git(folder, "--literal-pathspecs", "add", "--force", *by_name)
    run_git(folder, "add", "--update")
    if run_git(folder, "diff", "--cached", "--name-only"):
        message = message or "The course for this class"
        run_git(folder, "commit", "--quiet", "-m", message, environment=people)
    return run_git(folder, "rev-parse", "HEAD").strip()


def commit_file(folder: Path, inside: Path, message: str) -> str:
    """Commit one file of a class repository if that is a clone; the commit, "" without one."""
    if not (folder / ".git").exists():
        return ""
    return commit(folder, manifest.load(folder), [inside.as_posix()], message)
