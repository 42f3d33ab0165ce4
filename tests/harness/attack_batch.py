"""Attacks graded in one batch, with honest work between them, and what they gained."""

from __future__ import annotations

import copy
import json
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from grading.grader.intake.submissions import take_in
from grading.grader.judge import Judge
from grading.runner.results import Key, Result
from profiling_lab.course.manifest import Course
from tests.harness.attack_files import Attack, controls
from tests.harness.attack_ground import Ground, descendants, left_behind, reaping

SEED = 7
PARALLEL = 4  # twice the cores: most of the time goes with waiting for limits
MOST_BYTES = 200_000


@dataclass
class Graded:
    """An attack or a control, and its result."""

    attack: Attack
    result: Result
    seconds: float


@dataclass
class Outcome:
    """What a batch came to."""

    graded: list[Graded]
    controls: list[Graded]
    changed: list[str]
    left: dict[int, str]


def batch(
    folder: Path, course: Course, chosen: list[Attack], *, sandbox: str, every: int = 4
) -> Outcome:
    """Grade attacks in one batch, with a control after every few of them, several at a time."""
    key = Key("", "", "", SEED)
    before = descendants()
    ground = Ground(folder, course)
    try:
        with reaping():
            with Judge(course, sandbox=sandbox, seed=SEED, parallel=PARALLEL) as judge:
                with judge.sandbox(course.exercise("scaling_ex01")) as opened:
                    ground.socket = opened.address
                ground.note()

                honest = controls()
                right = next(control for control in honest if control.name == "right")
                order: list[tuple[str, Attack]] = []
                for place, attack in enumerate(chosen):
                    order.append((attack.name, attack))
                    if attack.get("DANGEROUS") or place % every == every - 1:
                        order.append((f"{right.name}-{place}", right))
                order += [(control.name, control) for control in honest]
                for name, attack in order:
                    ground.hand_in(attack, name)
                taken = {
                    one.student: one for one in take_in(ground.entries, course, ground.staging)
                }
                others = [one for name, one in taken.items() if name not in dict(order)]

                def grade(name: str, attack: Attack) -> Graded:
                    submission = taken[name] if name in taken else others.pop()
                    started = time.monotonic()
                    one = copy.copy(judge)
                    one.call_timeout_s = attack.get("SLOW", judge.call_timeout_s)
                    result = one.grade(submission, attack.exercise(course), key)
                    return Graded(attack, result, time.monotonic() - started)

                assert len(taken) == len(order)
                with ThreadPoolExecutor(PARALLEL) as pool:
                    done = list(pool.map(grade, *zip(*order, strict=True)))
            left = left_behind(before)
        changed = ground.changed()
    finally:
        ground.close()
    return Outcome(
        [one for one in done if one.attack in chosen],
        [one for one in done if one.attack not in chosen],
        changed,
        left,
    )


def texts_of(result: Result) -> str:
    """All that a result says."""
    checks = [check for task in result.tasks.values() for check in task.checks]
    return "\n".join([result.infrastructure, *(check.message for check in checks)])


def gained(course: Course, one: Graded) -> str:
    """What an attack got that it should not have, in words; "" if nothing."""
    attack, result = one.attack, one.result
    earned = {name: task for name, task in result.tasks.items() if task.earned}
    if attack.get("FORGEABLE"):
        if not earned:
            return "it is said to be forgeable and earned nothing"
        earned = {name: task for name, task in earned.items() if task.trust != "claim"}
    if earned and not attack.get("COPIES_REFERENCE"):
        return f"it earned {sorted(earned)}"
    said = texts_of(result)
    if found := [words for words in attack.get("MUST_NOT_SAY", ()) if words in said]:
        return f"a message says {found}: {said[:500]}"
    return ""


def fell_short(course: Course, one: Graded) -> str:
    """What else is wrong with how an attack ended; "" if nothing."""
    attack, result = one.attack, one.result
    if result.infrastructure:
        return f"it was not judged: {result.infrastructure}"
    prefix = f"{attack.exercise(course).id}."
    wanted = [result.tasks[prefix + name] for name in attack.wants(course)]
    causes = attack.get("CAUSE", "")
    causes = (causes,) if isinstance(causes, str) else causes
    if causes != ("",) and not {task.cause for task in wanted} & set(causes):
        return f"its tasks ended as {[(t.outcome, t.cause) for t in wanted]}, not by {causes}"
    size = len(json.dumps(result.to_dict()))
    if size > attack.get("MOST_BYTES", MOST_BYTES):
        return f"its result takes {size} bytes"
    return ""


def control_fell_short(course: Course, one: Graded) -> str:
    """What is wrong with the result of an honest submission; "" if nothing."""
    control, result = one.attack, one.result
    if result.infrastructure:
        return f"{control}: not judged: {result.infrastructure}"
    tasks = [t for t in control.exercise(course).tasks if not t.live]
    earns = control.get("EARNS")
    for task in tasks:
        got = result.tasks[task.id]
        right = got.outcome == "not run" or (
            got.earned == task.points
            if earns == "all" or task.name in earns
            else got.outcome in (control.get("OUTCOME", got.outcome), "todo") and not got.earned
        )
        if not right:
            told = [check.message for check in got.checks if check.message][:2]
            return f"{control}: {task.id} {got.outcome} {got.earned} of {got.points} {told}"
    return ""
