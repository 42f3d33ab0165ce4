"""What a kept result depends on: references, checks, and all first-party code that they use, as hashes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from grading.proof.rests_on import CODE, WHOLE, Part, closure, digests, total
from profiling_lab.course.manifest import Course, Task, checks_in

HEADERS = {".cuh", ".h", ".hpp"}


def of_stubs(course: Course, stubs: Iterable[PurePosixPath]) -> dict[str, str]:
    """Hashes of what the references and the check files of some stubs rest on."""
    stubs = list(stubs)
    return {
        "references": total(
            closure((Part(course.solution(stub), WHOLE) for stub in stubs), course.root)
        ),
        "checks": total(closure((Part(course.checks(stub), WHOLE) for stub in stubs), course.root)),
    }


def of_task(course: Course, task: Task) -> dict[str, str]:
    """Hashes of what one task rests on: its function, its check functions, and what these use.

    Other tasks of the same files may change. A stub that is not Python counts as a whole, with its headers.
    """
    return {
        "reference": total(closure(_reference(course, task), course.root)),
        "checks": total(closure(_checks(course, task), course.root)),
    }


def parts_of_task(course: Course, task: Task) -> dict[Part, str]:
    """Each part that a task rests on, with the hash of its text."""
    return digests(closure([*_reference(course, task), *_checks(course, task)], course.root))


def own_of_task(course: Course, task: Task) -> str:
    """As `of_task`, of the task's own files alone: its reference and its checks, without what these import."""
    return _own(course, task.stub, [*_reference(course, task), *_checks(course, task)])


def own_of_function(course: Course, stub: PurePosixPath, function: str) -> str:
    """A hash of a function of a reference and of what it uses in the same file."""
    return _own(course, stub, [Part(course.solution(stub), function)])


def _own(course: Course, stub: PurePosixPath, parts: list[Part]) -> str:
    own = {course.solution(stub).resolve(), course.checks(stub).resolve()}
    rest = closure(parts, course.root)
    return total({part: text for part, text in rest.items() if part.file in own})


def _reference(course: Course, task: Task) -> list[Part]:
    file = course.solution(task.stub)
    if file.suffix == ".py":
        return [Part(file, task.name if _defines(file, task.name) else WHOLE)]
    given = (course.root / task.stub).parent
    headers = [path for path in sorted(given.iterdir()) if path.suffix in HEADERS & CODE]
    return [Part(path, WHOLE) for path in (file, *headers)]


def _defines(file: Path, name: str) -> bool:
    return f"def {name}(" in file.read_text(encoding="utf-8")


def _checks(course: Course, task: Task) -> list[Part]:
    file = course.checks(task.stub)
    return [Part(file, name) for name, bound_to in checks_in(file) if bound_to == task.id]
