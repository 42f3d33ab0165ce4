"""Mistakes that a learner could make, as edits of the reference: the proof tries the checks on them.

`tests/<folder>/mistakes_<stub>.toml` names for each the check that must catch it and the mistake itself:

    [test_the_larger_is_found.smaller]
    says = "the larger of the two"
    find = 'max(first, second)'
    put = 'min(first, second)'

says: words of the check's message. find: text that is in the reference exactly once; put: what stands
there instead. Several edits are `edits = [{ find = …, put = … }, …]`. Where that would be longer, `code`
holds whole definitions: they follow the reference and so take the place of its own of the same names; for
a CUDA stub it is the whole file.
"""

from __future__ import annotations

import ast
import io
import itertools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from profiling_lab.course.manifest import Course, checks_in
from profiling_lab.errors import CourseError

_FORMS = ({"says", "find", "put"}, {"says", "edits"}, {"says", "code"})

# From and to which character of the reference, and what stands there instead.
Edit = tuple[int, int, str]


@dataclass(frozen=True)
class Mistake:
    """A mistake in a stub's reference, the check that must catch it, and words of its message.

    source: the whole reference with the mistake in it. names: what it defines otherwise than the
    reference; empty for a CUDA source. task: the id of the check's task.
    """

    stub: PurePosixPath
    slug: str
    caught_by: str
    says: str
    source: str
    names: tuple[str, ...]
    task: str


def names(course: Course, stub: PurePosixPath) -> list[str]:
    """The names of a stub's mistakes, in order; the reference is not looked at. Raises CourseError."""
    return sorted(slug for group in _tables(course.mistakes(stub)).values() for slug in group)


def _tables(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CourseError(f"{file}: {error}") from None


def read(course: Course, stub: PurePosixPath) -> list[Mistake]:
    """The mistakes of a stub, by name; none if it has no file of them.

    Raises CourseError with the name of a mistake if the reference has changed under it, if it changes
    nothing, or if its check is not there.
    """
    file, solution = course.mistakes(stub), course.solution(stub)
    if not (tables := _tables(file)):
        return []
    try:
        reference = _Reference(solution, solution.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CourseError(f"{solution}: missing, and {file} edits it") from None
    except UnicodeDecodeError as error:
        raise CourseError(f"{solution}: {error}") from None
    checks = dict(checks_in(course.checks(stub)))
    out: dict[str, Mistake] = {}
    for caught_by, group in tables.items():
        task = checks.get(caught_by.split("[")[0])
        if task is None:
            named = ", ".join(group) if isinstance(group, dict) else ""
            raise CourseError(
                f"{file}: {caught_by}: no check of {course.checks(stub).name}; it is to catch {named}"
            )
        for slug, table in group.items():
            if slug in out:
                raise CourseError(f"{file}: {slug}: two mistakes have this name")
            try:
                out[slug] = _mistake(reference, stub, (slug, caught_by), task, table)
            except CourseError as error:
                raise CourseError(f"{file}: {slug}: {error}") from None
    return [out[slug] for slug in sorted(out)]


def _mistake(
    reference: _Reference, stub: PurePosixPath, called: tuple[str, str], task: str, table: Any
) -> Mistake:
    if not isinstance(table, Mapping) or set(table) not in _FORMS:
        raise CourseError("has says, and either find and put, or edits, or code")
    if not isinstance(table["says"], str) or not table["says"].strip():
        raise CourseError("says is empty: words of the check's message stand there")
    source, names = reference.with_code(table) if "code" in table else reference.with_edits(table)
    if source == reference.text or (reference.is_python and not names):
        raise CourseError(f"is the same as {reference.file}; change what it does")
    return Mistake(stub, *called, table["says"].strip(), source, names, task)


def _edited(text: str, edits: list[Edit], first: int = 0) -> str:
    """A text with edits in it. first: which character of the reference it begins with."""
    for start, end, put in reversed(edits):
        text = text[: start - first] + put + text[end - first :]
    return text


class _Reference:
    """A reference, read once for all its mistakes."""

    def __init__(self, file: Path, text: str) -> None:
        self.file = file
        self.text = text
        self.is_python = file.suffix == ".py"
        self.statements = _statements(text) if self.is_python else []

    def with_edits(self, table: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
        """The text with the edits of an entry, and the names that it defines otherwise."""
        edits = sorted(self._edit(pair) for pair in table.get("edits", [table]))
        if any(one[1] > other[0] for one, other in itertools.pairwise(edits)):
            raise CourseError("two of its edits overlap; make them one")
        return _edited(self.text, edits), self._changed(edits)

    def with_code(self, table: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
        """The text with the definitions of an entry behind it, and the names that they define otherwise."""
        code = table["code"]
        if not self.is_python:
            return code, ()
        before, after = _forms(self.statements), _forms(_parsed(code))
        if not (before.keys() & after.keys()) - {""}:
            raise CourseError(f"its code defines nothing that {self.file} defines")
        return f"{self.text}\n\n{code}", tuple(n for n in after if before.get(n) != after[n])

    def _edit(self, pair: Mapping[str, Any]) -> Edit:
        find, put = pair.get("find"), pair.get("put")
        if not isinstance(find, str) or not isinstance(put, str) or not find.strip():
            raise CourseError("an edit has two texts, find and put")
        count = self.text.count(find)
        if count != 1:
            what = "add lines around it" if count else "the reference has changed: edit it anew"
            raise CourseError(f"{find.strip()!r} is {count} times in {self.file}, not once; {what}")
        start = self.text.index(find)
        return start, start + len(find), put

    def _changed(self, edits: list[Edit]) -> tuple[str, ...]:
        if not self.is_python:
            return ()
        # Only the statements from the first edit to the last are read again.
        start, end = edits[0][0], edits[-1][1]
        old = [one for one in self.statements if one.end > start and one.start < end]
        start, end = min([start, *(s.start for s in old)]), max([end, *(s.end for s in old)])
        new = _parsed(_edited(self.text[start:end], edits, start))
        before, after = _forms(old), _forms(new)
        return tuple(n for n in before | after if before.get(n) != after.get(n))


@dataclass(frozen=True)
class _Statement:
    """A statement at module level: where it stands (with its decorators), what it defines and does."""

    start: int
    end: int
    names: tuple[str, ...]
    form: str


def _forms(statements: list[_Statement]) -> dict[str, str]:
    out: dict[str, str] = {}
    for one in statements:
        for name in one.names:
            out[name] = out.get(name, "") + one.form
    return out


def _parsed(code: str) -> list[_Statement]:
    try:
        return _statements(code)
    except SyntaxError as error:
        raise CourseError(f"is no Python: {error}") from None


def _statements(code: str) -> list[_Statement]:
    lines = io.StringIO(code).readlines()
    offsets = [0, *itertools.accumulate(map(len, lines))]
    out = []
    for node in ast.parse(code).body:
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
        start, end = offsets[first - 1], offsets[node.end_lineno or first]
        names: tuple[str, ...] = ("",)  # what is no definition: imports, say
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names = (node.name,)
            if ast.get_docstring(node) is not None:
                node.body = node.body[1:] or [ast.Pass()]
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = tuple(
                part.id for t in targets for part in ast.walk(t) if isinstance(part, ast.Name)
            )
        out.append(_Statement(start, end, names, ast.dump(node)))
    return out
