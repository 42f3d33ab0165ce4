"""From the outcomes of one student's checks to points, under a policy.

Points are fractions. A task has a share of its weight: all, none, part (private cases with a weight of
their own), or None while nobody has judged it; a sum with such a task in it is None as well, never less.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

from grading.gradebook.policy import HandTask, Lateness, Policy
from grading.runner import results
from profiling_lab.course.manifest import Exercise, Task

NOT_GRADED = "not graded"  # there is no result; the batch was interrupted
NOTHING = Fraction(0)
TOTAL = "total"  # an override of the sum


@dataclass(frozen=True)
class Override:
    """Points that count instead of what checks, or a sum, came to."""

    points: Fraction
    reason: str


@dataclass(frozen=True)
class HandMark:
    """One student's task that a person grades. points: by criterion, None while it is not entered."""

    task: HandTask
    points: Mapping[str, Fraction | None] = field(default_factory=dict)
    comment: str = ""

    @property
    def earned(self) -> Fraction | None:
        """The sum; None while a criterion is not entered."""
        found = [self.points.get(name) for name in self.task.criteria]
        entered = [points for points in found if points is not None]
        return sum(entered, NOTHING) if len(entered) == len(found) else None


@dataclass(frozen=True)
class TaskMark:
    """One task of one student.

    override: points that a person set instead. outcome: of results.OUTCOMES or NOT_GRADED. weight: what full points count. share: of the weight,
    None while the task is left to grade. counted: whether it is part of the score. bonus: whether it
    makes up for points lost in what is counted.
    gradable: False where this batch's machine cannot judge the task for anybody.
    """

    task: Task
    outcome: str
    weight: Fraction
    share: Fraction | None
    counted: bool
    bonus: bool = False
    gradable: bool = True
    result: results.Task | None = None
    override: Override | None = None

    @property
    def earned(self) -> Fraction | None:
        if self.override is not None:
            return self.override.points
        return None if self.share is None else self.weight * self.share

    @property
    def asked(self) -> bool:
        """Whether this batch was to judge the task: without --live no live task is."""
        return self.gradable or not self.task.live


@dataclass(frozen=True)
class ExerciseMark:
    """One exercise of one student; `result` is None if there is none."""

    exercise: Exercise
    tasks: tuple[TaskMark, ...]
    result: results.Result | None = None

    @cached_property
    def possible(self) -> Fraction:
        return sum((mark.weight for mark in self.tasks if mark.counted), NOTHING)

    @cached_property
    def earned(self) -> Fraction | None:
        earned = total(mark for mark in self.tasks if mark.counted)
        bonus = total(mark for mark in self.tasks if mark.bonus)
        if earned is None or bonus is None:
            return None
        return earned + min(bonus, max(self.possible - earned, NOTHING))

    @property
    def left(self) -> bool:
        """Whether a counted task is left to grade."""
        return self.earned is None


@dataclass(frozen=True)
class Mark:
    """All of one student.

    earned, possible: sums over what counts, without dropped exercises. before, after: on the policy's
    scale, before and after late rules; None while something is left to grade. claims: of
    `before`, what rests on claims.
    """

    student: str
    exercises: tuple[ExerciseMark, ...]
    earned: Fraction | None
    possible: Fraction
    before: Fraction | None
    after: Fraction | None
    out_of: Fraction
    late: Lateness
    live_earned: Fraction | None
    live_possible: Fraction
    further_earned: Fraction | None
    further_possible: Fraction
    claims: Fraction
    counts: Mapping[str, int] = field(default_factory=dict)
    dropped: tuple[str, ...] = ()
    by_hand: tuple[HandMark, ...] = ()
    overrides: Mapping[str, Override] = field(default_factory=dict)

    @property
    def left(self) -> list[str]:
        """The ids of exercises, and of tasks for a person, in which something is left to grade."""
        if TOTAL in self.overrides:
            return []
        left = [mark.exercise.id for mark in self.exercises if any_left(mark)]
        return left + [mark.task.id for mark in self.by_hand if self.hand_points(mark) is None]

    def hand_points(self, mark: HandMark) -> Fraction | None:
        """What a task that a person grades earned; None while it is not entered."""
        override = self.overrides.get(mark.task.id)
        return mark.earned if override is None else override.points


