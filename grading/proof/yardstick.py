"""How long an exercise's core takes: a yardstick from its texts and its reference, in minutes.

    uv run python -m grading.proof.yardstick            # every exercise, a row each
    uv run python -m grading.proof.yardstick ex_30      # with what it is made of

It is an alarm, not a clock: the time that is stated comes from trials. Trials take TRIED times the yardstick,
because much is read twice and first attempts fail. What has had no trials states that. What counts is the core:
tasks that are neither live nor further, a lesson and a notebook up to their heading `## Further`.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import json
import re
import statistics
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from profiling_lab.course import closure, manifest, stubs
from profiling_lab.course.manifest import Course, Exercise, Task
from profiling_lab.errors import CourseError

WORDS_A_MINUTE = 120
STATEMENT_MIN = 0.9
TASK_MIN = 3
DECISION_MIN = 10
REPAIR_MIN = 20
NOTEBOOK_LINE_MIN = 0.5
# Fitted on Days 1, 3 and 5 (236, 231 and 171 minutes in the median trial, 2026-11-28). Days 2 and 4 (240 and 225) then
# come within 7 %. Trials of eight modules took 1.0 to 1.8 times the yardstick, 1.28 in the median.
TRIED = 1.28
FURTHER = re.compile(r"^##? Further\b", re.MULTILINE)
EXAMPLE = re.compile(r"^\s*Example\b", re.MULTILINE)
# What a task asks for beyond computing what its contract tells.
THINKING = ("choose", "predict", "repair", "derive")


@dataclass(frozen=True)
class Measure:
    """What a learner reads, writes and decides in an exercise's core."""

    words: int
    statements: int
    tasks: int
    decisions: int
    repairs: int
    notebook_lines: int

    @property
    def minutes(self) -> float:
        """The yardstick."""
        return (
            self.words / WORDS_A_MINUTE
            + self.statements * STATEMENT_MIN
            + self.tasks * TASK_MIN
            + self.decisions * DECISION_MIN
            + self.repairs * REPAIR_MIN
            + self.notebook_lines * NOTEBOOK_LINE_MIN
        )


@dataclass(frozen=True)
class Contract:
    """A docstring of a core task. words: without its worked example, which stands last."""

    words: int
    has_example: bool


def core(exercise: Exercise) -> list[Task]:
    """The tasks of the core."""
    return [task for task in exercise.tasks if task.core]


def words_in(text: str) -> int:
    """Words of a text: what stands between blanks and holds a letter or digit; no comment, no link's target."""
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    return sum(any(sign.isalnum() for sign in word) for word in text.split())


def core_text(text: str) -> str:
    """A lesson up to its heading `## Further`."""
    found = FURTHER.search(text)
    return text[: found.start()] if found else text


def notebook(path: Path) -> tuple[int, int]:
    """Words and code lines of a notebook up to its heading `## Further`; none if there is no notebook."""
    if not path.is_file():
        return 0, 0
    words = lines = 0
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            words += words_in(core_text(text))
            if FURTHER.search(text):
                break
        else:
            lines += sum(bool(line.strip()) for line in text.splitlines())
    return words, lines


def contracts(course: Course, exercise: Exercise) -> dict[str, Contract]:
    """The contracts of the core's Python tasks, by name."""
    out = {}
    for task, function in _functions(course, core(exercise)):
        text = ast.get_docstring(function) or ""
        example = EXAMPLE.search(text)
        told = text[: example.start()] if example else text
        out[task.name] = Contract(words_in(told), example is not None)
    return out


def measure(course: Course, exercise: Exercise) -> Measure:
    """Measure an exercise's core. Raises OSError where a part of it is missing."""
    tasks = core(exercise)
    lesson = course.lesson(exercise)
    words = words_in(core_text(lesson.read_text(encoding="utf-8")))
    more, lines = notebook(lesson.with_name("lesson.ipynb"))
    examples = sum(
        words_in(ast.get_docstring(function) or "") for _, function in _functions(course, tasks)
    )
    return _measure(course, exercise, tasks, words + more + examples, lines)


def before_repair(course: Course, exercise: Exercise) -> float | None:
    """Minutes of the lesson up to the first repair, with the tasks before it; None without a repair."""
    text = core_text(course.lesson(exercise).read_text(encoding="utf-8"))
    place = {task: text.find(f"lab check {task.id}\n") for task in core(exercise)}
    repairs = [place[task] for task in place if task.asks == "repair" and place[task] >= 0]
    if not repairs:
        return None
    tasks = [task for task in place if 0 <= place[task] < min(repairs)]
    return _measure(course, exercise, tasks, words_in(text[: min(repairs)]), 0).minutes


def _measure(
    course: Course, exercise: Exercise, tasks: list[Task], words: int, lines: int
) -> Measure:
    return Measure(
        words=words,
        statements=sum(_statements(course, exercise, tasks).values()),
        tasks=len(tasks),
        decisions=sum(task.asks in ("choose", "predict") for task in tasks),
        repairs=sum(task.asks == "repair" for task in tasks),
        notebook_lines=lines,
    )


