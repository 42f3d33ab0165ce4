"""Mutation testing of the references: change one thing in a reference, and a check must fail.

    uv run --group authors python -m grading.proof.mutation ex_30
    uv run --group authors python -m grading.proof.mutation --changed    (what changed since, of all exercises)

Mutants are made by cosmic-ray's operators, one function at a time, and run in the place of the
reference against all checks of the exercise's file. The result is written beside the checks, as
`mutants_<stub>.json` with the hashes of what references and checks rest on, so that the proof can tell when it
is stale. A survivor must be listed in `equivalent_mutants_<stub>.toml` with the reason why no input can
tell it from the reference. Functions that live tasks alone use are left out: their checks need a GPU.
"""

from __future__ import annotations

import argparse
import ast
import itertools
import json
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from grading.proof import fingerprint
from grading.proof.prove import Prover
from grading.proof.rests_on import digest
from profiling_lab.course import manifest
from profiling_lab.course.closure import definitions, users
from profiling_lab.course.manifest import Course, Exercise, Task

NEAREST = 3  # so many tasks that use a function judge its mutants before the whole file does

# One or two replacements an operator: enough to show that a check looks at it.
OPERATORS = tuple(
    f"core/{name}"
    for name in (
        "ReplaceBinaryOperator_Add_Sub",
        "ReplaceBinaryOperator_Sub_Add",
        "ReplaceBinaryOperator_Mul_Div",
        "ReplaceBinaryOperator_Div_Mul",
        "ReplaceBinaryOperator_BitOr_BitAnd",
        "ReplaceBinaryOperator_BitAnd_BitOr",
        "ReplaceComparisonOperator_Eq_NotEq",
        "ReplaceComparisonOperator_NotEq_Eq",
        "ReplaceComparisonOperator_Lt_LtE",
        "ReplaceComparisonOperator_Lt_GtE",
        "ReplaceComparisonOperator_LtE_Lt",
        "ReplaceComparisonOperator_LtE_Gt",
        "ReplaceComparisonOperator_Gt_GtE",
        "ReplaceComparisonOperator_Gt_LtE",
        "ReplaceComparisonOperator_GtE_Gt",
        "ReplaceComparisonOperator_GtE_Lt",
        "ReplaceComparisonOperator_Is_IsNot",
        "ReplaceComparisonOperator_IsNot_Is",
        "ReplaceUnaryOperator_USub_UAdd",
        "ReplaceUnaryOperator_Delete_Not",
        "ReplaceUnaryOperator_Delete_Invert",
        "ReplaceAndWithOr",
        "ReplaceOrWithAnd",
        "ReplaceTrueWithFalse",
        "ReplaceFalseWithTrue",
        "ReplaceBreakWithContinue",
        "ReplaceContinueWithBreak",
        "NumberReplacer",
        "AddNot",
        "ZeroIterationForLoop",
    )
)


@dataclass(frozen=True)
class Mutant:
    """The reference with one thing changed in one function; `source` is the whole module."""

    name: str  # function:operator:occurrence
    function: str
    source: str
    change: str  # the changed line, before → after


def mutants(source: str) -> Iterator[Mutant]:
    """The mutants of every function of a module, less those that only touch annotations."""
    for node in _functions(source):
        yield from _mutants_of(node, source)


def _functions(source: str) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    return [node for node in ast.parse(source).body if isinstance(node, kinds)]


def _mutants_of(node: ast.FunctionDef | ast.AsyncFunctionDef, source: str) -> Iterator[Mutant]:
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator, operator_names

    known = set(operator_names())
    segment = ast.get_source_segment(source, node) or ""
    original = "\n".join(segment.splitlines()) + "\n"
    for operator_name in OPERATORS:
        if operator_name not in known:
            raise SystemExit(f"cosmic-ray has no operator {operator_name}")
        seen = {_meaning(original)}
        for occurrence in range(1000):
            mutant = mutate_code(original, get_operator(operator_name)(), occurrence)
            if mutant is None:
                break
            if _meaning(mutant) in seen:
                continue
            seen.add(_meaning(mutant))
            yield Mutant(
                f"{node.name}:{operator_name.removeprefix('core/')}:{occurrence}",
                node.name,
                # The whole module: what holds on to a function must get the changed one.
                source.replace(segment, mutant.rstrip("\n"), 1),
                _change(original, mutant),
            )


