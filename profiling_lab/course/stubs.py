"""Generate the learner's stubs from the reference implementations, so that they cannot drift.

Python: the functions that are tasks keep their signature and docstring, and their body becomes
`raise NotImplementedError`. Private names (with a leading underscore) and lines that end in
`# reference only` are left out; everything else stays.

CUDA and anything else that is text: of a region

    // <solution ex_30.some_task>
    the reference
    // <stub>
    //| what the learner gets, each line behind "//| "
    // </solution>

the part after `// <stub>` stays.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

from profiling_lab.course.manifest import Course, Exercise
from profiling_lab.errors import CourseError

REFERENCE_ONLY = "# reference only"


def generate(course: Course, exercise: Exercise) -> dict[Path, str]:
    """The stub files of an exercise, as text by their path in the learner's tree.

    In a copy without references they are those that were handed out with it.
    """
    out = {}
    for stub in exercise.stubs:
        if not course.has_references and course.handed_out(stub).is_file():
            out[course.root / stub] = course.handed_out(stub).read_text(encoding="utf-8")
            continue
        reference = course.solution(stub)
        try:
            source = reference.read_text(encoding="utf-8")
        except FileNotFoundError:
            raise CourseError(f"{reference}: the reference of {exercise.id} is missing") from None
        if stub.suffix == ".py":
            names = {task.name for task in exercise.tasks if task.stub == stub}
            out[course.root / stub] = python_stub(source, names)
        else:
            out[course.root / stub] = region_stub(source)
    return out


def python_stub(source: str, tasks: set[str]) -> str:
    """The stub of a Python reference: `tasks` names the functions whose bodies go."""
    lines = source.splitlines()
    tree = ast.parse(source)
    drop: set[int] = set()  # line numbers, from 1
    replace: dict[int, str] = {}
    defined = set()
    for node in tree.body:
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
        last = node.end_lineno or node.lineno
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name in tasks:
            defined.add(node.name)
            if not ast.get_docstring(node):
                raise CourseError(f"{node.name} has no docstring, so its stub would say nothing")
            body = node.body[0].end_lineno or node.body[0].lineno
            drop |= set(range(body + 1, last + 1))
            replace[body] = lines[body - 1] + "\n    raise NotImplementedError"
        elif _names(node) and all(name.startswith("_") for name in _names(node)):
            while first > 1 and lines[first - 2].startswith("#"):
                first -= 1  # a comment right above belongs to what follows it
            drop |= set(range(first, last + 1))
    if missing := sorted(tasks - defined):
        raise CourseError(f"the reference defines no function {', '.join(missing)}")
    kept = [
        replace.get(number, line)
        for number, line in enumerate(lines, 1)
        if number not in drop and not line.rstrip().endswith(REFERENCE_ONLY)
    ]
    text = "\n".join(kept).strip("\n") + "\n"
    text = re.sub(r"\n{4,}", "\n\n\n", text)
    ast.parse(text)
    return text


def _names(node: ast.stmt) -> list[str]:
    """The names that a module-level definition or assignment binds; none for other statements."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return [node.target.id]
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    return []


_REGION = re.compile(
    r"^[ \t]*// <solution (?P<task>[\w.]+)>\n.*?^[ \t]*// <stub>\n(?P<stub>.*?)^[ \t]*// </solution>\n",
    re.DOTALL | re.MULTILINE,
)


def without_solutions(source: str, tasks: set[str]) -> str:
    """A reference with marked regions, without the regions of some tasks."""
    return _REGION.sub(lambda match: "" if match["task"] in tasks else match[0], source)


def region_stub(source: str) -> str:
    """The stub of a reference with marked regions."""

    def stub_of(match: re.Match[str]) -> str:
        return re.sub(r"^[ \t]*//\|[ ]?", "", match["stub"], flags=re.MULTILINE)

    text, count = _REGION.subn(stub_of, source)
    if not count or "<solution" in text:
        raise CourseError("the reference holds no whole `// <solution ID>` region")
    return text
