"""Find the functions that a diagnosis calls: the learner's own, or another tree's.

    >>> functions = functions_for("timeline", "solutions")
    >>> functions.call("busy_time", "torch_inference_baseline")

They are run in this process, as any library would be. A function that is still to do, that needs
one that is, or that fails, says so in one sentence and names the task that teaches it.
"""

from __future__ import annotations

import ast
import functools
import importlib.machinery
import importlib.util
import sys
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from profiling_lab.captures import Kind
from profiling_lab.course import manifest
from profiling_lab.course.manifest import Course
from profiling_lab.errors import CaptureError, CourseError, LabError

# The exercise whose functions read a kind of capture.
EXERCISES: dict[str, str] = {
    Kind.TIMELINE: "ex_30",
    Kind.KERNELS: "ex_31",
    Kind.TRACE: "ex_32",
    Kind.COUNTERS: "ex_33",
}


class FunctionUnavailable(LabError):
    """A function gave no answer: it is to do, blocked, missing, or failed; the message says which."""

    def __init__(self, message: str, *, todo: bool = False) -> None:
        super().__init__(message)
        self.todo = todo


@dataclass
class Functions:
    """The functions of one source file, imported when the first one is called.

    file: the source. tasks: the id of the task that teaches a function, by name. todo: the names
    of those still to do. further: the names of those that further tasks teach.
    """

    file: Path
    tasks: dict[str, str] = field(default_factory=dict)
    todo: frozenset[str] = frozenset()
    further: frozenset[str] = frozenset()
    _module: ModuleType | None = None

    def call(self, name: str, *arguments: Any, **keywords: Any) -> Any:
        """What the function returns. Raises FunctionUnavailable if it gives no answer.

        Errors about the capture itself (CaptureError) go on to the caller.
        """
        function = self._function(name)
        try:
            return plain(function(*arguments, **keywords))
        except CaptureError:
            raise
        except NotImplementedError as error:
            blocker = self._raised_in(error)
            if blocker in self.todo:
                raise FunctionUnavailable(
                    f"{name} needs {blocker}, which is still to do ({self._id(blocker)})", todo=True
                ) from None
            raise FunctionUnavailable(self._failure(name, error)) from None
        except Exception as error:  # noqa: BLE001 - the learner's code may raise anything
            raise FunctionUnavailable(self._failure(name, error)) from None

    def defines(self, name: str) -> bool:
        """Whether the source has a function of this name, written or still to do."""
        try:
            tree = ast.parse(self.file.read_text(encoding="utf-8"))
        except (OSError, ValueError, SyntaxError):
            return False
        return any(isinstance(node, ast.FunctionDef) and node.name == name for node in tree.body)

    def _function(self, name: str) -> Callable:
        if name in self.todo:
            raise FunctionUnavailable(f"{name} is still to do ({self._id(name)})", todo=True)
        if self._module is None:
            self._module = load_file(self.file)
            _remember_answers(self._module, self.tasks)
        function = getattr(self._module, name, None)
        if not callable(function):
            raise FunctionUnavailable(
                f"{name} is not defined in {self.file.name} (misnamed, or removed?)"
            )
        return function

    def _id(self, name: str) -> str:
        return self.tasks.get(name, name)

    def _raised_in(self, error: BaseException) -> str:
        frames = traceback.extract_tb(error.__traceback__)
        return frames[-1].name if frames else ""

    def _failure(self, name: str, error: BaseException) -> str:
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if Path(frame.filename) == self.file]
        where = f" ({self.file.name}, line {own[-1].lineno})" if own else ""
        said = " ".join(str(error).split())[:200]
        return f"{name} raised {type(error).__name__}: {said}{where}; lab check {self._id(name)}"


def _remember_answers(module: ModuleType, names: Iterable[str]) -> None:
    """Let functions of a module that are asked the same again, by each other too, answer at once.

    Only answers that cannot be changed by whoever gets them are kept, or that one copy protects: plain
    values, and dictionaries of them.
    """
    for name in names:
        function = getattr(module, name, None)
        if isinstance(function, FunctionType) and function.__module__ == module.__name__:
            setattr(module, name, _remembering(function))


def _remembering(function: Callable) -> Callable:
    answers: dict[Any, Any] = {}

    @functools.wraps(function)
    def answer(*arguments: Any, **keywords: Any) -> Any:
        if not all(map(_is_fixed, (*arguments, *keywords.values()))):
            return function(*arguments, **keywords)
        key = arguments, tuple(sorted(keywords.items()))
        if key not in answers:
            answer = function(*arguments, **keywords)
            values = answer.values() if type(answer) is dict else [answer]
            if not all(map(_is_fixed, values)):
                return answer
            answers[key] = answer
        kept = answers[key]
        return dict(kept) if type(kept) is dict else kept

    return answer


