"""What a student is told: score, what was called and came back, the hint to read, what to do next.

Of a hidden check only that it failed is told. `feedback_pages` makes HTML and Markdown of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

from grading.gradebook.marks import TOTAL, ExerciseMark, HandMark, Mark, TaskMark
from grading.gradebook.policy import Policy
from grading.gradebook.student_view import (
    MEANING,
    CheckView,
    ExerciseView,
    FileView,
    HandView,
    StudentView,
    TaskView,
)
from grading.gradebook.untrusted_text import clean, clean_lines
from grading.gradebook.where_to_read import Guide
from grading.grader.intake.refused import TWICE
from grading.runner import alike, results
from profiling_lab.course.manifest import Course

NEXT_SHOWN = 3
CHECKS_SHOWN = 3  # of a task that did not pass; more of them say the same in other words
# What befell a whole file is told once, with what to do about it.
OF_FILES = ("refused file", "bad import")
CANNOT = " cannot be imported: "  # whatever the cause, a time-out say
ADVICE = {
    "refused file": "Put a plain text file in its place (no link, no folder) and hand in again; "
    "`uv run lab submit` packs the right files.",
    "bad import": "Nothing in it can be judged until Python can import it: `uv run lab check {exercise}` "
    "says the same where you work.",
}
HAND_IN_ANEW = "Pack your work anew with `uv run lab submit` and hand that in."
WHICH_COUNTS = "Tell your instructor which of them counts."
HIDDEN = "A hidden check of this task {what}. Its details are not shown."


def view(
    course: Course,
    guide: Guide,
    mark: Mark,
    policy: Policy,
    *,
    name: str = "",
    notes: Iterable[str] = (),
    refused: str = "",
) -> StudentView:
    """One student's marks as texts, with everything withheld that is to be withheld.

    refused: why nothing of the submission could be taken; then it is all there is to say.
    """
    exercises = [_exercise_view(guide, one, mark, policy, bool(refused)) for one in mark.exercises]
    following = _following(exercises)
    words = [
        MEANING[outcome] for outcome in MEANING if mark.counts.get(outcome) and outcome != "passed"
    ]
    told = [_scale_note(mark, policy), _before_note(mark, policy), mark.late.note]
    told += [*_override_notes(mark, policy), *notes]
    return StudentView(
        course=course.title,
        name=clean(name or mark.student, 200),
        entry=clean(mark.student, 200),
        total="" if mark.after is None else policy.show(mark.after),
        out_of=policy.show(mark.out_of),
        incomplete=mark.left if mark.after is None else [],
        live=_apart(mark.live_earned, mark.live_possible, policy),
        further=_further(mark, policy),
        notes=[clean(note, 500) for note in told if note],
        counts=dict(mark.counts),
        exercises=exercises,
        following=following,
        words=[] if refused else words,
        why_incomplete=_why_incomplete(mark),
        refused=clean(refused, 500),
        refused_advice=WHICH_COUNTS if refused.startswith(TWICE) else HAND_IN_ANEW,
        by_hand=[_hand_view(mark, hand, policy) for hand in mark.by_hand],
    )


def _why_incomplete(mark: Mark) -> str:
    """What is missing to a sum, and whose turn it is."""
    texts = {
        hand.task.id: clean(hand.task.title) for hand in mark.by_hand if hand.task.id in mark.left
    }
    broken = [name for name in mark.left if name not in texts]
    said = []
    if broken:
        said.append(
            f"Something on the grading side broke or is not done, in {', '.join(broken)}. Not your fault; it "
            "will be graded again."
        )
    if texts:
        said.append(f"A person has yet to grade: {', '.join(texts.values())}.")
    return " ".join(said)


def _override_notes(mark: Mark, policy: Policy) -> list[str]:
    return [
        f"Set by the instructor: {policy.show(one.points)} points "
        f"{'in all' if task == TOTAL else f'for {task}'}: {one.reason}"
        for task, one in mark.overrides.items()
    ]


def _hand_view(mark: Mark, hand: HandMark, policy: Policy) -> HandView:
    earned = mark.hand_points(hand)
    rows = []
    for name, full in hand.task.criteria.items():
        points = hand.points.get(name)
        shown = "–" if points is None else policy.show(points)
        rows.append((clean(name), shown, policy.show(full), clean(hand.task.meaning.get(name, ""))))
    return HandView(
        title=clean(hand.task.title),
        earned="–" if earned is None else policy.show(earned),
        possible=policy.show(hand.task.possible),
        rows=rows,
        comment=clean_lines(hand.comment),
    )


def _scale_note(mark: Mark, policy: Policy) -> str:
    if mark.earned is None or mark.out_of == mark.possible:
        return ""
    earned, possible = policy.show(mark.earned), policy.show(mark.possible)
    return f"{earned} of {possible} points below, scaled to {policy.show(mark.out_of)}."


def _before_note(mark: Mark, policy: Policy) -> str:
    if mark.before is None or mark.late.factor == 1:
        return ""
    return f"{policy.show(mark.before)} before the late rule."


def _apart(earned: Fraction | None, possible: Fraction, policy: Policy) -> str:
    """Points that stand apart from the score; "" where there are none."""
    if not possible:
        return ""
    if earned is None:
        return "not complete yet"
    return f"{policy.show(earned)} of {policy.show(possible)}"


def _further(mark: Mark, policy: Policy) -> str:
    """The points of further tasks and what they do; "" where they count as any task."""
    points = _apart(mark.further_earned, mark.further_possible, policy)
    if not points or policy.further == "count":
        return ""
    does = {"apart": "counted apart", "bonus": "they make up for points lost in the same exercise"}
    return f"{points}, {does[policy.further]}"


def _following(exercises: Sequence[ExerciseView]) -> list[TaskView]:
    """The tasks to turn to: what is nearly done first, then what is broken, then what is next."""
    tasks = [task for exercise in exercises for task in exercise.tasks if not task.live]
    tasks = [task for task in tasks if not task.same_as]
    order = [task for outcome in ("failed", "error") for task in tasks if task.outcome == outcome]
    started = {task.id.split(".")[0] for task in tasks if task.outcome not in ("todo", "not run")}
    todo = [task for task in tasks if task.outcome == "todo"]
    todo.sort(key=lambda task: task.further)
    order += [task for task in todo if task.id.split(".")[0] in started] + todo
    return list({task.id: task for task in order}.values())[:NEXT_SHOWN]


def _exercise_view(
    guide: Guide, mark: ExerciseMark, whole: Mark, policy: Policy, refused: bool
) -> ExerciseView:
    tasks = [_task_view(guide, task, policy) for task in mark.tasks if task.asked]
    files = _of_files(mark, tasks)
    if refused:
        files = []
    _tell_once(tasks)
    counts: dict[str, int] = {}
    for task in tasks:
        counts[task.outcome] = counts.get(task.outcome, 0) + 1
    notes = []
    if mark.result is not None:
        missing = [path for path, state in mark.result.files.items() if state == "missing"]
        if missing and len(missing) < len(mark.result.files):
            notes.append("Not handed in: " + ", ".join(clean(path, 200) for path in missing))
        told = {file.path for file in files}
        notes += [f"Not taken: {file}" for file in refused_files(mark, but=told)]
    dropped = mark.exercise.id in whole.dropped
    if dropped:
        notes.append("Left out of your total: your exercises with the lowest share do not count.")
    return ExerciseView(
        id=mark.exercise.id,
        title=mark.exercise.title,
        folder=mark.exercise.folder.as_posix(),
        earned="" if mark.earned is None else policy.show(mark.earned),
        possible=policy.show(mark.possible),
        counts=counts,
        tasks=tasks,
        notes=notes,
        dropped=dropped,
        started=not refused
        and (bool(notes) or any(task.outcome not in ("todo", "not run") for task in tasks)),
        files=files,
        parts=parts(counts),
    )


def refused_files(mark: ExerciseMark | Mark, but: Iterable[str] = ()) -> list[str]:
    """The files that were not taken, each with the reason; those in `but` left out."""
    marks = mark.exercises if isinstance(mark, Mark) else (mark,)
    return [
        f"{clean(path, 200)} ({clean(state.partition(': ')[2], 300)})"
        for one in marks
        if one.result is not None
        for path, state in one.result.files.items()
        if state.startswith("refused") and clean(path, 200) not in but
    ]


def _of_files(mark: ExerciseMark, tasks: Sequence[TaskView]) -> list[FileView]:
    """Files that could not be judged at all, taken out of their tasks."""
    asked = [task for task in mark.tasks if task.asked]
    found: dict[tuple[Any, ...], FileView] = {}
    for one, task in zip(asked, tasks, strict=True):
        said = {(check.cause, *check.lines) for check in task.checks}
        checks = one.result.checks if one.result is not None else []
        if len(said) != 1 or task.passed or task.checks[0].hidden or not task.checks[0].cause:
            continue
        cause = checks[0].cause
        if cause not in OF_FILES and CANNOT not in checks[0].message:
            continue
        path = clean(str(one.task.stub), 200)
        advice = ADVICE["refused file" if cause == "refused file" else "bad import"]
        file = found.setdefault(
            (path, *said),
            FileView(
                path,
                task.checks[0].cause,
                task.checks[0].lines,
                advice.format(exercise=mark.exercise.id),
                [],
            ),
        )
        file.names.append(one.task.name)
        task.same_as, task.of_file = path, True
        task.notes.append(f"{task.checks[0].cause}; see {path}.")
        task.checks, task.more, task.lesson, task.hint, task.question = [], 0, "", "", ""
    return list(found.values())


def parts(counts: dict[str, int]) -> list[tuple[str, int]]:
    """Outcomes with their counts in the order in which bars show them."""
    return [(outcome, counts[outcome]) for outcome in MEANING if counts.get(outcome)]


def _task_view(guide: Guide, mark: TaskMark, policy: Policy) -> TaskView:
    task = mark.task
    checks = mark.result.checks if mark.result is not None else []
    shown = [check_view(task.id, check, policy) for check in checks if check.outcome != "passed"]
    earned = mark.earned
    out = TaskView(
        id=task.id,
        title=task.title,
        outcome=mark.outcome,
        word=MEANING[mark.outcome][0],
        earned="" if earned is None else policy.show(earned),
        worth=policy.show(mark.weight),
        passed=sum(check.outcome == "passed" for check in checks),
        live=task.live,
        further=task.further,
    )
    if out.needs_work:
        out.checks, out.more = _telling(shown)
    if mark.outcome == "error" and mark.result is not None and not out.checks:
        out.notes.append(cause_words(mark.result.cause))
    if out.needs_work and not out.checks and not out.notes:
        out.notes.append("Not every check of this task came back with a verdict.")
    if out.needs_work or mark.outcome == "todo":
        out.lesson = guide.lesson(task)
        out.hint = f"uv run lab hint {task.id}"
    if out.needs_work:
        out.question = guide.question(task)
    return out


def check_view(task: str, check: results.Check, policy: Policy) -> CheckView:
    """A check as a student may see it; all reports that students get are made of these."""
    if check.hidden or policy.hides(task, check.name):
        # Without the cause: code that reads a private recording could choose among them to tell of it.
        what = {"failed": "failed", "error": "ended in an error"}.get(check.outcome)
        what = what or f"came to no verdict ({MEANING[check.outcome][0]})"
        return CheckView("hidden check", check.outcome, "", [HIDDEN.format(what=what)], True)
    cause = cause_words(check.cause) if check.outcome == "error" else ""
    name = clean(check.name, 200)
    return CheckView(name, check.outcome, cause, clean_lines(check.message), False)


def cause_words(cause: str) -> str:
    """What the code did, in a sentence that begins with the cause's name; "" without one."""
    if not cause:
        return ""
    words = results.CAUSES.get(cause, "")
    return clean(f"{cause}: your code {words}" if words else cause, 300)


