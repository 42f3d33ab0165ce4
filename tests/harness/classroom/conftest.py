"""A small course in a repository, and the class repository that is built of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from grading.classroom import class_repo
from profiling_lab.course import manifest
from tests.harness.classroom.small_course import DUE, FILES, git


@pytest.fixture
def course(tmp_path: Path) -> manifest.Course:
    """A small course in a repository."""
    root = tmp_path / "course"
    for name, text in FILES.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    git(root, "init", "--quiet", "--template=")
    git(root, "add", "--force", ".")
    git(root, "commit", "--quiet", "-m", "The course")
    (root / "notes.txt").write_text("not of the course: git does not know it")
    return manifest.load(root)


@pytest.fixture
def built(course: manifest.Course, tmp_path: Path) -> Path:
    return class_repo.build(course, tmp_path / "class", due=DUE).folder
