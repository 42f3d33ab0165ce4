"""`lab` in a small course, outside of one, and beside captures that are drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from grading.checks.generate import SCENARIOS
from grading.runner.forkserver import ForkServer
from grading.runner.watcher import Watcher
from tests.harness.cli.small_course import (
    CHECK_FILE,
    CHECKS,
    CUDA,
    CUDA_REFERENCE,
    HINTS,
    MANIFEST,
    PYPROJECT,
    REFERENCE,
    STUB,
    Lab,
)

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    out = Lab(tmp_path / "course")
    out.write("course.toml", MANIFEST)
    out.write("pyproject.toml", PYPROJECT)
    out.write(Path("solutions") / STUB, REFERENCE)
    out.write(Path("solutions") / CUDA, CUDA_REFERENCE)
    out.write(CHECKS, CHECK_FILE)
    out.write(STUB.parent / "hints.md", HINTS)
    out.write(STUB.parent / "README.md", "# How long?\n")
    monkeypatch.chdir(out.root)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert out("dev", "stub", "mini").exit_code == 0
    return out


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    made: dict[tuple, Path] = {}

    def make(name: str, seed: int = 7, **options: object) -> Path:
        key = name, seed, *sorted(options.items())
        if key not in made:
            folder = tmp_path_factory.mktemp("captures")
            made[key] = SCENARIOS[name](seed=seed, folder=folder, **options).path
        return made[key]

    return make


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    monkeypatch.chdir(tmp_path)
    return Lab(tmp_path)


@pytest.fixture
def watching(small: Lab) -> Iterator[tuple[Lab, object]]:
    with ForkServer(parallel=1) as server:
        course = small.course
        yield small, Watcher(course, course.tasks.values(), server)
