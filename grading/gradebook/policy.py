"""How an instructor turns verdicts into grades: `policy.toml`, read and checked.

A policy changes what verdicts are worth, never a verdict: reports are written again under another policy
without grading again. All arithmetic is exact (fractions); a number is rounded once, when it is shown.
"""

# Long because each key of one file format is read, checked and explained.

from __future__ import annotations

import difflib
import fnmatch
import math
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

from profiling_lab.course.manifest import Course, Exercise, Task
from profiling_lab.errors import LabError

DAY_S = 24 * 60 * 60
FURTHER = ("apart", "bonus", "count")
ROUNDINGS = ("half up", "half even")
SANDBOXES = ("any", "namespaces", "bubblewrap")  # weakest first
# Canvas leaves out every column whose header holds one of these (lib/gradebook_importer.rb, 2026).
CANVAS_RESERVED = re.compile(r"(Current|Final) (Score|Points|Grade)|Override (Score|Grade|Status)")


class PolicyError(LabError):
    """`policy.toml` cannot be followed; the message names the file, the key and what is allowed."""


@dataclass(frozen=True)
class Export:
    """The columns of a file for Canvas or Moodle. total: its header, "" for none; exercises: by id.

    out_of: the scale of every column, None for the points as they are.
    """

    total: str = ""
    exercises: Mapping[str, str] = field(default_factory=dict)
    out_of: Fraction | None = None


@dataclass(frozen=True)
class HandTask:
    """A task that a person grades. criteria: full points by name; meaning: what earns them, by name."""

    id: str
    title: str
    criteria: Mapping[str, Fraction]
    meaning: Mapping[str, str] = field(default_factory=dict)

    @property
    def possible(self) -> Fraction:
        """Full points."""
        return sum(self.criteria.values(), Fraction(0))


@dataclass(frozen=True)
class Lateness:
    """What the deadline says of one submission.

    deadline: this student's, None without one. days: days begun after it, 0 if in time. factor: what
    the points are multiplied with, 0 to 1. note: a sentence, "" where there is nothing to say.
    """

    deadline: datetime | None = None
    days: int = 0
    factor: Fraction = Fraction(1)
    note: str = ""


@dataclass(frozen=True)
class Deadline:
    """When work is due and what lateness costs. extensions: by lower-case name, id or e-mail."""

    at: datetime
    grace: timedelta = timedelta(0)
    per_day_pct: Fraction = Fraction(0)
    at_most_pct: Fraction = Fraction(100)
    cut_off_days: int | None = None
    extensions: Mapping[str, datetime | int] = field(default_factory=dict)


