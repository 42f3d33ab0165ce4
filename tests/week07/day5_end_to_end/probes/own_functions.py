"""Call the learner's functions of any exercise, as they are in the tree of the deep dive."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

from profiling_lab.errors import LabError
from profiling_lab.mine.functions import FunctionUnavailable, functions_for


def answer(module: ModuleType, function: str, arguments: dict[str, Any]) -> list[Any]:
    """["answer", result], or ["no answer" or "failed", why]. function: such as "ex_34.best_batch"."""
    exercise, _, name = function.partition(".")
    tree = Path(str(module.__file__)).parents[2]
    try:
        functions = functions_for(exercise, str(tree))
    except LabError as error:  # it is not there: the grader judges one exercise at a time
        return ["no answer", str(error)]
    try:
        return ["answer", functions.call(name, **arguments)]
    except FunctionUnavailable as error:
        return ["no answer" if error.todo else "failed", str(error)]
    except LabError as error:
        return ["failed", f"{function} raised {type(error).__name__}: {error}"]
