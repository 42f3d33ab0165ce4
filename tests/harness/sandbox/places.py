"""A sandbox with what lies around it, and what else its tests share."""

from __future__ import annotations

import os
import socket
import sys
import tempfile
import textwrap
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from grading.grader.sandbox import Limits, client, open_sandbox
from grading.grader.sandbox.kinds import why_not
from grading.runner import wire
from grading.runner.learner_side import Connection
from grading.runner.scoring import NotGraded

ROOT = Path(__file__).resolve().parents[3]

SECRET = "SECRET-of-the-instructor"
needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="Linux's system calls")
SMALL = Limits(
    memory_bytes=300 * 2**20,
    processes=8,
    wall_s=30,
    box_bytes=8 * 2**20,
    output_bytes=2**20,
)


@dataclass
class Ended:
    """How a job ended: what its function returned or raised, its exit code, the cause."""

    returned: object
    code: int
    cause: str
    printed: bytes = b""


class Place:
    """A sandbox with what lies around it."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.course = folder / "course"
        self.given = self.course / "week" / "given"
        self.given.mkdir(parents=True)
        (self.given / "header.h").write_text("given")
        (self.given / "deeper").mkdir()
        (self.given / "deeper" / "data").write_text("deep")
        self.single = folder / "single" / "header.h"
        self.single.parent.mkdir()
        self.single.write_text("single")
        (self.course / "solutions").mkdir()
        (self.course / "solutions" / "x.py").write_text(SECRET)
        self.exchange = folder / "exchange"
        for name in ("one", "two"):
            (self.exchange / name).mkdir(parents=True, mode=0o700)
            (self.exchange / name / "capture").write_text(f"of {name}")
        self.sandbox = open_sandbox(
            kind,
            readable=[self.given, self.single, ROOT / "profiling_lab"],
            exchange=self.exchange,
            preload=["numpy"],
            scratch=folder,
        )

    def start(self, text: str, **options):
        """A worker that has loaded this text: its process, the connection, what it prints."""
        ours, theirs = socket.socketpair()
        options.setdefault("limits", SMALL)
        files = {"stub.py": textwrap.dedent(text).encode(), **options.pop("files", {})}
        printed = tempfile.TemporaryFile()  # noqa: SIM115 -- the caller's
        with theirs:
            process = client.start_worker(
                self.sandbox.address,
                stream=theirs,
                stdout=printed,
                stderr=printed,
                limit_bytes=2**24,
                files=files,
                **options,
            )
        connection = Connection(ours, 2**24)
        connection.deadline = time.monotonic() + 1800
        connection.send(wire.pack(["load", str(process.path_of("stub.py")), "stub", [], 60.0]))
        assert wire.unpack(connection.receive())[0] == "loaded"
        return process, connection, printed

    def job(self, body: str, **options) -> Ended:
        """Run the body of a function in a job of its own, to its end."""
        text = "def f():\n" + textwrap.indent(textwrap.dedent(body), "    ")
        process, connection, printed = self.start(text, **options)
        with printed, connection.stream:
            returned: object = None
            try:
                connection.send(wire.pack(["call", "f", "f()", [], {}]))
                kind, form = wire.unpack(connection.receive())
                returned = wire.from_wire(form) if kind == "return" else form["message"]
            except (EOFError, OSError) as error:
                returned = error
            connection.stream.close()
            code = process.wait(1800)
            printed.seek(0)
            return Ended(returned, code, process.cause, printed.read(2000))

    def processes(self) -> set[int]:
        """All that live in the sandbox, the template and bubblewrap's own among them."""
        return descendants(self.sandbox._process.pid)


def descendants(pid: int) -> set[int]:
    found = {pid}
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = task.read_text().split()
        except OSError:
            continue
        for child in children:
            found |= descendants(int(child))
    return found


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def eventually(condition, seconds: float = 600.0) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def need(kind: str) -> None:
    """Say that a test is not run where this kind of sandbox does not work."""
    if why := why_not(kind) if sys.platform == "linux" else "sandboxes are Linux's":
        raise NotGraded("not run", why)


def opened(folder: Path, kind: str):
    need(kind)
    os.environ["LAB_TEST_SECRET"] = SECRET
    try:
        place = Place(folder, kind)
        with place.sandbox:
            yield place
    finally:
        os.environ.pop("LAB_TEST_SECRET", None)