def _functions(course: Course, tasks: Iterable[Task]) -> Iterator[tuple[Task, ast.FunctionDef]]:
    for task in tasks:
        if task.is_cuda:
            continue
        for node in ast.parse(course.solution(task.stub).read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and node.name == task.name:
                yield task, node


def _statements(course: Course, exercise: Exercise, tasks: list[Task]) -> dict[str, int]:
    """Statement lines that a learner writes for some tasks, by file.

    What stands in the stub or in a given file is not written: of a repair, only changed lines count.
    """
    handed_out = {
        path.relative_to(course.root).as_posix(): text
        for path, text in stubs.generate(course, exercise).items()
    }
    given = [*handed_out.values()]
    for name in exercise.given:
        if (course.root / name).is_file():
            given.append((course.root / name).read_text(encoding="utf-8"))
    known = {line.strip() for text in given for line in text.splitlines()}
    out = {}
    for stub in {task.stub for task in tasks}:
        source = course.solution(stub).read_text(encoding="utf-8")
        if stub.suffix == ".py":
            names = {task.name for task in tasks if task.stub == stub}
            lines = source.splitlines()
            numbers = _lines_of_statements(source, _written(source, names))
            out[stub.as_posix()] = sum(lines[n - 1].strip() not in known for n in numbers)
        else:
            others = {task.id for task in exercise.tasks} - {task.id for task in tasks}
            asked = stubs.without_solutions(source, others)
            changed = difflib.ndiff(handed_out[stub.as_posix()].splitlines(), asked.splitlines())
            added = [line[2:].strip() for line in changed if line.startswith("+ ")]
            out[stub.as_posix()] = sum(
                line.endswith((";", "{")) and not line.startswith("//") for line in added
            )
    return out


def _written(source: str, names: set[str]) -> set[str]:
    """The tasks and the private definitions that they reach: what is not in the stub."""
    parts = closure.definitions(source)
    reached, queue = set(names), list(names)
    while queue:
        for used in parts[queue.pop()].uses & parts.keys():
            if used.startswith("_") and used not in reached:
                reached.add(used)
                queue.append(used)
    return reached


def _lines_of_statements(source: str, names: set[str]) -> set[int]:
    """The first lines of the statements of some definitions, without their heads and docstrings."""
    out = set()
    for node in ast.parse(source).body:
        defined = {getattr(node, "name", ""), *stubs._names(node)}
        if not defined & names:
            continue
        given = getattr(node, "name", "_")[0] != "_"  # the head of a task stands in the stub
        for part in ast.walk(node):
            text = isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant)
            if isinstance(part, ast.stmt) and not text and not (given and part is node):
                out.add(part.lineno)
    return out


def calls_of_further(course: Course, exercise: Exercise) -> list[str]:
    """ "core calls further" for each core reference that reaches a further task of its file."""
    out = []
    for task in core(exercise):
        if task.is_cuda:
            continue
        parts = closure.definitions(course.solution(task.stub).read_text(encoding="utf-8"))
        further = {t.name for t in exercise.tasks if t.further and t.stub == task.stub}
        reached: set[str] = set()
        queue = [task.name]
        while queue:
            name = queue.pop()
            if name in parts and name not in reached:
                reached.add(name)
                queue += parts[name].uses
        out += [f"{task.name} calls {name}" for name in sorted(reached & further)]
    return out


def checks_of_bad_input(course: Course, exercise: Exercise) -> list[str]:
    """Core checks, but those of `refuses_bad_input`, that ask for an error."""
    out = []
    names = {task.id for task in core(exercise) if task.name != "refuses_bad_input"}
    for stub in exercise.stubs:
        file = course.checks(stub)
        bound = dict(manifest.checks_in(file))
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if not isinstance(node, ast.FunctionDef) or bound.get(node.name) not in names:
                continue
            if any(isinstance(n, ast.Attribute) and n.attr == "raises" for n in ast.walk(node)):
                out.append(node.name)
    return out


def main(names: list[str]) -> None:
    """Print a row an exercise; for those that are named, what the row is made of as well."""
    course = manifest.load()
    chosen = [course.exercise(name) for name in names] or course.exercises
    for exercise in chosen:
        found = measure(course, exercise)
        told = contracts(course, exercise)
        points = sum(task.points for task in core(exercise))
        thinking = sum(task.points for task in core(exercise) if task.asks in THINKING)
        lengths = [contract.words for contract in told.values()] or [0]
        print(
            f"{exercise.id:<13} {found.minutes:4.0f} min of {exercise.minutes}, "
            f"{points} points ({thinking} to choose, predict, repair, derive), "
            f"contracts: median {statistics.median(lengths):.0f}, longest {max(lengths)} words"
        )
        if names:
            print("  ", found)
            for name, contract in told.items():
                print(
                    f"   {name:<28} {contract.words:4} words",
                    "" if contract.has_example else "no example",
                )
            for line in (
                *calls_of_further(course, exercise),
                *checks_of_bad_input(course, exercise),
            ):
                print("  ", line)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="python -m grading.proof.yardstick",
        description="How long an exercise's core takes by the yardstick, in minutes.",
    )
    parser.add_argument("exercises", nargs="*", metavar="ID", help="with what the row is made of")
    arguments = parser.parse_args()
    try:
        main(arguments.exercises)
    except CourseError as error:
        parser.error(str(error))