def total(marks: Iterable[TaskMark]) -> Fraction | None:
    """The sum of what tasks earned; None if one of them is left to grade."""
    out = NOTHING
    for mark in marks:
        if mark.earned is None:
            return None
        out += mark.earned
    return out


def any_left(mark: ExerciseMark) -> bool:
    """Whether anything of an exercise is left to grade, counted in the portable score or live."""
    return any(task.share is None and task.gradable for task in mark.tasks)


class Survey:
    """What must be known of the whole class before one student's points can be added up.

    Whether a task can be judged depends on the grader's machine, so it must be the same for all: a
    task is left out for everybody if it was "not run" for somebody and judged for nobody. A live task
    is left out unless somebody was judged on it: without --live nobody is.
    """

    def __init__(self) -> None:
        self.exercises: set[str] = set()
        self.not_run: set[str] = set()
        self.judged: set[str] = set()

    def add(self, result: results.Result) -> None:
        """Take note of one result."""
        self.exercises.add(result.exercise)
        for name, task in result.tasks.items():
            identifier = task_id(result.exercise, name)
            if task.outcome == "not run":
                self.not_run.add(identifier)
            elif task.outcome in ("passed", "failed"):
                self.judged.add(identifier)

    def gradable(self, task: Task) -> bool:
        """Whether this batch can judge a task at all."""
        return task.id in self.judged or not (task.live or task.id in self.not_run)


@dataclass(frozen=True)
class Sheet:
    """What counts for a whole class: exercises in the manifest's order, a policy, and a survey."""

    exercises: tuple[Exercise, ...]
    policy: Policy
    survey: Survey = field(default_factory=Survey)

    @cached_property
    def weights(self) -> dict[str, Fraction]:
        """What full points of each task count, by its id."""
        return {
            task.id: self.policy.weight(exercise, task)
            for exercise in self.exercises
            for task in exercise.tasks
        }

    def counts(self, task: Task) -> bool:
        """Whether a task is part of the score."""
        return self.policy.in_score(task) and self._allowed(task)

    def is_bonus(self, task: Task) -> bool:
        """Whether a task's points make up for others of its exercise."""
        further = task.further and not task.live and self.policy.further == "bonus"
        return further and self._allowed(task)

    def _allowed(self, task: Task) -> bool:
        claim_out = task.trust == "claim" and not self.policy.count_claims
        return not claim_out and self.survey.gradable(task)

    def possible(self, exercise: Exercise) -> Fraction:
        """Full points of an exercise."""
        return sum(
            (self.weights[task.id] for task in exercise.tasks if self.counts(task)),
            NOTHING,
        )

    @cached_property
    def full(self) -> Fraction:
        """Full points of the total, on the policy's scale."""
        if self.policy.total is not None:
            return self.policy.total
        by_hand = sum((task.possible for task in self.policy.by_hand), NOTHING)
        return sum((self.possible(exercise) for exercise in self.exercises), by_hand)


def task_id(exercise: str, name: str) -> str:
    """The full id of a task, whether it was named by it or by the function alone."""
    return name if name.startswith(exercise + ".") else f"{exercise}.{name}"


