"""GitHub Classroom: the workflow of a class repository, and the points that it reports.

The reporter adds up `tests[].score` and `max_score` of what a step before it put out as base64 of JSON
(source: autograding-grading-reporter v1, src/notify-classroom.js; the form is that of
autograding-command-grader v1, src/main.js). Where that grader knows all or nothing by the exit code,
this one gives the points of each task.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from grading.classroom.class_repo import TEMPLATES, commit_file
from profiling_lab.course import MANIFEST, Course, Task
from profiling_lab.errors import LabError

WORKFLOW = Path(".github") / "workflows" / "classroom.yml"
MESSAGE_LENGTH = 400  # the result travels in an environment variable, of 128 KiB at most
WORDS = {
    "passed": "passed",
    "failed": "failed",
    "todo": "to do",
    "blocked": "blocked by another task",
    "not run": "not run here",
}


def write_workflow(folder: Path) -> tuple[Path, str]:
    """Write the workflow into a class repository, and commit it; the file, and the commit or "".

    Raises LabError if the folder holds no course, or another workflow of that name.
    """
    if not (folder / MANIFEST).is_file():
        raise LabError(f"{folder}: no {MANIFEST} there; name the folder of a class repository")
    file = folder / WORKFLOW
    text = (TEMPLATES / "classroom.yml").read_text(encoding="utf-8")
    try:
        if file.is_file() and file.read_text(encoding="utf-8") != text:
            raise LabError(f"{file}: is there already and says something else; move it away first")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise LabError(f"{file}: cannot be written ({error.strerror})") from None
    return file, commit_file(folder, WORKFLOW, "Checks run at every push")


def points(course: Course, score: Path) -> dict[str, Any]:
    """The score file of `pytest --score-json` in the words of GitHub Classroom's reporter.

    Live tasks are left out. What was not run earns nothing here, and says so. Without a score file
    (the code under judgement ended pytest) nothing is earned, and the status is "error".
    """
    tasks = [task for task in course.tasks.values() if not task.live]
    try:
        data = json.loads(score.read_text(encoding="utf-8"))["tasks"]
    except (OSError, ValueError, KeyError, TypeError):
        data, status = {}, "error"
    else:
        status = "fail" if any(_outcome(data, task) == "failed" for task in tasks) else "pass"
    return {
        "version": 1,
        "status": status,
        "max_score": sum(task.points for task in tasks),
        "tests": [_test(data, task, status) for task in tasks],
    }


def _outcome(data: dict[str, Any], task: Task) -> str:
    entry = data.get(task.id)
    return str(entry.get("outcome", "not run")) if isinstance(entry, dict) else "not run"


def _test(data: dict[str, Any], task: Task, status: str) -> dict[str, Any]:
    outcome = _outcome(data, task)
    passed = outcome == "passed"
    said = WORDS.get(outcome, outcome)
    if status == "error":
        said = "no score: the checks did not come to their end, see the step before"
    elif outcome == "failed":
        messages = (check.get("message", "") for check in data[task.id].get("checks", ()))
        said = next((message for message in messages if message), said)
    return {
        "name": f"{task.id}: {said.splitlines()[0][:MESSAGE_LENGTH] if said else ''}",
        "status": "pass" if passed else "error" if status == "error" else "fail",
        "score": task.points if passed else 0,
        "message": "",
        "test_code": f"uv run lab check {task.id}",
        "filename": str(task.stub),
        "line_no": 0,
        "duration": 0,
    }


def encoded(result: dict[str, Any]) -> str:
    """A result as the reporter reads it from its environment: base64 of JSON."""
    return base64.b64encode(json.dumps(result, ensure_ascii=False).encode()).decode("ascii")


def summary(course: Course, result: dict[str, Any]) -> str:
    """The result as Markdown, for the page of the run: a row an exercise."""
    earned = {test["name"].partition(":")[0]: test["score"] for test in result["tests"]}
    total = sum(earned.values())
    lines = [f"## {total} of {result['max_score']} points", ""]
    if result["status"] == "error":
        lines += ["The checks did not come to their end, so nothing could be counted.", ""]
    lines += ["| exercise | points | passed |", "|---|---|---|"]
    for exercise in course.exercises:
        tasks = [task for task in exercise.tasks if not task.live]
        have = sum(earned[task.id] for task in tasks)
        passed = sum(bool(earned[task.id]) for task in tasks)
        row = f"| {exercise.id} | {have} of {exercise.points} | {passed} of {len(tasks)} tasks |"
        lines.append(row)
    return "\n".join(lines) + "\n"
