"""The proof's own pytest plugin: tests of the course itself, overlays, runs that begin with the session.

It is in pyproject's addopts, so it imports at its start only what every run of pytest has already.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Generator
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import pytest

from grading.proof import harness_processes
from grading.runner.session import GradingSession, bound_checks, session_key
from profiling_lab import needs
from profiling_lab.course import manifest

if TYPE_CHECKING:
    from grading.proof.background_runs import BackgroundRuns

# Tests of the course itself: the proof has them, what a learner runs does not.
HARNESS = "tests/harness"
# Its functions show the manifest's totals of the exercises that a page names itself.
MANIFEST_PLACE = "labs/docs"

_here_key: pytest.StashKey[set[str]] = pytest.StashKey()
_background_key: pytest.StashKey[BackgroundRuns] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("lab proof", "the proof of the profiling lab")
    group.addoption(
        "--overlay",
        metavar="FILE",
        help="judge FILE in the place of the tree's file of the same name",
    )
    group.addoption(
        "--only-check", metavar="NAME", help="run only the check functions of this name"
    )
    group.addoption(
        "--until", metavar="TEXT", help="end once a check has failed with this in its message"
    )
    group.addoption(
        "--concerning", metavar="ID", help="run only what a change to this exercise can break"
    )


@pytest.hookimpl(trylast=True)  # after what judges has begun
def pytest_configure(config: pytest.Config) -> None:
    for marker in (
        "proof: proves the course itself; runs with --against solutions",
        "concerns(parameter): run with --concerning ID; of a parameter, for what concerns the exercise only",
        "background(kinds): asks for runs that begin with the session (grading.proof.background_runs)",
    ):
        config.addinivalue_line("markers", marker)
    if _is_whole(config):
        config.args.append(str(config.rootpath / HARNESS))


def pytest_sessionstart(session: pytest.Session) -> None:
    """A proof starts hundreds of Pythons: what one has compiled the next one reads, whatever was set."""
    if _is_proof(session.config) and os.environ.get("PYTHONDONTWRITEBYTECODE"):
        compiled = tempfile.TemporaryDirectory(prefix="lab-compiled-", ignore_cleanup_errors=True)
        session.config.add_cleanup(compiled.cleanup)
        del os.environ["PYTHONDONTWRITEBYTECODE"]
        os.environ.setdefault("PYTHONPYCACHEPREFIX", compiled.name)


def pytest_judging_begins(judging: GradingSession) -> None:
    if overlay := judging.config.getoption("--overlay"):
        judging.overlay = Path(overlay).resolve()


@pytest.hookimpl(tryfirst=True)  # what is left out needs no order
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    judging = config.stash[session_key]
    if judging.tree != judging.course.root / manifest.SOLUTIONS:
        _deselect(config, items, [item for item in items if item.get_closest_marker("proof")])
    if only := config.getoption("--only-check"):
        others = [item for item in items if only not in (item.name, item.name.split("[")[0])]
        _deselect(config, items, others)
    if identifier := config.getoption("--concerning"):
        exercise = judging.course.exercise(identifier)
        _deselect(config, items, [i for i in items if not _concerns(i, judging.course, exercise)])
    # Last what waits for runs that began with the session.
    items.sort(key=lambda item: bool(_asked(item)))


def _deselect(config: pytest.Config, items: list[pytest.Item], others: list[pytest.Item]) -> None:
    if others:
        config.hook.pytest_deselected(items=others)
        left_out = set(others)
        items[:] = [item for item in items if item not in left_out]


def _concerns(item: pytest.Item, course: manifest.Course, exercise: manifest.Exercise) -> bool:
    """Whether a change to an exercise can make a test fail.

    Its mark `concerns` says so; `concerns("page")`: for those values of the test's parameter that are of the
    exercise (its id, or that and a dash) or name a page, figure or notebook that rests on it.
    """
    marker = item.get_closest_marker("concerns")
    if marker is None or not isinstance(item, pytest.Function) or not marker.args:
        return marker is not None
    value = str(item.callspec.params[marker.args[0]])
    of_it = value == exercise.id or value.startswith(f"{exercise.id}-")
    return of_it or rests_on(course, value, exercise)


def rests_on(course: manifest.Course, page: str, exercise: manifest.Exercise) -> bool:
    """Whether a page, figure or notebook of a place shows what a change to an exercise can change.

    It does in the exercise's own folder, and where its source, or one that this takes functions from, names
    the exercise.
    """
    place = PurePosixPath(page) if not PurePosixPath(page).suffix else PurePosixPath(page).parent
    place = place.parent if place.name == "figures" else place
    own = course.lesson(exercise).parent
    if course.root / place in (own, *(course.root / stub.parent for stub in exercise.stubs)):
        return True
    sources = course.root / "scripts/lesson_sources"
    texts = [_text(sources / page if page.endswith(".md") else sources / place / "notebook.py")]
    texts.append(_text(sources / place / "lesson.py"))
    texts += [
        _text(sources / other / "lesson.py")
        for other in set(re.findall(r'\bsource\("([^"]+)"\)', "".join(texts)))
        if other != MANIFEST_PLACE
    ]
    return any(re.search(rf"\b{exercise.id}\b", text) for text in texts)


def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8") if file.is_file() else ""


def _asked(item: pytest.Item) -> list[tuple[str, str]]:
    """Kinds and name of the runs in the background that a test asks for."""
    marker = item.get_closest_marker("background")
    if marker is None or not isinstance(item, pytest.Function):
        return []
    name = str(next(iter(item.callspec.params.values())))
    return [(kind, name) for kind in marker.args]


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, Any, Any]:
    """Begin the runs that tests of this session ask for; a whole proof runs the harness's tests beside it."""
    if session.config.option.collectonly:
        return (yield)
    _begin_runs(session)
    with harness_processes.beside(session, _beside(session)):
        return (yield)


