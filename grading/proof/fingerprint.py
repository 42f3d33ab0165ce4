"""What a kept result depends on: the references and the checks of an exercise, as hashes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from profiling_lab.course.closure import closure_hash, words
from profiling_lab.course.manifest import Course, Task, checks_in


def of_stubs(course: Course, stubs: Iterable[PurePosixPath]) -> dict[str, str]:
    """Hashes of the references and of the check files of some stubs.

    Python files count by their code, so that comments and layout do not matter; others by their
    bytes.
    """
    stubs = list(stubs)
    return {
        "references": _hash(course.solution(stub) for stub in stubs),
        "checks": _hash(course.checks(stub) for stub in stubs),
    }


def of_task(course: Course, task: Task) -> dict[str, str]:
    """Hashes of what one task rests on: its function, its check functions, and what these use.

    Other tasks of the same files may change. A stub that is not Python counts as a whole.
    """
    solution, checks = course.solution(task.stub), course.checks(task.stub)
    reference = solution.read_text(encoding="utf-8")
    source = checks.read_text(encoding="utf-8")
    bound = sorted(name for name, bound_to in checks_in(checks) if bound_to == task.id)
    return {
        "reference": closure_hash(reference, task.name),
        "checks": " ".join(closure_hash(source, name) for name in bound),
    }


def _hash(files: Iterable[Path]) -> str:
    total = hashlib.sha256()
    for file in files:
        text = file.read_text(encoding="utf-8")
        total.update((words(text) if file.suffix == ".py" else text).encode())
    return total.hexdigest()[:16]
