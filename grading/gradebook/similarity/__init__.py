"""Which submissions are written like the reference or like each other: evidence for a person, no verdict.

    for match in likeness(course, take_in(…)): …

Two functions are alike if their syntax trees are equal once everything is set aside that does not make
the program: comments, layout, docstrings, annotations, and ("renamed") the names that their author chose:
of parameters, variables, helpers and constants of the module. What the course gave is no evidence: the stub
stays out of it, and so does every statement that is in the lesson or in a given file of the exercise.

What is left must be large enough that two people would hardly write the same. `FLOOR` says how large,
in nodes of the syntax tree. Measured on this course: of its 319 references, the only two that are equal,
of 47 nodes, share their helper; without helpers the largest equal ones have 13 nodes. Of the 1,032
functions that its mistakes change, none is equal to its reference, and two of one task are equal
up to 8 nodes. But `achieved = work / time` or `min(peak, intensity * bandwidth)` has one way to be
written, and such references have 33 to 51 nodes. A floor of 60 leaves them out: 283 of the 319 are
compared (tests/harness/test_similarity.py).

CUDA sources are compared as a whole, by their tokens.

What runs may stand in the file as text, encoded or compressed: functions of a task that are found in such text
are compared as well ("hidden"), and a file that runs text at all is named, whatever it runs ("text").

Nothing is run. A source that does not parse, or is nested too deeply to be, is not compared.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from grading.gradebook.similarity.function_prints import Print, prints
from grading.gradebook.similarity.given_code import given, read
from grading.gradebook.similarity.hidden_text import runs_text
from grading.grader.intake.parsing import parse_guarded
from grading.grader.intake.submissions import Submission
from profiling_lab.course.manifest import Course, Exercise

FLOOR = 60  # nodes of a syntax tree: some six lines of code
FLOOR_TOKENS = 60  # of a CUDA source: some five lines


@dataclass(frozen=True)
class Match:
    """Submissions in which one function is written alike.

    kind: "reference" if they are like the course's solution, "student" if only like each other, "text" for one
    whose file runs text (exec, eval, compile, marshal), whatever it is like. how: "exact", "renamed" if names
    differ, "hidden" if it is in encoded or compressed text. function: the task's function, or the CUDA source's name.
    students: one or more for "reference", two or more for "student"; sorted. size: nodes of the syntax tree
    (tokens of a CUDA source) that the course did not give. compared: how many submissions have the
    function. helpers: whether what the function calls in its module is alike as well.
    """

    kind: str
    how: str
    exercise: str
    function: str
    students: tuple[str, ...]
    size: int
    compared: int
    helpers: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "students", tuple(self.students))  # JSON knows lists only

    @property
    def renamed(self) -> bool:
        """Whether they are alike but for names."""
        return self.how == "renamed"

    @property
    def share(self) -> float:
        """The part of the class that is written this way; a large one points to a common source."""
        return len(self.students) / self.compared if self.compared else 0.0

    def __str__(self) -> str:
        if self.kind == "text":
            return f"{self.exercise}: {', '.join(self.students)}: {self.function} runs text (exec)"
        like = "the reference" if self.kind == "reference" else "each other"
        unit = "tokens" if "." in self.function else "nodes"
        names = {"renamed": " but for names", "hidden": " in encoded text"}.get(self.how, "")
        return (
            f"{self.exercise}.{self.function}: {', '.join(self.students)} like {like}{names} "
            f"({self.size} {unit}; {len(self.students)} of {self.compared} submissions)"
        )


def likeness(
    course: Course,
    submissions: Iterable[Submission],
    *,
    floor: int = FLOOR,
    floor_tokens: int = FLOOR_TOKENS,
) -> list[Match]:
    """All matches among submissions, in the order of the manifest, the reference's first."""
    comparison = Comparison(course, floor=floor, floor_tokens=floor_tokens)
    for submission in submissions:
        comparison.add(submission)
    return comparison.matches()


