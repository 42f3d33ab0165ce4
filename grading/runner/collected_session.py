"""Sessions of pytest that stand ready: configured, and their checks collected, once for many jobs.

All that comes before the first check is the same for every submission, and costs as much as a short
exercise's checks. A session that stands ready is forked from the template, reads the check files, and then
forks itself for each job: the fork takes over the job's options and runs the checks. It has never run a
line of a submission, starts no thread, and what a job changes ends with the job.

It also keeps what checks compute alike for every submission (`grading.runner.computed_once`).
"""

from __future__ import annotations

import gc
import os
import socket
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from _pytest.tmpdir import TempPathFactory

from grading.runner import computed_once, plugin
from grading.runner.fork_per_job import Forked, serve


class Ready:
    """The plug-in that makes a session stand ready: forks of it run the checks, it never does.

    stream: where jobs come in, as `serve` takes them; closed at once if the session cannot stand ready.
    """

    def __init__(self, stream: socket.socket) -> None:
        self._stream = stream

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Any:
        """Fork for each job; returns only in a fork."""
        if session.testsfailed or _threads() > 1:  # a thread would not survive a fork
            os._exit(0)
        # The first job's folder ends with that job, and what is computed here may need one.
        os.environ.pop("TMPDIR", None)
        tempfile.tempdir = None
        for item in session.items:
            item.location  # noqa: B018 -- each report has it, and pytest keeps it
        computed_once.learn_from_forks()
        gc.collect()
        gc.freeze()
        sys.stdout.flush()
        try:
            serve(self._stream, Path.cwd(), computed_once.compute_what_was_asked_for)
        except Forked as job:
            job.enter(job.descriptor)
            _take_over(session, job.argv)
            return None
        os._exit(0)


def _threads() -> int:
    try:
        return len(os.listdir("/proc/self/task"))
    except OSError:
        return 1


def _take_over(session: pytest.Session, own: list[str]) -> None:
    """Give a session the options of a job."""
    config = session.config
    for argument in own:
        name, _, value = argument.partition("=")
        name = name.lstrip("-").replace("-", "_")
        if not hasattr(config.option, name):
            raise pytest.UsageError(f"{argument}: no such option")
        setattr(config.option, name, value)
    config._tmp_path_factory = TempPathFactory.from_config(config, _ispytest=True)  # type: ignore[attr-defined]
    plugin.begin_anew(session)
