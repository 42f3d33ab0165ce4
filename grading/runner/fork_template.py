"""The process that `grading.runner.forkserver` forks children from: what it imports, and what a child does."""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib
import os
import socket
import sys
import tempfile
import traceback
from typing import NoReturn

from grading.runner import worker_processes
from grading.runner.fork_per_job import Forked, serve


def _pytest_modules() -> list[str]:
    """What every run of pytest imports at its start."""
    from _pytest.config import default_plugins

    return [f"_pytest.{name}" for name in default_plugins if name != "pytester"]


def _run(job: Forked) -> int:
    """Run pytest; its exit code."""
    import pytest  # needed in the template only

    # The grader's workers are the sandbox's.
    zygotes = "--isolated" in job.argv and "grading.grader.plugin" not in job.argv
    if job.kind == b"r":
        from grading.runner.collected_session import Ready  # with pytest, as above

        job.enter(os.open(os.devnull, os.O_RDWR))
        if zygotes:
            worker_processes.start_zygotes(without=job.descriptor)
        return int(pytest.main(job.argv, [Ready(socket.socket(fileno=job.descriptor))]))
    job.enter(job.descriptor)
    if zygotes:
        worker_processes.start_zygotes()
    return int(pytest.main(job.argv))


def _be(job: Forked) -> NoReturn:
    """Do what a forked child is for, and end: it must never go on as a template."""
    code = 70
    try:
        code = _run(job)
    except BaseException:  # noqa: BLE001 -- whatever it is, the exit code tells
        traceback.print_exc()
    if exports := sys.modules.get("profiling_lab.captures.exports"):
        with contextlib.suppress(Exception):
            exports.remove_scratch()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(code)


def main() -> None:
    parser = argparse.ArgumentParser(description="forks pytest runs from a template")
    parser.add_argument("--fd", type=int, required=True)
    parser.add_argument("modules", nargs="*")
    options = parser.parse_args()
    os.set_inheritable(options.fd, False)
    for module in (*options.modules, *_pytest_modules()):
        with contextlib.suppress(ModuleNotFoundError):
            importlib.import_module(module)
    # Nothing that is here now becomes garbage in a child: without this its collector walks through
    # all of it, and each page that it touches is copied (0.3 s a job with torch loaded).
    gc.collect()
    gc.freeze()
    # Children keep the compiled check files for each other, in a place that goes with the template.
    with tempfile.TemporaryDirectory(
        prefix="lab-compiled-", ignore_cleanup_errors=True
    ) as compiled:
        sys.pycache_prefix, sys.dont_write_bytecode = compiled, False
        try:
            serve(socket.socket(fileno=options.fd))
        except Forked as job:
            _be(job)
    # What is frozen is never freed, and some libraries (nanobind's) print a list of it at the end.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
