"""What a run has understood of its inputs, said before hours of grading: class list, dates, policy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from grading.gradebook.policy import Policy
from grading.gradebook.reporting import handed_in_at
from grading.gradebook.roster import Joined, Person, join
from grading.grader.intake.owners import identify
from grading.grader.intake.submissions import Submission

NAMES_SHOWN = 5


def opening(
    submissions: Sequence[Submission], roster: Sequence[Person] | None, policy: Policy
) -> list[str]:
    """Lines for the instructor, what wants a look first."""
    joined = join(roster, [one.student for one in submissions]) if roster else Joined()
    return [
        _class_list(roster, joined, len(submissions)),
        _dates(submissions, joined, policy),
        _policy(policy),
    ]


def _class_list(roster: Sequence[Person] | None, joined: Joined, count: int) -> str:
    if not roster:
        return (
            "class list: none given, so nobody who handed in nothing is listed (--roster class.csv)"
        )
    absent = [person.name for person in roster if not joined.entries.get(person.line)]
    twice = [p.name for p in roster if len(joined.entries.get(p.line, ())) > 1]
    text = f"class list: {len(roster)} students; {len(joined.by_entry)} of {count} submissions match one"
    for what, names in (
        ("no match", [one.entry for one in joined.unmatched]),
        ("more than one submission", twice),
        ("nothing handed in", absent),
    ):
        if names:
            text += f"; {what}: {_some(names)}"
    return text


def _dates(submissions: Sequence[Submission], joined: Joined, policy: Policy) -> str:
    if policy.deadline is None:
        return "dates: not used, the policy has no deadline"
    rows = [joined.by_entry.get(one.student) for one in submissions]
    listed = sum(row is not None and row.submitted_at is not None for row in rows)
    known = sum(
        handed_in_at(one, row) is not None for one, row in zip(submissions, rows, strict=True)
    )
    marked = [
        one.student
        for one, row in zip(submissions, rows, strict=True)
        if identify(one.student).late and handed_in_at(one, row) is None
    ]
    text = f"dates: {listed} from the class list, {known - listed} from the last commit"
    if unknown := len(submissions) - known:
        text += (
            f"; {unknown} not known, which costs nothing: give the class list a column submitted_at "
            "(2026-12-04T23:59:00+01:00) to apply the late rule"
        )
    if marked:
        text += f"; marked LATE by Canvas without a date: {_some(marked)}"
    return text


def _policy(policy: Policy) -> str:
    text = (
        f"policy: {policy.show(policy.total)} points in all"
        if policy.total
        else "policy: the course's points"
    )
    if policy.deadline is not None:
        text += f"; due {policy.deadline.at.isoformat(sep=' ')}"
    return text


def _some(names: Iterable[str]) -> str:
    names = sorted(names)
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return "; ".join(names[:NAMES_SHOWN]) + more
