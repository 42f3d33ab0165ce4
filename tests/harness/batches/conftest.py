"""The course, and batches by themselves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from grading.grader.batches import batch
from profiling_lab.course import manifest
from profiling_lab.course.manifest import Course
from tests.harness.batches.small_batches import fake


@pytest.fixture(scope="module")
def course() -> Course:
    return manifest.load(Path(__file__).resolve().parents[3])


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Batches by themselves: other tests are about reports and likeness."""
    monkeypatch.setattr(batch, "likeness", lambda *_: [])
    with fake.plain_reports():
        yield