@dataclass(frozen=True)
class Policy:
    """What each task is worth, what is withheld, and when work is due. See `example` for every key.

    total: the scale of the sum, None for plain points. weights: of exercises and tasks, by id.
    others: what exercises without a weight count ("points" or 0). further: what further tasks count
    ("apart": nothing; "bonus": they make up for core points of their exercise; "count": as any task).
    """

    source: str = ""
    total: Fraction | None = None
    decimals: int = 2
    rounding: str = "half up"
    count_claims: bool = True
    further: str = "apart"
    drop_lowest: int = 0
    weights: Mapping[str, Fraction] = field(default_factory=dict)
    others: str = "points"
    deadline: Deadline | None = None
    hidden_tasks: frozenset[str] = frozenset()
    hidden_checks: tuple[str, ...] = ()
    private_weight: Fraction | None = None
    sandbox: str = "any"
    canvas: Export = field(default_factory=Export)
    moodle: Export = field(default_factory=lambda: Export(out_of=Fraction(100)))
    by_hand: tuple[HandTask, ...] = ()

    # -- what a task is worth ---------------------------------------------------------------------

    def weight(self, exercise: Exercise, task: Task) -> Fraction:
        """What full points of a task count, before the total is scaled.

        A task's own weight replaces its points. An exercise's weight is shared among the tasks of its
        score in proportion to these; a live task counts apart, at its own weight or points.
        """
        own = self.weights.get(task.id, Fraction(task.points))
        if task.live:
            return own
        if exercise.id not in self.weights:
            spared = self.others == "points" or task.id in self.weights
            return own if spared else Fraction(0)
        whole = sum(
            (
                self.weights.get(other.id, Fraction(other.points))
                for other in exercise.tasks
                if self.in_score(other)
            ),
            Fraction(0),
        )
        return self.weights[exercise.id] * own / whole if whole else Fraction(0)

    def in_score(self, task: Task) -> bool:
        """Whether a task belongs to what is possible: core, and further ones where the policy counts them."""
        return task.core or (self.further == "count" and not task.live)

    def hides(self, task: str, check: str) -> bool:
        """Whether the message of this check is withheld from students."""
        if task in self.hidden_tasks:
            return True
        bare = check.split("[")[0]
        return any(fnmatch.fnmatchcase(bare, pattern) for pattern in self.hidden_checks)

    def accepts_sandbox(self, kind: str) -> bool:
        """Whether a sandbox of this kind ("bubblewrap", "namespaces", "none") is strong enough."""
        if self.sandbox == "any":
            return True
        return kind in SANDBOXES and SANDBOXES.index(kind) >= SANDBOXES.index(self.sandbox)

    # -- numbers ----------------------------------------------------------------------------------

    def rounded(self, value: Fraction) -> Decimal:
        """A number as it is shown: `decimals` digits, a half as `rounding` says."""
        step = Decimal(1).scaleb(-self.decimals)
        scaled = value * 10**self.decimals
        whole, rest = divmod(scaled.numerator, scaled.denominator)
        twice = 2 * rest
        up = twice > scaled.denominator or (
            twice == scaled.denominator and (self.rounding == "half up" or whole % 2 == 1)
        )
        return (Decimal(whole + up) * step).quantize(step)

    def show(self, value: Fraction) -> str:
        """A number in words: rounded, without trailing zeros."""
        text = format(self.rounded(value), "f")
        return text.rstrip("0").rstrip(".") if "." in text else text

    # -- time -------------------------------------------------------------------------------------

    def lateness(self, submitted_at: float | None, names: Iterable[str] = ()) -> Lateness:
        """What the deadline says of work handed in then (seconds since 1970, None if unknown).

        names: all by which the student may stand under [deadline.extensions].
        """
        rule = self.deadline
        if rule is None:
            return Lateness()
        due = rule.at
        for name in names:
            given = rule.extensions.get(name.strip().casefold())
            if given is not None:
                due = given if isinstance(given, datetime) else rule.at + timedelta(days=given)
                break
        if submitted_at is None or not math.isfinite(submitted_at):
            return Lateness(due, note="When it was handed in is not known: no late rule applied.")
        over_s = Fraction(submitted_at) - Fraction(due.timestamp())
        if over_s <= Fraction(rule.grace.total_seconds()):
            in_grace = "Handed in within the time of grace." if over_s > 0 else ""
            return Lateness(due, note=in_grace)
        days = math.ceil(over_s / DAY_S)
        begun = f"{days} {'day' if days == 1 else 'days'} late"
        if rule.cut_off_days is not None and days > rule.cut_off_days:
            note = f"Handed in {begun}, after the cut-off of {rule.cut_off_days} days: no points."
            return Lateness(due, days, Fraction(0), note)
        taken = min(rule.per_day_pct * days, rule.at_most_pct)
        note = f"Handed in {begun}: {_plain(taken)} % of the points taken off."
        return Lateness(due, days, 1 - taken / 100, note)


def _plain(value: Fraction) -> str:
    if value.denominator == 1:
        return str(value.numerator)
    return f"{float(value):.10g}"


# -- reading ------------------------------------------------------------------------------------------


