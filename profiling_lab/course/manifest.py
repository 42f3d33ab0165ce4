"""The manifest `course.toml` and the trees of exercises that it describes.

A tree is a folder of the same shape as the course: the learner's own (the root), `solutions/`, or a
submission. Whether a task is still to do is read from its source with `ast`, never by running it.
"""

from __future__ import annotations

import ast
import difflib
import hashlib
import re
import tomllib
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path, PurePosixPath

from profiling_lab.errors import CourseError, UnknownExercise

MANIFEST = "course.toml"
SOLUTIONS = "solutions"
ASKS = ("compute", "choose", "predict", "repair", "derive")
MOST_NAMES = 3  # that an error suggests
LOOK_ALIKES = str.maketrans("OIl", "011")  # typed for a digit; names of exercises have none of them
HANDED_OUT = ".stubs"  # the stubs as they were handed out, in a copy without references


@dataclass(frozen=True)
class Task:
    """One graded thing: a function of a stub, or a CUDA file.

    stub: path inside a tree. needs: what the machine must have ("gpu", "nvcc", …). live: earns
    points of the live score, not of the portable one. trust: "checked", or "claim" where the
    verdict rests on what runs beside the learner's code. loopback: it starts processes that talk to
    each other over this machine's own network interface. further: stands beside the core; nothing on the
    path needs it, and its points count apart. asks: one of ASKS: "compute" what the contract tells, or
    "choose", "predict", "repair", "derive" what it does not.
    """

    id: str
    name: str
    exercise: str
    title: str
    points: int
    stub: PurePosixPath
    needs: frozenset[str] = frozenset()
    live: bool = False
    trust: str = "checked"
    loopback: bool = False
    further: bool = False
    asks: str = "compute"

    @property
    def core(self) -> bool:
        """Whether its points are part of the score: neither live nor further."""
        return not (self.live or self.further)

    @property
    def is_cuda(self) -> bool:
        """Whether the task is a CUDA file and not a Python function."""
        return self.stub.suffix in (".cu", ".cuh")


@dataclass(frozen=True)
class Exercise:
    """One exercise: a folder with a lesson, one main stub, hints, and tasks.

    folder: where lesson and hints lie inside a tree; the main stub's own, or one above it. given: files
    beside the stubs that the learner's code may read while it is judged.
    """

    id: str
    title: str
    stub: PurePosixPath
    folder: PurePosixPath
    minutes: int
    difficulty: int
    skills: tuple[str, ...]
    tasks: tuple[Task, ...]
    given: tuple[PurePosixPath, ...] = ()

    @property
    def stubs(self) -> tuple[PurePosixPath, ...]:
        """All files that the learner edits, the main one first."""
        return tuple(dict.fromkeys([self.stub, *(task.stub for task in self.tasks)]))

    @property
    def points(self) -> int:
        """Points of the score: those of its core."""
        return sum(task.points for task in self.tasks if task.core)


