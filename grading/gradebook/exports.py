"""One student's results for other systems: Gradescope's `results.json` and JUnit XML.

Both reach the student, so both are made of what `grading.gradebook.feedback` lets a student see. Neither holds a
time, so that the same results give the same bytes.

Gradescope: "Autograder Specifications" (gradescope-autograders.readthedocs.io, output format and output
string formatting). JUnit: the schema that Jenkins publishes (junit-10.xsd).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from fractions import Fraction
from html import escape
from typing import Any

from grading.gradebook.feedback import check_view
from grading.gradebook.marks import NOTHING, Mark
from grading.gradebook.policy import Policy
from grading.gradebook.student_view import CheckView, StudentView, TaskView
from grading.gradebook.untrusted_text import encodable

LONGEST_OUTPUT = 10_000
_NOT_XML = re.compile("[^\t\n -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # XML 1.0, Char


def gradescope(mark: Mark, student: StudentView, policy: Policy) -> str:
    """`results.json`: a test a task, all as plain text.

    A hidden check shows in its task's test: Gradescope hides the total from students as soon as a test
    is hidden. While something is left to grade, its task has no score, and the whole is shown to the
    instructor only, so that nobody takes the sum so far for the grade.
    """
    tests: list[dict[str, Any]] = []
    pairs = zip(mark.exercises, student.exercises, strict=True)
    for at, (exercise, shown) in enumerate(pairs, 1):
        asked = [task for task in exercise.tasks if task.asked]
        for number, (task, view) in enumerate(zip(asked, shown.tasks, strict=True), 1):
            if not task.gradable:
                continue
            test: dict[str, Any] = {
                "name": f"{view.id}: {view.title}",
                "number": f"{at}.{number}",
                "output": _output(view),
                "output_format": "text",
                "name_format": "text",
                "tags": [
                    shown.id,
                    *(["live"] if view.live else []),
                    *(["further"] if view.further else []),
                ],
                "extra_data": {"outcome": view.outcome, "trust": task.task.trust},
            }
            if task.counted and task.earned is not None:
                test["score"] = float(policy.rounded(task.earned))
                test["max_score"] = float(policy.rounded(task.weight))
            if task.share is not None:
                test["status"] = "passed" if view.outcome == "passed" else "failed"
            tests.append(test)
    score = mark.after if mark.after is not None else _so_far(mark)
    data: dict[str, Any] = {
        "score": float(policy.rounded(score)),
        "output": _summary(student),
        "output_format": "text",
        "visibility": "hidden" if student.incomplete else "visible",
        "stdout_visibility": "hidden",
        "extra_data": {
            "out_of": student.out_of,
            "incomplete": student.incomplete,
            "counts": dict(sorted(student.counts.items())),
        },
        "tests": tests,
    }
    return json.dumps(data, indent=1) + "\n"


def _so_far(mark: Mark) -> Fraction:
    """What the judged exercises give: shown to nobody but the instructor."""
    if not mark.possible:
        return NOTHING
    earned = sum((exercise.earned or NOTHING for exercise in mark.exercises), NOTHING)
    return earned * mark.out_of / mark.possible * mark.late.factor


def _summary(student: StudentView) -> str:
    if student.incomplete:
        lines = [f"Not complete yet. {student.why_incomplete}"]
    else:
        lines = [f"{student.total} of {student.out_of} points."]
    if student.refused:
        lines += [
            f"Your submission could not be accepted: {student.refused}",
            student.refused_advice,
        ]
    for file in student.files:
        lines += [f"{file.path}: {file.cause}", *file.lines, file.advice]
    lines += student.notes
    for hand in student.by_hand:
        lines.append(f"{hand.title}: {hand.earned} of {hand.possible} points, by a person.")
        lines += [f"{name}: {points} of {full}" for name, points, full, _ in hand.rows]
        lines += hand.comment
    if student.live:
        lines.append(f"Live score, counted apart: {student.live}.")
    if student.further:
        lines.append(f"Further tasks: {student.further}.")
    for task in student.following[:1]:
        lines.append(f"Next: {task.id}, {task.title}. A hint: {task.hint}")
    return "\n".join(lines)


def _output(task: TaskView) -> str:
    lines = [task.word + ".", *task.notes]
    for check in task.checks:
        lines += ["", *([] if check.hidden else [check.name])]
        lines += [check.cause] if check.cause else []
        lines += check.lines
    if task.lesson:
        lines += ["", f"Read {task.lesson}. A hint: {task.hint}"]
    text = "\n".join(lines)
    return text if len(text) <= LONGEST_OUTPUT else text[:LONGEST_OUTPUT] + "…"


# -- JUnit --------------------------------------------------------------------------------------------


def junit(mark: Mark, student: StudentView, policy: Policy) -> str:
    """JUnit XML: a suite an exercise, a case a check. Infrastructure and todo are skipped, not failed.

    A task without checks is one case of its own, so that nothing is missing.
    """
    suites = []
    for exercise, shown in zip(mark.exercises, student.exercises, strict=True):
        cases: list[tuple[str, str, CheckView]] = []
        asked = [task for task in exercise.tasks if task.asked]
        for task, view in zip(asked, shown.tasks, strict=True):
            checks = task.result.checks if task.result is not None else []
            hidden = 0
            for one in (check_view(task.task.id, check, policy) for check in checks):
                hidden += one.hidden
                name = f"hidden check {hidden}" if one.hidden else one.name
                cases.append((view.id, name, one))
            if not checks:
                lines = view.notes or [view.word]
                cases.append((view.id, view.id, CheckView(view.id, view.outcome, "", lines, False)))
        suites.append(_suite(shown.id, cases))
    totals = [sum(one[at] for _, one in suites) for at in range(4)]
    head = _counts(totals)
    out = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f"<testsuites name={_attr(student.entry)}{head}>",
    ]
    for text, _ in suites:
        out += text
    return encodable("\n".join([*out, "</testsuites>"]) + "\n")


def _suite(name: str, cases: Iterable[tuple[str, str, CheckView]]) -> tuple[list[str], list[int]]:
    body, totals = [], [0, 0, 0, 0]
    for task, label, check in cases:
        totals[0] += 1
        start = f"  <testcase classname={_attr(task)} name={_attr(label)}"
        outcome = check.outcome
        if outcome == "passed":
            body.append(start + "/>")
            continue
        kind = {"failed": "failure", "error": "error"}.get(outcome, "skipped")
        totals[("failure", "error", "skipped").index(kind) + 1] += 1
        first = check.cause or next((line for line in check.lines if line), outcome)
        head = f"type={_attr(check.cause.split(':')[0] or outcome)} message={_attr(first)}"
        body += [start + ">", f"    <{kind} {head}>{_text(check.lines)}</{kind}>", "  </testcase>"]
    return [f"<testsuite name={_attr(name)}{_counts(totals)}>", *body, "</testsuite>"], totals


def _counts(totals: list[int]) -> str:
    names = ("tests", "failures", "errors", "skipped")
    return "".join(f' {name}="{count}"' for name, count in zip(names, totals, strict=True))


def _attr(text: str) -> str:
    quoted = escape(_NOT_XML.sub("", text)).replace("\n", "&#10;").replace("\t", "&#9;")
    return f'"{quoted}"'


def _text(lines: Iterable[str]) -> str:
    return escape(_NOT_XML.sub("", "\n".join(lines)), quote=False)