class Comparison:
    """Compares submissions that come one after another; some 50 kB are kept of each.

    floor, floor_tokens: how large a function and a CUDA source must be to be flagged, without what
    was given.
    """

    def __init__(
        self, course: Course, *, floor: int = FLOOR, floor_tokens: int = FLOOR_TOKENS
    ) -> None:
        self.course = course
        self.floor, self.floor_tokens = floor, floor_tokens
        self._given = {exercise.id: given(course, exercise) for exercise in course.exercises}
        self._references: dict[tuple[str, str], Print] = {}
        self._found: dict[tuple[str, str], dict[str, Print]] = defaultdict(dict)
        self._known: dict[tuple[PurePosixPath, bytes], dict[str, Print]] = {}
        self._runs_text: dict[tuple[str, str], set[str]] = defaultdict(set)
        for exercise in course.exercises:
            for stub in exercise.stubs:
                text = read(course.solution(stub))
                for function, one in self._prints(text, stub, exercise).items():
                    self._references[exercise.id, function] = one

    def add(self, submission: Submission) -> None:
        """Take note of one submission; of an earlier one of the same student only what it lacks stays."""
        for exercise in self.course.exercises:
            for stub in exercise.stubs:
                if submission.files.get(str(stub)) != "submitted":
                    continue
                text = read(submission.tree / stub)
                for function, one in self._prints(text, stub, exercise).items():
                    self._found[exercise.id, function][submission.student] = one
                tree = parse_guarded(text) if stub.suffix == ".py" else None
                if tree is not None and runs_text(tree):
                    self._runs_text[exercise.id, stub.name].add(submission.student)

    def matches(self) -> list[Match]:
        """All matches so far, in the order of the manifest, the reference's first."""
        out = []
        for exercise in self.course.exercises:
            names = [task.name for task in exercise.tasks]
            names += [stub.name for stub in exercise.stubs if stub.suffix != ".py"]
            for function in dict.fromkeys(names):
                students = self._found.get((exercise.id, function), {})
                least = self.floor_tokens if "." in function else self.floor
                reference = self._references.get((exercise.id, function))
                for kind, how, alike, size, helpers in _groups(students, reference, least):
                    count = len(students)
                    out.append(Match(kind, how, exercise.id, function, alike, size, count, helpers))
            for stub in exercise.stubs:
                for student in sorted(self._runs_text.get((exercise.id, stub.name), ())):
                    out.append(Match("text", "exact", exercise.id, stub.name, (student,), 0, 1))
        return out

    def _prints(self, text: str, stub: PurePosixPath, exercise: Exercise) -> dict[str, Print]:
        """The same text need not be read twice: much of a class hands in what it was given."""
        key = stub, hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
        if key not in self._known:
            self._known[key] = prints(text, stub, exercise, self._given[exercise.id])
        return self._known[key]


def _groups(
    students: dict[str, Print], reference: Print | None, least: int
) -> Iterator[tuple[str, str, tuple[str, ...], int, bool]]:
    """Who is alike in one function: (kind, how, students, size, helpers)."""
    by_body: dict[str, dict[str, Print]] = defaultdict(dict)
    for student, one in sorted(students.items()):
        by_body[one.body][student] = one
    own = []
    for group in by_body.values():
        by_whole: dict[str, dict[str, Print]] = defaultdict(dict)
        for student, one in group.items():
            by_whole[one.whole][student] = one
        body_counts = next(iter(group.values())).body_size >= least
        for whole, alike in by_whole.items():
            one = next(iter(alike.values()))
            if one.whole_size < least:
                continue
            if reference and whole == reference.whole:
                by_how: dict[str, list[str]] = {"exact": [], "renamed": [], "hidden": []}
                for student, found in alike.items():
                    how = "exact" if found.exact == reference.exact else "renamed"
                    by_how["hidden" if found.hidden else how].append(student)
                for how, names in by_how.items():
                    if names:
                        yield "reference", how, tuple(names), one.whole_size, True
            elif len(alike) > 1 and not (body_counts and len(by_whole) > 1):
                how = "exact" if len({p.exact for p in alike.values()}) == 1 else "renamed"
                how = "hidden" if any(p.hidden for p in alike.values()) else how
                own.append(("student", how, tuple(alike), one.whole_size, True))
        if not body_counts:
            continue
        one = next(iter(group.values()))
        if reference and one.body == reference.body:
            names = tuple(s for s, p in group.items() if p.whole != reference.whole)
            if names:
                yield "reference", "renamed", names, one.body_size, False
        elif len(by_whole) > 1:
            own.append(("student", "renamed", tuple(group), one.body_size, False))
    yield from own