def load(path: Path, course: Course) -> Policy:
    """Read a policy file. Raises PolicyError with the file, the line or key, and what is allowed."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise PolicyError(f"{path}: no such policy file") from None
    except UnicodeDecodeError as error:
        raise PolicyError(f"{path}: not UTF-8 ({error}); save it as UTF-8") from None
    except OSError as error:
        raise PolicyError(f"{path}: cannot be read ({error.strerror})") from None
    return loads(text, course, str(path))


def loads(text: str, course: Course, source: str = "policy.toml") -> Policy:
    """A policy from its text; `source` names it in messages. Raises PolicyError."""
    try:
        data = tomllib.loads(text, parse_float=Decimal)
    except tomllib.TOMLDecodeError as error:
        raise PolicyError(f"{source}: {error}") from None
    except RecursionError:
        raise PolicyError(f"{source}: nested too deeply for a policy") from None
    reader = _Reader(source, text, course)
    return reader.policy(data)


class _Reader:
    """Reads the tables of a policy; every error names the key and its line."""

    def __init__(self, source: str, text: str, course: Course) -> None:
        self.source = source
        self.lines = text.splitlines()
        self.course = course

    def policy(self, data: dict[str, Any]) -> Policy:
        known = (
            *("score", "weights", "deadline", "hidden", "private", "sandbox", "canvas", "moodle"),
            "by_hand",
        )
        self.only(data, known, "")
        tables = {name: self.table(data, name) for name in known}
        score = tables["score"]
        keys = ("total", "decimals", "rounding", "count_claims", "further", "drop_lowest")
        self.only(score, keys, "score")
        total = self.number(score, "score", "total", least=None)
        if total is not None and total <= 0:
            raise self.wrong("score.total", "must be above 0; leave it out for plain points")
        drop = self.whole(score, "score", "drop_lowest", 0, 0, len(self.course.exercises) - 1)
        if drop and total is None:
            raise self.wrong(
                "score.drop_lowest",
                "needs score.total: without a scale, students would be graded out of different sums",
            )
        sandbox = tables["sandbox"]
        self.only(sandbox, ("require",), "sandbox")
        private = tables["private"]
        self.only(private, ("weight",), "private")
        weights, others = self.weights(tables["weights"])
        hidden_tasks, hidden_checks = self.hidden(tables["hidden"])
        return Policy(
            source=self.source,
            total=total,
            decimals=self.whole(score, "score", "decimals", 2, 0, 6),
            rounding=self.choice(score, "score", "rounding", "half up", ROUNDINGS),
            count_claims=self.yes(score, "score", "count_claims", True),
            further=self.choice(score, "score", "further", "apart", FURTHER),
            drop_lowest=drop,
            weights=weights,
            others=others,
            deadline=self.deadline(tables["deadline"]),
            hidden_tasks=hidden_tasks,
            hidden_checks=hidden_checks,
            private_weight=self.number(private, "private", "weight", most=1),
            sandbox=self.choice(sandbox, "sandbox", "require", "any", SANDBOXES),
            canvas=self.export(tables["canvas"], "canvas", None),
            moodle=self.export(tables["moodle"], "moodle", Fraction(100)),
            by_hand=self.by_hand(tables["by_hand"]),
        )

    # -- tables ----------------------------------------------------------------------------------

    def weights(self, table: dict[str, Any]) -> tuple[dict[str, Fraction], str]:
        others = table.get("others", "points")
        if others not in ("points", 0) or isinstance(others, bool):
            raise self.wrong("weights.others", f'is {others!r}; allowed: "points", 0')
        out: dict[str, Fraction] = {}
        for name, value in table.items():
            if name == "others":
                continue
            if isinstance(value, dict):  # [weights.ex_30], or ex_30.busy_time without quotes
                for inner in value:
                    out[self.task(f"{name}.{inner}", f"weights.{name}.{inner}")] = self.need(
                        self.number(value, f"weights.{name}", inner)
                    )
                continue
            where = f"weights.{name}"
            out[self.task(name, where) if "." in name else self.exercise(name, where)] = self.need(
                self.number(table, "weights", name)
            )
        return out, "0" if others == 0 else "points"

    def deadline(self, table: dict[str, Any]) -> Deadline | None:
        if not table:
            return None
        keys = ("at", "grace_minutes", "per_day_pct", "at_most_pct", "cut_off_days", "extensions")
        self.only(table, keys, "deadline")
        if "at" not in table:
            raise self.wrong("deadline", "needs `at`, as in at = 2026-11-30T23:59:00+01:00")
        extensions: dict[str, datetime | int] = {}
        for name, value in self.table(table, "extensions", "deadline.").items():
            where = f"deadline.extensions.{name}"
            if type(value) is int and 0 < value <= 3650:
                extensions[name.strip().casefold()] = value
            elif type(value) is int:
                raise self.wrong(where, "is a number of days, from 1 to 3650")
            else:
                extensions[name.strip().casefold()] = self.moment(value, where)
        cut_off = None
        if "cut_off_days" in table:
            cut_off = self.whole(table, "deadline", "cut_off_days", 0, 0, 3650)
        grace_minutes = self.number(table, "deadline", "grace_minutes", most=7 * 24 * 60)
        return Deadline(
            at=self.moment(table["at"], "deadline.at"),
            grace=timedelta(minutes=float(grace_minutes or 0)),
            per_day_pct=self.number(table, "deadline", "per_day_pct", most=100) or Fraction(0),
            at_most_pct=self.number(table, "deadline", "at_most_pct", Fraction(100), most=100)
            or Fraction(0),
            cut_off_days=cut_off,
            extensions=extensions,
        )

    def by_hand(self, tables: dict[str, Any]) -> tuple[HandTask, ...]:
        out = []
        for name in tables:
            where = f"by_hand.{name}"
            if not re.fullmatch(r"\w[\w-]*", name) or name == "total" or name in self.course.tasks:
                raise self.wrong(where, "is a name of letters, digits, - and _, of no other task")
            table = self.table(tables, name, "by_hand.")
            self.only(table, ("title", "criteria", "meaning"), where)
            full = self.table(table, "criteria", f"{where}.")
            criteria = {key: self.need(self.number(full, f"{where}.criteria", key)) for key in full}
            if not criteria or any(":" in key or " (of " in key for key in criteria):
                raise self.wrong(
                    f"{where}.criteria", 'needs names with points, as in "uses evidence" = 4'
                )
            meaning = self.table(table, "meaning", f"{where}.")
            self.only(meaning, tuple(criteria), f"{where}.meaning")
            title = self.header(table.get("title", name), f"{where}.title", "a page")
            texts = {key: self.header(meaning[key], f"{where}.meaning", "") for key in meaning}
            out.append(HandTask(name, title, criteria, texts))
        return tuple(out)

    def hidden(self, table: dict[str, Any]) -> tuple[frozenset[str], tuple[str, ...]]:
        self.only(table, ("tasks", "checks"), "hidden")
        tasks: set[str] = set()
        for name in self.words(table, "hidden", "tasks"):
            if "." in name:
                tasks.add(self.task(name, "hidden.tasks"))
            else:
                exercise = self.course.exercise(self.exercise(name, "hidden.tasks"))
                tasks.update(task.id for task in exercise.tasks)
        checks = self.words(table, "hidden", "checks")
        if checks:
            self.known_checks(checks)
        return frozenset(tasks), tuple(checks)

    def known_checks(self, patterns: list[str]) -> None:
        """Refuse a pattern that no check of the course matches: a typing error would show answers."""
        names: set[str] = set()
        for exercise in self.course.exercises:
            for file in {self.course.checks(stub) for stub in exercise.stubs}:
                if file.is_file():
                    source = file.read_text(encoding="utf-8")
                    names.update(re.findall(r"^def (test_\w+)", source, re.MULTILINE))
        for pattern in patterns:
            if names and not fnmatch.filter(names, pattern):
                raise self.wrong(
                    "hidden.checks",
                    f"{pattern!r} is the name of no check{self.near(pattern, sorted(names))}; "
                    "* stands for anything, a whole task goes under `tasks`",
                )

    def export(self, table: dict[str, Any], name: str, scale: Fraction | None) -> Export:
        keys = ("total", "exercises", "out_of") if name == "moodle" else ("total", "exercises")
        self.only(table, keys, name)
        columns = self.table(table, "exercises", f"{name}.")
        exercises = {
            self.exercise(key, f"{name}.exercises.{key}"): self.header(
                value, f"{name}.exercises.{key}", name
            )
            for key, value in columns.items()
        }
        total = self.header(table["total"], f"{name}.total", name) if "total" in table else ""
        headers = [*exercises.values(), *([total] if total else [])]
        if twice := sorted({header for header in headers if headers.count(header) > 1}):
            raise self.wrong(name, f"two columns are called {twice[0]!r}")
        out_of = self.number(table, name, "out_of", scale)
        if out_of is not None and out_of <= 0:
            raise self.wrong(f"{name}.out_of", "must be above 0")
        return Export(total, exercises, out_of)

    def header(self, value: Any, where: str, system: str) -> str:
        if not isinstance(value, str) or not value.strip() or not value.isprintable():
            raise self.wrong(where, "must be the assignment's name, a text of one line")
        if system == "canvas" and (found := CANVAS_RESERVED.search(value)):
            raise self.wrong(
                where, f"holds {found[0]!r}: Canvas ignores such a column; use another name"
            )
        return value.strip()

    # -- values ----------------------------------------------------------------------------------

    def table(self, data: dict[str, Any], name: str, above: str = "") -> dict[str, Any]:
        value = data.get(name, {})
        if not isinstance(value, dict):
            raise self.wrong(above + name, f"must be a table, [{above}{name}]")
        return value

    def only(self, table: dict[str, Any], allowed: tuple[str, ...], above: str) -> None:
        for key in table:
            if key not in allowed:
                where = f"{above}.{key}" if above else key
                raise self.wrong(
                    where,
                    f"no such key{self.near(key, list(allowed))}; allowed: {', '.join(allowed)}",
                )

    def number(
        self,
        table: dict[str, Any],
        above: str,
        key: str,
        default: Fraction | None = None,
        *,
        least: int | None = 0,
        most: int | None = None,
    ) -> Fraction | None:
        value = table.get(key)
        if value is None:
            return default
        where = f"{above}.{key}"
        if type(value) not in (int, Decimal) or (
            isinstance(value, Decimal) and not value.is_finite()
        ):
            raise self.wrong(where, f"is {value!r}, not a number")
        # A short text may stand for a number of a billion digits.
        if isinstance(value, Decimal) and not -30 < value.adjusted() < 30:
            raise self.wrong(where, "is a number too large or too small to be meant")
        number = Fraction(value)
        if abs(number) > 10**9:
            raise self.wrong(where, "must be at most 1000000000")
        if (least is not None and number < least) or (most is not None and number > most):
            limits = f"from {least} to {most}" if most is not None else f"{least} or more"
            raise self.wrong(where, f"is {value}; allowed: {limits}")
        return number

    def need(self, number: Fraction | None) -> Fraction:
        assert number is not None  # noqa: S101 - the key was found in the table
        return number

    def whole(
        self, table: dict[str, Any], above: str, key: str, default: int, least: int, most: int
    ) -> int:
        value = table.get(key, default)
        if type(value) is not int or not least <= value <= most:
            raise self.wrong(
                f"{above}.{key}", f"is {value!r}; allowed: a whole number from {least} to {most}"
            )
        return value

    def yes(self, table: dict[str, Any], above: str, key: str, default: bool) -> bool:
        value = table.get(key, default)
        if type(value) is not bool:
            raise self.wrong(f"{above}.{key}", f"is {value!r}; allowed: true, false")
        return value

    def choice(
        self, table: dict[str, Any], above: str, key: str, default: str, allowed: tuple[str, ...]
    ) -> str:
        value = table.get(key, default)
        if value not in allowed:
            words = ", ".join(f'"{word}"' for word in allowed)
            raise self.wrong(f"{above}.{key}", f"is {value!r}; allowed: {words}")
        return value

    def words(self, table: dict[str, Any], above: str, key: str) -> list[str]:
        value = table.get(key, [])
        if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
            raise self.wrong(f"{above}.{key}", 'must be a list of texts, as in ["a", "b"]')
        return value

    def moment(self, value: Any, where: str) -> datetime:
        shape = "2026-11-30T23:59:00+01:00"
        if type(value) is date or (isinstance(value, datetime) and value.tzinfo is None):
            raise self.wrong(where, f"has no time zone; write it as {shape} (or Z for UTC)")
        if not isinstance(value, datetime):
            raise self.wrong(where, f"is {value!r}, not a point in time; write it as {shape}")
        return value

    def exercise(self, name: str, where: str) -> str:
        known = [exercise.id for exercise in self.course.exercises]
        if name not in known:
            raise self.wrong(where, f"{name!r} is no exercise{self.near(name, known)}")
        return name

    def task(self, name: str, where: str) -> str:
        known = list(self.course.tasks)
        if name not in known:
            raise self.wrong(where, f"{name!r} is no task{self.near(name, known)}")
        return name

    def near(self, name: str, known: list[str]) -> str:
        close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
        return f" (did you mean {close[0]}?)" if close else ""

    def wrong(self, where: str, what: str) -> PolicyError:
        line = self.line(where)
        place = f"{self.source}, line {line}" if line else self.source
        return PolicyError(f"{place}: {where}: {what}")

    def line(self, where: str) -> int | None:
        """The line that a key is in, None if it cannot be told (a rare way to write it)."""
        words = [word.strip("\"' ") for word in where.split(".")]
        inside: list[str] = []
        best: int | None = None
        for number, line in enumerate(self.lines, 1):
            heading = re.match(r"\s*\[([^\[\]]+)\]", line)
            if heading:
                inside = [word.strip("\"' ") for word in heading[1].split(".")]
                here = inside
            elif entry := re.match(r"\s*([^#=]+?)\s*=", line):
                here = inside + [word.strip("\"' ") for word in entry[1].split(".")]
            else:
                continue
            if here == words:
                return number
            if words[: len(here)] == here and best is None:
                best = number
        return best


# -- the example --------------------------------------------------------------------------------------


def example(course: Course | None = None) -> str:
    """A policy file in which every key stands with its meaning, most commented out."""
    first, task, other = "ex_30", "ex_31.transpose_block", "ex_30.replay_end"
    if course is not None and course.exercises:
        exercise = course.exercises[0]
        first, task = exercise.id, exercise.tasks[-1].id
        other = exercise.tasks[0].id
    title = course.title if course else "GPU profiling"
    return f"""\
