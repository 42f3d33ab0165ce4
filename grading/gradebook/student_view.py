"""What there is to show of a student's work, as texts."""

from __future__ import annotations

from dataclasses import dataclass, field

from grading.gradebook.marks import NOT_GRADED

# What each outcome is called and means to a student.
MEANING = {
    "passed": ("passed", "every check of the task passed"),
    "failed": ("failed", "a check got another answer than expected; its message says which"),
    "error": ("error", "your code gave no answer; the cause is named"),
    "blocked": ("blocked", "it needs another task that is still todo"),
    "todo": ("todo", "nothing was handed in for it, or the function is still as it was given"),
    "not run": ("not run", "it needs what the grading machine lacks; it counts neither way"),
    "infrastructure": (
        "to be graded again",
        "something on the grading side broke: not your fault; it will be graded again",
    ),
    NOT_GRADED: ("not graded yet", "grading has not come to it yet"),
}


@dataclass
class CheckView:
    """A check that did not pass; lines: its message, empty if it is withheld."""

    name: str
    outcome: str
    cause: str
    lines: list[str]
    hidden: bool


@dataclass
class TaskView:
    """A task as a student may see it."""

    id: str
    title: str
    outcome: str
    word: str
    earned: str
    worth: str
    notes: list[str] = field(default_factory=list)
    checks: list[CheckView] = field(default_factory=list)
    passed: int = 0
    more: int = 0
    lesson: str = ""
    hint: str = ""
    question: str = ""
    live: bool = False
    further: bool = False
    same_as: str = ""  # the task, or file, whose message says what is wrong with this one too

    of_file: bool = False  # same_as is a file

    @property
    def needs_work(self) -> bool:
        return self.outcome in ("failed", "error", "blocked") and not self.of_file


@dataclass
class FileView:
    """A file that nothing could be judged in. lines: why; names: of the tasks in it."""

    path: str
    cause: str
    lines: list[str]
    advice: str
    names: list[str]


@dataclass
class HandView:
    """A task that a person grades. rows: criterion, points ("–" while not entered), full points, meaning."""

    title: str
    earned: str
    possible: str
    rows: list[tuple[str, str, str, str]]
    comment: list[str]


@dataclass
class ExerciseView:
    """An exercise as a student may see it. started: whether there is anything to tell beyond todo."""

    id: str
    title: str
    folder: str
    earned: str
    possible: str
    counts: dict[str, int]
    tasks: list[TaskView]
    notes: list[str]
    dropped: bool
    started: bool
    files: list[FileView] = field(default_factory=list)
    parts: list[tuple[str, int]] = field(default_factory=list)


@dataclass
class StudentView:
    """Everything that goes into one student's pages."""

    course: str
    name: str
    entry: str
    total: str
    out_of: str
    incomplete: list[str]
    live: str
    further: str
    notes: list[str]
    counts: dict[str, int]
    exercises: list[ExerciseView]
    following: list[TaskView]
    words: list[tuple[str, str]]
    why_incomplete: str = ""
    refused: str = ""  # why nothing of the submission could be taken
    refused_advice: str = ""
    by_hand: list[HandView] = field(default_factory=list)

    @property
    def files(self) -> list[FileView]:
        """Files to put right before anything else."""
        return [file for exercise in self.exercises for file in exercise.files]

    @property
    def started(self) -> list[ExerciseView]:
        return [exercise for exercise in self.exercises if exercise.started]

    @property
    def untouched(self) -> list[ExerciseView]:
        return [one for one in self.exercises if not one.started and not self.refused]
