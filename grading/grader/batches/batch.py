"""Grades a class: takes submissions in, judges what has no verdict yet, keeps results, writes reports.

A batch lives in its output folder (`grading.grader.batches.store`). Whatever ends it, running it again goes on from
there: a unit with a verdict under the same key is not judged again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import hashlib
import json
import secrets
import shutil
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grading.grader.batches import keys
from grading.grader.batches.engines import Engine, JudgeSpec, Local, Unit, not_judged, without_judge
from grading.grader.batches.progress import Progress, duration
from grading.grader.batches.store import WORK, DiskError, Store, StoreError, trouble, write_whole
from grading.grader.intake import submissions
from grading.grader.intake.submissions import Submission
from grading.runner.preload import modules
from grading.runner.results import OUTCOMES, Key, Result
from profiling_lab import needs
from profiling_lab.course.manifest import Course, Exercise
from profiling_lab.errors import LabError

if TYPE_CHECKING:
    from grading.gradebook.reporting import Written
    from grading.gradebook.roster import Person

MATCHES = "likeness.json"
BROKE_READER = "refused_archives.json"
MOST_SEED = 99_999  # that checks draw from (grading.checks.fixtures)


@dataclass(frozen=True)
class Options:
    """What an instructor asks for. exercises: all if empty. students: whom to judge now; all if empty.

    seed: of what the checks draw; None takes the batch's own, or draws one. again: judge also what has
    a verdict, and say where the verdict differs.
    """

    source: Path
    out: Path
    exercises: tuple[str, ...] = ()
    students: tuple[str, ...] = ()
    jobs: int = 1
    engine: str = "local"
    seed: int | None = None
    cases: Path | None = None
    policy: Path | None = None
    roster: Path | None = None
    sandbox: str = "auto"
    retries: int = 2
    live: bool = False
    again: bool = False
    slurm: dict[str, str] = field(default_factory=dict)


@dataclass
class Summary:
    """What a run did. changed: units whose verdict differs from the one before (with `again`).

    needs_look: whom something keeps points from: who, why, and what to do. points_changed: since the last
    reports, with the reason.
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


class Stopped(Exception):
    """The instructor stopped the batch (Ctrl-C, or a signal); what was judged is kept."""

    def __init__(self, left: int) -> None:
        super().__init__(f"{left} exercises are left")
        self.left = left


def choose(course: Course, wanted: Sequence[str]) -> list[Exercise]:
    """The exercises of ids or of folders of the course ("week07"), in the manifest's order.

    Raises UnknownExercise, naming what comes close.
    """
    if not wanted:
        return list(course.exercises)
    chosen: set[str] = set()
    for name in wanted:
        folder = name.strip("/").removeprefix("./")
        inside = [e.id for e in course.exercises if e.stub.is_relative_to(folder)]
        chosen.update(inside or [course.exercise(name).id])
    return [exercise for exercise in course.exercises if exercise.id in chosen]


# -- the plan -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Plan:
    """Who is judged in what, under which keys. submissions: sorted by student."""

    course: Course
    exercises: list[Exercise]
    submissions: list[Submission]
    hashes: dict[tuple[str, str], str]
    checks: dict[str, str]
    environment: str
    seed: int

    def units(self) -> Iterator[Unit]:
        """Every unit, a student's together, in the order of the manifest."""
        for submission in self.submissions:
            for exercise in self.exercises:
                yield Unit(submission, exercise, self.key(submission, exercise))

    def key(self, submission: Submission, exercise: Exercise) -> Key:
        """What the result of a unit depends on."""
        mine = self.hashes[submission.student, exercise.id]
        return Key(mine, self.checks[exercise.id], self.environment, self.seed)

    def rows(self) -> Iterator[dict[str, Any]]:
        """As plain data, a row a submission."""
        for submission in self.submissions:
            row = dataclasses.asdict(submission) | {"tree": ""}
            row["exercises"] = {e.id: self.hashes[submission.student, e.id] for e in self.exercises}
            yield row

    def facts(self) -> dict[str, Any]:
        """What all rows share, as plain data."""
        return {"environment": self.environment, "seed": self.seed, "checks": self.checks}


