"""Jobs that fill the machine stay on a processor each, with their workers; fewer jobs go where they like."""

from __future__ import annotations

import ast
import os

import pytest

from grading.runner import processors
from grading.runner.forkserver import ForkServer, Job
from tests.harness.forkserver.jobs import BARE, needs_fork, write

pytestmark = [pytest.mark.proof, needs_fork]

_TELLS = """
    import os
    from pathlib import Path
    def test_a(): print("on", sorted(os.sched_getaffinity(0)))
"""


def _told(server: ForkServer, file: str, jobs: int) -> list[list[int]]:
    results = server.run_all([Job([*BARE, "-s", file])] * jobs)
    assert all(result.exit_code == 0 for result in results), results[0].output
    lines = [line for result in results for line in result.output.splitlines()]
    return [ast.literal_eval(line.partition("on ")[2]) for line in lines if "on [" in line]


def test_as_many_jobs_as_processors_have_one_each(tmp_path):
    file, here = write(tmp_path, _TELLS), processors.mine()
    with ForkServer(parallel=len(here)) as server:
        told = _told(server, file, 2 * len(here))
    assert len(told) == 2 * len(here)
    assert {len(on) for on in told} == {1}
    assert {on[0] for on in told} <= set(here)


def test_places_differ_until_there_are_no_more(monkeypatch):
    monkeypatch.setattr(processors, "mine", lambda: [2, 5])
    assert processors.one_each(1) == [[]]
    assert processors.one_each(2) == [[2], [5]]
    assert processors.one_each(3) == [[2], [5], [2]]
    monkeypatch.setattr(processors, "mine", list)
    assert processors.one_each(2) == [[], []]


def test_fewer_jobs_than_processors_go_where_they_like(tmp_path, monkeypatch):
    here = processors.mine()
    monkeypatch.setattr(processors, "mine", lambda: [*here, 10_000])
    with ForkServer(parallel=len(here)) as server:
        assert _told(server, write(tmp_path, _TELLS), 1) == [here]


def test_a_processor_that_is_not_ours_changes_nothing():
    here = os.sched_getaffinity(0)
    processors.stay_on([100_000])
    assert os.sched_getaffinity(0) == here
