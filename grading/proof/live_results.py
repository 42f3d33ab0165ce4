"""The kept result of the live checks: what the references earned on a real GPU, and when.

    uv run pytest --live --against solutions --score-json tests/live_score.json

CI has no GPU, so the result is committed with the machine it came from and the hashes of what was
judged; the proof says when it no longer speaks of the present references and checks.
"""

from __future__ import annotations

import datetime

from grading.proof import fingerprint
from profiling_lab.course.manifest import Course, Exercise
from profiling_lab.record.tools import query_gpus

FILE = "tests/live_score.json"


def provenance(course: Course, exercises: list[Exercise]) -> dict:
    """Machine, date and hashes for a live run."""
    gpus = query_gpus(("name", "driver_version"))
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "gpus": [f"{gpu['name']}, {gpu['driver_version']}" for gpu in gpus],
        "hashes": {
            task.id: fingerprint.of_task(course, task)
            for exercise in exercises
            for task in exercise.tasks
            if task.live
        },
    }