def _telling(checks: Sequence[CheckView]) -> tuple[list[CheckView], int]:
    """The first few checks that say something new, and how many there are besides.

    One cause of an error is told once. Cases of a check that say the same are told with the first.
    """
    out: dict[Any, CheckView] = {}
    cases: dict[Any, list[str]] = {}
    for check in checks:
        said = check.cause or (check.hidden, alike.shape("\n".join(check.lines)))
        said = said if check.cause or check.hidden else (alike.function(check.name), *said)
        if said in out:
            cases.setdefault(said, []).append(alike.case(check.name))
        elif len(out) < CHECKS_SHOWN:
            out[said] = check
    more = len(checks) - len(out)
    for said, others in cases.items():
        if not out[said].hidden and not out[said].cause:
            out[said].lines.append(alike.further(others))
            more -= len(others)
    return list(out.values()), more


def _tell_once(tasks: Sequence[TaskView]) -> None:
    """Of tasks that ended by one and the same message, a file that cannot be imported, tell it at the first."""
    told: dict[tuple[Any, ...], str] = {}
    for task in tasks:
        said = tuple((check.cause, *check.lines) for check in task.checks)
        if len(said) != 1 or task.passed or task.checks[0].hidden or not task.checks[0].cause:
            continue
        if said in told:
            task.same_as = told[said]
            task.notes.append(f"{task.checks[0].cause}; the message is that of {task.same_as}.")
            task.checks, task.more, task.lesson, task.question = [], 0, "", ""
        else:
            told[said] = task.id
