"""What `lab dev check` finds out: an exercise's five parts, and what the proof says of it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

from profiling_lab.cli.checking import configuration
from profiling_lab.cli.hints import hint_steps
from profiling_lab.cli.screen import LAB, short
from profiling_lab.course import mistakes, stubs
from profiling_lab.course.manifest import SOLUTIONS, Course, Exercise, checks_in
from profiling_lab.errors import CourseError

PROOF = "tests/harness/test_proof.py"
_DOTS = r"(\w+: )?[.FEsxXtbi-]+(\s*\[ *\d+%\])?"  # pytest's line of outcomes


_MOST_LINES = 8  # of what a failed check says
NO_CHECKS_COLLECTED = 5


def read(file: Path) -> str | None:
    try:
        return file.read_text(encoding="utf-8")
    except OSError:
        return None


def own_words(message: str) -> list[str]:
    """The lines of a failure's message that say what is wrong, a few; not pytest's line of dots.

    Where a run of pytest is in the message, its own errors are what is wrong.
    """
    lines = [line.rstrip() for line in message.splitlines()]
    while errors := [line[1:].strip() for line in lines if re.match(r"E   +\S", line)]:
        lines = errors
    telling = [line for line in lines if line.strip() and not re.fullmatch(_DOTS, line)]
    return [line[:300] for line in telling[:_MOST_LINES]]


def parts(course: Course, exercise: Exercise) -> list[tuple[str, str]]:
    """The five parts of an exercise, each with what is wrong with it, or ""."""
    out = []
    lesson = course.lesson(exercise)
    out.append(("lesson", "" if lesson.is_file() else f"{short(lesson)} is missing"))
    try:
        fresh = stubs.generate(course, exercise)
        differing = [short(file) for file, text in fresh.items() if read(file) != text]
        problem = f"{', '.join(differing)} differs: {LAB} dev stub {exercise.id}"
        out.append(("stubs as generated from the reference", problem if differing else ""))
    except (CourseError, SyntaxError) as error:
        out.append(("stubs as generated from the reference", str(error)))
    lacking = []
    for task in exercise.tasks:
        try:
            if len(hint_steps(course, task)) < 2:
                lacking.append(task.name)
        except CourseError:
            lacking.append(task.name)
    out.append(("a question and a stronger hint a task", _lack(lacking)))
    task_of = {
        check: task for stub in exercise.stubs for check, task in checks_in(course.checks(stub))
    }
    lacking = [task.name for task in exercise.tasks if task.id not in task_of.values()]
    out.append(("checks of every task", _lack(lacking)))
    try:
        caught_by = [m.caught_by for stub in exercise.stubs for m in mistakes.read(course, stub)]
    except CourseError as error:
        return [*out, ("mistakes in the present reference", str(error))]
    caught = Counter(task_of[check.split("[")[0]] for check in caught_by)
    few = [task.name for task in exercise.tasks if not task.live and caught[task.id] < 2]
    out.append((f"two mistakes caught a task ({len(caught_by)} in all)", _lack(few)))
    return out


def _lack(names: list[str]) -> str:
    return f"lacking for {', '.join(names)}" if names else ""


def run_proof(
    course: Course, exercise: Exercise
) -> tuple[dict[str, list[tuple[str, float, str]]], str, int]:
    """Run the proof of one exercise: cases by what they prove, pytest's output, its exit code.

    A course without the proof (a small one of a test, say) has its checks run on the reference.
    """
    checks = [str(course.checks(stub)) for stub in exercise.stubs if course.checks(stub).is_file()]
    proof = course.root / PROOF
    runs = []
    if proof.is_file():
        harness = sorted(proof.parent.rglob("test_*.py"))
        concerned = [str(file) for file in harness if "mark.concerns(" in (read(file) or "")]
        runs.append(("", [*concerned, "--concerning", exercise.id]))
    elif checks:
        runs.append(("the checks, on the reference", checks))
    groups: dict[str, list[tuple[str, float, str]]] = {}
    outputs, worst = [], 0 if runs else NO_CHECKS_COLLECTED
    for label, arguments in runs:
        with tempfile.TemporaryDirectory(prefix="lab_") as scratch:
            results = Path(scratch) / "results.xml"
            command = [sys.executable, "-m", "pytest", *configuration(course), "-q", "--tb=short"]
            command += ["--against", SOLUTIONS]
            command += ["--junitxml", str(results), *arguments]
            done = subprocess.run(
                command,
                cwd=course.root,
                env=os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                check=False,
            )
            outputs.append(done.stdout + done.stderr)
            if done.returncode != NO_CHECKS_COLLECTED:
                worst = max(worst, done.returncode)
            if not results.is_file():
                continue
            for case in ElementTree.parse(results).iter("testcase"):
                name = case.get("name", "")
                bad = case.find("failure")
                bad = case.find("error") if bad is None else bad
                message = "" if bad is None else bad.text or bad.get("message") or "failed"
                words = name.partition("[")[0].removeprefix("test_").replace("_", " ")
                row = (name, float(case.get("time", 0)), message)
                groups.setdefault(label or words, []).append(row)
    return groups, "\n".join(outputs), worst
