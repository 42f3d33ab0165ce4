"""Starts jobs in a sandbox, from any process that may open its socket.

process = start_worker(address, stream=theirs, stdout=file, stderr=file, limit_bytes=…, files={…})
done = run(address, ["nvcc", …], files={"x.cu": source}, timeout_s=60, keep=["x.o"])
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from grading.errors import SandboxError
from grading.grader.sandbox import Limits
from grading.runner import processors, wire
from grading.runner.hang_guard import PATIENCE
from grading.runner.learner_side import Connection

_BOX = "/box"
# The template may be starting anew, with all that it imports.
_START_TIMEOUT_S = 900.0
_END_TIMEOUT_S = 300.0


@dataclass(frozen=True)
class Completed:
    """How a command ended.

    returncode: minus the signal that ended it. files: those to keep that it left, by name. cause: why it was
    ended, one of `grading.runner.results.CAUSES`, "" if it ended by itself.
    """

    returncode: int
    stdout: bytes
    stderr: bytes
    files: dict[str, bytes] = field(default_factory=dict)
    cause: str = ""


class Process:
    """A worker in the sandbox. pid: a number of the sandbox's, not of this machine.

    returncode: None while it runs, then its exit code or minus the signal that ended it. cause: why the
    sandbox ended it, one of `grading.runner.results.CAUSES`, "" if it ended by itself or was killed from here.
    """

    def __init__(self, connection: Connection, pid: int, folder: str | None) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self.cause = ""
        self._connection = connection
        self._folder = folder

    def path_of(self, path: str | Path) -> Path:
        """Where a file of `files` lies, as the worker sees it: elsewhere only without protection."""
        if self._folder is None:
            return Path(_BOX) / path
        return _placed(self._folder, str(path))

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, or minus the signal that ended it.

        timeout: in seconds; past it, subprocess.TimeoutExpired. Raises SandboxError if the sandbox itself
        has ended.
        """
        if self.returncode is None:
            self._connection.deadline = None if timeout is None else time.monotonic() + timeout
            if timeout is None:
                self._connection.stream.settimeout(None)
            try:
                message = _message(self._connection)
            except TimeoutError:
                raise subprocess.TimeoutExpired("worker", timeout or 0) from None
            except SandboxError:
                self._close()
                raise
            self._close()
            _, self.returncode, self.cause = message
        return self.returncode

    def kill(self) -> None:
        """End it, and everything that it has started. Nothing happens if it has ended."""
        if self.returncode is None:
            with contextlib.suppress(OSError):
                self._connection.stream.shutdown(socket.SHUT_WR)

    def _close(self) -> None:
        if self.returncode is None:
            self.returncode = -int(signal.SIGKILL)
        self._connection.stream.close()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self._close()


def start_worker(
    address: str | Path,
    *,
    stream: socket.socket,
    stdout: Any,
    stderr: Any,
    limit_bytes: int,
    files: Mapping[str | Path, bytes] | None = None,
    visible: Iterable[Path] = (),
    fresh: bool = False,
    limits: Limits | None = None,
    environment: Mapping[str, str] | None = None,
    loopback: bool = False,
    seed: int | None = None,
) -> Process:
    """A worker (`grading.runner.learner_side`) at the other end of `stream`, writing into two open files.

    limit_bytes: the largest message. files: what is put into its file system, by path: absolute, or relative
    to its own folder. visible: the parts of the exchange folder that it sees. fresh: a new Python process
    instead of a fork of the template. environment: variables besides its own. loopback: it may use the
    internet protocols, with nobody but itself. seed: of its random generators, by default another each time.
    Raises SandboxError.
    """
    request = {
        "limit_bytes": limit_bytes,
        "visible": [os.path.realpath(part) for part in visible],
        "fresh": fresh,
        "loopback": loopback,
        "seed": seed,
        "argv": None,
        "keep": [],
    }
    descriptors = [stream.fileno(), stdout.fileno(), stderr.fileno()]
    contents = {str(path): (0o644, bytes(data)) for path, data in (files or {}).items()}
    return _start(
        str(address), request, descriptors, contents, limits or Limits(), dict(environment or {})
    )


