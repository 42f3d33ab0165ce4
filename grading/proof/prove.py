"""Prove that the checks are right: stubs are todo, the reference passes, mistakes are caught.

Every run of checks happens in a child that is forked from a template with pytest and the libraries that the
exercise needs already imported (`grading.runner.forkserver`), so that proving an exercise takes seconds.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grading.runner.forkserver import ForkServer, Job
from grading.runner.preload import modules, of_needs
from profiling_lab.course import mistakes, stubs
from profiling_lab.course.manifest import Course, Exercise
from profiling_lab.course.mistakes import Mistake

EXAMPLES = "tests/harness/lesson_examples.py"
# Imports outside of functions; a kernel's file tries whether there is what it imports.
_IMPORTED_AT_ONCE = re.compile(r"^(?:try:\n +)?(?:import|from) (\w+)", re.MULTILINE)


@dataclass(frozen=True)
class Run:
    """One run of checks: its score as plain data, what pytest printed, and how long it took."""

    tasks: dict[str, dict[str, Any]]
    output: str
    seconds: float
    exit_code: int

    @classmethod
    def of_score(cls, score: dict[str, Any], course: Course, identifier: str) -> Run:
        """The part of a score, as `Score.to_dict` gives it, that is of one exercise."""
        ids = {task.id for task in course.exercise(identifier).tasks}
        tasks = {name: result for name, result in score["tasks"].items() if name in ids}
        said = [check["message"] for result in tasks.values() for check in result["checks"]]
        return cls(tasks, "\n".join(filter(None, said)), 0.0, 0)

    def outcomes(self) -> dict[str, str]:
        """Outcome of every check, by `task::check`."""
        return {
            f"{task}::{check['name']}": check["outcome"]
            for task, result in self.tasks.items()
            for check in result["checks"]
        }

    def messages(self) -> dict[str, str]:
        """The message of every check that did not pass, by `task::check`."""
        return {
            f"{task}::{check['name']}": check["message"]
            for task, result in self.tasks.items()
            for check in result["checks"]
            if check["message"]
        }


class Prover:
    """Runs checks in forked children. Use as a context manager.

    All runs draw the same generated captures: what is proved is that a mistake can be told, and a
    mistake that happens to be right on one drawing would only make the proof waver. The
    references meet fresh drawings in every session of their own.
    """

    seed = "7"

    def __init__(self, course: Course) -> None:
        self.course = course
        self._exercise_of = {
            str(course.checks(stub)): exercise
            for exercise in course.exercises
            for stub in exercise.stubs
        }
        cores = os.cpu_count() or 1
        self.parallel = min(cores, 8)
        self.server = ForkServer(parallel=self.parallel)
        self._scratch = tempfile.TemporaryDirectory(prefix="lab-proof-")
        self._numbers = itertools.count(1)

    def __enter__(self) -> Prover:
        self.server.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self.server.__exit__(*exc)
        self._scratch.cleanup()

    def run(
        self,
        tests: list[str],
        *,
        tree: Path | None = None,
        overlay: Path | None = None,
        check: str = "",
        until: str = "",
        isolated: bool = False,
        arguments: tuple[str, ...] = (),
        preload: tuple[str, ...] | None = None,
    ) -> Run:
        """Run checks (paths or node ids) against a tree, the reference by default.

        check: only the check function of this name. until: no further one once this is in a failure's message. May be called from several threads.
        """
        score = Path(self._scratch.name) / f"score-{next(self._numbers)}.json"
        argv = [
            *tests,
            *("-q", "--tb=short", "--capture=sys"),
            *("-p", "no:cacheprovider"),
            *("-p", "no:unraisableexception"),  # collects garbage at the end, five times
            *("-p", "no:logging"),  # with torch imported, a fifth of a run
            f"--rootdir={self.course.root}",
            *(["--isolated"] if isolated else []),
            *arguments,
        ]
        own = [
            # With "=": pytest takes a folder that stands alone for a path to tests.
            f"--against={tree or self.course.root / 'solutions'}",
            f"--score-json={score}",
            *([f"--overlay={overlay}"] if overlay else []),
            *([f"--only-check={check}"] if check else []),
            *([f"--until={until}"] if until else []),
        ]
        if preload is None:
            exercises = (self._exercise_of.get(test.partition("::")[0]) for test in tests)
            preload = tuple(dict.fromkeys(m for one in exercises if one for m in modules(one)))
        job = Job(argv, self.course.root, {"LAB_SEED": self.seed}, own=own, preload=preload)
        result = self.server.run(job)
        tasks = json.loads(score.read_text())["tasks"] if score.exists() else {}
        score.unlink(missing_ok=True)
        return Run(tasks, result.output, result.seconds, result.exit_code)

    def run_examples(self, page: str) -> Run:
        """Run the examples of a page, named from the course's root."""
        argv = [
            *(EXAMPLES, "-q", "--tb=short", "-W", "error", "-p", "no:cacheprovider"),
            f"--rootdir={self.course.root}",
        ]
        names = self.modules_of(page)
        result = self.server.run(Job(argv, self.course.root, {"LAB_PAGE": page}, preload=names))
        return Run({}, result.output, result.seconds, result.exit_code)

    def modules_of(self, page: str) -> tuple[str, ...]:
        """The modules that a template imports for the examples of a page: of the frameworks that it imports."""
        text = (self.course.root / page).read_text(encoding="utf-8")
        return of_needs(re.findall(r"^(?:import|from) (\w+)", text, re.MULTILINE))

    def check_files(self, exercise: Exercise) -> list[str]:
        """The check files of an exercise."""
        return [str(self.course.checks(stub)) for stub in exercise.stubs]

    def run_mistake(self, mistake: Mistake, *, isolated: bool = False) -> Run:
        """Run the check that must catch a mistake, on it."""
        checks = str(self.course.checks(mistake.stub))
        file = self._file_of(mistake)
        return self.run(
            [checks],
            overlay=file,
            check=mistake.caught_by,
            until=mistake.says,
            isolated=isolated,
            preload=self.modules_of_mistake(mistake),
        )

    def modules_of_mistake(self, mistake: Mistake) -> tuple[str, ...]:
        """The modules that a template imports for a mistake: none if neither its task nor its file needs any.

        A fork of a template with torch takes 45 ms more than one of a template without.
        """
        task = self.course.task(mistake.task)
        if not (of_needs(task.needs) or of_needs(_IMPORTED_AT_ONCE.findall(mistake.source))):
            return ()
        return modules(self.course.exercise(task.exercise))

    def _file_of(self, mistake: Mistake) -> Path:
        if mistake.stub.suffix == ".py":
            folder = Path(self._scratch.name) / f"mistake-{next(self._numbers)}"
            folder.mkdir()
            file = folder / mistake.stub.name
            file.write_text(mistake.source, encoding="utf-8")
            return file
        from grading.checks.cuda import toolchain  # for CUDA alone

        sources = {m.slug: m.source for m in mistakes.read(self.course, mistake.stub)}
        return toolchain.write_siblings(mistake.stub.name, sources)[mistake.slug]

    def stub_tree(self, exercise: Exercise, folder: Path) -> Path:
        """A tree with the generated stubs of an exercise, and what stands beside them."""
        for path, text in stubs.generate(self.course, exercise).items():
            target = folder / path.relative_to(self.course.root)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
        return folder


def verdict_on(mistake: Mistake, run: Run) -> str:
    """Why a mistake was not caught as it should be; "" if it was; "not run" if it could not be tried."""
    outcomes = {
        name.split("::")[1].split("[")[0]: outcome for name, outcome in run.outcomes().items()
    }
    if not outcomes:
        return f"{mistake.slug}: {mistake.caught_by} did not run:\n{run.output}"
    found = set(run.outcomes().values())
    if found == {"not run"}:
        return "not run"
    if "failed" not in found:
        return f"{mistake.slug} is not caught by {mistake.caught_by}: {run.outcomes()}"
    if not any(mistake.says in message for message in run.messages().values()):
        said = f"{mistake.caught_by} says {run.messages()}, not {mistake.says!r}"
        return f"{mistake.slug}: {said}"
    return ""
