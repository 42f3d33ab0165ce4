"""Grades a class: takes submissions in, judges what has no verdict yet, keeps results, writes reports.

A batch lives in its output folder (`grading.grader.batches.store`). Whatever ends it, running it again goes on from
there: a unit with a verdict under the same key is not judged again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import json
import secrets
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grading.gradebook import by_hand
from grading.gradebook.roster import entry_of, join, names_of
from grading.grader.batches import keys
from grading.grader.batches.engines import Engine, JudgeSpec, Local, Unit, without_judge
from grading.grader.batches.plans import Plan, choose, kept_plan, make_plan, what_changed
from grading.grader.batches.progress import Progress
from grading.grader.batches.reports import (
    Reports,
    Summary,
    likeness,
    summarise,
    timestamp,
    write_reports,
)
from grading.grader.batches.slurm import Slurm
from grading.grader.batches.staging import read_json, staging_folder, take_in
from grading.grader.batches.store import WORK, Store, read_batch, write_whole
from grading.runner.preload import in_turn, modules
from grading.runner.results import Result
from profiling_lab import needs
from profiling_lab.course.manifest import Course
from profiling_lab.errors import LabError

if TYPE_CHECKING:
    from grading.gradebook.roster import Person

MATCHES = "likeness.json"
BROKE_READER = "refused_archives.json"
MOST_SEED = 99_999  # that checks draw from (grading.checks.fixtures)


@dataclass(frozen=True)
class Options:
    """What an instructor asks for. exercises, cases, policy and roster: if left out, those of the folder's last run.

    students: whom to judge now; all if empty. exercises: all if empty in the first run.
    seed: of what the checks draw; None takes the batch's own, or draws one. again: judge also what has a verdict.
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


class Stopped(Exception):
    """The instructor stopped the batch (Ctrl-C, or a signal); what was judged is kept."""

    def __init__(self, left: int) -> None:
        super().__init__(f"{left} exercises are left")
        self.left = left


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
    options = _with_last_run(options, say)
    exercises = choose(course, options.exercises)
    reports = Reports(course, options.policy, options.roster)
    _must_be_there(options)
    with Store(options.out) as store:
        for note in store.notes:
            say(note)
        facts = store.batch()
        seed = _seed(facts, options)
        store.make_sure_of_room(results=0, students=1)
        with staging_folder(options.out) as staging:
            known = read_json(options.out / BROKE_READER)
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
        write_reports(reports, plan, store, matches, summary)
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
        write_reports(reports, plan, store, matches, summary)
    return summary


def write_sheet(course: Course, out: Path, policy: Path | None = None) -> Path:
    """Write the table in which a person enters points; what is entered already stays. Raises LabError."""
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
        people = reports.roster or ()
        known = join(people, entries).by_entry
        names = {e: names_of(known[e], people) if e in known else e for e in entries}
        by_hand.read(out, reports.policy, course, entries, people)
        write_whole(out / by_hand.SHEET, [by_hand.sheet(out, reports.policy, names, people)])
    return out / by_hand.SHEET


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
    waiting = in_turn(waiting, lambda unit: modules(unit.exercise, live=options.live))
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
    summary.judged, summary.again = keeper.judged, keeper.again
    summary.changed = sorted(keeper.changed)
    summary.seconds = (datetime.datetime.now(datetime.UTC) - started).total_seconds()
    return summary


class _Keeper:
    """Keeps results as they come, and shows how far the batch is."""

    def __init__(self, store: Store, plan: Plan, remaining: Counter[str], options: Options) -> None:
        self.store = store
        self.progress = Progress(dict(remaining), submissions=len(plan.submissions))
        self.judged = 0
        self.again = 0
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
            self.again += both
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
    known = [submission.student for submission in plan.submissions]
    return {entry_of(name, known, roster or ()) for name in wanted} or set(known)


def _with_last_run(options: Options, say: Callable[[str], None]) -> Options:
    """Exercises, cases, policy and class list that were left out: those of the folder's last run, and says so.

    One student judged again without them would take late rules, texts and names from the whole class.
    """
    last = read_batch(options.out).get("options", {})
    kept: dict[str, Any] = {}
    if last.get("exercises") and not options.exercises:
        kept["exercises"] = tuple(last["exercises"])
    for name in ("cases", "policy", "roster"):
        if last.get(name) and getattr(options, name) is None:
            kept[name] = Path(last[name])
    if kept:
        words = [f"--exercise {name}" for name in kept.get("exercises", ())]
        words += [f"--{name} {path}" for name, path in kept.items() if name != "exercises"]
        all_of_them = "; for all exercises: --exercise ." if "exercises" in kept else ""
        say(f"as in the last run: {' '.join(words)}{all_of_them}")
    return dataclasses.replace(options, **kept)


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
    now = timestamp()
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
