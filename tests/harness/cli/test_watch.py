"""`lab watch`."""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import threading
import time

import pytest

from grading.runner.watch import run, watch_files
from grading.runner.watch_screen import Screen
from grading.runner.watcher import Recheck
from profiling_lab.course import progress
from tests.harness.cli.small_course import RIGHT_LENGTH, RIGHT_TOTAL, STUB, Lab, one_line


def test_watch_checks_what_changed(watching: tuple, capsys: pytest.CaptureFixture[str]) -> None:
    small, watcher = watching
    small.solve("length", "    return 5\n")
    tasks = watcher.changed([small.root / STUB])
    assert [task.name for task in tasks] == ["length"]
    result = watcher.check(tasks)
    assert result.outcomes == {"mini.length": "failed"}
    screen = Screen(watcher, clears=False)
    screen.show(result)
    out = capsys.readouterr().out
    assert "the end minus the start" in out
    assert "lab hint mini.length" in out
    assert screen.focus.id == "mini.length"
    screen.hint()
    assert "What is left" in capsys.readouterr().out
    small.solve("length", RIGHT_LENGTH)
    screen.show(watcher.check(watcher.changed([small.root / STUB])))
    out = capsys.readouterr().out
    assert "2 of 9 points" in out
    assert "Next: mini.total" in out
    assert watcher.changed([small.root / STUB]) == []


def test_watch_says_why_something_is_not_run(
    watching: tuple, capsys: pytest.CaptureFixture[str]
) -> None:
    _, watcher = watching
    screen = Screen(watcher, clears=False)
    why = "mini.mini_cu needs torch, which this machine lacks: uv sync --inexact --group frameworks"
    name = "mini.mini_cu"
    screen.show(Recheck({name: "not run"}, {name: [("a_check", why)]}, {name: (0, 1)}))
    assert why in " ".join(capsys.readouterr().out.split())
    assert screen.focus.id == "mini.length", "the next step is one that runs here"


def test_watch_keeps_verdicts_that_a_change_cannot_alter(watching: tuple) -> None:
    small, watcher = watching
    small.solve("length", RIGHT_LENGTH)
    small.solve("total", RIGHT_TOTAL)
    file = small.root / STUB
    watcher.check([*watcher.changed([file]), *watcher.take_pending()])
    assert watcher.verdicts["mini.total"].outcome == "passed"
    # total uses length: it waits; length does not use total: its verdict is kept.
    small.write(STUB, small.read(STUB).replace("end - start", "start - end"))
    assert [task.name for task in watcher.changed([file])] == ["length"]
    assert [task.name for task in watcher.take_pending()] == ["total"]
    small.write(STUB, small.read(STUB).replace("start - end", "end - start"))
    watcher.check([*watcher.changed([file]), *watcher.take_pending()])
    small.write(STUB, small.read(STUB).replace("sum(", "len("))
    assert [task.name for task in watcher.changed([file])] == ["total"]
    assert progress.verdicts(small.course)["mini.length"].outcome == "passed"


def test_watch_of_a_file_that_does_not_parse_for_a_while(watching: tuple) -> None:
    small, watcher = watching
    file = small.root / STUB
    small.solve("length", RIGHT_LENGTH)
    small.solve("total", RIGHT_TOTAL)
    watcher.check([*watcher.changed([file]), *watcher.take_pending()])
    good = small.read(STUB)
    small.write(STUB, good.replace("end - start", "end -"))
    result = watcher.check(watcher.changed([file]))
    assert result.outcomes == {"mini.length": "failed"}
    assert "syntax error" in result.messages["mini.length"][0][1]
    assert watcher.take_pending() == []
    small.write(STUB, good)
    assert watcher.check(watcher.changed([file])).outcomes == {"mini.length": "passed"}
    assert progress.verdicts(small.course)["mini.total"].outcome == "passed"


def test_watch_survives_code_that_ends_the_process(watching: tuple) -> None:
    small, watcher = watching
    small.solve("length", "    import os\n    os._exit(3)\n")
    result = watcher.check(watcher.changed([small.root / STUB]))
    assert result.trouble
    small.solve("length", RIGHT_LENGTH)
    assert watcher.check(watcher.changed([small.root / STUB])).outcomes == {"mini.length": "passed"}


def test_watch_sees_a_save_and_keys(watching: tuple, capsys: pytest.CaptureFixture[str]) -> None:
    small, watcher = watching
    events: queue.Queue = queue.Queue()
    stop = threading.Event()
    watched = threading.Thread(target=watch_files, args=(watcher, events, stop), daemon=True)
    watched.start()
    screen = Screen(watcher, clears=False)
    running = threading.Thread(target=run, args=(watcher, screen, events), daemon=True)
    running.start()
    try:
        small.solve("length", RIGHT_LENGTH)
        file = small.root / STUB
        for _ in range(300):  # the watcher may take a moment to begin: touch it until it has seen
            if progress.verdicts(small.course)["mini.length"].outcome == "passed":
                break
            os.utime(file)
            time.sleep(0.1)
        assert progress.verdicts(small.course)["mini.length"].outcome == "passed"
        for key in ("h", "n", "?", "q"):
            events.put(("key", key))
        running.join(30)
        assert not running.is_alive()
    finally:
        stop.set()
        watched.join(10)
    out = capsys.readouterr().out
    assert "Next: mini.total" in out
    assert "Which function do you have already?" in out
    assert "mini_cu" not in out  # needs what no machine has


def test_watch_refuses_unknown_ids(small: Lab) -> None:
    assert "did you mean mini" in one_line(small("watch", "minni"))


def test_watch_ends_quietly_when_nobody_reads(small: Lab) -> None:
    command = [sys.executable, "-m", "grading.runner.watch"]
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            command, cwd=small.root, stdout=writing, stderr=subprocess.PIPE, text=True, check=False
        )
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")
