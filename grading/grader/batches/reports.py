"""What is written after judging: the reports, and a summary of where the batch stands."""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grading.gradebook import by_hand, changes, reporting, similarity
from grading.gradebook import policy as policies
from grading.gradebook.opening import opening
from grading.gradebook.roster import read_roster
from grading.grader.batches.output_folder import trouble
from grading.grader.batches.plans import Plan, results
from grading.grader.batches.progress import duration
from grading.grader.batches.store import DiskError, Store
from grading.grader.intake.submissions import Submission
from grading.runner.results import OUTCOMES, Result
from profiling_lab.course.manifest import Course

if TYPE_CHECKING:
    from grading.gradebook.reporting import Written

MOST_LINES = 20  # of students whose points changed


@dataclass
class Summary:
    """What a run did. again: units judged a second time; changed: those of them whose verdict differs.

    needs_look: whom something keeps points from: who, why, and what to do. points_changed: since the last
    reports, a line a student with the reason.
    """

    submissions: int = 0
    exercises: int = 0
    units: int = 0
    kept: int = 0
    judged: int = 0
    infrastructure: dict[str, str] = field(default_factory=dict)
    ungraded: int = 0
    outcomes: dict[str, int] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    again: int = 0
    changed: list[str] = field(default_factory=list)
    seed: int = 0
    seconds: float = 0.0
    sandbox: str = ""
    reports: list[str] = field(default_factory=list)
    needs_look: list[dict[str, str]] = field(default_factory=list)
    points_changed: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """As plain data: what `--json` prints."""
        return dataclasses.asdict(self)


def summarise(plan: Plan, store: Store) -> Summary:
    """Where a batch stands."""
    summary = Summary(
        submissions=len(plan.submissions),
        exercises=len(plan.exercises),
        units=len(plan.submissions) * len(plan.exercises),
        seed=plan.seed,
        refused={s.student: s.error for s in plan.submissions if s.error},
    )
    outcomes: Counter[str] = Counter()
    for unit in plan.units():
        kept = store.get(unit.submission.student, unit.exercise.id, unit.key)
        if kept is None:
            summary.ungraded += 1
            continue
        if kept.infrastructure:
            summary.infrastructure[unit.name] = kept.infrastructure
        else:
            summary.kept += 1
        outcomes.update(task.outcome for task in kept.tasks.values())
    summary.outcomes = {name: outcomes[name] for name in reversed(OUTCOMES) if outcomes[name]}
    return summary


def timestamp() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


class Reports:
    """Policy, roster and a person's tables, read before hours of grading, and what is written from results."""

    def __init__(self, course: Course, policy: Path | None, roster: Path | None) -> None:
        self.course = course
        self.policy = policies.load(policy, course) if policy else policies.Policy()
        due = self.policy.deadline
        self.roster = read_roster(roster, due.at.tzinfo if due else None) if roster else None

    def policy_digest(self) -> str:
        """Tells two policies apart."""
        return hashlib.sha256(
            repr(dataclasses.replace(self.policy, source="")).encode()
        ).hexdigest()

    def open(
        self, out: Path, submissions: Sequence[Submission], say: Callable[[str], None]
    ) -> None:
        """Say what was understood of class list, dates and policy. Raises LabError for a faulty table."""
        entries = [one.student for one in submissions]
        by_hand.read(out, self.policy, self.course, entries, self.roster or ())

        for line in opening(submissions, self.roster, self.policy):
            say(line)

    def write(self, results: Iterable[Result], out: Path, plan: Plan, matches: list) -> Written:
        """Write all reports. Raises OSError."""
        return reporting.write_all(
            self.course,
            results,
            out,
            policy=self.policy,
            roster=self.roster,
            matches=matches,
            submissions=plan.submissions,
            exercises=[exercise.id for exercise in plan.exercises],
        )


def write_reports(
    reports: Reports, plan: Plan, store: Store, matches: list, summary: Summary
) -> None:
    found: list = []
    if matches:
        found = [similarity.Match(**(m | {"students": tuple(m["students"])})) for m in matches]
    try:
        written = reports.write(results(plan, store), store.out, plan, found)
    except OSError as error:
        raise DiskError(
            f"{error.filename or store.out}: a report could not be written: {trouble(error)}. All "
            f"results are safe; fix that, then: uv run grade report {store.out}"
        ) from None
    summary.reports = [str(path) for path in written.files]
    summary.needs_look = [look.to_dict() for look in written.needs_look]
    facts = store.batch()
    students = {
        entry: row
        | {"handed_in": {e.id: plan.hashes.get((entry, e.id), "") for e in plan.exercises}}
        for entry, row in written.students.items()
    }
    reported = {
        "students": students,
        "checks": plan.checks,
        "environment": plan.environment,
        "policy": reports.policy_digest(),
    }
    changed = list(changes.found(facts.get("reported", {}), reported, timestamp()))
    changes.append(store.out, changed)
    summary.points_changed = changes.in_words(changed)
    store.write_batch(facts | {"needs_look": summary.needs_look, "reported": reported})


def likeness(plan: Plan, summary: Summary) -> list[dict]:
    """Which submissions are alike, as plain data; a failure is a note and stops nothing."""
    asked = dataclasses.replace(plan.course, exercises=tuple(plan.exercises))
    try:
        return [dataclasses.asdict(m) for m in similarity.likeness(asked, plan.submissions)]
    except Exception as error:  # noqa: BLE001 - the grades do not depend on it
        summary.notes.append(
            f"submissions were not compared with each other: {type(error).__name__}: {error}"
        )
        return []


def in_words(summary: Summary) -> list[str]:
    """A summary for people, a line each."""
    now = f"{summary.judged} judged now in {duration(summary.seconds)}, " if summary.judged else ""
    lines = [
        f"{summary.submissions} submissions, {summary.exercises} exercises: {now}"
        f"{summary.kept} of {summary.units} have their verdict"
    ]
    if summary.outcomes:
        tasks = ", ".join(f"{count} {name}" for name, count in summary.outcomes.items())
        lines.append(f"tasks: {tasks}")
    if summary.again:
        same = summary.again - len(summary.changed)
        lines.append(f"judged again: {same} of {summary.again} have the same verdict as before")
    for name in summary.changed:
        lines.append(f"CHANGED: {name} has another verdict than before; please report this")
    if summary.infrastructure:
        lines.append(
            f"{len(summary.infrastructure)} exercises could not be judged; this is not the students' "
            "doing and no zero: run the same command again to try them again"
        )
        by_reason = Counter(summary.infrastructure.values())
        lines += [f"  {count} × {why}" for why, count in by_reason.most_common(5)]
    if summary.ungraded:
        lines.append(f"{summary.ungraded} exercises are not graded yet")
    lines += summary.notes
    for name in ("gradebook.csv", "class.html", "unmatched.csv"):
        lines += [f"{name}: {path}" for path in summary.reports if Path(path).name == name]
    lines += [f"points changed: {one}" for one in summary.points_changed[:MOST_LINES]]
    if len(summary.points_changed) > MOST_LINES:
        more = len(summary.points_changed) - MOST_LINES
        lines.append(f"points changed: {more} more students, all of them in {changes.FILE}")
    if summary.needs_look:
        lines.append("to look at; until it is done these students lack points:")
        lines += [f"  {one['who']}: {one['why']}. To do: {one['do']}" for one in summary.needs_look]
    return lines