@dataclass(frozen=True)
class Course:
    """The whole manifest, and where its parts lie."""

    root: Path
    title: str
    exercises: tuple[Exercise, ...]

    @cached_property
    def tasks(self) -> dict[str, Task]:
        """Every task by its id, in the order of the manifest."""
        return {task.id: task for exercise in self.exercises for task in exercise.tasks}

    def exercise(self, identifier: str) -> Exercise:
        """The exercise of this id, or of the task of this id. Raises UnknownExercise."""
        wanted = identifier.split(".")[0]
        for exercise in self.exercises:
            if exercise.id == wanted:
                return exercise
        raise self._unknown(identifier, [exercise.id for exercise in self.exercises])

    def task(self, identifier: str) -> Task:
        """The task of this id. Raises UnknownExercise, naming what comes close."""
        if identifier in self.tasks:
            return self.tasks[identifier]
        self.exercise(identifier)
        inside = [name for name in self.tasks if name.startswith(identifier.split(".")[0] + ".")]
        raise self._unknown(identifier, inside)

    def _unknown(self, identifier: str, known: list[str]) -> UnknownExercise:
        close = difflib.get_close_matches(identifier, known, n=MOST_NAMES, cutoff=0.5)
        meant = identifier.translate(LOOK_ALIKES)  # first of all that are as near
        close = list(dict.fromkeys([*({meant} & set(known)), *close]))[:MOST_NAMES]
        hint = f"did you mean {' or '.join(close)}?" if close else f"known: {', '.join(known)}"
        return UnknownExercise(f"{identifier}: no such exercise or task; {hint}")

    def checks(self, stub: PurePosixPath) -> Path:
        """The file of checks for a stub: tests/<same folder>/test_<stub>.py."""
        return self.root / "tests" / _mirror(stub).parent / f"test_{stub.stem}.py"

    def mistakes(self, stub: PurePosixPath) -> Path:
        """The file of mistakes in a stub's reference, beside its checks: `profiling_lab.course.mistakes`."""
        return self.checks(stub).with_name(f"mistakes_{stub.stem}.toml")

    def probes(self, stub: PurePosixPath) -> list[Path]:
        """What its checks run beside the learner's code: `probes/` beside them and in the folders above."""
        tests = self.root / "tests"
        above = [f for f in self.checks(stub).parents if f.is_relative_to(tests)]
        return [file for folder in above for file in sorted((folder / "probes").glob("*.py"))]

    def lesson(self, exercise: Exercise) -> Path:
        """The lesson of an exercise."""
        return self.root / exercise.folder / "README.md"

    def hints(self, exercise: Exercise) -> Path:
        """The hints of an exercise, a section a task."""
        return self.root / exercise.folder / "hints.md"

    def solution(self, stub: PurePosixPath) -> Path:
        """The reference for a stub."""
        return self.root / SOLUTIONS / stub

    def handed_out(self, stub: PurePosixPath) -> Path:
        """The stub as it was handed out; there only in a class repository."""
        return self.root / HANDED_OUT / stub

    @property
    def has_references(self) -> bool:
        """Whether this copy holds the references; a class repository does not."""
        return (self.root / SOLUTIONS).is_dir()


def _mirror(stub: PurePosixPath) -> PurePosixPath:
    """Where tests/ keeps what belongs to a stub: CUDA sources lie one folder deeper."""
    if stub.suffix in (".cu", ".cuh") and stub.parent.name == "cuda":
        return stub.parent.parent / stub.name
    return stub


def find_root(start: Path | None = None) -> Path:
    """The folder of the course that `start` (the current folder) lies in. Raises CourseError."""
    here = (start or Path.cwd()).resolve()
    for folder in (here, *here.parents):
        if (folder / MANIFEST).is_file():
            return folder
    raise CourseError(
        f"{here}: not inside the course (no {MANIFEST} in this folder or above it); "
        "change into your clone of it"
    )


def load(root: Path | None = None) -> Course:
    """Read the manifest of the course at `root`, or around the current folder."""
    root = root or find_root()
    file = root / MANIFEST
    try:
        data = tomllib.loads(file.read_text(encoding="utf-8"))
        exercises = tuple(_exercise(table) for table in data["exercises"])
    except FileNotFoundError:
        raise CourseError(f"{file}: no such file") from None
    except (tomllib.TOMLDecodeError, KeyError, TypeError, ValueError) as error:
        raise CourseError(f"{file}: {type(error).__name__}: {error}") from None
    names = [exercise.id for exercise in exercises]
    tasks = [task.id for exercise in exercises for task in exercise.tasks]
    for ids in (names, tasks):
        if twice := sorted({name for name in ids if ids.count(name) > 1}):
            raise CourseError(f"{file}: {', '.join(twice)} is named twice")
    return Course(root, data["course"]["title"], exercises)


