"""Runs of the proof that begin with the session."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from grading.proof.background_runs import BackgroundRuns, _Room, processes
from grading.proof.prove import Run
from profiling_lab.course import manifest

pytestmark = pytest.mark.proof  # it is the proof that uses it

ROOT = Path(__file__).resolve().parents[2]


def test_what_cannot_be_run_is_said_where_it_is_asked_for() -> None:
    asked = [("mistake", "no such mistake"), ("no such kind", "ex_30")]
    background = BackgroundRuns(manifest.load(ROOT), asked[:1])
    assert background._process.pid in processes
    try:
        for kind, name in [*asked, *asked]:
            with pytest.raises(KeyError, match="no such"):
                background(kind, name)
    finally:
        background.close()
    assert background._process.returncode == 0
    assert background._process.pid not in processes


def test_there_is_room_for_so_many_at_a_time() -> None:
    room, entered, leave = _Room(1), threading.Semaphore(0), threading.Event()
    inside = []

    def run() -> None:
        with room:
            inside.append(1)
            entered.release()
            leave.wait()

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    entered.acquire()
    assert len(inside) == 1
    room.set(3)
    entered.acquire()
    entered.acquire()
    assert len(inside) == 3
    leave.set()
    for thread in threads:
        thread.join()
    assert len(inside) == 4


def test_tests_that_wait_for_runs_come_last() -> None:
    listed = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "tests/harness/test_proof.py", "-k", "scaling_ex01"),
            *("--against=solutions", "--collect-only", "-q", "-p", "no:cacheprovider"),
        ],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
    )
    names = [line for line in listed.stdout.splitlines() if "::" in line]
    background = ("reference_earns", "stub_is_todo", "is_caught", "verdicts_are")
    waits = [any(words in name for words in background) for name in names]
    assert set(waits) == {False, True}, listed
    assert waits == sorted(waits)


def test_of_a_score_a_run_holds_one_exercise() -> None:
    course = manifest.load(ROOT)
    checks = [{"name": "test_x", "outcome": "failed", "message": "19, not 20"}]
    names = ("scaling_ex01.throughput", "scaling_ex02.speedup")
    score = {"tasks": {name: {"outcome": "failed", "checks": checks} for name in names}}
    run = Run.of_score(score, course, "scaling_ex01")
    assert run.outcomes() == {"scaling_ex01.throughput::test_x": "failed"}
    assert run.output == "19, not 20"
