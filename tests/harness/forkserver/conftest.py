"""A fork server for the tests of a file."""

from __future__ import annotations

import pytest

from grading.runner.forkserver import ForkServer
from tests.harness.forkserver.jobs import forks


@pytest.fixture(scope="module")
def forking():
    with ForkServer(mode="fork" if forks else "subprocess") as server:
        yield server