def make_plan(
    course: Course,
    exercises: list[Exercise],
    submissions: Iterable[Submission],
    *,
    environment: str,
    seed: int,
    cases: Path | None = None,
) -> Plan:
    """The plan of a batch. Raises LabError if two submissions have one student's name."""
    ordered = sorted(submissions, key=lambda submission: submission.student)
    counts = Counter(submission.student for submission in ordered)
    if twice := [name for name, count in counts.items() if count > 1]:
        raise LabError(f"{', '.join(twice)}: handed in more than once; keep one of each")
    checks = keys.Checks(course, cases)
    return Plan(
        course,
        exercises,
        ordered,
        {(s.student, e.id): keys.submission_hash(s, e) for s in ordered for e in exercises},
        {exercise.id: checks.of(exercise) for exercise in exercises},
        environment,
        seed,
    )


def kept_plan(course: Course, store: Store) -> Plan:
    """The plan of the folder's last run; trees are gone. Raises StoreError if there is none."""
    facts = store.batch().get("keys", {})
    submissions, hashes = [], {}
    known = {exercise.id: exercise for exercise in course.exercises}
    for row in store.plan():
        mine = row.pop("exercises")
        row |= {"tree": Path(), "extra": tuple(row["extra"])}
        try:
            submission = Submission(**row)
        except TypeError:
            raise StoreError(
                f"{store.out}: was planned by another version of the course; run grade with the "
                "submissions again: what is graded stays graded"
            ) from None
        submissions.append(submission)
        hashes |= {(submission.student, exercise): value for exercise, value in mine.items()}
    chosen = [known[name] for name in known if name in facts.get("checks", {})]
    return Plan(
        course,
        chosen,
        submissions,
        hashes,
        facts.get("checks", {}),
        facts.get("environment", ""),
        facts.get("seed", 0),
    )


def results(plan: Plan, store: Store) -> Iterator[Result]:
    """The result of every unit of a plan, read from disk one at a time; sorted, whole.

    What has none yet comes as infrastructure, so that no report takes it for a zero.
    """
    for unit in plan.units():
        kept = store.get(unit.submission.student, unit.exercise.id, unit.key)
        if kept is None:
            kept = not_judged(unit, "not graded yet: run grade again, it goes on from there")
        yield kept


# -- grading --------------------------------------------------------------------------------------


def make_engine(course: Course, options: Options, seed: int) -> Engine:
    """The engine that the options ask for."""
    spec = JudgeSpec(
        root=str(course.root),
        sandbox=options.sandbox,
        parallel=options.jobs,
        seed=seed,
        cases=str(options.cases.resolve()) if options.cases else None,
        live=options.live,
    )
    if options.engine == "slurm":
        from grading.grader.batches.slurm import Slurm

        folder = options.out.resolve() / WORK / "slurm"
        return Slurm(spec, folder, retries=options.retries, options=options.slurm)
    return Local(spec, retries=options.retries)


