"""The harness's own tests of a whole proof, run in processes beside the one that judges the references.

They know nothing of the session's score, so they can run anywhere. Such a process is a run of pytest like any
other, except that it takes up one file after the other of those that no process has taken up. It writes each
report, in pytest's own serial form, to a file, and the first process tells it as if the test had run there.
"""

from __future__ import annotations

import base64
import contextlib
import os
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from grading.runner.session import session_key

# These take longest: begun first, so that no process works on one of them when all else is done.
LONGEST = ("test_attacks.py", "test_book.py", "test_notebooks.py", "test_lesson_plots.py")
MOST_PROCESSES = 4  # each holds some hundred megabytes
POLL_S = 0.1
SAID_AT_MOST = 3000  # characters of what a process has printed


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--reports-to",
        metavar="FILE",
        help="run the files that no process beside this one has taken up, and write each report to FILE",
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--reports-to"):
        config.pluginmanager.register(HarnessProcess(config))


class HarnessProcess:
    """The plugin of such a process: takes up files, and writes what becomes of each test."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._reports = Path(config.getoption("--reports-to"))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run the tests of the files that no other process has taken up, file by file."""
        files: dict[Path, list[pytest.Item]] = {}
        for item in session.items:
            files.setdefault(item.path, []).append(item)
        for number, items in enumerate(files.values()):
            if self._takes_up(number):
                for item, following in zip(items, [*items[1:], None], strict=True):
                    self._config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                    if session.shouldfail:
                        raise session.Failed(session.shouldfail)
                    if session.shouldstop:
                        raise session.Interrupted(session.shouldstop)
        return True

    def _takes_up(self, number: int) -> bool:
        """Whether this process is the first to take up the file of this number."""
        try:
            self._reports.with_name(f"taken-up-{number}").touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """What waits for runs in the background is the first process's."""
        items[:] = [item for item in items if item.get_closest_marker("background") is None]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A line for each report."""
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        with self._reports.open("ab") as stream:
            stream.write(base64.b64encode(pickle.dumps(data)) + b"\n")


class HarnessProcesses:
    """The first process's view: begins processes for the tests of items, tells their reports. A context manager.

    Many of these tests wait for what they have started, so there is one process more than cores.
    """

    def __init__(self, session: pytest.Session, items: Sequence[pytest.Item]) -> None:
        self._session = session
        self._left = {item.nodeid: item for item in items}
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> HarnessProcesses:
        self._folder = Path(
            self._stack.enter_context(tempfile.TemporaryDirectory(prefix="lab-proof-"))
        )
        files = sorted(
            dict.fromkeys(item.path for item in self._left.values()),
            key=lambda file: LONGEST.index(file.name) if file.name in LONGEST else len(LONGEST),
        )
        count = min((os.cpu_count() or 1) + 1, MOST_PROCESSES, len(files))
        self._processes = [self._begin(self._folder / f"reports-{n}", files) for n in range(count)]
        return self

    def _begin(self, reports: Path, files: list[Path]) -> tuple[Path, subprocess.Popen[bytes]]:
        reports.touch()
        config = self._session.config
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "pytest", *config.invocation_params.args),
                *("-p", "grading.proof.harness_processes", "--reports-to", str(reports)),
                *("-p", "no:cacheprovider", *map(str, files)),
            ],
            stdin=subprocess.DEVNULL,
            stdout=self._stack.enter_context(reports.with_suffix(".printed").open("wb")),
            stderr=subprocess.STDOUT,
            cwd=config.invocation_params.dir,
        )
        self._stack.callback(process.wait)
        self._stack.callback(process.terminate)
        return reports, process

    def __exit__(self, *exc: object) -> None:
        self._stack.close()

    def tell(self) -> None:
        """Tell what became of the tests, until all are told; fails the session if one is not."""
        for reports, process in self._processes:
            for report in self._read(reports, process):
                if item := self._left.get(report.nodeid):
                    self._tell(item, report)
                    if report.when == "teardown":
                        del self._left[report.nodeid]
                if self._session.shouldfail:
                    raise self._session.Failed(self._session.shouldfail)
        if self._left:
            said = [
                reports.with_suffix(".printed").read_text("utf-8", "replace")[-SAID_AT_MOST:]
                for reports, _ in self._processes
            ]
            missing = "\n".join([f"{len(self._left)} tests did not run beside the others:", *said])
            self._session.shouldfail = missing
            raise self._session.Failed(missing)

    def _read(self, reports: Path, process: subprocess.Popen[bytes]) -> Iterator[pytest.TestReport]:
        hook = self._session.config.hook
        with reports.open("rb") as stream:
            begun = b""
            ended = False
            while not ended:
                ended = process.poll() is not None  # what it has written is there, then
                for line in iter(stream.readline, b""):
                    begun += line
                    if begun.endswith(b"\n"):
                        data: dict[str, Any] = pickle.loads(base64.b64decode(begun))
                        begun = b""
                        yield hook.pytest_report_from_serializable(
                            config=self._session.config, data=data
                        )
                if not ended:
                    time.sleep(POLL_S)

    def _tell(self, item: pytest.Item, report: pytest.TestReport) -> None:
        hook = item.ihook
        if report.when == "setup":
            hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        missing = getattr(report, "lab_missing", ())
        self._session.config.stash[session_key].note_lacking(item.nodeid, missing)
        hook.pytest_runtest_logreport(report=report)
        if report.when == "teardown":
            hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)


@contextlib.contextmanager
def beside(session: pytest.Session, items: Sequence[pytest.Item]) -> Iterator[None]:
    """Run items in processes of their own while the session's others run here; told when those are done."""
    others = set(items)
    session.items[:] = [item for item in session.items if item not in others]
    with HarnessProcesses(session, items) as processes:
        yield
        processes.tell()
