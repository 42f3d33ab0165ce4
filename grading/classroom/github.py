"""GitHub Classroom: the workflow of a class repository, and the points that it reports.

The reporter adds up `tests[].score` and `max_score` of what a step before it put out as base64 of JSON
(source: autograding-grading-reporter v1, src/notify-classroom.js; the form is that of
autograding-command-grader v1, src/main.js). That grader knows all or nothing, by the exit code; this
one gives the points of each task. The table in the reporter's log counts exercises with full points
only, where its report to GitHub Classroom holds the points.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from grading.classroom.class_repo import installing
from grading.classroom.git import commit_file
from profiling_lab.course import manifest
from profiling_lab.course.manifest import MANIFEST, Course
from profiling_lab.errors import LabError

WORKFLOW = Path(".github") / "workflows" / "classroom.yml"


def write_workflow(folder: Path) -> tuple[Path, str]:
    """Write the workflow into a class repository, and commit it; the file, and the commit or "".

    It installs the groups that the repository's exercises need. Raises LabError if the folder holds no course, or another workflow of that name.
    """
    if not (folder / MANIFEST).is_file():
        raise LabError(f"{folder}: no {MANIFEST} there; name the folder of a class repository")
    file = folder / WORKFLOW
    text = installing("classroom.yml", manifest.load(folder).exercises)
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

    An entry an exercise: the result travels in an environment variable, and one of 128 KiB is too long
    for Linux. Live and further tasks are left out. What was not run earns nothing here. Without a score file (the
    checks did not come to their end) nothing is earned, and the status is "error".
    """
    try:
        tasks = dict(json.loads(score.read_text(encoding="utf-8"))["tasks"])
    except (OSError, ValueError, KeyError, TypeError):
        tasks, status = {}, "error"
    else:
        failed = any(task.get("outcome") == "failed" for task in tasks.values())
        status = "fail" if failed else "pass"
    tests = []
    for exercise in course.exercises:
        wanted = [task for task in exercise.tasks if task.core]
        if not wanted:
            continue
        passed = [t for t in wanted if tasks.get(t.id, {}).get("outcome") == "passed"]
        earned = sum(task.points for task in passed)
        said = f"{earned} of {exercise.points} points, {len(passed)} of {len(wanted)} tasks"
        tests.append(
            {
                "name": f"{exercise.id}: {said}",
                "status": "pass" if earned == exercise.points else "fail",
                "score": earned,
                "message": "",
                "test_code": f"uv run lab check {exercise.id}",
                "filename": str(exercise.stub),
                "line_no": 0,
                "duration": 0,
            }
        )
    total = sum(exercise.points for exercise in course.exercises)
    return {"version": 1, "status": status, "max_score": total, "tests": tests}


def encoded(result: dict[str, Any]) -> str:
    """A result as the reporter reads it from its environment: base64 of JSON."""
    return base64.b64encode(json.dumps(result, ensure_ascii=False).encode()).decode("ascii")


def summary(result: dict[str, Any]) -> str:
    """The result as Markdown, for the page of the run: a row an exercise."""
    earned = sum(test["score"] for test in result["tests"])
    lines = [f"## {earned} of {result['max_score']} points", ""]
    if result["status"] == "error":
        lines += ["The checks did not come to their end, so nothing could be counted.", ""]
    lines += ["| exercise | so far |", "|---|---|"]
    for test in result["tests"]:
        name, _, said = test["name"].partition(": ")
        lines.append(f"| {name} | {said} |")
    return "\n".join(lines) + "\n"