def _meaning(source: str) -> str:
    """A function without what has no effect when it runs: annotations and docstring."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.returns = None
            for argument in (*node.args.args, *node.args.kwonlyargs):
                argument.annotation = None
            if ast.get_docstring(node):
                node.body = node.body[1:]
        if isinstance(node, ast.AnnAssign):
            node.annotation = ast.Constant(0)
    return ast.dump(tree)


def _change(before: str, after: str) -> str:
    for old, new in zip(before.splitlines(), after.splitlines(), strict=False):
        if old != new:
            return f"{old.strip()}  →  {new.strip()}"
    return "?"


def hashes(course: Course, exercise: Exercise) -> dict[str, str]:
    """What a result of mutation testing depends on: the code of references and checks."""
    return fingerprint.of_stubs(course, python_stubs(exercise))


def python_stubs(exercise: Exercise) -> list[PurePosixPath]:
    """The stubs whose references are mutated."""
    return [stub for stub in exercise.stubs if stub.suffix == ".py"]


def result_file(course: Course, exercise: Exercise) -> Path:
    """Where the result of an exercise lies: beside its checks."""
    return course.checks(exercise.stub).with_name(f"mutants_{exercise.stub.stem}.json")


def equivalents_file(course: Course, exercise: Exercise) -> Path:
    """Where it stands which survivors no input can tell from the reference, and why."""
    return course.checks(exercise.stub).with_name(f"equivalent_mutants_{exercise.stub.stem}.toml")


def equivalents(course: Course, exercise: Exercise) -> dict[str, str]:
    """Survivors that no input can tell from the reference: changed line → reason."""
    file = equivalents_file(course, exercise)
    return tomllib.loads(file.read_text(encoding="utf-8")) if file.exists() else {}


def tasks_using(
    course: Course, exercise: Exercise, stub: PurePosixPath, function: str
) -> list[Task]:
    """The tasks of a stub whose functions use a function of its reference, live ones too."""
    using = users(course.solution(stub).read_text(encoding="utf-8"), {function})
    return [task for task in exercise.tasks if task.stub == stub and task.name in using]


def tasks_nearest(
    course: Course, exercise: Exercise, stub: PurePosixPath, function: str
) -> list[Task]:
    """Of the tasks that use a function those that can be judged here: its own first, then in order."""
    tasks = [task for task in tasks_using(course, exercise, stub, function) if not task.live]
    return sorted(tasks, key=lambda task: task.name != function)


def not_mutated(course: Course, exercise: Exercise, stub: PurePosixPath) -> set[str]:
    """The functions of a reference that no check here judges: those that live tasks alone use, since their checks need
    a GPU; and those that the stub gives, since no learner writes them."""
    source = course.solution(stub).read_text(encoding="utf-8")
    tasks = {task.name for task in exercise.tasks}
    out = set()
    for function in definitions(source):
        using = tasks_using(course, exercise, stub, function)
        given = function not in tasks and not function.startswith("_")
        if given or (using and all(task.live for task in using)):
            out.add(function)
    return out


def bases(course: Course, exercise: Exercise, stub: PurePosixPath) -> dict[str, str]:
    """By function of a reference: a hash of it and of the checks of the tasks that use it, in their own files."""
    of_task = {
        task.name: fingerprint.own_of_task(course, task)
        for task in exercise.tasks
        if task.stub == stub
    }
    functions = [
        node.name
        for node in ast.parse(course.solution(stub).read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    out = {}
    for function in functions:
        near = tasks_nearest(course, exercise, stub, function)[:NEAREST]
        own = fingerprint.own_of_function(course, stub, function)
        out[function] = digest("\n".join([own, *(of_task[task.name] for task in near)]))
    return out


def run(course: Course, exercise: Exercise, only: str | None = None, again: bool = True) -> dict:
    """Run all mutants (or those whose name contains `only`); returns the result.

    again: False takes over what an earlier result found killed by the checks of the function's own tasks, where
    neither these nor the function have changed since. Where code that they share with others has, one of the
    killed stands for all: if it lives now, all are run.
    """
    basis = {stub: bases(course, exercise, stub) for stub in python_stubs(exercise)}
    earlier = {} if again else _earlier(course, exercise)
    wide = hashes(course, exercise)
    shared_same = {key: earlier.get(key) for key in wide} == wide
    done: dict[str, dict[str, Any]] = {}
    todo: list[tuple[PurePosixPath, Mutant]] = []
    taken_over: dict[str, list[tuple[PurePosixPath, Mutant]]] = {}  # by function
    samples: dict[str, str] = {}  # names of mutants that stand for others, by function
    for stub in python_stubs(exercise):
        left_out = not_mutated(course, exercise, stub)
        for mutant in mutants(course.solution(stub).read_text(encoding="utf-8")):
            if mutant.function in left_out or (only is not None and only not in mutant.name):
                continue
            key = f"{stub.stem}.{mutant.function}"
            entry = done.setdefault(
                key, {"basis": basis[stub][mutant.function], "alive_to_own": []}
            )
            kept = earlier.get("functions", {}).get(key, {})
            same = kept.get("basis") == entry["basis"] and mutant.name not in kept["alive_to_own"]
            if same and not shared_same and samples.setdefault(key, mutant.name) == mutant.name:
                same = False
            if same:
                taken_over.setdefault(key, []).append((stub, mutant))
            else:
                todo.append((stub, mutant))
    killed, survivors = 0, []
    print(f"{len(todo)} mutants to run", flush=True)
    with tempfile.TemporaryDirectory(prefix="lab-mutants-") as scratch, Prover(course) as prover:

        def killed_by(numbered: tuple[int, tuple[PurePosixPath, Mutant]]) -> str:
            number, (stub, mutant) = numbered
            file = Path(scratch) / f"mutant_{number}" / stub.name
            file.parent.mkdir()
            file.write_text(mutant.source, encoding="utf-8")
            checks = str(course.checks(stub))
            # The tasks that use the function first: most mutants die there.
            for task in tasks_nearest(course, exercise, stub, mutant.function)[:NEAREST]:
                arguments = ("-x", "--only-task", task.id)
                if prover.run([checks], overlay=file, arguments=arguments).exit_code != 0:
                    return "its own checks"
            found = prover.run([checks], overlay=file, arguments=("-x",)).exit_code != 0
            return "another check" if found else ""

        with ThreadPoolExecutor(2) as pool:
            while todo:
                more: list[tuple[PurePosixPath, Mutant]] = []
                for (stub, mutant), killer in zip(
                    todo, pool.map(killed_by, enumerate(todo)), strict=True
                ):
                    key = f"{stub.stem}.{mutant.function}"
                    killed += bool(killer)
                    if killer != "its own checks":
                        done[key]["alive_to_own"].append(mutant.name)
                        if samples.get(key) == mutant.name:
                            more += taken_over.pop(key, [])
                    if not killer:
                        survivors.append(mutant)
                        print(f"survived  {mutant.name}\n          {mutant.change}", flush=True)
                todo = more
    killed += sum(map(len, taken_over.values()))
    return {
        **wide,
        "mutants_count": killed + len(survivors),
        "killed_count": killed,
        "survivors": {mutant.name: f"{mutant.function}: {mutant.change}" for mutant in survivors},
        "functions": done,
    }


def _earlier(course: Course, exercise: Exercise) -> dict[str, Any]:
    try:
        text = result_file(course, exercise).read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    return json.loads(text)


def changed(course: Course, exercise: Exercise, result: dict[str, Any]) -> list[str]:
    """Functions of a kept result that have changed since, or whose own checks have; and those that it lacks."""
    kept = result.get("functions", {})
    out = []
    for stub in python_stubs(exercise):
        basis = bases(course, exercise, stub)
        left_out = not_mutated(course, exercise, stub)
        source = course.solution(stub).read_text(encoding="utf-8")
        for node in _functions(source):
            earlier = kept.get(f"{stub.stem}.{node.name}", {}).get("basis")
            if node.name not in left_out and earlier != basis[node.name]:
                out += [node.name for _ in itertools.islice(_mutants_of(node, source), 1)]
    return sorted(out)


def is_stale(course: Course, exercise: Exercise) -> bool:
    """Whether the kept result is of an earlier reference, check, or code that these use."""
    earlier, now = _earlier(course, exercise), hashes(course, exercise)
    return {key: earlier.get(key) for key in now} != now


def main() -> int:
    """Run mutation testing for exercises and write their results."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("exercises", nargs="*", help="ids; without any, those with a stale result")
    parser.add_argument("--only", help="only mutants whose name contains this; writes no result")
    parser.add_argument(
        "--changed", action="store_true", help="only functions that changed, or whose checks did"
    )
    arguments = parser.parse_args()
    course = manifest.load()
    chosen = [course.exercise(name) for name in arguments.exercises]
    unexplained: set[str] = set()
    for exercise in chosen or [e for e in course.exercises if is_stale(course, e)]:
        result = run(course, exercise, arguments.only, again=not arguments.changed)
        new = set(result["survivors"].values()) - set(equivalents(course, exercise))
        counts = f"{result['killed_count']} of {result['mutants_count']} mutants killed"
        print(f"{exercise.id}: {counts}", flush=True)
        for change in sorted(new):
            print(f"not in {equivalents_file(course, exercise).name}: {change}")
        unexplained |= new
        if arguments.only is None:
            text = json.dumps(result, indent=1, ensure_ascii=False)
            result_file(course, exercise).write_text(text + "\n", encoding="utf-8")
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
