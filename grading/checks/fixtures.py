"""Fixtures that check files share: the seed of a session, recordings, generated and drawn captures.

    @task("ex_30.busy_time")
    @recordings("decode_eager", "decode_graph")
    def test_recorded(stub, recording): ...         # runs once a recording

    @task("ex_30.busy_time")
    def test_generated(stub, generated):
        scenario = generated("nested_gaps")         # a capture with numbers that nobody saw before

    @task("ex_30.busy_time")
    def test_drawn(stub, draw):
        timeline = draw()                           # a capture with times that pencil and paper suffice for
        timeline.kernel(0, 100_000)
        stub.busy_time(timeline.save())

A session draws its seed anew; `LAB_SEED=<number>` repeats a session. With `--recording FILE` the checks
that take a recording run on that file instead of the course's own.
"""

from __future__ import annotations

# Imported late: this is a plugin of every run of pytest, and most generate nothing.
import os
import re
import secrets
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from grading.runner.computed_once import kept
from grading.runner.disguise import disguised, meant
from grading.runner.scoring import NotGraded
from profiling_lab import captures
from profiling_lab.errors import CaptureError

if TYPE_CHECKING:
    from grading.checks.generate import Scenario
    from grading.checks.generate.drawn_timeline import Timeline

SEED_VARIABLE = "LAB_SEED"
MOST_SEED = 99_999


def recordings(*names: str, holding: str | None = None) -> pytest.MarkDecorator:
    """Run a check that takes the fixture `recording` on each of these captures of the course.

    holding: a file that the check needs. On a capture of the learner's own without it the check is
    not run; a capture of the course without it is an error of the course.
    """
    return pytest.mark.recordings(*names, holding=holding)


@pytest.fixture(autouse=True)
def _holds_what_is_judged(request: pytest.FixtureRequest, pytestconfig: pytest.Config) -> None:
    marker = request.node.get_closest_marker("recordings")
    holding = marker and marker.kwargs.get("holding")
    own = pytestconfig.getoption("--recording")
    if own and holding and "recording" in request.fixturenames:
        try:
            captures.file(own, holding)
        except CaptureError:
            raise NotGraded("not run", f"{Path(own).name} holds no {holding}") from None


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("lab", "the profiling lab").addoption(
        "--recording",
        metavar="FILE",
        help="run the checks that judge a recording on FILE, a capture of your own",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "recordings(*names): the captures that a check runs on")
    given = os.environ.get(SEED_VARIABLE, "")
    if given and not (given.isdecimal() and int(given) <= MOST_SEED):
        raise pytest.UsageError(f"{SEED_VARIABLE}={given}: not a whole number up to {MOST_SEED}")
    config.stash[_seed_key] = int(given) if given else secrets.randbelow(MOST_SEED) + 1


_seed_key = pytest.StashKey[int]()


def pytest_report_header(config: pytest.Config) -> str:
    seed = config.stash[_seed_key]
    return f"generated captures: seed {seed} ({SEED_VARIABLE}={seed} repeats them)"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "recording" not in metafunc.fixturenames:
        return
    marker = metafunc.definition.get_closest_marker("recordings")
    if marker is None:
        raise pytest.UsageError(f"{metafunc.definition.nodeid}: names no @recordings(…)")
    own = metafunc.config.getoption("--recording")
    if own:
        file = os.path.abspath(own)
        metafunc.parametrize("recording", [file], ids=[Path(file).stem])
    else:
        metafunc.parametrize("recording", marker.args)


@pytest.fixture(scope="session")
def seed(pytestconfig: pytest.Config) -> int:
    """The number that all random choices of this session come from."""
    return pytestconfig.stash[_seed_key]


@pytest.fixture(scope="session")
def own_recording(pytestconfig: pytest.Config) -> bool:
    """Whether `recording` is a capture of the learner's own, of which nothing is known beforehand."""
    return bool(pytestconfig.getoption("--recording"))


@kept
def generated_capture(name: str, number: int, **options: Any) -> tuple[Scenario, bytes]:
    """A scenario and its capture, which is nowhere any more."""
    from grading.checks.generate import SCENARIOS

    with tempfile.TemporaryDirectory() as folder:
        scenario = SCENARIOS[name](seed=number, folder=folder, **options)
        return scenario, scenario.path.read_bytes()


@pytest.fixture(scope="session")
def generated(seed: int, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Scenario]:
    """`generated("nested_gaps")`: a scenario of `grading.checks.generate`, made once a session.

    `nth` gives further captures of the same scenario; other options are those of `export.write`.
    In messages the file is named after scenario and seed.
    """
    made: dict[tuple[Any, ...], Scenario] = {}

    def generate(name: str, nth: int = 0, **options: Any) -> Scenario:
        key = name, nth, *sorted(options.items())
        if key not in made:
            scenario, data = generated_capture(name, seed + nth * (MOST_SEED + 1), **options)
            name = f"{disguised(scenario.path.stem)}.sqlite"
            path = tmp_path_factory.mktemp("generated") / name
            path.write_bytes(data)
            made[key] = replace(scenario, path=path)
        return made[key]

    return generate


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """pytest's, under a name that does not tell the learner's code which check asks."""
    return tmp_path_factory.mktemp(disguised(request.node.name), numbered=False)


@pytest.fixture
def draw(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Timeline]:
    """`draw()`: an empty `Timeline` to put operations into."""
    from grading.checks.generate.drawn_timeline import Timeline

    return lambda: Timeline(tmp_path_factory.mktemp("drawn") / "drawn.sqlite")


def repeat_hint(capture: str) -> str:
    """How to repeat a check on a generated capture, from what its name means; "" for others."""
    found = re.search(r"_(\d+)\.sqlite$", meant(capture))
    if not found:
        return ""
    return f" (generated; {SEED_VARIABLE}={int(found[1]) % (MOST_SEED + 1)} repeats it)"
