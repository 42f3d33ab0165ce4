"""How long does the grader take for a class, and how much of that is not the checks themselves?

    uv run python benchmarks/grading.py [--students N] [--cuda] [--others] [--write]

A class of N: a third have the reference, a third the stubs as handed out with one exercise done, a third the
reference with one mistake in each exercise. Four questions, each in raw seconds:

- the same checks on the same files, once plainly (no sandbox, one process for each exercise, as many at a time)
  and once through the grader, in turns: the grader's time over the plain one;
- submissions a minute, for the week without and with the exercise that needs torch;
- seconds to the first verdict, and processor seconds of either way;
- the grader's own memory after a few submissions and after all of them.

Compiled stubs are left as handed out unless --cuda is given: then each student's source is another one, and
nearly all of the time is nvcc's. --others also runs the checks of one small exercise, on the same files, through
otter-grader and nbgrader; where they are not installed they are left out:

    uv run --with otter-grader==7.0.0 --with nbgrader==0.9.6 benchmarks/grading.py --students 12 --others --write

--command times `grade` itself on the class, with all that it reads and writes (--students 200 --only --command: a
course of 200). --load N says whether verdicts differ with N busy loops beside. With --write the figures go to benchmarks/results/grading.json.
"""

# Long because one run measures all steps of grading in turn.

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
import threading
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks import machine  # noqa: E402
from grading.grader.intake.submissions import Submission, take_in  # noqa: E402
from grading.grader.judge import Judge  # noqa: E402
from grading.runner.forkserver import ForkServer, Job  # noqa: E402
from grading.runner.preload import in_turn, modules  # noqa: E402
from profiling_lab.course import manifest, mistakes, stubs  # noqa: E402
from profiling_lab.course.manifest import Course, Exercise  # noqa: E402

RESULT = ROOT / "benchmarks/results/grading.json"
WEEK = ("ex_30", "ex_31", "ex_33", "ex_34")
WITH_TORCH = ("ex_30", "ex_31", "ex_32", "ex_33", "ex_34")
SMALL = "scaling_ex01"
SEED = 7
PARALLEL = os.cpu_count() or 1
AIM_OVERHEAD, AIM_WEEK, AIM_WITH_TORCH, AIM_FIRST_S = 1.1, 30, 14, 10


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
            elif number % 3 == 2 and (known := mistakes.read(course, stub)):
                text = known[number % len(known)].source
            (folder / stub).parent.mkdir(parents=True, exist_ok=True)
            (folder / stub).write_text(text, encoding="utf-8")


def plainly(
    course: Course, submissions: Sequence[Submission], exercises: Sequence[Exercise]
) -> float:
    """Seconds for the bare checks: pytest forked from a template, in-process, nothing guarded."""
    with (
        tempfile.TemporaryDirectory() as scratch,
        ForkServer(parallel=PARALLEL) as server,
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
                preload=modules(exercise),
            )
            for exercise, submission in units_of(exercises, submissions)
        ]
        start = time.perf_counter()
        server.run_all(jobs)
        return time.perf_counter() - start


def units_of(
    exercises: Sequence[Exercise], submissions: Sequence[Submission]
) -> list[tuple[Exercise, Submission]]:
    """Each exercise of each submission, in the grader's order."""
    return in_turn(itertools.product(exercises, submissions), lambda unit: modules(unit[0]))


