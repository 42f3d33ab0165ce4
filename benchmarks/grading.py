"""How long does the grader take for a class, and how much of that is not the checks themselves?

    uv run python benchmarks/grading.py [--students N] [--cuda] [--others] [--write]

A class of N: a third have the reference, a third the stubs as handed out with one exercise done, a third the
reference with one wrong solution in each exercise. Three questions, each in raw seconds:

- the same checks on the same files, once plainly (no sandbox, one process for each exercise, as many at a time)
  and once through the grader, in turns: the grader's time over the plain one;
- submissions a minute, for the week without and with the exercise that needs torch;
- the grader's own memory after a few submissions and after all of them.

Compiled stubs are left as handed out unless --cuda is given: then each student's source is another one, and
nearly all of the time is nvcc's. --others also times otter-grader and nbgrader on a submission of one small
function, beside the grader on one small exercise; it needs them installed:

    uv run --with otter-grader==7.0.0 --with nbgrader==0.9.6 python benchmarks/grading.py --others

With --write the figures go to benchmarks/results/grading.json.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks import machine  # noqa: E402
from grading.forkserver import ForkServer, Job  # noqa: E402
from grading.judge import Judge  # noqa: E402
from grading.prove import FRAMEWORKS  # noqa: E402
from grading.submissions import Submission, take_in  # noqa: E402
from profiling_lab import course as manifest  # noqa: E402
from profiling_lab import stubs  # noqa: E402
from profiling_lab.course import Course, Exercise  # noqa: E402

RESULT = ROOT / "benchmarks/results/grading.json"
WEEK = ("ex_30", "ex_31", "ex_33", "ex_34")
WITH_TORCH = ("ex_30", "ex_31", "ex_32", "ex_33", "ex_34")
SMALL = "scaling_ex01"
SEED = 7
PARALLEL = os.cpu_count() or 1
AIM_OVERHEAD, AIM_WEEK, AIM_WITH_TORCH = 1.3, 30, 8


def hand_in(course: Course, folder: Path, number: int, *, cuda: bool) -> None:
    """One student's tree: of one of three kinds, by number."""
    for place, exercise in enumerate(course.exercises):
        handed_out = stubs.generate(course, exercise)
        for stub in exercise.stubs:
            text = course.solution(stub).read_text(encoding="utf-8")
            begun = number % 3 != 1 or place == number % 5
            if stub.suffix != ".py":
                text = f"{text}// {number}\n" if cuda else handed_out[course.root / stub]
            elif not begun:
                text = handed_out[course.root / stub]
            elif number % 3 == 2 and (wrong := course.wrong_solutions(stub)):
                # The changed functions come last in the file, so they are the ones that count.
                changed = wrong[number % len(wrong)].read_text(encoding="utf-8")
                changed = changed.replace("from __future__ import annotations\n", "")
                text += f"\n\n{changed}" if "import *" not in changed else ""
            (folder / stub).parent.mkdir(parents=True, exist_ok=True)
            (folder / stub).write_text(text, encoding="utf-8")


def plainly(
    course: Course, submissions: Sequence[Submission], exercises: Sequence[Exercise]
) -> float:
    """Seconds for the bare checks: pytest forked from a template, in-process, nothing guarded."""
    with (
        tempfile.TemporaryDirectory() as scratch,
        ForkServer(preload=FRAMEWORKS, parallel=PARALLEL) as server,
    ):
        server.start()
        jobs = [
            Job(
                [
                    *(str(course.checks(stub)) for stub in exercise.stubs),
                    f"--against={submission.tree}",
                    *("-q", "--tb=no", "-p", "no:cacheprovider", "-p", "no:unraisableexception"),
                    f"--rootdir={course.root}",
                ],
                cwd=course.root,
                env={"LAB_SEED": str(SEED), "LAB_CUDA_CACHE": f"{scratch}/cuda"},
            )
            for submission, exercise in itertools.product(submissions, exercises)
        ]
        start = time.perf_counter()
        server.run_all(jobs)
        return time.perf_counter() - start


def graded(
    course: Course, submissions: Sequence[Submission], exercises: Sequence[Exercise]
) -> tuple[float, float, list[int]]:
    """Seconds to open the judge, seconds to grade, and bytes of this process after each submission."""
    start = time.perf_counter()
    with Judge(course, seed=SEED, parallel=PARALLEL) as judge:
        opened = time.perf_counter() - start
        start, memory = time.perf_counter(), []
        with ThreadPoolExecutor(PARALLEL) as pool:
            for submission in submissions:
                units = [(submission, exercise) for exercise in exercises]
                results = list(pool.map(lambda unit: judge.grade(*unit), units))
                broken = [result.infrastructure for result in results if result.infrastructure]
                assert not broken, broken
                memory.append(resident_bytes())
        return opened, time.perf_counter() - start, memory