def mark_student(
    student: str,
    found: Mapping[str, results.Result],
    sheet: Sheet,
    late: Lateness | None = None,
    hand: Sequence[HandMark] = (),
    overrides: Mapping[str, Override] | None = None,
) -> Mark:
    """The points of one student. found: results by exercise; one that lacks is left to grade.

    hand: the tasks that a person grades. overrides: points that a person set, by task id or TOTAL.
    """
    late = late or Lateness()
    overrides = overrides or {}
    policy = sheet.policy
    marks = tuple(
        ExerciseMark(
            exercise,
            tuple(_tasks(exercise, found.get(exercise.id), sheet, overrides)),
            found.get(exercise.id),
        )
        for exercise in sheet.exercises
    )
    dropped = _dropped(marks, policy.drop_lowest)
    kept = [mark for mark in marks if mark.exercise.id not in dropped]
    possible = sum((mark.possible for mark in kept), NOTHING)
    possible += sum((mark.task.possible for mark in hand), NOTHING)
    by_hand = [overrides[m.task.id].points if m.task.id in overrides else m.earned for m in hand]
    earned = None
    if not any(mark.left for mark in marks) and None not in by_hand:
        earned = sum((mark.earned or NOTHING for mark in kept), NOTHING)
        earned += sum((points or NOTHING for points in by_hand), NOTHING)
    out_of = possible if policy.total is None else policy.total
    before = None
    if earned is not None:
        before = earned * out_of / possible if possible else NOTHING
    after = None if before is None else before * late.factor
    if TOTAL in overrides:
        after = overrides[TOTAL].points
    tasks = [task for mark in marks for task in mark.tasks]
    live = [task for task in tasks if task.task.live and task.gradable]
    further = [task for task in tasks if task.task.further and not task.task.live and task.gradable]
    return Mark(
        student=student,
        exercises=marks,
        earned=earned,
        possible=possible,
        before=before,
        after=after,
        out_of=out_of,
        late=late,
        live_earned=total(live),
        live_possible=sum((task.weight for task in live), NOTHING),
        further_earned=total(further),
        further_possible=sum((task.weight for task in further), NOTHING),
        claims=_claims(kept) * out_of / possible if possible else NOTHING,
        counts=Counter(task.outcome for task in tasks if task.asked),
        dropped=dropped,
        by_hand=tuple(hand),
        overrides=overrides,
    )


def _claims(marks: Iterable[ExerciseMark]) -> Fraction:
    tasks = (task for mark in marks for task in mark.tasks)
    return sum(
        (task.earned or NOTHING for task in tasks if task.counted and task.task.trust == "claim"),
        NOTHING,
    )


def _dropped(marks: Sequence[ExerciseMark], count: int) -> tuple[str, ...]:
    """The exercises with the lowest share, of equal ones the later; those without points stay."""
    order = {mark.exercise.id: at for at, mark in enumerate(marks)}
    worth = [mark for mark in marks if mark.possible and mark.earned is not None]
    worth.sort(
        key=lambda mark: ((mark.earned or NOTHING) / mark.possible, -order[mark.exercise.id])
    )
    return tuple(mark.exercise.id for mark in worth[: min(count, max(len(worth) - 1, 0))])


def _tasks(
    exercise: Exercise,
    result: results.Result | None,
    sheet: Sheet,
    overrides: Mapping[str, Override],
) -> Iterator[TaskMark]:
    found = {}
    if result is not None:
        found = {task_id(exercise.id, name): task for name, task in result.tasks.items()}
    for task in exercise.tasks:
        one = found.get(task.id)
        if result is not None and result.infrastructure:
            outcome = "infrastructure"
        elif one is not None:
            outcome = one.outcome
        else:
            outcome = "not run" if task.live and result is not None else NOT_GRADED
        share = None
        if one is not None and outcome not in ("infrastructure", NOT_GRADED, "not run"):
            share = _share(one, sheet.policy.private_weight)
        override = overrides.get(task.id)
        if override is not None:
            full = sheet.weights[task.id]
            share = override.points / full if full else NOTHING
        yield TaskMark(
            task,
            outcome,
            sheet.weights[task.id],
            share,
            counted=sheet.counts(task),
            bonus=sheet.is_bonus(task),
            gradable=sheet.survey.gradable(task),
            result=one,
            override=override,
        )


def _share(task: results.Task, private_weight: Fraction | None) -> Fraction | None:
    """The earned share of a task's weight: all or nothing, or its public and its private part."""
    private = [check for check in task.checks if check.hidden]
    if private_weight is None or not private:
        passed = task.outcome == "passed" and task.points > 0
        return min(Fraction(task.earned, task.points), Fraction(1)) if passed else NOTHING
    if any(check.outcome == "infrastructure" for check in task.checks):
        return None
    public = [check for check in task.checks if not check.hidden]
    parts = [bool(part) and all(c.outcome == "passed" for c in part) for part in (public, private)]
    if all(parts) and task.outcome != "passed":
        return NOTHING  # the judge knows of something that is no check of its own
    return parts[0] * (1 - private_weight) + parts[1] * private_weight
