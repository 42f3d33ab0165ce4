"""A class drawn from a seed over the real manifest: results, submissions, roster, likenesses."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

from grading.gradebook.roster import Person
from grading.gradebook.similarity import Match
from grading.grader.intake.submissions import Submission
from grading.runner.results import CAUSES, Check, Key, Result, Task
from profiling_lab.course.manifest import Course, Exercise
from profiling_lab.course.manifest import Task as CourseTask

SECRET = "the private case says 4711"
HOSTILE = "=cmd|' /C calc'!A0 <script>alert(1)</script> ../../\u202egnp"
MESSAGES = (
    "busy_time('decode_eager') returned {0: 1234567}, expected {0: 1203455} (ns). Overlap counts once.",
    "utilization('torch_inference_baseline') returned 66.1, expected 0.661 (a ratio).",
    "find_window('x') raised KeyError: 'steady'\n  File \"/box/week07/ex_30.py\", line 44\nKeyError",
    "it returned '</pre><script>alert(2)</script>', expected a number",
    "```\n# not a heading\n| not | a table |\n[link](javascript:alert(3)) \x1b[31m\x00",
)
NAMES = [
    "Ada Lovelace",
    "Grace Hopper",
    "Alan Turing",
    "Zoë Krüger",
    "José Álvarez",
    "Mei Chen",
    "Ngũgĩ Wanjiru",
    "Olu Adeyemi",
    "Priya Nair",
    "Sven Åberg",
    "Łukasz Nowak",
    "Fatima Zahra",
    "Ivan Petrov",
    "Aiko Tanaka",
    "Tom O'Brien",
    "Noor Haddad",
    "Elif Demir",
    "Björn Svensson",
    "Chloé Martin",
    "Diego Ruiz",
    "Eva Novak",
    "Finn Weber",
    "Giulia Rossi",
    "Hana Kim",
    "Isla Brown",
    "Jonas Lehmann",
    "Kofi Mensah",
    "Lea Fischer",
    "Mateo Silva",
    "Nina Horvat",
]
ABSENT, UNTIMED, BROKEN, UNKNOWN = 7, 5, 9, 11  # students with something special
MATCHES = (Match("student", "renamed", "ex_30", "busy_time", ("s1001", "s1002"), 90, 29),)


def people(count: int = 30) -> tuple[Person, ...]:
    """The roster."""
    return tuple(
        Person(
            NAMES[at % len(NAMES)] + (f" {at}" if at >= len(NAMES) else ""),
            id=f"s{1000 + at}",
            email=f"s{1000 + at}@uni.example",
            section="AB"[at % 2],
            line=at + 2,
        )
        for at in range(count)
    )


def submissions(count: int = 30, seed: int = 1) -> list[Submission]:
    """What was handed in; one entry is in no roster and has a hostile name."""
    rng = random.Random(f"{seed} submissions")
    return [
        Submission(
            entry_of(at),
            Path("/nowhere"),
            "0" * 64,
            submitted_at=None if at == UNTIMED else 1764500000 + rng.randint(-400000, 300000),
        )
        for at in range(count)
        if at != ABSENT
    ]


def entry_of(at: int) -> str:
    return HOSTILE if at == UNKNOWN else f"s{1000 + at}"


def results(exercises: Sequence[Exercise], count: int = 30, seed: int = 1) -> Iterator[Result]:
    """The results, student by student."""
    for at in range(count):
        rng = random.Random(f"{seed} {at}")
        skill, diligence = rng.random(), rng.random()
        for exercise in exercises:
            if at == ABSENT:
                continue
            broken = "the sandbox did not start" if (at, exercise) == (BROKEN, exercises[0]) else ""
            handed_in = rng.random() < diligence
            tasks = {task.id: _task(task, rng, skill, handed_in, broken) for task in exercise.tasks}
            state = "submitted" if handed_in else "missing"
            files = {str(stub): state for stub in exercise.stubs}
            key = Key("a", "b", "c", 1)
            yield Result(entry_of(at), exercise.id, key, tasks, files, broken, rng.random())


def _task(task: CourseTask, rng: random.Random, skill: float, handed_in: bool, broken: str) -> Task:
    outcome = "passed"
    if broken:
        outcome = "infrastructure"
    elif task.live:
        outcome = "not run"
    elif not handed_in or rng.random() < 0.1:
        outcome = "todo"
    elif rng.random() > 0.3 + 0.7 * skill:
        outcome = rng.choice(["failed"] * 8 + ["error", "blocked"])
    cause = rng.choice(list(CAUSES)) if outcome == "error" else ""
    checks = []
    for number in range(3):
        hidden = number == 2 and rng.random() < 0.3
        one = "passed" if number == 0 and outcome in ("failed", "error") else outcome
        message = rng.choice(MESSAGES) if one == "failed" else ""
        if hidden:
            message = SECRET
        name = f"test_{task.name}_{number}[case]" if not hidden else f"test_{task.name}[{SECRET}]"
        checks.append(Check(name, one, message, cause if one == "error" else "", hidden))
    earned = task.points if outcome == "passed" else 0
    return Task(outcome, task.points, earned, task.live, task.trust, cause, checks)


def whole(course: Course, ids: Sequence[str] = ("ex_30", "ncu_ex01")) -> dict:
    """Arguments for reporting.write_all."""
    exercises = [course.exercise(name) for name in ids]
    return {
        "results": list(results(exercises)),
        "roster": people(),
        "submissions": submissions(),
        "matches": MATCHES,
    }