def resident_bytes() -> int:
    """Bytes of memory that this process holds."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def otter(folder: Path, repeats: int) -> list[float]:
    """Seconds of `otter run` for one notebook with one function and one test."""
    folder.mkdir()
    (folder / "tests").mkdir()
    (folder / "tests/q1.py").write_text(
        'OK_FORMAT = True\ntest = {"name": "q1", "points": 1, "suites": [{"cases": [{"code": '
        '">>> total([1, 2, 3])\\n6", "hidden": False, "locked": False}], "scored": True, '
        '"setup": "", "teardown": "", "type": "doctest"}]}\n'
    )
    notebook(folder / "hw.ipynb", ["def total(values):\n    return sum(values)", "grader = None"])
    shutil.make_archive(str(folder / "autograder"), "zip", folder, "tests")
    with contextlib.chdir(folder):
        done = subprocess.run(["otter", "run", "--help"], capture_output=True, check=True)
        assert done.returncode == 0
        return timed(["otter", "run", "-a", "autograder.zip", "hw.ipynb"], repeats)


def nbgrader(folder: Path, repeats: int) -> list[float]:
    """Seconds of `nbgrader autograde` for one submission with one function and one test."""
    folder.mkdir()
    (folder / "nbgrader_config.py").write_text(
        "c = get_config()\nc.CourseDirectory.course_id = 'x'\n"
    )
    cells = [
        ("def total(values):\n    return sum(values)", "total", False, True),
        ("assert total([1, 2, 3]) == 6", "test_total", True, False),
    ]
    for place in ("source/ps1", "submitted/ada/ps1"):
        (folder / place).mkdir(parents=True)
        notebook(folder / place / "hw.ipynb", cells)
    with contextlib.chdir(folder):
        subprocess.run(["nbgrader", "generate_assignment", "ps1"], capture_output=True, check=True)
        return timed(["nbgrader", "autograde", "ps1", "--force"], repeats)


def notebook(file: Path, cells: Iterable[Any]) -> None:
    """A notebook of code cells; (source, grade id, is a test, is a solution) for nbgrader's."""
    import nbformat

    book = nbformat.v4.new_notebook()
    for cell in cells:
        source, *more = (cell,) if isinstance(cell, str) else cell
        made = nbformat.v4.new_code_cell(source)
        if more:
            name, is_test, is_solution = more
            made.metadata["nbgrader"] = {
                "grade": is_test, "grade_id": name, "locked": is_test, "schema_version": 3,
                "solution": is_solution, "task": False, **({"points": 1} if is_test else {}),
            }  # fmt: skip
        book.cells.append(made)
    nbformat.write(book, file)


def timed(command: Sequence[str], repeats: int) -> list[float]:
    """Seconds of a command, several times. Raises CalledProcessError."""
    found = []
    for _ in range(repeats):
        start = time.perf_counter()
        subprocess.run(command, capture_output=True, check=True)
        found.append(round(time.perf_counter() - start, 3))
    return found


def others(course: Course, submission: Submission, repeats: int) -> dict[str, Any]:
    """The grader on a small exercise beside other graders on a smaller one, in turns of this run."""
    exercise = course.exercise(SMALL)
    with Judge(course, seed=SEED, parallel=1) as judge:
        own = []
        for _ in range(repeats):
            start = time.perf_counter()
            judge.grade(submission, exercise)
            own.append(round(time.perf_counter() - start, 3))
    found: dict[str, Any] = {"this grader": {"exercise": SMALL, "seconds": own}}
    with tempfile.TemporaryDirectory() as folder:
        for name, run in (("otter", otter), ("nbgrader", nbgrader)):
            if shutil.which(name) is None:
                found[name] = "not installed"
                continue
            seconds = run(Path(folder) / name, repeats)
            ratio = statistics.median(seconds) / statistics.median(own)
            found[name] = {"seconds": seconds, "times_this_grader": round(ratio, 2)}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--students", type=int, default=6)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--cuda", action="store_true", help="each student has CUDA sources of their own"
    )
    parser.add_argument("--others", action="store_true", help="also otter-grader and nbgrader")
    parser.add_argument("--write", action="store_true", help=f"into {RESULT.name}")
    options = parser.parse_args()

    course = manifest.load(ROOT)
    result: dict[str, Any] = {"machine": machine.describe("torch", "numpy", "polars", "pytest")}
    result |= {"students": options.students, "cuda": options.cuda, "parallel": PARALLEL}
    with tempfile.TemporaryDirectory() as scratch:
        for number in range(options.students):
            hand_in(course, Path(scratch, "class", f"s{number:03}"), number, cuda=options.cuda)
        start = time.perf_counter()
        submissions = list(take_in(Path(scratch, "class"), course, Path(scratch, "staged")))
        result["intake_s"] = round(time.perf_counter() - start, 3)
        for name, ids, aim in (
            ("week", WEEK, AIM_WEEK),
            ("with_torch", WITH_TORCH, AIM_WITH_TORCH),
        ):
            exercises = [course.exercise(identifier) for identifier in ids]
            rounds: dict[str, list[Any]] = {"plain_s": [], "graded_s": [], "open_s": []}
            for _ in range(options.repeats):
                rounds["plain_s"].append(round(plainly(course, submissions, exercises), 2))
                opened, seconds, memory = graded(course, submissions, exercises)
                rounds["graded_s"].append(round(seconds, 2))
                rounds["open_s"].append(round(opened, 2))
                rounds["resident_bytes"] = memory
            ratios = [b / a for a, b in zip(rounds["plain_s"], rounds["graded_s"], strict=True)]
            minute = 60 * options.students / statistics.median(rounds["graded_s"])
            result[name] = rounds | {
                "graded_over_plain": round(statistics.median(ratios), 3),
                "submissions_a_minute": round(minute, 1),
            }
            print(
                f"{name}: {minute:.1f} submissions a minute (aim {aim}); graded over plain"
                f" {statistics.median(ratios):.2f} (aim {AIM_OVERHEAD}); {rounds}"
            )
        if options.others:
            result["others"] = others(course, submissions[0], options.repeats)
            print(json.dumps(result["others"]))
    if options.write:
        known = json.loads(RESULT.read_text()) if RESULT.is_file() else {}
        key = "with CUDA sources" if options.cuda else "without CUDA sources"
        RESULT.write_text(json.dumps(known | {key: result}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