def run(
    address: str | Path,
    argv: Sequence[str | Path],
    *,
    files: Mapping[str, bytes] | None = None,
    readable: Iterable[Path] = (),
    environment: Mapping[str, str] | None = None,
    timeout_s: float,
    keep: Iterable[str] = (),
    limits: Limits | None = None,
    visible: Iterable[Path] = (),
    loopback: bool = False,
) -> Completed:
    """Run a command in the sandbox, in an empty folder of its own, to its end.

    files: put into that folder first (or elsewhere, by absolute path), executable. readable: files and
    folders that are copied to their own paths, unless the sandbox shows them anyway. environment: variables
    besides its own. timeout_s: of processor time, of all its processes together, or PATIENCE times as long by
    the clock, for one that sleeps; then it is ended, with the cause "time-out". keep: names of files in its
    folder that are read afterwards if they are plain ones, up to limits.output_bytes in all. loopback: it may
    use the internet protocols, with nobody but itself.
    Raises SandboxError.
    """
    keep = list(keep)
    for name in keep:
        if "/" in name or name in ("", ".", ".."):
            raise ValueError(f"to be kept, a file must have a name without a folder: {name!r}")
    limits = replace(
        limits or Limits(output_bytes=64 * 2**20),
        wall_s=PATIENCE * timeout_s,
        all_cpu_s=timeout_s,
    )
    contents = {name: (0o755, bytes(data)) for name, data in (files or {}).items()}
    settings = _settings(str(address))
    for path in readable:
        contents |= _copied(os.path.abspath(path), settings)
    request = {
        "limit_bytes": 0,
        "visible": [os.path.realpath(part) for part in visible],
        "fresh": False,
        "loopback": loopback,
        "seed": None,
        "argv": [str(part) for part in argv],
        "keep": keep,
    }
    with (
        tempfile.TemporaryFile() as left,
        tempfile.TemporaryFile() as stdout,
        tempfile.TemporaryFile() as stderr,
    ):
        process = _start(
            str(address),
            request,
            [left.fileno(), stdout.fileno(), stderr.fileno()],
            contents,
            limits,
            dict(environment or {}),
        )
        try:
            process.wait(PATIENCE * timeout_s + _END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise SandboxError(
                f"the sandbox did not end a command {_END_TIMEOUT_S:.0f} s after its time was over"
            ) from None
        for file in (left, stdout, stderr):
            file.seek(0)
        kept = left.read() if not process.cause else b""
        assert process.returncode is not None
        return Completed(
            process.returncode,
            stdout.read(limits.output_bytes),
            stderr.read(limits.output_bytes),
            wire.unpack(kept) if kept else {},
            process.cause,
        )


def _start(
    address: str,
    request: dict[str, Any],
    descriptors: list[int],
    contents: dict[str, tuple[int, bytes]],
    limits: Limits,
    environment: dict[str, str],
) -> Process:
    folder = None
    home = _BOX
    settings = _settings(address)
    if settings["kind"] == "none":
        folder = home = tempfile.mkdtemp(prefix="lab-unprotected-")
        contents = {str(_placed(folder, path)): data for path, data in contents.items()}
    own = {
        "PATH": os.pathsep.join((os.path.dirname(sys.executable), "/usr/local/bin", os.defpath)),
        "HOME": home,
        "TMPDIR": "/tmp" if folder is None else folder,
        "USER": "worker",
        "LOGNAME": "worker",
        "LANG": "C.UTF-8",
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": os.pathsep.join(
            (str(Path(__file__).resolve().parents[3]), *settings["packages"])
        ),
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "POLARS_MAX_THREADS": "2",
    }
    request |= {
        "limits": asdict(limits),
        "environment": own | environment,
        "files": [[path, mode, data] for path, (mode, data) in contents.items()],
        "folder": folder,
        "processors": processors.mine(),  # the worker takes turns with this process
    }
    stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection = Connection(stream, wire.MAX_FRAME_BYTES)
    try:
        stream.settimeout(_START_TIMEOUT_S)
        try:
            stream.connect(address)
            socket.send_fds(stream, [b"j"], descriptors)
            connection.deadline = time.monotonic() + _START_TIMEOUT_S
            connection.send(wire.pack(request))
            _, pid = _message(connection)
        except TimeoutError:
            raise SandboxError(
                f"the sandbox did not answer within {_START_TIMEOUT_S:.0f} s"
            ) from None
        except OSError as error:
            raise SandboxError(f"the sandbox at {address} has ended ({error.strerror})") from None
    except BaseException:
        stream.close()
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    return Process(connection, pid, folder)


def _message(connection: Connection) -> list:
    try:
        message = wire.unpack(connection.receive())
    except TimeoutError:
        raise
    except (EOFError, OSError):
        raise SandboxError("the sandbox has ended, and with it what ran there") from None
    if message[0] == "failed":
        raise SandboxError(f"the sandbox cannot start a job: {message[1]}")
    return message


def _settings(address: str) -> dict[str, Any]:
    try:
        text = Path(address).with_name("settings.json").read_text(encoding="utf-8")
    except OSError as error:
        raise SandboxError(f"the sandbox at {address} has ended ({error.strerror})") from None
    return json.loads(text)


def _placed(folder: str, path: str) -> Path:
    """Where a file goes in a folder that stands for the whole file system."""
    return Path(folder) / path.lstrip("/")


def _copied(path: str, settings: Mapping[str, Any]) -> dict[str, tuple[int, bytes]]:
    """The files at and below a path, as they are to be written; none if the sandbox shows it."""
    shown = [*settings["readable"], *settings["links"]]
    if settings["kind"] == "none" or any(
        path == folder or path.startswith(folder + "/") for folder in shown
    ):
        return {}
    if not os.path.exists(path):
        raise SandboxError(f"{path} is to be readable in the sandbox and does not exist")
    files = [path]
    if os.path.isdir(path):
        files = [os.path.join(base, name) for base, _, names in os.walk(path) for name in names]
    return {
        file: (os.stat(file).st_mode & 0o777 | 0o444, Path(file).read_bytes())
        for file in files
        if os.path.isfile(file)
    }