def grade(
    course: Course,
    options: Options,
    *,
    engine_of: Callable[[Course, Options, int], Engine] | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> Summary:
    """Grade submissions into a folder, and write the reports.

    Raises Stopped after Ctrl-C; LabError for what the instructor must fix first. What could not be
    judged for want of infrastructure is in the summary.
    """
    exercises = choose(course, options.exercises)
    reports = Reports(course, options.policy, options.roster)
    _must_be_there(options)
    with Store(options.out) as store:
        for note in store.notes:
            say(note)
        facts = store.batch()
        seed = _seed(facts, options)
        store.make_sure_of_room(results=0, students=1)
        with _staging(options.out) as staging:
            known = _read_json(options.out / BROKE_READER)
            submissions = take_in(options.source, course, staging, say, known)
            if known:
                write_whole(options.out / BROKE_READER, [json.dumps(known, indent=1) + "\n"])
            reports.open(options.out, submissions, say)
            engine = (engine_of or make_engine)(course, options, seed)
            harvest = getattr(engine, "harvest", None)
            if harvest is not None:
                harvest(store)
            environment = engine.environment()
            kind = str(environment.get("sandbox", ""))
            if not reports.policy.accepts_sandbox(kind):
                raise LabError(
                    f"{options.policy} requires a sandbox of kind {reports.policy.sandbox}, and here is "
                    f"{kind}: grade where it can be had, or change [sandbox] require"
                )
            tasks = [task for each in exercises for task in each.tasks if not task.live]
            if line := needs.waiting(tasks, environment.get("capabilities", ())):
                say(f"{line}; not run, they count neither way")
            plan = make_plan(
                course,
                exercises,
                submissions,
                environment=keys.environment_hash(environment),
                seed=seed,
                cases=options.cases,
            )
            for line in what_changed(plan, environment, facts):
                say(line)
            _keep_plan(store, plan, options, environment, facts)
            chosen = _chosen_students(plan, options.students, reports.roster)
            summary = _run(plan, store, engine, options, chosen, say)
            summary.sandbox = kind
            matches = likeness(plan, summary)
        with contextlib.suppress(OSError):
            write_whole(options.out / MATCHES, [json.dumps(matches, indent=1) + "\n"])
        _write_reports(reports, plan, store, matches, summary)
    return summary


def report(
    course: Course, out: Path, *, policy: Path | None = None, roster: Path | None = None
) -> Summary:
    """Write the reports of a graded folder again, without grading.

    policy, roster: by default those of the last run.
    """
    with Store(out, new=False) as store:
        asked = store.batch().get("options", {})
        policy = policy or (Path(asked["policy"]) if asked.get("policy") else None)
        roster = roster or (Path(asked["roster"]) if asked.get("roster") else None)
        reports = Reports(course, policy, roster)
        plan = kept_plan(course, store)
        summary = summarise(plan, store)
        try:
            matches = json.loads((out / MATCHES).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            matches = []
        _write_reports(reports, plan, store, matches, summary)
    return summary


def write_sheet(course: Course, out: Path, policy: Path | None = None) -> Path:
    """Write the table in which a person enters points; what is entered already stays. Raises LabError."""
    from grading.gradebook import by_hand
    from grading.gradebook.roster import join

    with Store(out, new=False) as store:
        asked = store.batch().get("options", {})
        policy = policy or (Path(asked["policy"]) if asked.get("policy") else None)
        roster = Path(asked["roster"]) if asked.get("roster") else None
        reports = Reports(course, policy, roster)
        if not reports.policy.by_hand:
            raise LabError(
                "the policy has no [by_hand.NAME], so there is nothing for a person to grade; "
                "`uv run python -m grading.classroom policy` prints an example"
            )
        entries = [submission.student for submission in kept_plan(course, store).submissions]
        joined = join(reports.roster or (), entries)
        people = {entry: joined.by_entry[entry].name for entry in joined.by_entry}
        names = {entry: people.get(entry, entry) for entry in entries}
        by_hand.read(out, reports.policy, course, entries, reports.roster or ())
        write_whole(out / by_hand.SHEET, [by_hand.sheet(out, reports.policy, names)])
    return out / by_hand.SHEET


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


def _run(
    plan: Plan,
    store: Store,
    engine: Engine,
    options: Options,
    chosen: set[str],
    say: Callable[[str], None],
) -> Summary:
    """Judge what has no verdict of the chosen students; returns where the batch stands then."""
    waiting: list[Unit] = []
    for submission in plan.submissions:
        at_once = []
        for exercise in plan.exercises:
            unit = Unit(submission, exercise, plan.key(submission, exercise))
            done = store.has(submission.student, exercise.id, unit.key)
            if submission.student not in chosen or (done and not options.again):
                continue
            result = without_judge(unit)
            if result is None:
                waiting.append(unit)
            elif not done:
                at_once.append(result)
        store.add(*at_once)
    # Exercises with the same needs together: they share what is imported for them.
    waiting.sort(key=lambda unit: modules(unit.exercise, live=options.live))
    store.make_sure_of_room(results=len(waiting), students=len(plan.submissions))
    total = len(plan.submissions) * len(plan.exercises)
    say(
        f"{len(plan.submissions)} submissions, {len(plan.exercises)} exercises; {total - len(waiting)} "
        f"of {total} need no judging, {len(waiting)} to go; seed {plan.seed}"
    )
    started = datetime.datetime.now(datetime.UTC)
    keeper = _Keeper(store, plan, Counter(unit.submission.student for unit in waiting), options)
    if waiting:
        with keeper.progress, _heeding_signals(say) as stop:
            engine.run(iter(waiting), keeper, stop)
            stopped = stop.is_set()
    else:
        stopped = False
    if stopped and keeper.judged < len(waiting):
        raise Stopped(len(waiting) - keeper.judged)
    summary = summarise(plan, store)
    summary.judged, summary.changed = keeper.judged, sorted(keeper.changed)
    summary.seconds = (datetime.datetime.now(datetime.UTC) - started).total_seconds()
    return summary


class _Keeper:
    """Keeps results as they come, and shows how far the batch is."""

    def __init__(self, store: Store, plan: Plan, remaining: Counter[str], options: Options) -> None:
        self.store = store
        self.progress = Progress(dict(remaining), submissions=len(plan.submissions))
        self.judged = 0
        self.changed: list[str] = []
        self._again = options.again
        self._mutex = threading.Lock()

    def started(self, unit: Unit) -> None:
        self.progress.started(unit.name)

    def finished(self, unit: Unit, result: Result) -> None:
        student, exercise = unit.submission.student, unit.exercise.id
        before = self.store.get(student, exercise, unit.key) if self._again else None
        self.store.add(result)
        both = before is not None and not (before.infrastructure or result.infrastructure)
        if before is not None and both and _verdict(before) != _verdict(result):
            self.changed.append(unit.name)
        with self._mutex:
            self.judged += 1
        self.progress.finished(unit.name, student, infrastructure=bool(result.infrastructure))

    def note(self, text: str) -> None:
        self.progress.note(text)


def _verdict(result: Result) -> dict[str, Any]:
    """A result without what may differ between two gradings of the same."""
    return {**result.to_dict(), "seconds": 0.0, "attempts": 0}


@contextlib.contextmanager
def _heeding_signals(say: Callable[[str], None]) -> Iterator[threading.Event]:
    """An event that Ctrl-C, SIGTERM and SIGHUP set; a second one of them ends the process at once."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def on_signal(number: int, frame: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()
        # No printing through rich's lock here: the main thread may hold it.
        sys.stderr.write("\nstopping: waiting for what is being judged; once more to leave it\n")

    names = [name for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {name: signal.signal(getattr(signal, name), on_signal) for name in names}
    try:
        yield stop
    finally:
        for name, handler in before.items():
            signal.signal(getattr(signal, name), handler)


def _chosen_students(
    plan: Plan, wanted: Sequence[str], roster: Sequence[Person] | None
) -> set[str]:
    from grading.gradebook.roster import entry_of

    known = [submission.student for submission in plan.submissions]
    return {entry_of(name, known, roster or ()) for name in wanted} or set(known)


def _must_be_there(options: Options) -> None:
    if not options.source.exists():
        raise LabError(f"{options.source}: no such folder or archive of submissions")
    if options.cases is not None and not options.cases.is_dir():
        raise LabError(f"{options.cases}: no such folder of private cases")
    out, source = options.out.resolve(), options.source.resolve()
    if source.is_dir() and out.is_relative_to(source):
        raise LabError(
            f"{options.out}: lies inside the submissions and would be taken for one; choose --out "
            "outside of them"
        )


def _seed(facts: dict[str, Any], options: Options) -> int:
    """The batch's seed: kept, asked for, or drawn. Raises LabError if asked for another than kept."""
    kept = facts.get("seed")
    if kept is None:
        return 1 + secrets.randbelow(MOST_SEED) if options.seed is None else options.seed
    if options.seed not in (None, kept):
        raise LabError(
            f"{options.out}: was begun with seed {kept}, not {options.seed}; leave --seed away, or "
            "choose another --out"
        )
    return kept


def _keep_plan(
    store: Store,
    plan: Plan,
    options: Options,
    environment: dict[str, Any],
    facts: dict[str, Any],
) -> None:
    now = _now()
    asked = {
        name: str(Path(value).resolve()) if isinstance(value, Path) else value
        for name, value in dataclasses.asdict(options).items()
        if name not in ("seed", "again", "students")
    }
    store.write_plan(plan.rows())
    store.write_batch(
        {
            "course": plan.course.title,
            "seed": plan.seed,
            "begun": facts.get("begun", now),
            "last_run": now,
            "options": asked,
            "environment": environment,
            "keys": plan.facts(),
            "reported": facts.get("reported", {}),
        }
    )


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def what_changed(plan: Plan, environment: dict[str, Any], before: dict[str, Any]) -> Iterator[str]:
    """Why verdicts of the last run (its batch.json) do not hold any more, a sentence each."""
    checks = before.get("keys", {}).get("checks", {})
    new = [e.id for e in plan.exercises if checks.get(e.id, plan.checks[e.id]) != plan.checks[e.id]]
    if new:
        shown = ", ".join(new[:5]) + (f" and {len(new) - 5} more" if len(new) > 5 else "")
        yield f"since the last run the checks, or what they use, have changed: {shown}: judged anew"
    if before.get("environment", environment) != environment:
        said = keys.differences(before["environment"], environment, "then", "now")
        yield f"since the last run this machine has changed ({said}): all is judged anew"


@contextlib.contextmanager
def _staging(out: Path) -> Iterator[Path]:
    """A private folder for what was taken in; what a killed run left there is removed."""
    folder = out.resolve() / WORK / "submissions"
    shutil.rmtree(folder, ignore_errors=True)
    try:
        folder.mkdir(parents=True, mode=0o700)
    except OSError as error:
        raise StoreError(
            f"{folder}: cannot be made: {trouble(error)}; fix that or choose another --out"
        ) from None
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(OSError):
            folder.parent.rmdir()


def _read_json(file: Path) -> dict[str, str]:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def take_in(
    source: Path,
    course: Course,
    staging: Path,
    say: Callable[[str], None],
    broke_reader: dict[str, str] | None = None,
) -> list[Submission]:
    """Every submission of a folder, staged. Raises LabError if there is none, or no room for them."""
    try:
        taken = submissions.take_in(
            source,
            course,
            staging,
            notice=say,
            progress=_taking_in,
            broke_reader=broke_reader,
        )
    except OSError as error:
        raise LabError(
            f"{error.filename or source}: {trouble(error)}, while taking submissions in (nothing was "
            "lost); fix that and run the same command again"
        ) from None
    for submission in taken:
        if submission.error:
            say(f"{submission.student}: not taken: {submission.error}")
    return taken


def _taking_in(done: int, of: int) -> None:
    if sys.stderr.isatty():
        end = "\r\033[K" if done == of else ""
        sys.stderr.write(f"\rtaking in {done} of {of} submissions{end}")
        sys.stderr.flush()


# -- reports --------------------------------------------------------------------------------------


class Reports:
    """Policy, roster and a person's tables, read before hours of grading, and what is written from results."""

    def __init__(self, course: Course, policy: Path | None, roster: Path | None) -> None:
        from grading.gradebook import policy as policies
        from grading.gradebook.roster import read_roster

        self.course = course
        self.policy = policies.load(policy, course) if policy else policies.Policy()
        self.roster = read_roster(roster) if roster else None

    def policy_digest(self) -> str:
        """Tells two policies apart."""
        return hashlib.sha256(
            repr(dataclasses.replace(self.policy, source="")).encode()
        ).hexdigest()

    def open(
        self, out: Path, submissions: Sequence[Submission], say: Callable[[str], None]
    ) -> None:
        """Say what was understood of class list, dates and policy. Raises LabError for a faulty table."""
        from grading.gradebook import by_hand
        from grading.gradebook.opening import opening

        entries = [one.student for one in submissions]
        by_hand.read(out, self.policy, self.course, entries, self.roster or ())

        for line in opening(submissions, self.roster, self.policy):
            say(line)

    def write(self, results: Iterable[Result], out: Path, plan: Plan, matches: list) -> Written:
        """Write all reports. Raises OSError."""
        from grading.gradebook import reporting

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


def _write_reports(
    reports: Reports, plan: Plan, store: Store, matches: list, summary: Summary
) -> None:
    from grading.gradebook import changes

    found: list = []
    if matches:
        from grading.gradebook.similarity import Match

        found = [Match(**(m | {"students": tuple(m["students"])})) for m in matches]
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
    changed = list(changes.found(facts.get("reported", {}), reported, _now()))
    changes.append(store.out, changed)
    summary.points_changed = [str(change) for change in changed]
    store.write_batch(facts | {"needs_look": summary.needs_look, "reported": reported})


def likeness(plan: Plan, summary: Summary) -> list[dict]:
    """Which submissions are alike, as plain data; a failure is a note and stops nothing."""
    from grading.gradebook import similarity

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
    lines += [f"points changed: {one}" for one in summary.points_changed]
    if summary.needs_look:
        lines.append(f"{len(summary.needs_look)} to look at, which lack points until it is done:")
        lines += [f"  {one['who']}: {one['why']}. To do: {one['do']}" for one in summary.needs_look]
    return lines