def _beside(session: pytest.Session) -> list[pytest.Item]:
    """Of a whole proof the harness's tests that wait for no run of the background."""
    if not _is_whole(session.config):
        return []
    harness = session.config.rootpath / HARNESS
    return [i for i in session.items if i.path.is_relative_to(harness) and not _asked(i)]


def _begin_runs(session: pytest.Session) -> None:
    asked = dict.fromkeys(run for item in session.items for run in _asked(item))
    here = _judged_here(session, {name for kind, name in asked if kind == "reference"})
    session.config.stash[_here_key] = here
    for name in here:
        del asked["reference", name]
    if asked:
        # The grader with all that it needs, which a learner's run does without.
        from grading.proof.background_runs import BackgroundRuns

        course = session.config.stash[session_key].course
        session.config.stash[_background_key] = BackgroundRuns(course, list(asked))


def _judged_here(session: pytest.Session, asked: set[str]) -> set[str]:
    """Of these exercises those of which this session runs every check, on the references."""
    judging = session.config.stash[session_key]
    if not asked or not _is_proof(session.config):
        return set()
    names: dict[str, set[str]] = {}
    for item in session.items:
        if task := judging.task_of(item):
            names.setdefault(task.id, set()).add(item.name.partition("[")[0])
    return {
        exercise.id
        for exercise in judging.course.exercises
        if exercise.id in asked
        and all(
            names.get(task.id) == bound_checks(judging.course.checks(task.stub), task.id)
            for task in exercise.tasks
        )
    }


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """End the session once a check has said what `--until` names."""
    done = yield
    if until := item.config.getoption("--until"):
        results = item.config.stash[session_key].score.results.values()
        if any(c.outcome == "failed" and until in c.message for r in results for c in r.checks):
            item.session.shouldfail = "a check has said what --until names"
    return done


@pytest.fixture(scope="session")
def background(pytestconfig: pytest.Config) -> Callable[[str, str], Any]:
    """`background("reference", "ex_30")`: what a run came to that a mark of this name asked for.

    A reference that this session judges anyway is not judged twice.
    """
    here, score = pytestconfig.stash[_here_key], pytestconfig.stash[session_key].score

    def ask(kind: str, name: str) -> Any:
        if kind == "reference" and name in here:
            return Run.of_score(score.to_dict(), pytestconfig.stash[session_key].course, name)
        return pytestconfig.stash[_background_key](kind, name)

    from grading.proof.prove import Run  # the grader with all that it needs

    return ask


def _is_unproved(config: pytest.Config) -> bool:
    """Whether a proof left out what an installed group would let it run."""
    missing = frozenset().union(*config.stash[session_key].lacking.values())
    return (
        _is_proof(config) and any(map(needs.group, missing)) and not config.getoption("--partial")
    )


def _is_whole(config: pytest.Config) -> bool:
    """Whether the references are judged and nobody has named what to run."""
    return config.args_source is pytest.Config.ArgsSource.TESTPATHS and _is_proof(config)


def _is_proof(config: pytest.Config) -> bool:
    """Whether the references are judged, as they are."""
    judging = config.stash[session_key]
    return judging.tree == judging.course.root / manifest.SOLUTIONS and not judging.overlay


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if _is_unproved(config):
        terminalreporter.write_line(
            "Not proved: what was not run proves nothing. Install it, or add --partial.", red=True
        )


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a proof that left something out; say of a live run on what machine it was, and what it judged."""
    judging = session.config.stash[session_key]
    options = session.config.option
    if _is_unproved(session.config) and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    if options.live and options.score_json and judging.score.results and _is_proof(session.config):
        from grading.proof import live_results  # asks the driver, and reads every check file

        judging.more_of_score["live_run"] = live_results.provenance(
            judging.course, judging.score.exercises()
        )


def pytest_unconfigure(config: pytest.Config) -> None:
    if runs := config.stash.get(_background_key, None):
        runs.close()
