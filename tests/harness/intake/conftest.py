"""A small course, and a reader that takes entries in."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from grading.grader.intake import submissions
from profiling_lab.course import manifest


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    root = tmp_path_factory.mktemp("course")
    (root / "course.toml").write_text(
        textwrap.dedent(
            """
            [course]
            title = "Small"
            [[exercises]]
            id = "ex_1"
            title = "One"
            stub = "week07/day1/ex_1.py"
            minutes = 1
            difficulty = 1
            skills = []
            tasks = [{name = "a", title = "A", points = 1},
                     {name = "b", title = "B", points = 1, stub = "more.py"}]
            [[exercises]]
            id = "ex_2"
            title = "Two"
            stub = "week07/day2/ex_2.cu"
            minutes = 1
            difficulty = 1
            skills = []
            tasks = [{name = "c", title = "C", points = 1}]
            """
        )
    )
    (root / "README.md").write_text("the course's own\n")
    return manifest.load(root)


@pytest.fixture(scope="module")
def reader(course, tmp_path_factory):
    """One reading process for the whole file, as for a whole class."""
    staging = tmp_path_factory.mktemp("staging")
    stubs = [str(stub) for exercise in course.exercises for stub in exercise.stubs]
    with submissions._Reader(stubs, course.root, staging) as reader:
        yield reader


@pytest.fixture
def take(reader, tmp_path):
    """Take one entry in, and hand back what came of it, with the bytes of what was staged."""

    def take(entry: Path) -> dict:
        tree = tmp_path / "tree"
        taken = reader.take(entry, tree)
        staged = {p.relative_to(tree).as_posix(): p for p in tree.rglob("*") if not p.is_dir()}
        assert not any(path.is_symlink() for path in staged.values())
        assert set(staged) == {p for p, state in taken["files"].items() if state == "submitted"}
        return {**taken, "staged": {name: path.read_bytes() for name, path in staged.items()}}

    return take
