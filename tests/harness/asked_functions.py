"""The course's functions as references, changed and still to do, and what asking them says."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from profiling_lab.captures import inputs
from profiling_lab.course import manifest as course
from profiling_lab.mine import asking
from profiling_lab.mine.functions import Functions, functions_for

ROOT = Path(__file__).resolve().parents[2]

COURSE = course.load(ROOT)
REFERENCE = partial(functions_for, against=str(ROOT / "solutions"))
FunctionsFor = Callable[[str], Functions]


def ask(*names: str, functions: FunctionsFor = REFERENCE, **more: str) -> asking.Verdict:
    [run] = inputs.runs(inputs.read(names))
    return asking.ask_all(run, functions, **more)


def changed(folder: Path, source: str, *exercises: str, add: bool = True) -> FunctionsFor:
    """The references, but for some exercises, whose functions are replaced (or alone, without `add`)."""

    def of(identifier: str) -> Functions:
        if identifier not in exercises:
            return REFERENCE(identifier)
        stub = COURSE.exercise(identifier).stub
        file = folder / stub
        file.parent.mkdir(parents=True, exist_ok=True)
        before = (ROOT / "solutions" / stub).read_text(encoding="utf-8") if add else ""
        file.write_text(f"{before}\n\n{source}", encoding="utf-8")
        return functions_for(identifier, str(folder))

    return of


def to_do(folder: Path, *exercises: str) -> FunctionsFor:
    """The references, but for some exercises, of which nothing is written, not even what their stubs give."""

    def of(identifier: str) -> Functions:
        if identifier not in exercises:
            return REFERENCE(identifier)
        exercise = COURSE.exercise(identifier)
        file = folder / exercise.stub
        file.parent.mkdir(parents=True, exist_ok=True)
        lines = ["from __future__ import annotations", ""]
        for task in exercise.tasks:
            lines += [f"def {task.name}(*given):", "    raise NotImplementedError", ""]
        file.write_text("\n".join(lines), encoding="utf-8")
        return functions_for(identifier, str(folder))

    return of
