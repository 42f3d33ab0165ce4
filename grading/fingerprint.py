"""What a kept result depends on: the references and the checks of an exercise, as hashes."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from profiling_lab.course import Course


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


def _hash(files: Iterable[Path]) -> str:
    total = hashlib.sha256()
    for file in files:
        text = file.read_text(encoding="utf-8")
        total.update((ast.dump(ast.parse(text)) if file.suffix == ".py" else text).encode())
    return total.hexdigest()[:16]