# What verdicts are worth. Change it at any time: grades are computed again, nothing is graded again.
#     uv run grade SUBMISSIONS --out DIR --policy policy.toml
# Every key may be left out; what it then is stands here.

[score]
# total = 100            # scale the sum to this; left out: points as they are
decimals = 2             # digits behind the point of every number shown, 0 to 6
rounding = "half up"     # 0.125 to 0.13; or "half even": to 0.12. Sums are exact, rounded once when shown
count_claims = true      # false: tasks with trust = "claim" in the manifest count neither way
further = "apart"        # further tasks count nothing and are shown; "bonus": their points make up for core
                         # points lost in the same exercise, never above its full points; "count": as core
drop_lowest = 0          # so many exercises with the lowest share are left out (needs total; of equal
                         # ones the later)

[weights]                # default: the points of course.toml
# {first} = 20             # an exercise: its tasks share 20 in proportion to their points
# "{task}" = 0    # a task: this instead of its points
# others = 0             # exercises not named here count nothing (default: "points")

# [deadline]
# at = 2026-11-30T23:59:00+01:00     # with its time zone; Z is UTC
# grace_minutes = 15                 # so much later is still in time
# per_day_pct = 10                   # per cent of what was earned, for each day begun after `at`
# at_most_pct = 50                   # never more than this
# cut_off_days = 7                   # more days late: no points at all
#
# [deadline.extensions]              # by entry's name, student's id or e-mail, in any case
# "ada@example.edu" = 2026-12-04T23:59:00+01:00
# "grace" = 3                        # so many days more

