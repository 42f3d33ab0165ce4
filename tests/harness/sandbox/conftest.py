"""Sandboxes of each kind."""

from __future__ import annotations

import sys

import pytest

from grading.grader.sandbox import KINDS
from grading.grader.sandbox.kinds import why_not
from tests.harness.sandbox.places import need, opened


@pytest.fixture(params=KINDS)
def kind(request) -> str:
    """Each kind of sandbox."""
    need(request.param)
    return request.param


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """The strongest sandbox that works here: without bubblewrap all tests run, and prove the other kind."""
    works = [kind for kind in KINDS if sys.platform == "linux" and not why_not(kind)]
    yield from opened(tmp_path_factory.mktemp("sandbox"), (*works, *KINDS)[0])


@pytest.fixture(scope="module")
def place_without_bubblewrap(tmp_path_factory):
    yield from opened(tmp_path_factory.mktemp("sandbox"), "namespaces")
