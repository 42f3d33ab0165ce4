"""What a student reads: score, what was called and came back, the hint to read, what to do next.

Names and messages come from submissions and are not trusted: control and direction characters go, the
HTML template escapes all of it, Markdown shows it as code. Of a hidden check only that it failed is told.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grading.gradebook.marks import NOT_GRADED, TOTAL, ExerciseMark, HandMark, Mark, TaskMark
from grading.gradebook.policy import Policy
from grading.runner import alike, results
from grading.runner.printable import printable
from profiling_lab.cli.hints import hint_steps
from profiling_lab.course.manifest import Course, Task
from profiling_lab.errors import CourseError

if TYPE_CHECKING:
    import jinja2

TEMPLATES = Path(__file__).parent / "templates"
LONGEST_LINE = 500
MOST_LINES = 40
NEXT_SHOWN = 3
CHECKS_SHOWN = 3  # of a task that did not pass; more of them say the same in other words

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
# What befell a whole file is told once, with what to do about it.
OF_FILES = ("refused file", "bad import")
CANNOT = " cannot be imported: "  # whatever the cause, a time-out say
HAND_IN_ANEW = "Pack your work anew with `uv run lab submit` and hand that in."
ADVICE = {
    "refused file": "Put a plain text file in its place (no link, no folder) and hand in again; "
    "`uv run lab submit` packs the right files.",
    "bad import": "Nothing in it can be judged until Python can import it: `uv run lab check {exercise}` "
    "says the same where you work.",
}
HIDDEN = "A hidden check of this task {what}. Its details are not shown."
_MARKDOWN = re.compile(r"([\\`*_\[\]<>&|~$@]|^[#+\-]|(?<=www)\.|:(?=//))")


# -- untrusted text ----------------------------------------------------------------------------------


def clean(text: Any, limit: int = 200) -> str:
    """Untrusted text of one line without control and direction characters, shortened."""
    return printable(str(text), limit)


def clean_lines(message: str) -> list[str]:
    """A message as lines that are safe to show, its middle left out if it is long."""
    lines = message[: LONGEST_LINE * MOST_LINES * 4].expandtabs(4).splitlines()
    lines = [clean(line.rstrip(), LONGEST_LINE) for line in lines]
    while lines and not lines[-1]:
        lines.pop()
    if len(lines) > MOST_LINES:
        half = MOST_LINES // 2
        left_out = f"… {len(lines) - 2 * half} lines left out …"
        lines = [*lines[:half], left_out, *lines[-half:]]
    return lines


def inline(text: Any, limit: int = 200) -> str:
    """Untrusted text inside a line of Markdown: no character of it is obeyed, nothing becomes a link."""
    return _MARKDOWN.sub(r"\\\1", clean(text, limit)).replace("\\<", "&lt;")


def fenced(lines: Sequence[str]) -> list[str]:
    """Untrusted lines as a block of code whose fence they cannot close."""
    longest = max((len(run) for line in lines for run in re.findall(r"`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return [fence + "text", *lines, fence]


# -- what there is to show ----------------------------------------------------------------------------


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
    refused: str = ""  # why nothing of the submission could be taken
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


class Guide:
    """Where the course's own texts speak of a task: lesson section and hint. Read once a task."""

    def __init__(self, course: Course) -> None:
        self.course = course
        self._found: dict[str, tuple[str, str]] = {}

    def lesson(self, task: Task) -> str:
        """The section of the lesson to read, as "FILE, section"; the file alone if none names it."""
        return self._of(task)[0]

    def question(self, task: Task) -> str:
        """The first, weakest hint, as one paragraph of Markdown; "" if there is none."""
        return self._of(task)[1]

    def _of(self, task: Task) -> tuple[str, str]:
        if task.id not in self._found:
            self._found[task.id] = (self._lesson(task), self._question(task))
        return self._found[task.id]

    def _lesson(self, task: Task) -> str:
        exercise = self.course.exercise(task.exercise)
        file = (exercise.folder / "README.md").as_posix()
        section = _section(_read(self.course.lesson(exercise)), task)
        return f"{file}, “{section}”" if section else file

    def _question(self, task: Task) -> str:
        try:
            first = hint_steps(self.course, task)[0]
        except (CourseError, IndexError):
            return ""
        return " ".join(first.split())


@functools.lru_cache(maxsize=64)
def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except OSError:
        return ""


def _section(lesson: str, task: Task) -> str:
    """The heading of the section that sets the task, else of the first that names it, else ""."""
    named = re.compile(rf"(?<!\w){re.escape(task.name)}(?!\w)")
    sets = re.compile(rf"lab check {re.escape(task.id)}\b|\*\*Write\*\*.*`{re.escape(task.name)}`")
    heading, first, in_code = "", "", False
    for line in lesson.splitlines():
        in_code ^= line.lstrip().startswith("```")
        if not in_code and (match := re.match(r"#{2,4} (.+)", line)):
            heading = match[1].strip().replace("`", "")
        elif sets.search(line):
            return heading
        elif not first and named.search(line):
            first = heading
    return first


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
        refused=clean(refused, 500),
        by_hand=[_hand_view(mark, hand, policy) for hand in mark.by_hand],
    )


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


