"""Where a submission's code runs: a template process in a sandbox, and a job forked for each request.

`open_sandbox` starts it and gives an address; judges use `grading.grader.sandbox.client` with the address. What
a job can see and do is described in `grading.grader.sandbox.template`.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from grading.errors import SandboxError, SandboxUnavailable
from grading.grader.sandbox import kinds
from grading.grader.sandbox.kinds import KINDS, LAUNCHER, require_linux, strongest
from grading.grader.sandbox.view import ROOT, copies, packages, view
from grading.runner.scratch import new_folder, remove

_sandboxes = itertools.count()
_START_TIMEOUT_S = 900.0  # with torch, a machine with nothing else to do takes eight
_STARTS = 3  # in a row that fail, then the sandbox is given up
_ENVIRONMENT = {
    "LANG": "C.UTF-8",
    # torch asks for the user's name when it is imported, and this user has none.
    "USER": "worker",
    "LOGNAME": "worker",
    "PYTHONHASHSEED": "0",  # so that the same submission does the same each time
    "PYTHONDONTWRITEBYTECODE": "1",
    # One thread in the template, see `grading.runner.forkserver`.
    "_RJEM_MALLOC_CONF": "background_thread:false",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "POLARS_MAX_THREADS": "2",
}


@dataclass(frozen=True)
class Limits:
    """Of one job.

    memory_bytes: of all its processes together, pages that they share counted once. processes: at a time
    (threads: four times as many). wall_s: from start to end. cpu_s: of each process; all_cpu_s: of all
    together. box_bytes: of all files that it writes. output_bytes: of stdout and stderr together, and of the files that it hands back.
    open_files: of each process.
    """

    memory_bytes: int = 4 * 2**30
    processes: int = 64
    wall_s: float = 900.0
    cpu_s: float = 600.0
    all_cpu_s: float = math.inf
    box_bytes: int = 256 * 2**20
    output_bytes: int = 16 * 2**20
    open_files: int = 256


def open_sandbox(
    kind: str = "auto",
    *,
    readable: Iterable[Path] = (),
    instead: Mapping[Path, Path] | None = None,
    exchange: Path,
    preload: Sequence[str] = (),
    scratch: Path | None = None,
    devices: Sequence[Path] = (),
) -> Sandbox:
    """A sandbox, started; close it, or use it as a context manager.

    kind: "bubblewrap", "namespaces" (the same without its help), "none" (no protection at all), or "auto",
    the strongest. readable: files and folders
    that jobs see, read-only, at their own paths. instead: folders at whose paths jobs see another folder, unless
    there is no protection. exchange: a folder of which a job sees one part. preload:
    modules imported once, those that are not installed left out. scratch: where its own files go. devices:
    device files of GPUs that jobs may use.
    Raises SandboxUnavailable; SandboxError if it does not start.
    """
    require_linux()
    if kind not in ("auto", "none", *KINDS):
        raise SandboxUnavailable(
            f"no sandbox of the kind {kind!r}: there are {', '.join(KINDS)}, none"
        )
    if kind != "none":
        best = strongest()
        if kind != "auto" and (why := kinds.why_not(kind)):
            raise SandboxUnavailable(f"{why}; {best} works here")
        kind = best if kind == "auto" else kind
    return Sandbox(kind, readable, instead or {}, exchange, preload, scratch, devices)


class Sandbox:
    """A running sandbox. kind: of which sort. address: the path of its socket, for `client`."""

    def __init__(
        self,
        kind: str,
        readable: Iterable[Path],
        instead: Mapping[Path, Path],
        exchange: Path,
        preload: Sequence[str],
        scratch: Path | None,
        devices: Sequence[Path],
    ) -> None:
        self.kind = kind
        self.restarts = 0
        self._uid = _own_uid() if kind != "none" and os.geteuid() == 0 else 0
        self._exchange = Path(os.path.realpath(exchange))
        self._preload = [*_NEEDED, *preload]
        self._devices = [str(device) for device in devices]
        if devices:  # the driver's library looks there
            readable = [*readable, Path("/sys")]
        self._links, self._readable = view([*readable, *instead])
        for path in self._readable:
            nested = self._exchange.is_relative_to(path) or Path(path).is_relative_to(
                self._exchange
            )
            if kind != "none" and nested:
                raise SandboxError(
                    f"the exchange folder {self._exchange} and the readable {path} lie inside each other: a job "
                    "would see what is another's"
                )
        settings = {
            "kind": kind,
            "uid": self._uid,
            "own_uid": os.getuid(),
            "own_gid": os.getgid(),
            "readable": self._readable,
            "links": self._links,
            "exchange": str(self._exchange),
            "devices": self._devices,
            "preload": self._preload,
            "packages": packages(),
        }
        self._settings = json.dumps(settings)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._folder = _private_folder(scratch)
            # What is shown at a path, where it is not what lies there.
            self._sources = copies(self._readable, self._folder / "files") if kind != "none" else {}
            self._sources |= {os.path.abspath(path): str(other) for path, other in instead.items()}
            (self._folder / "settings.json").write_text(self._settings, encoding="utf-8")
            self.address = str(self._folder / "socket")
            self._listener.bind(self.address)
        except OSError as error:
            self._listener.close()
            raise SandboxError(f"the sandbox has no place for its files: {error}") from None
        self._listener.listen(128)
        self._log = self._folder / "log"
        self._closing = threading.Event()
        self._ready = threading.Event()
        self._failure = ""
        self._lifeline: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        # bubblewrap ends with the thread that started it, so that thread lives as long as this object.
        self._thread = threading.Thread(target=self._keep_running, name="sandbox", daemon=True)
        self._thread.start()
        try:
            self._ready.wait()
            if self._failure:
                raise SandboxError(self._failure)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @property
    def is_open(self) -> bool:
        """Whether it takes jobs: neither closed nor given up."""
        return not (self._failure or self._closing.is_set())

    def describe(self) -> str:
        """One sentence for the instructor: what protects, and what does not."""
        if self.kind == "none":
            return (
                "No sandbox: submissions run as you, with your files and your network; only their memory, "
                "time and output are limited."
            )
        who = "an unused user id" if self._uid else "your user id in a user namespace"
        return (
            f"{self.kind}: each submission runs as {who}, without network, in a process tree and a file system "
            "of its own, read-only but for a small box in memory, with limits on memory, processes, time and "
            "output; the kernel is shared, and so are the processors."
        )

    def close(self) -> None:
        """End every job and the template, and remove the socket."""
        self._closing.set()
        with contextlib.suppress(OSError):
            self._listener.close()
        if self._lifeline is not None:
            with contextlib.suppress(OSError):
                self._lifeline.shutdown(socket.SHUT_RDWR)
        self._thread.join(10)
        remove(self._folder)

    # --- the template's life ---------------------------------------------------------------------

    def _keep_running(self) -> None:
        failed = 0
        while not self._closing.is_set():
            try:
                self._run_template()
                failed = 0
            except SandboxError as error:
                failed += 1
                if not self._ready.is_set() or failed >= _STARTS:
                    self._failure = str(error)
                    self._listener.close()  # who asks from here on is refused
                    Path(self.address).unlink(missing_ok=True)
                    self._ready.set()
                    return
            self.restarts += 1

    def _run_template(self) -> None:
        """Start a template and wait for its end. Raises SandboxError if it does not start."""
        ours, theirs = socket.socketpair()
        with ours, theirs, open(self._log, "ab") as log:
            passed = [self._listener.fileno(), theirs.fileno()]
            process = subprocess.Popen(
                self._command(passed),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                pass_fds=passed,
                env=_ENVIRONMENT if self.kind == "none" else {},
                start_new_session=True,
                cwd="/",
            )
            theirs.close()
            self._process, self._lifeline = process, ours
            try:
                assert process.stdin is not None
                with contextlib.suppress(OSError), process.stdin:
                    if self.kind == "namespaces":
                        process.stdin.write(self._for_launcher(passed))
                    process.stdin.write(self._settings.encode())
                ours.settimeout(_START_TIMEOUT_S)
                try:
                    said = ours.recv(2**16)
                except TimeoutError:
                    said = b""
                if b"\n" not in said:
                    if self._closing.is_set():
                        return
                    raise SandboxError(f"the sandbox does not start: {self._last_words()}")
                self._ready.set()
                ours.settimeout(None)
                ours.recv(1)
            finally:
                # The template ends when its end of the lifeline does; what is left of it goes with it.
                with contextlib.suppress(OSError):
                    ours.shutdown(socket.SHUT_RDWR)
                try:
                    process.wait(2)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()

    def _last_words(self) -> str:
        text = self._log.read_text(encoding="utf-8", errors="replace").strip()
        return "\n".join(text.splitlines()[-8:]) or "it said nothing"

    def _for_launcher(self, descriptors: Sequence[int]) -> bytes:
        stage = self._folder / "root"
        stage.mkdir(exist_ok=True)
        settings = {
            "argv": self._template(descriptors),
            "environment": _ENVIRONMENT,
            "links": self._links,
            "readable": {
                path: self._sources.get(path, path)
                for path in (*self._readable, str(self._exchange))
            },
            "devices": self._devices,
            "stage": str(stage),
        }
        return json.dumps(settings).encode() + b"\n"

    def _template(self, descriptors: Sequence[int]) -> list[str]:
        template = [sys.executable, "-u", "-P", "-s", "-c", _BOOT]
        # The folder of the course comes last: it is there for this package and the library alone.
        template.append(os.pathsep.join((*packages(), str(ROOT))))
        template += map(str, descriptors)
        return template

    def _command(self, descriptors: Sequence[int]) -> list[str]:
        if self.kind == "none":
            return self._template(descriptors)
        if self.kind == "namespaces":
            return [sys.executable, "-I", str(LAUNCHER)]
        program = shutil.which("bwrap")
        assert program is not None
        command = [program, "--die-with-parent", "--new-session", "--clearenv"]
        command += ["--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts"]
        command += ["--unshare-cgroup-try", "--hostname", "sandbox", "--cap-drop", "ALL"]
        if self._uid:
            for capability in ("SYS_ADMIN", "SETUID", "SETGID", "SETPCAP"):
                command += ["--cap-add", f"CAP_{capability}"]
        else:
            command += ["--unshare-user"]
        for name, value in _ENVIRONMENT.items():
            command += ["--setenv", name, value]
        # The template's own; a job sees another. Some modules keep a cache there when they are imported.
        command += ["--perms", "1777", "--tmpfs", "/tmp", "--dir", "/job"]
        for path, target in self._links.items():
            command += ["--symlink", target, path]
        shown = [*self._readable, str(self._exchange)]
        # What bubblewrap makes by itself on the way to a folder is for its own user alone.
        for folder in sorted({str(above) for path in shown for above in Path(path).parents}):
            if folder not in ("/", "/tmp"):
                command += ["--dir", folder]
        for path in shown:
            command += ["--ro-bind", self._sources.get(path, path), path]
        command += ["--dev", "/dev", "--proc", "/proc"]
        for device in self._devices:
            command += ["--dev-bind", device, device]
        command += ["--remount-ro", "/dev", "--remount-ro", "/"]
        return [*command, "--chdir", "/", "--", *self._template(descriptors)]


_NEEDED = ("msgspec",)
_BOOT = (
    "import os, sys; sys.path += [p for p in sys.argv.pop(1).split(os.pathsep) if p not in sys.path]; "
    "from grading.grader.sandbox.template import main; main()"
)


def _private_folder(scratch: Path | None) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="lab-sandbox-", dir=scratch))
    if len(os.fsencode(folder)) > 90:  # the address of a UNIX socket has 107 bytes
        folder.rmdir()
        folder = new_folder("lab-sandbox-", Path("/tmp"))
    return folder


def _own_uid() -> int:
    """A user id that nobody has: it owns no file here, and limits of a user hold for it alone."""
    extents = []
    with open("/proc/self/uid_map", encoding="ascii") as file:
        for line in file:
            first, _, count = map(int, line.split())
            extents.append((count, first))
    count, first = max(extents)
    if count > 2_000_000_000:
        return 1_900_000_000 + (os.getpid() * 16 + next(_sandboxes) % 16) % 50_000_000
    return first + count - 2 - os.getpid() % max(count // 8, 1)  # in a container with few ids
