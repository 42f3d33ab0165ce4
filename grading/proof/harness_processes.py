"""The harness's own tests of a whole proof, run in processes beside the one that judges the references.

They know nothing of the session's score, so they can run anywhere. Such a process is a run of pytest like any
other: it writes each report, in pytest's own serial form, to a file, and the first process tells it as if the test
had run there.
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

MOST_PROCESSES = 4  # each holds some hundred megabytes
POLL_S = 0.1
SAID_AT_MOST = 3000  # characters of what a process that ended early has printed


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--reports-to",
        metavar="FILE",
        help="write each report to FILE, for the proof's first process",
    )


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What waits for runs in the background is the first process's."""
    if config.getoption("--reports-to"):
        items[:] = [item for item in items if item.get_closest_marker("background") is None]


class Reports:
    """The plugin of such a process: writes what becomes of each test."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._file = Path(config.getoption("--reports-to"))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A line for each report."""
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        with self._file.open("ab") as stream:
            stream.write(base64.b64encode(pickle.dumps(data)) + b"\n")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--reports-to"):
        config.pluginmanager.register(Reports(config))


class HarnessProcess:
    """The first process's view: begins the tests of items, tells their reports. A context manager."""

    def __init__(self, session: pytest.Session, items: Sequence[pytest.Item]) -> None:
        self._session = session
        self._items = {item.nodeid: item for item in items}

    def __enter__(self) -> HarnessProcess:
        self._folder = tempfile.TemporaryDirectory(prefix="lab-proof-")
        self._reports = Path(self._folder.name) / "reports"
        self._reports.touch()
        self._printed = (Path(self._folder.name) / "printed").open("w+b")
        config = self._session.config
        files = dict.fromkeys(str(item.path) for item in self._items.values())
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "pytest", *config.invocation_params.args, *files),
                *("-p", "grading.proof.harness_processes", "--reports-to", str(self._reports)),
                *("-p", "no:cacheprovider"),
            ],
            stdin=subprocess.DEVNULL,
            stdout=self._printed,
            stderr=subprocess.STDOUT,
            cwd=config.invocation_params.dir,
        )
        return self

    def __exit__(self, *exc: object) -> None:
        self._process.terminate()
        self._process.wait()
        self._printed.close()
        self._folder.cleanup()

    def tell(self) -> None:
        """Tell what became of the tests, until all are told; fails the session if one is not."""
        left = dict(self._items)
        for report in self._read():
            if item := left.get(report.nodeid):
                self._tell(item, report)
                if report.when == "teardown":
                    del left[report.nodeid]
            if self._session.shouldfail:
                raise self._session.Failed(self._session.shouldfail)
        if left:
            self._printed.seek(0)
            printed = self._printed.read().decode("utf-8", "replace")[-SAID_AT_MOST:]
            missing = f"{len(left)} tests did not run beside the others:\n{printed}"
            self._session.shouldfail = missing
            raise self._session.Failed(missing)

    def _read(self) -> Iterator[pytest.TestReport]:
        hook = self._session.config.hook
        with self._reports.open("rb") as stream:
            begun = b""
            ended = False
            while not ended:
                ended = self._process.poll() is not None  # what it has written is there, then
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
    """Run items in processes of their own while the session's others run here; told when those are done.

    Whole files, dealt out one by one: many wait for what they have started, so there is one process a core.
    """
    others = set(items)
    session.items[:] = [item for item in session.items if item not in others]
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    processes = min(os.cpu_count() or 1, MOST_PROCESSES)
    hands = [list(files.values())[number::processes] for number in range(processes)]
    with contextlib.ExitStack() as stack:
        begun = [
            stack.enter_context(HarnessProcess(session, [item for file in hand for item in file]))
            for hand in hands
            if hand
        ]
        yield
        for one in begun:
            one.tell()
