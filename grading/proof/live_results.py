"""The kept result of the live checks: what the references earned on a real GPU, and when.

    uv run python -m grading.proof.live_results            which tasks' results are stale, and why
    uv run python -m grading.proof.live_results --renew    judge those again, on a machine with the GPUs
    uv run python -m grading.proof.live_results --restamp  keep those that the proof here speaks for, too

CI has no GPU, so the result is committed with the machine it came from and the hashes of what was
judged; the proof says when it no longer speaks of the present references and checks.

A result may be restamped where neither the task's reference nor its checks changed, and every other changed part
that they rest on is also used by tasks that are judged without a GPU, whose references and mistakes are proven anew.
"""

from __future__ import annotations

import argparse
import datetime
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from grading.proof import fingerprint
from grading.proof.rests_on import Part
from profiling_lab.course import manifest
from profiling_lab.course.manifest import Course, Exercise, Task
from profiling_lab.record.tools import query_gpus

FILE = "tests/live_score.json"


def provenance(course: Course, exercises: list[Exercise]) -> dict[str, Any]:
    """Machine, date and hashes for a live run. parts: the hash of each definition it rests on."""
    gpus = query_gpus(("name", "driver_version"))
    live = [task for exercise in exercises for task in exercise.tasks if task.live]
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "gpus": [f"{gpu['name']}, {gpu['driver_version']}" for gpu in gpus],
        "hashes": {task.id: hashes(course, task) for task in live},
        "parts": sorted({x for t in live for x in fingerprint.parts_of_task(course, t).values()}),
    }


def hashes(course: Course, task: Task) -> dict[str, str]:
    """What a live result of a task depends on; own: of its own files alone."""
    return fingerprint.of_task(course, task) | {"own": fingerprint.own_of_task(course, task)}


def stale(course: Course, kept: dict[str, Any], exercises: list[Exercise]) -> list[Task]:
    """The live tasks of some exercises whose result is of an earlier reference, check or other code."""
    return [
        task
        for exercise in exercises
        for task in exercise.tasks
        if task.live and kept["live_run"]["hashes"].get(task.id) != hashes(course, task)
    ]


def spoken_for(
    course: Course, task: Task, kept: dict[str, Any], portable: Mapping[str, set[str]]
) -> tuple[set[str], str]:
    """The exercises whose portable tasks use all that changed under a task; or why no proof here speaks for it."""
    if kept["live_run"]["hashes"].get(task.id, {}).get("own") != fingerprint.own_of_task(
        course, task
    ):
        return set(), "its own reference or checks changed"
    known = set(kept["live_run"]["parts"])
    changed = {p: x for p, x in fingerprint.parts_of_task(course, task).items() if x not in known}
    found: set[str] = set()
    for part, text in changed.items():
        users = portable.get(text, set())
        if not users:
            return set(), f"no task without a GPU uses {_words(course, part)}, which changed"
        if not users & found:
            found.add(
                next((name for name in users if task in course.exercise(name).tasks), min(users))
            )
    return found, ""


def portable_users(course: Course, exercises: Iterable[Exercise]) -> dict[str, set[str]]:
    """By the hash of each part: those of the exercises whose tasks use it without a GPU."""
    out: dict[str, set[str]] = {}
    for exercise in exercises:
        for task in exercise.tasks:
            for text in fingerprint.parts_of_task(course, task).values() if not task.live else ():
                out.setdefault(text, set()).add(exercise.id)
    return out


def _words(course: Course, part: Part) -> str:
    return f"{part.name} of {part.file.relative_to(course.root.resolve()).as_posix()}"


def restamp(course: Course, kept: dict[str, Any]) -> list[str]:
    """Stamp anew what the proof here speaks for; says what it does not speak for."""
    left, stamped, needed = [], [], set()
    portable = portable_users(course, course.exercises)
    for task in stale(course, kept, list(course.exercises)):
        exercises, reason = spoken_for(course, task, kept, portable)
        if reason:
            left.append(f"{task.id}: {reason}")
        else:
            stamped.append(task)
            needed |= exercises
    if needed:
        print(f"proving {', '.join(sorted(needed))}", flush=True)
        chosen = f"(reference_earns or is_caught) and ({' or '.join(sorted(needed))})"
        command = ("-m", "pytest", "tests/harness/test_proof.py", "--against", "solutions", "-q")
        if subprocess.run(
            [sys.executable, *command, "-k", chosen], cwd=course.root, check=False
        ).returncode:
            return [*left, *(f"{task.id}: the proof fails" for task in stamped)]
    run = kept["live_run"]
    for task in stamped:
        run["hashes"][task.id] = hashes(course, task)
        run["parts"] = sorted({*run["parts"], *fingerprint.parts_of_task(course, task).values()})
    return left


def renew(course: Course, kept: dict[str, Any]) -> list[str]:
    """Run the checks of exercises with stale results on this machine's GPUs; says what did not pass."""
    old = {task.id for task in stale(course, kept, list(course.exercises))}
    exercises = [e for e in course.exercises if any(task.id in old for task in e.tasks)]
    if not exercises:
        return []
    files = sorted(
        {str(course.checks(task.stub)) for e in exercises for task in e.tasks if task.id in old}
    )
    with tempfile.TemporaryDirectory() as folder:
        score = Path(folder) / "score.json"
        command = ("-m", "pytest", *files, "--live", "--against", "solutions", "-q")
        subprocess.run(
            [sys.executable, *command, "--score-json", str(score)], cwd=course.root, check=False
        )
        new = json.loads(score.read_text(encoding="utf-8"))
    passed = {name for name in old if new["tasks"].get(name, {}).get("outcome") == "passed"}
    for name in passed:
        kept["tasks"][name] = new["tasks"][name]
        kept["live_run"]["hashes"][name] = new["live_run"]["hashes"][name]
    kept["live_run"]["parts"] = sorted({*kept["live_run"]["parts"], *new["live_run"]["parts"]})
    kept["live_run"]["date"] = new["live_run"]["date"]
    known = kept["live_run"]["gpus"]  # of all runs that results are kept of
    known += [gpu for gpu in new["live_run"]["gpus"] if gpu not in known]
    return [f"{name}: did not pass here" for name in sorted(old - passed)]


def main() -> int:
    """List, renew or restamp stale results."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    ways = parser.add_mutually_exclusive_group()
    ways.add_argument("--renew", action="store_true", help="judge stale tasks on this machine")
    ways.add_argument("--restamp", action="store_true", help="keep what the proof here speaks for")
    arguments = parser.parse_args()
    course = manifest.load()
    file = course.root / FILE
    kept = json.loads(file.read_text(encoding="utf-8"))
    if arguments.renew or arguments.restamp:
        left = (renew if arguments.renew else restamp)(course, kept)
        file.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    else:
        portable = portable_users(course, course.exercises)
        left = [
            f"{task.id}: {reason or 'other code changed, and --restamp may do'}"
            for task in stale(course, kept, list(course.exercises))
            for _, reason in [spoken_for(course, task, kept, portable)]
        ]
    print(*left, sep="\n")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