def graded(
    course: Course,
    submissions: Sequence[Submission],
    exercises: Sequence[Exercise],
    *,
    parallel: int = PARALLEL,
) -> tuple[float, float, float, list[int]]:
    """Seconds to open the judge, to its first verdict from then on, to grade all; bytes of all its processes.

    Opened is a judge with its template and its sandbox, as a class of any size needs them once.
    """
    start = time.perf_counter()
    with Judge(course, seed=SEED, parallel=parallel) as judge:
        judge.start()
        opened = time.perf_counter() - start
        start, memory = time.perf_counter(), []
        waiting = threading.Lock()
        units = units_of(exercises, submissions)
        done = itertools.count(1)
        first: list[float] = []

        def one(unit: tuple[Exercise, Submission]) -> None:
            exercise, submission = unit
            result = judge.grade(submission, exercise)
            assert not result.infrastructure, result.infrastructure
            with waiting:
                first.append(time.perf_counter() - start)
                if next(done) % max(1, len(units) // 6) == 0:
                    memory.append(resident_bytes())

        with ThreadPoolExecutor(parallel) as pool:
            list(pool.map(one, units))
        return opened, first[0], time.perf_counter() - start, memory


def processor_s() -> float:
    """Processor seconds that the machine has spent, on anything: so it must be idle otherwise.

    getrusage(2) knows nothing of jobs of a sandbox: the kernel forgets their time when their namespace is ended.
    """
    user, nice, system = Path("/proc/stat").read_text(encoding="ascii").split(None, 4)[1:4]
    return (int(user) + int(nice) + int(system)) / os.sysconf("SC_CLK_TCK")


def under_load(
    course: Course, submissions: Sequence[Submission], exercises: Sequence[Exercise], loops: int
) -> dict[str, Any]:
    """Verdicts with and without busy loops beside: how many there are, and which differ."""
    found: list[dict[str, Any]] = []
    for count in (0, loops):
        busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
        try:
            with Judge(course, seed=SEED, parallel=PARALLEL) as judge:
                units = units_of(exercises, submissions)
                with ThreadPoolExecutor(PARALLEL) as pool:
                    results = list(pool.map(lambda unit: judge.grade(unit[1], unit[0]), units))
        finally:
            for process in busy:
                process.kill()
                process.wait()
        found.append(
            {
                f"{result.student} {name}": (task.outcome, task.cause, task.earned)
                for result in results
                for name, task in result.tasks.items()
            }
        )
    differ = [name for name, verdict in found[0].items() if found[1][name] != verdict]
    return {
        "loops_count": loops,
        "load_before": round(os.getloadavg()[0], 1),
        "verdicts_count": len(found[0]),
        "differ": differ,
    }


def resident_bytes() -> int:
    """Bytes of memory that this process and all below it hold; what they share counts once."""
    total, waiting = 0, [os.getpid()]
    while waiting:
        folder = Path("/proc", str(waiting.pop()))
        with contextlib.suppress(OSError):  # one that has just ended
            for line in (folder / "smaps_rollup").read_text(encoding="ascii").splitlines():
                total += int(line.split()[1]) * 1024 if line.startswith("Pss:") else 0
            for thread in (folder / "task").iterdir():
                waiting += map(int, (thread / "children").read_text(encoding="ascii").split())
    return total


def others(course: Course, submissions: Sequence[Submission], repeats: int) -> dict[str, Any]:
    """Seconds a submission: the same checks of the same files, through this grader and through others.

    The others take notebooks. Each gets one of two cells: the first writes the student's file, the second
    runs the course's check file on it, as a test that earns points. Starting this grader is told apart.
    """
    exercise = course.exercise(SMALL)
    rounds: dict[str, list[float]] = {"this grader": [], "otter": [], "nbgrader": []}
    opened = []
    for _ in range(repeats):
        open_s, _, seconds, _ = graded(course, submissions, [exercise], parallel=1)
        opened.append(round(open_s, 2))
        rounds["this grader"].append(seconds)
        for name, run in (("otter", otter), ("nbgrader", nbgrader)):
            if shutil.which(name):
                with tempfile.TemporaryDirectory() as folder:
                    rounds[name].append(run(Path(folder), course, exercise, submissions))
    found: dict[str, Any] = {
        "exercise": SMALL,
        "students": len(submissions),
        "open_s": opened,
        "seconds_a_submission": {
            name: [round(value / len(submissions), 3) for value in values]
            for name, values in rounds.items()
        },
    }
    for name in ("otter", "nbgrader"):
        ratios = [b / a for a, b in zip(rounds["this grader"], rounds[name], strict=False)]
        found[f"{name}_over_this_grader"] = round(statistics.median(ratios), 1) if ratios else None
    return found


def cells(course: Course, exercise: Exercise, submission: Submission) -> tuple[str, str, str]:
    """Of a notebook: what writes the student's files, what runs the checks, and what it comes to."""
    texts = {str(stub): (submission.tree / stub).read_text("utf-8") for stub in exercise.stubs}
    write = (
        "from pathlib import Path\nimport contextlib, io, os\nimport pytest\n"
        f"for name, text in {texts!r}.items():\n"
        "    file = Path('tree', name)\n"
        "    file.parent.mkdir(parents=True, exist_ok=True)\n"
        "    file.write_text(text, encoding='utf-8')\n"
        "tree = f'--against={Path(\"tree\").resolve()}'"
    )
    checks = [str(course.checks(stub)) for stub in exercise.stubs]
    options = ["-q", "--tb=no", "-p", "no:cacheprovider", f"--rootdir={course.root}"]
    options.append(f"--config-file={course.root / 'pyproject.toml'}")
    run = (
        f"with contextlib.chdir({str(course.root)!r}), contextlib.redirect_stdout(io.StringIO()):\n"
        f"    code = int(pytest.main([*{[*checks, *options]!r}, tree]))"
    )
    return write, run, "code"


def otter(
    folder: Path, course: Course, exercise: Exercise, submissions: Sequence[Submission]
) -> float:
    """Seconds of `otter run`, a command a submission. Raises CalledProcessError."""
    (folder / "tests").mkdir()
    write, run, code = cells(course, exercise, submissions[0])
    lines = "\n".join(
        f"{'...' if line.startswith(' ') else '>>>'} {line}" for line in run.splitlines()
    )
    case = {"code": f"{lines}\n>>> {code}\n0", "hidden": False, "locked": False}
    suite = {"cases": [case], "scored": True, "setup": "", "teardown": "", "type": "doctest"}
    test = {"name": "q1", "points": 1, "suites": [suite]}
    (folder / "tests/q1.py").write_text(f"OK_FORMAT = True\ntest = {test!r}\n")
    shutil.make_archive(str(folder / "autograder"), "zip", folder, "tests")
    total = 0.0
    for submission in submissions:
        write, _, _ = cells(course, exercise, submission)
        notebook(folder / "hw.ipynb", [write])
        total += timed(["otter", "run", "-a", "autograder.zip", "hw.ipynb"], folder)
        assert "q1" in (folder / "results.json").read_text(), "otter ran no test"
    return total


def nbgrader(
    folder: Path, course: Course, exercise: Exercise, submissions: Sequence[Submission]
) -> float:
    """Seconds of `nbgrader autograde`, one command for all submissions. Raises CalledProcessError."""
    (folder / "nbgrader_config.py").write_text(
        "c = get_config()\nc.CourseDirectory.course_id = 'x'\nc.ExecutePreprocessor.timeout = 600\n"
    )
    places = {"source/ps1": submissions[0]}
    places |= {f"submitted/{entry.student}/ps1": entry for entry in submissions}
    for place, submission in places.items():
        (folder / place).mkdir(parents=True)
        write, run, code = cells(course, exercise, submission)
        parts = [(write, "work", False, True), (f"{run}\nassert {code} == 0", "test", True, False)]
        notebook(folder / place / "hw.ipynb", parts)
    timed(["nbgrader", "generate_assignment", "ps1"], folder)
    seconds = timed(["nbgrader", "autograde", "ps1"], folder)
    made = list((folder / "autograded").glob("*/ps1/hw.ipynb"))
    assert len(made) == len(submissions), "nbgrader graded not all"
    return seconds


def notebook(file: Path, cells: Iterable[Any]) -> None:
    """A notebook of code cells; (source, grade id, is a test, is a solution) for nbgrader's."""
    import nbformat

    book = nbformat.v4.new_notebook()
    book.metadata["kernelspec"] = {"name": "python3", "display_name": "x", "language": "python"}
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


def whole_command(students: Path, folder: Path) -> dict[str, Any]:
    """Seconds of `grade` itself for the exercises of WITH_TORCH, and what it says at its end."""
    named = [word for name in WITH_TORCH for word in ("--exercise", name)]
    grade = str(Path(sys.executable).parent / "grade")
    seconds = timed([grade, str(students), "--out", str(folder), *named], ROOT)
    verdicts = (folder / "results.jsonl").read_text(encoding="utf-8").splitlines()
    return {"seconds": round(seconds, 1), "exercises_judged_count": len(verdicts)}


def timed(command: Sequence[str], folder: Path) -> float:
    """Seconds of a command. Raises CalledProcessError."""
    start = time.perf_counter()
    subprocess.run(command, capture_output=True, check=True, cwd=folder)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--students", type=int, default=6)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--cuda", action="store_true", help="each student has CUDA sources of their own"
    )
    parser.add_argument("--load", type=int, help="verdicts with so many busy loops beside, too")
    parser.add_argument("--only", nargs="*", help="of week, with_torch; none: neither")
    parser.add_argument("--command", action="store_true", help="also `grade` itself, as a whole")
    parser.add_argument("--others", action="store_true", help="also otter-grader and nbgrader")
    parser.add_argument(
        "--write", action="store_true", help=f"into {RESULT.name}, each part when it is measured"
    )
    options = parser.parse_args()

    course = manifest.load(ROOT)
    described = machine.describe("torch", "numpy", "polars", "pytest")
    head = {"machine": described, "students_count": options.students, "parallel": PARALLEL}

    def keep(part: str, measured: dict[str, Any]) -> None:
        if options.write:
            known = json.loads(RESULT.read_text()) if RESULT.is_file() else {}
            kind = known.setdefault(
                "with CUDA sources" if options.cuda else "without CUDA sources", {}
            )
            kind[part] = head | measured
            RESULT.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")

    with tempfile.TemporaryDirectory() as scratch:
        for number in range(options.students):
            hand_in(course, Path(scratch, "class", f"s{number:03}"), number, cuda=options.cuda)
        start = time.perf_counter()
        submissions = list(take_in(Path(scratch, "class"), course, Path(scratch, "staged")))
        keep("intake", {"seconds": round(time.perf_counter() - start, 3)})
        for name, ids, aim in (
            ("week", WEEK, AIM_WEEK),
            ("with_torch", WITH_TORCH, AIM_WITH_TORCH),
        ):
            exercises = [course.exercise(identifier) for identifier in ids]
            if options.only is not None and name not in options.only:
                continue
            rounds: dict[str, list[Any]] = {"plain_s": [], "graded_s": [], "open_s": []}
            rounds |= {"first_verdict_s": [], "plain_processor_s": [], "graded_processor_s": []}
            for _ in range(options.repeats):
                used = processor_s()
                rounds["plain_s"].append(round(plainly(course, submissions, exercises), 2))
                rounds["plain_processor_s"].append(round(processor_s() - used, 2))
                used = processor_s()
                opened, first, seconds, memory = graded(course, submissions, exercises)
                rounds["graded_processor_s"].append(round(processor_s() - used, 2))
                rounds["first_verdict_s"].append(round(opened + first, 2))
                rounds["graded_s"].append(round(seconds, 2))
                rounds["open_s"].append(round(opened, 2))
                rounds["resident_bytes"] = memory
            ratios = [b / a for a, b in zip(rounds["plain_s"], rounds["graded_s"], strict=True)]
            minute = 60 * options.students / statistics.median(rounds["graded_s"])
            keep(
                name,
                rounds
                | {
                    "graded_over_plain": round(statistics.median(ratios), 3),
                    "submissions_a_minute": round(minute, 1),
                },
            )
            print(
                f"{name}: {minute:.1f} submissions a minute (aim {aim}); graded over plain"
                f" {statistics.median(ratios):.2f} (aim {AIM_OVERHEAD}); first verdict aim {AIM_FIRST_S} s;"
                f" {rounds}"
            )
        if options.command:
            told = whole_command(Path(scratch, "class"), Path(scratch, "graded"))
            keep("whole_command", told)
            print(json.dumps(told))
        if options.load:
            loaded = under_load(
                course, submissions, [course.exercise(name) for name in WEEK], options.load
            )
            keep("under_load", loaded)
            print(json.dumps(loaded))
        if options.others:
            measured = others(course, submissions, options.repeats)
            keep("others", measured)
            print(json.dumps(measured))


if __name__ == "__main__":
    main()