# -- HTML ---------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=1)
def environment() -> jinja2.Environment:
    """The templates' environment: everything is escaped, a name that is missing is an error."""
    import jinja2
    from markupsafe import Markup, escape

    def code(text: str) -> Markup:
        """A hint's `words` between backticks as code; all of it escaped."""
        words = re.split(r"`([^`]+)`", text)
        return Markup().join(
            Markup("<code>{}</code>").format(word) if at % 2 else escape(word)
            for at, word in enumerate(words)
        )

    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    made.filters["code"] = code
    made.filters["others"] = others
    made.filters["slug"] = lambda outcome: str(outcome).replace(" ", "-")
    style = Markup((TEMPLATES / "page.css").read_text(encoding="utf-8"))  # noqa: S704 - our own file
    shared: dict[str, Any] = {"style": style, "hand_in_anew": HAND_IN_ANEW}
    shared["meaning"] = {outcome: words[0] for outcome, words in MEANING.items()}
    made.globals.update(shared)
    return made


def html_page(student: StudentView) -> str:
    """The page of one student: one file, no script, nothing fetched."""
    return encodable(environment().get_template("feedback.html.j2").render(student=student))


def encodable(text: str) -> str:
    """Text that UTF-8 can hold."""
    return text.encode("utf-8", "replace").decode("utf-8")


# -- Markdown -----------------------------------------------------------------------------------------


def markdown_page(student: StudentView) -> str:
    """The same in Markdown."""
    out = [f"# {student.course}: {inline(student.name)}", ""]
    if student.refused:
        out += [f"**Your submission could not be taken**: {inline(student.refused, 500)}", ""]
        out += [f"{HAND_IN_ANEW}", ""]
    if student.incomplete:
        out += [
            "**Not complete yet.** Something on the grading side broke or is not done, in "
            f"{', '.join(student.incomplete)}. Not your fault; it will be graded again.",
        ]
    else:
        out += [f"**{student.total} of {student.out_of} points**"]
    out += [line for note in student.notes for line in ("", inline(note, 500))]
    if student.live:
        out += ["", f"Live score (on a GPU, counted apart): {student.live}."]
    if student.further:
        out += ["", f"Further tasks: {student.further}."]
    if student.following or student.files:
        out += ["", "## What to do next", ""]
        out += [f"1. {inline(file.path)}: {file.advice}" for file in student.files]
        for number, task in enumerate(student.following, len(student.files) + 1):
            out += [f"{number}. `{task.id}`, {task.title} ({task.word}): `{task.hint}`"]
    out += ["", "## Exercises", "", "| Exercise | Points | Tasks |", "|---|---|---|"]
    for exercise in student.started:
        tally = ", ".join(f"{count} {MEANING[name][0]}" for name, count in exercise.parts)
        points = f"{exercise.earned or '–'} of {exercise.possible}"
        out += [f"| {exercise.id}: {inline(exercise.title)} | {points} | {tally} |"]
    if student.untouched:
        names = ", ".join(f"{e.id} ({e.possible})" for e in student.untouched)
        out += ["", f"Not started, with their points: {names}."]
    for hand in student.by_hand:
        out += ["", f"## {inline(hand.title)}", ""]
        out += [f"**{hand.earned} of {hand.possible} points**, by a person", ""]
        out += ["| For | Points | What earns them |", "|---|---|---|"]
        out += [f"| {inline(n)} | {p} of {f} | {inline(why)} |" for n, p, f, why in hand.rows]
        if hand.comment:
            out += ["", *fenced(hand.comment)]
    for exercise in student.started:
        out += ["", f"## {exercise.id}: {exercise.title}"]
        out += [line for note in exercise.notes for line in ("", inline(note, 500))]
        for file in exercise.files:
            out += ["", f"### {inline(file.path)}", "", inline(file.cause, 300), ""]
            out += [*fenced(file.lines), "", file.advice, ""]
            out += [f"So there is no verdict on {', '.join(file.names)}."]
        for task in exercise.tasks:
            out += _task_markdown(task)
    if student.words:
        out += ["", "## Words", ""]
        out += [f"- **{word}**: {meaning}" for word, meaning in student.words]
    return encodable("\n".join(out) + "\n")


def _task_markdown(task: TaskView) -> list[str]:
    if not task.needs_work and not task.checks:
        return []
    points = f"{task.earned or '–'} of {task.worth}"
    out = ["", f"### {task.id}: {task.title}", "", f"**{task.word}**, {points} points"]
    out += [line for note in task.notes for line in ("", inline(note, 500))]
    for check in task.checks:
        label = "Hidden check" if check.hidden else f"Check `{check.name.replace('`', '')}`"
        out += ["", f"{label}{': ' + inline(check.cause, 300) if check.cause else ''}"]
        if check.lines:
            out += ["", *fenced(check.lines)]
    if tally := others(task):
        out += ["", tally]
    if task.question:
        out += ["", f"Ask yourself: {task.question}"]
    if task.lesson:
        out += ["", f"Read {task.lesson}; a stronger hint: `{task.hint}`"]
    return out


def others(task: TaskView) -> str:
    """How many checks of a task there are besides those shown; "" if none."""
    said = []
    if task.more:
        said.append(f"{task.more} more did not pass")
    if task.passed:
        said.append(f"{task.passed} passed")
    return f"Of its other checks {' and '.join(said)}." if said else ""
