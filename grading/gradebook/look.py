"""What an instructor has to do before the grades are whole: whom it concerns, why, and what to do.

Everybody who handed something in has points or stands here; the class page, the end of a run and
`batch.json` begin with this list.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from grading.gradebook.gradebook import NO_SUBMISSION, REFUSED, SEVERAL, Row
from grading.gradebook.marks import TOTAL, Mark, any_left
from grading.gradebook.roster import Unmatched
from grading.gradebook.untrusted_text import clean
from grading.grader.intake.refused import TWICE

ENTER = "enter the points in by_hand.csv and run grade report (grade sheet writes the table)"
AGAIN = "run the same command again, without --student; it goes on from here"
REPLACE = "ask for it again, put it in this one's place, and run the same command again"
RENAME = (
    "rename it to the student's id, login or e-mail, or add the student to the class list, and run the same "
    "command again"
)
CHOOSE = "keep the one that counts, take the others away, and run the same command again"
CORRECT = "correct its name in the column Submission of by_hand.csv, or delete the row, and run grade report"
MOST_NAMES = 8
NOT_GRADED_YET = "not graded yet"


@dataclass(frozen=True)
class Look:
    """Students, or entries that are nobody's yet. why, do: each a sentence's part, for people."""

    who: str
    why: str
    do: str

    def __str__(self) -> str:
        return f"{self.who}: {self.why}. To do: {self.do}"

    def to_dict(self) -> dict[str, str]:
        """As plain data."""
        return asdict(self)


def why_left(mark: Mark) -> str:
    """Why a student's points are not whole; "" if they are."""
    said: dict[str, list[str]] = {}
    for exercise in mark.exercises:
        if exercise.result is None:
            said.setdefault(NOT_GRADED_YET, []).append(exercise.exercise.id)
        elif exercise.result.infrastructure and any_left(exercise):
            said.setdefault(clean(exercise.result.infrastructure, 300), []).append(
                exercise.exercise.id
            )
        elif exercise.left:
            names = [t.task.name for t in exercise.tasks if t.counted and t.share is None]
            why = f"no verdict on {', '.join(names)}"
            said.setdefault(why, []).append(exercise.exercise.id)
    if TOTAL in mark.overrides:
        return ""
    return "; ".join(f"{', '.join(ids)}: {why}" for why, ids in said.items())


def looks(
    rows: Sequence[Row],
    apart: Sequence[tuple[Row, Unmatched]],
    left: dict[str, str],
    nobodys_points: Sequence[str] = (),
) -> list[Look]:
    """The list, what keeps points from students first; each is noted at its row as well.

    left: by entry, why its points are not whole. nobodys_points: rows of by_hand.csv that are of no entry.
    """
    out = [
        Look(
            clean(name, 200),
            "by_hand.csv has points for it, and no submission has this name",
            CORRECT,
        )
        for name in nobodys_points
    ]

    def add(row: Row, why: str, do: str) -> None:
        out.append(Look(clean(row.name, 200), clean(why, 400), do))
        row.why += f"{'; ' if row.why else ''}{out[-1].why}"
        row.note += f"{'; ' if row.note else ''}{out[-1].why}. To do: {do}"

    every = [*rows, *(row for row, _ in apart)]
    for row in every:
        if row.by_hand_left:
            add(
                row, f"{', '.join(row.by_hand_left)}: for a person to grade, not entered yet", ENTER
            )
        if why := left.get(row.entry, ""):
            add(row, why, AGAIN)
    nobodys = [(row, why) for row, why in apart if row.person is None]
    for row, unmatched in nobodys:
        near = "; ".join(unmatched.nearest)
        add(row, unmatched.why + (f" (nearest: {near})" if near else ""), RENAME)
    for row in every:
        if row.state.startswith(SEVERAL):
            add(row, row.state, CHOOSE)
        elif row.state.startswith(f"{REFUSED}: {TWICE}"):
            add(row, f"could not be accepted: {row.state.removeprefix(f'{REFUSED}: ')}", CHOOSE)
        elif row.state.startswith(REFUSED):
            add(row, f"could not be accepted: {row.state.removeprefix(f'{REFUSED}: ')}", REPLACE)
        for file in row.refused_files:
            add(row, f"not taken: {file}", REPLACE)
    for row in rows:
        if row.state == NO_SUBMISSION and row.left:
            row.why = "no submission of this name"
            row.note = f"{row.why}, and {len(nobodys)} that match nobody. To do: see unmatched.csv"
    return _together(out)


def _together(every: Sequence[Look]) -> list[Look]:
    """A line for all who share reason and remedy, those that concern the fewest first."""
    who: dict[tuple[str, str], list[str]] = {}
    for one in every:
        who.setdefault((one.why, one.do), []).append(one.who)
    out = []
    for (why, do), names in sorted(who.items(), key=lambda pair: len(pair[1])):
        shown = "; ".join(names[:MOST_NAMES])
        if len(names) > MOST_NAMES:
            shown = f"{len(names)} students: {shown} and {len(names) - MOST_NAMES} more"
        out.append(Look(shown, why, do))
    return out
