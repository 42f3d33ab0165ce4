"""The exercise that `lab dev new` makes: an example in which every part runs, to be replaced part by part."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

from profiling_lab.course.manifest import Course
from profiling_lab.errors import CourseError

# Beside the lessons' sources and not here: what a class gets holds no reference.
PARTS = Path(__file__).resolve().parents[2] / "scripts" / "skeleton"
FILES = {
    "@folder@/README.md": "lesson",
    "scripts/lesson_sources/@folder@/README.md": "lesson",
    "@folder@/hints.md": "hints",
    "solutions/@folder@/@name@.py": "reference",
    "tests/@folder@/test_@name@.py": "checks",
    "tests/@folder@/mistakes_@name@.toml": "mistakes",
}


def as_section(page: str) -> str:
    """A page as a section of another one: a title of "Hints" goes, others come one level deeper."""
    title, _, rest = page.partition("\n")
    if title == "# Hints":
        return rest.lstrip("\n")
    return re.sub(r"^#", "##", page, flags=re.MULTILINE)


def in_order(course: Course, text: str, folder: PurePosixPath, table: str) -> str:
    """The manifest's text with a new table: after the exercises of its folder and of folders before it."""
    blocks = re.split(r"^(?=\[\[exercises\]\])", text, flags=re.MULTILINE)
    earlier = [
        (exercise.folder, number)
        for number, exercise in enumerate(course.exercises, 1)
        if exercise.folder.parts[0] == folder.parts[0] and exercise.folder <= folder
    ]
    place = max(earlier)[1] + 1 if earlier else len(blocks)
    blocks[place - 1] = blocks[place - 1].rstrip("\n") + "\n\n"
    blocks.insert(place, table + ("\n" if place < len(blocks) else ""))
    return "".join(blocks)


def fill(text: str, words: dict[str, str]) -> str:
    for key, value in words.items():
        text = text.replace(f"@{key}@", value)
    return text


def texts(words: dict[str, str]) -> dict[PurePosixPath, str]:
    """The files of an exercise, by their paths in the course. words: what stands for `@id@` and the like.

    Raises CourseError in a class's course, which has no example to copy.
    """
    return {PurePosixPath(fill(path, words)): _read(name, words) for path, name in FILES.items()}


def table(words: dict[str, str]) -> str:
    """What the manifest says of the exercise."""
    return _read("manifest", words)


def _read(name: str, words: dict[str, str]) -> str:
    try:
        return fill((PARTS / f"{name}.txt").read_text(encoding="utf-8"), words)
    except OSError as error:
        raise CourseError(
            f"{error.filename}: is not there; exercises are added in a clone"
        ) from None