def _is_fixed(value: Any) -> bool:
    if type(value) is tuple:
        return all(map(_is_fixed, value))
    return value is None or type(value) in (str, int, float, bool, bytes)


def plain(value: Any) -> Any:
    """A result with numpy's numbers turned into Python's, as the checks do with them."""
    if type(value) in (list, tuple):
        return type(value)(plain(item) for item in value)
    if type(value) is dict:
        return {plain(key): plain(item) for key, item in value.items()}
    # Told by the module's name: numpy is not imported here.
    if type(value).__module__ == "numpy" and getattr(value, "shape", None) == ():
        return value.item()
    return value


def functions_for(kind: str, against: str | None = None) -> Functions:
    """The functions for captures of a kind, of the course around the current folder.

    kind: of a capture (not of ranks' traces together), or the id of an exercise.
    against: another tree of the same shape (`solutions`, a submission), a clone of the course, or
    a Python file that defines the functions; looked for here, then in the course's root.
    Raises LabError if there is none.
    """
    if against is None:
        try:
            course = manifest.load()
        except CourseError:
            raise FunctionUnavailable(
                "outside the course there are no functions to diagnose with: add --against PATH, "
                "the folder of your clone of the course (or its solutions)"
            ) from None
        return _functions_of(course, EXERCISES.get(kind, kind), course.root)
    path = _tree(against)
    if path.is_file():
        return _functions_in(path, {})
    for start in (path, Path.cwd(), Path(__file__).resolve().parent):
        try:
            course = manifest.load(manifest.find_root(start))
        except CourseError:
            continue
        return _functions_of(course, EXERCISES.get(kind, kind), path)
    raise CourseError(
        f"{path}: no {manifest.MANIFEST} there or above it; name a tree of the course"
    )


def functions_if_any(kind: str, against: str | None = None) -> tuple[Functions | None, str | None]:
    """The functions, or why there are none: captures can be looked at without them.

    Arguments as for `functions_for`. Raises LabError for what that finds wrong otherwise.
    """
    try:
        return functions_for(kind, against), None
    except FunctionUnavailable as error:
        return None, str(error)


def _tree(against: str) -> Path:
    bases = [Path.cwd()]
    try:
        bases.append(manifest.find_root())
    except CourseError:
        pass
    for base in bases:
        if (base / against).exists():
            return (base / against).resolve()
    if against == manifest.SOLUTIONS and any(
        (base / manifest.HANDED_OUT).is_dir() for base in bases
    ):
        raise LabError(f"--against {against}: this copy of the course comes without references")
    raise LabError(f"--against {against}: no such folder; the reference is solutions")


def _functions_of(course: Course, identifier: str, tree: Path) -> Functions:
    exercise = course.exercise(identifier)
    tasks = {task.name: task.id for task in exercise.tasks if task.stub == exercise.stub}
    file = tree / exercise.stub
    if not file.is_file():
        raise LabError(f"{tree}: holds no {exercise.stub}, so there is nothing to diagnose with")
    found = _functions_in(file, tasks)
    return replace(found, further=frozenset(task.name for task in exercise.tasks if task.further))


def _functions_in(file: Path, tasks: dict[str, str]) -> Functions:
    try:
        todo = manifest.todo_functions(file.read_text(encoding="utf-8"))
    except SyntaxError as error:
        raise LabError(f"{file}, line {error.lineno}: {error.msg}; fix it first") from None
    except (OSError, ValueError) as error:
        raise LabError(f"{file}: cannot be read ({error})") from None
    return Functions(file.resolve(), tasks, frozenset(todo))


def load_once(file: Path, name: str) -> ModuleType:
    """The module that is loaded under this name already, else the file, as `load_file` does."""
    return sys.modules.get(name) or load_file(file, name)


def load_file(file: Path, name: str | None = None) -> ModuleType:
    """A Python file as a module, under `name` in `sys.modules` (one of its own by default).

    Raises LabError, with the line, if it fails at import.
    """
    name = name or f"profiling_lab_functions_{abs(hash(str(file)))}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise LabError(f"{file}: is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    try:
        # Not by exec_module: compiled files that Python keeps are told apart by whole seconds and size, and
        # who tries things out may save twice in a second.
        loader = importlib.machinery.SourceFileLoader(name, str(file))
        exec(loader.source_to_code(loader.get_data(str(file)), str(file)), module.__dict__)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the learner's code may raise anything
        del sys.modules[name]
        own = [f for f in traceback.extract_tb(error.__traceback__) if Path(f.filename) == file]
        where = f", line {own[-1].lineno}" if own else ""
        raise LabError(
            f"{file}{where}: {type(error).__name__} at import: {' '.join(str(error).split())}"
        ) from None
    return module
