"""What the course gives to everybody, which is no evidence of likeness: stubs, lessons, given sources."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from grading.gradebook.similarity.cuda_forms import cuda_statements, cuda_tokens, is_word
from grading.gradebook.similarity.normal_forms import defined, statement_forms
from grading.grader.intake.parsing import parse_guarded
from grading.grader.intake.refused import FILE_BYTES
from profiling_lab.course import stubs
from profiling_lab.course.manifest import Course, Exercise
from profiling_lab.errors import CourseError


@dataclass(frozen=True)
class Given:
    """What an exercise hands to everybody.

    names: of each stub, those that it defines or imports. statements: normal forms of all statements that
    stand in lessons and given files. words: identifiers of the given CUDA sources, by stub.
    """

    names: dict[PurePosixPath, frozenset[str]] = field(default_factory=dict)
    statements: frozenset[str] = frozenset()
    words: dict[PurePosixPath, frozenset[str]] = field(default_factory=dict)


_FENCE = re.compile(
    r"^(?P<mark>`{3,}|~{3,})[^\n]*\n(?P<code>.*?)^(?P=mark)[ \t]*$", re.DOTALL | re.MULTILINE
)


def given(course: Course, exercise: Exercise) -> Given:
    """What the course gives for an exercise: stubs, lessons, and the other sources in its folder."""
    try:
        texts = {
            PurePosixPath(path.relative_to(course.root)): text
            for path, text in stubs.generate(course, exercise).items()
        }
    except (CourseError, OSError):  # a repository without the references
        texts = {stub: read(course.root / stub) for stub in exercise.stubs}
    names, words, statements = {}, {}, set()
    sources = [text for stub, text in texts.items() if stub.suffix == ".py"]
    cuda = [text for stub, text in texts.items() if stub.suffix != ".py"]
    for file in _given_files(course, exercise):
        text = read(file)
        if file.suffix == ".md":
            blocks = [match["code"] for match in _FENCE.finditer(text)]
            sources += [
                re.sub(r"^[ \t]*(?:>>> ?|\.\.\. ?)", "", block, flags=re.M) for block in blocks
            ]
            cuda += blocks
        elif file.suffix == ".py":
            sources.append(text)
        else:
            cuda.append(text)
    for text in sources:
        statements.update(statement_forms(text))
    tokens = [cuda_tokens(text) for text in cuda]
    statements |= {form for one in tokens for form, _ in cuda_statements(one)}
    known = frozenset(token for one in tokens for token in one if is_word(token))
    for stub, text in texts.items():
        if stub.suffix == ".py":
            tree = parse_guarded(text)
            names[stub] = frozenset(defined(tree)) if tree else frozenset()
        else:
            words[stub] = known
    return Given(names, frozenset(statements), words)


def _given_files(course: Course, exercise: Exercise) -> list[Path]:
    """Lessons, and sources that are no stubs, in the exercise's folder, and in the one of its unit."""
    folder = course.root / exercise.folder
    own = {course.root / stub for other in course.exercises for stub in other.stubs}
    kinds = (".md", ".py", ".cu", ".cuh", ".h", ".hpp")
    inside = (file for file in folder.rglob("*") if file.suffix in kinds)
    above = folder.parent.glob("*.md")
    unit = course.root.joinpath(*folder.relative_to(course.root).parts[:1])
    docs = unit.glob("docs/*.md")
    return sorted({file for file in (*inside, *above, *docs) if file.is_file()} - own)


def read(file: Path) -> str:
    try:
        with open(file, encoding="utf-8", errors="replace") as opened:
            return opened.read(FILE_BYTES)
    except OSError:
        return ""