def _exercise(table: dict) -> Exercise:
    stub = PurePosixPath(table["stub"])
    tasks = tuple(
        Task(
            id=f"{table['id']}.{task['name']}",
            name=task["name"],
            exercise=table["id"],
            title=task["title"],
            points=task["points"],
            stub=stub.parent / task["stub"] if "stub" in task else stub,
            needs=frozenset(task.get("needs", ())),
            live=task.get("live", False),
            trust=task.get("trust", "checked"),
            loopback=task.get("loopback", False),
            further=task.get("further", table.get("further", False)),
            asks=ASKS[ASKS.index(task.get("asks", "compute"))],
        )
        for task in table["tasks"]
    )
    return Exercise(
        id=table["id"],
        title=table["title"],
        stub=stub,
        folder=PurePosixPath(table.get("folder", stub.parent)),
        minutes=table["minutes"],
        difficulty=table["difficulty"],
        skills=tuple(table["skills"]),
        tasks=tasks,
        given=tuple(stub.parent / name for name in table.get("given", ())),
    )


# -- reading checks -------------------------------------------------------------------------------


def checks_in(file: Path) -> list[tuple[str, str]]:
    """The check functions of a file with the ids of their tasks, read without running it.

    A file that is not there has none. Raises CourseError if it cannot be read.
    """
    try:
        return list(_bound_checks(file.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return []
    except (OSError, SyntaxError) as error:
        raise CourseError(f"{file}: cannot be read as checks ({error})") from None


@lru_cache(maxsize=128)  # asked for once a task, and by each judge for all
def _bound_checks(source: str) -> tuple[tuple[str, str], ...]:
    return tuple(
        (node.name, ast.literal_eval(decorator.args[0]))
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef)
        for decorator in node.decorator_list
        if isinstance(decorator, ast.Call)
        and ast.unparse(decorator.func) == "task"
        and decorator.args
    )


# -- reading a learner's source -------------------------------------------------------------------


def todo_functions(source: str) -> set[str]:
    """The names of the functions whose body after the docstring is only `raise NotImplementedError`.

    Raises SyntaxError if the source does not parse.
    """
    return set(_todo_functions(source))


def todo_names(source: str) -> set[str]:
    """As `todo_functions`; of a source that does not parse, none.

    A finished source of a day takes longer to parse than most checks take, and most name no such error.
    """
    try:
        return todo_functions(source) if "NotImplementedError" in source else set()
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()


@lru_cache(maxsize=8)  # asked for once a task
def _todo_functions(source: str) -> frozenset[str]:
    return frozenset(
        node.name
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _is_todo(node)
    )


def _is_todo(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    body = function.body
    if (
        body
        and isinstance(body[0], ast.Expr)
        and isinstance(body[0].value, ast.Constant)
        and isinstance(body[0].value.value, str)
    ):
        body = body[1:]
    if len(body) != 1 or not isinstance(body[0], ast.Raise):
        return False
    raised = body[0].exc
    if isinstance(raised, ast.Call):
        raised = raised.func
    return isinstance(raised, ast.Name) and raised.id == "NotImplementedError"


def todo_markers(source: str) -> set[str]:
    """The ids in the `// TODO(id)` lines of a CUDA source; those behind "//|" belong to the reference."""
    return set(re.findall(r"^[ \t]*// TODO\((\w+\.\w+)\)", source, re.MULTILINE))


def is_todo(task: Task, tree: Path) -> bool:
    """Whether a task is still to do in a tree; a missing file is.

    A Python file that does not parse is not: its checks will say what is wrong with it.
    """
    file = tree / task.stub
    try:
        source = file.read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    if task.is_cuda:
        # A live task has no marker of its own: for `fast_live` that of `fast` counts.
        return any(
            task.id == marked or (task.live and task.id.startswith(f"{marked}_"))
            for marked in todo_markers(source)
        )
    return task.name in todo_names(source)


def source_hash(file: Path) -> str:
    """A short hash of a source file, "" if it is not there: tells whether a verdict still holds."""
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()[:16]
    except OSError:
        return ""