[hidden]                 # messages withheld from students; points count as ever
tasks = []               # such as ["{other}"], or a whole exercise
checks = []              # names of checks, * stands for anything

# [by_hand.deep_dive_text]           # a task that a person grades, in DIR/by_hand.csv (grade sheet DIR)
# title = "Deep dive: the text"
# [by_hand.deep_dive_text.criteria]  # full points of each criterion
# evidence = 4
# "next step" = 2
# [by_hand.deep_dive_text.meaning]   # what earns them; the student reads it
# evidence = "every claim names a number and its recording, and the change belongs to the question"

[private]                # cases of --cases and other checks that the batch keeps hidden
# weight = 0.3           # their share of a task's points; left out: a task earns all or nothing

[sandbox]
require = "any"          # refuse to grade in less: "namespaces" or "bubblewrap"

[canvas]                 # headers of gradebook_canvas.csv, as Canvas exports them: name (id)
# total = "{title} (123456)"
# [canvas.exercises]
# {first} = "Day 1 (123457)"

[moodle]                 # grade items of gradebook_moodle.csv
# total = "{title}"
# out_of = 100           # the items' maximum: Moodle refuses more than 100 unless its site allows it
# [moodle.exercises]
# {first} = "Day 1"
"""


def utc(moment: float | None) -> str:
    """Seconds since 1970 as a text in UTC, "" if unknown or out of range."""
    if moment is None:
        return ""
    try:
        return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, OSError, ValueError):
        return ""
