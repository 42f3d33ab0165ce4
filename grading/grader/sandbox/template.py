"""The inside of a sandbox: a process that has the libraries imported and forks a job for each request.

It runs in what bubblewrap, or `grading.grader.sandbox.launch`, has made: no network, no processes but its own, and of the machine's files
only those that a job needs, read-only. It listens on the socket that it has inherited, reads nothing
from a connection, starts no thread and no query, and never runs a line of a submission. A connection
is a job:

    template    forks the job's first process, watches memory, time, output and the requester, kills,
                and reports the end and its cause. What it gets from a job are numbers and descriptors
    init        pid 1 of the job, in user, pid, mount, network, ipc and host name namespaces of its
                own: reads the request, builds the job's file system, gives up every right, forks the
                worker and reaps. When it ends, the kernel ends whatever is left in the job
    worker      `grading.runner.learner_side`, or the command of `client.run`

On a connection, in frames of msgpack: from the requester, a byte with three descriptors (the worker's
stream, or the file for what a command leaves; stdout; stderr) and the request; to it, ["started", pid] or
["failed", why] from init, then ["ended", code, cause] from the template.
"""

# Long because a sandbox shows its own code to jobs file by file, and this is what runs inside of it.

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import math
import os
import random
import resource
import select
import signal
import socket
import stat
import sys
import tempfile
import time
import traceback
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, NoReturn

from grading.grader.sandbox import kernel
from grading.runner import processors, wire
from grading.runner.learner_side import Connection
from grading.runner.learner_side import run as run_worker

POLL_S = 0.02
BOX = "/box"
JOB_UID = 1000
_STAGE = "/job"  # where a job's file system is put together; made by who built this one

_SETUP_S = 60.0  # for a requester to say what it wants, and for the job's file system
_OWN_NEEDS = ("faulthandler", "random", "secrets", "tempfile", "numpy.random")


def main() -> None:
    """Be the template: settings come as JSON on stdin, two descriptors as arguments."""
    listener = socket.socket(fileno=int(sys.argv[1]))
    lifeline = socket.socket(fileno=int(sys.argv[2]))
    for kept in (listener, lifeline):
        kept.set_inheritable(False)
    settings = json.loads(sys.stdin.read())
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.close(nothing)
    if settings["kind"] != "none":
        _become_nobody(settings)
    tempfile.tempdir = "/tmp"  # libraries ask for it; no job sees this one
    loaded = []
    for name in (*_OWN_NEEDS, *settings["preload"]):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
            loaded.append(name)
    # Nothing that is here now becomes garbage in a job: its collector need not touch these pages.
    gc.collect()
    gc.freeze()
    with contextlib.suppress(OSError):
        kernel.use_huge_pages()  # a fork takes a third of the time
    lifeline.sendall(json.dumps({"ready": loaded}).encode() + b"\n")
    _serve(listener, lifeline, settings)
    os._exit(0)


def _become_nobody(settings: Mapping[str, Any]) -> None:
    if os.getuid() == 0 and settings["uid"]:
        # bubblewrap covers parts of /proc when root runs it, and a job may then not have its own.
        flags = kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC
        kernel.mount("proc", "/proc", "proc", flags)
        # Else what root keeps to itself, as pytest does with its folders, is not for a job to read.
        with contextlib.suppress(OSError):
            kernel.show_as_own(settings["exchange"], settings["uid"])
        os.setgroups([])
        os.setresgid(*[settings["uid"]] * 3)
        os.setresuid(*[settings["uid"]] * 3)
        kernel.die_with_parent()  # forgotten with the old user
    kernel.drop_capabilities()
    kernel.set_dumpable(True)  # else /proc/self belongs to root, and a job cannot map its user
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _serve(listener: socket.socket, lifeline: socket.socket, settings: Mapping[str, Any]) -> None:
    """Start and watch jobs until the other end of the lifeline closes."""
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_read, False)
    os.set_blocking(wake_write, False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake_write)
    descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))
    own = [wake_read, wake_write, listener.fileno(), lifeline.fileno()]
    jobs: dict[int, _Job] = {}
    waiting = select.poll()
    for source in (listener, lifeline, wake_read):
        waiting.register(source, select.POLLIN)
    looked = time.monotonic()
    while True:
        ready = {number for number, _ in waiting.poll(POLL_S * 1000 if jobs else None)}
        if lifeline.fileno() in ready:
            return
        if wake_read in ready:
            os.read(wake_read, 4096)
            for pid, status in _ended():
                if pid in jobs:
                    job = jobs.pop(pid)
                    waiting.unregister(job.connection)
                    waiting.unregister(job.channel)
                    job.report(status)
        for job in jobs.values():
            if job.connection.fileno() in ready:
                job.end("killed")  # asked to, or there is nobody any more who could ask
            if job.channel.fileno() in ready and not job.listen():
                waiting.unregister(job.channel)
                waiting.register(job.channel, 0)
        if time.monotonic() - looked >= POLL_S:
            for job in jobs.values():
                job.check()
            looked = time.monotonic()
        if listener.fileno() in ready:
            try:
                job = _start(listener, settings, [*own, *_descriptors(jobs.values())])
            except OSError:  # no memory, no descriptors: whoever asked sees the connection close
                traceback.print_exc()
                continue
            jobs[job.init] = job
            waiting.register(job.connection, select.POLLRDHUP)  # what it says is for init
            waiting.register(job.channel, select.POLLIN)


def _ended() -> Iterator[tuple[int, int]]:
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            yield ended[0], os.waitstatus_to_exitcode(ended[1])


def _start(listener: socket.socket, settings: Mapping[str, Any], not_for_jobs: list[int]) -> _Job:
    connection, _ = listener.accept()
    ours, theirs = socket.socketpair()
    ours.settimeout(5.0)
    protected = settings["kind"] != "none"
    init = kernel.fork_into_namespaces(_NAMESPACES) if protected else os.fork()
    if init == 0:
        code = 70
        try:
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGCHLD, signal.SIGINT):
                signal.signal(number, signal.SIG_DFL)
            for descriptor in (*not_for_jobs, ours.detach()):
                os.close(descriptor)
            code = _Init(connection, theirs, settings).run()
        except BaseException:  # noqa: BLE001 -- a job must never go on as a template
            traceback.print_exc()
        finally:
            os._exit(code)
    theirs.close()
    return _Job(init, connection, ours, protected)


_NAMESPACES = (
    kernel.CLONE_NEWUSER
    | kernel.CLONE_NEWPID
    | kernel.CLONE_NEWNS
    | kernel.CLONE_NEWNET
    | kernel.CLONE_NEWIPC
    | kernel.CLONE_NEWUTS
    | kernel.CLONE_NEWCGROUP
)


# What limits of a single process do.
_BY_SIGNAL = {int(signal.SIGXCPU): "time-out", int(signal.SIGXFSZ): "oversized output"}


# --- the watch over a job -------------------------------------------------------------------------


class _Job:
    """What the template knows of a job."""

    def __init__(
        self, init: int, connection: socket.socket, channel: socket.socket, protected: bool
    ) -> None:
        self.init = init
        self.connection = connection
        self.channel = channel
        self.protected = protected
        self.limits: dict[str, Any] = {"wall_s": _SETUP_S}
        self.started = time.monotonic()
        self.proc = -1
        self.outputs: list[int] = []
        self.code: int | None = None
        self.cause = ""
        self.failure = ""

    def listen(self) -> bool:
        """Take what init says: that the job is ready, its end. False once there is no more."""
        connection = Connection(self.channel, 4096)
        try:
            head, descriptors, _, _ = socket.recv_fds(self.channel, 1, 3)
            if not head:
                return False
            message = wire.unpack(connection.receive())
        except (EOFError, OSError, wire.WireError):
            return False
        if descriptors:
            self.limits, self.started = message, time.monotonic()
            self.proc, *self.outputs = descriptors
        elif isinstance(message, str):
            self.failure = message
        else:
            self.code = message
        return True

    def check(self) -> None:
        """End the job if it has passed a limit."""
        if not self.cause and self.code is None and (cause := self._excess()):
            self.end(cause)

    def end(self, cause: str) -> None:
        """End every process of the job."""
        self.cause = self.cause or cause
        if not self.protected:
            _kill_below(self.init)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.init, signal.SIGKILL)

    def report(self, status: int) -> None:
        """Once init has ended, how it did: tell the requester, and forget the job."""
        while self.listen():
            pass
        if self.outputs:  # else it has not begun, and init has said why
            killed = -int(signal.SIGKILL)
            cause = self.cause or self._excess_of_output()
            if not cause and self.code is not None:
                cause = _BY_SIGNAL.get(-self.code, "")
            if not cause and self.code is None and status == killed:
                cause = "memory"  # nobody but the kernel, short of it, ends a job's init
            if not cause and self.code is None and not self.failure:
                cause = "crash"  # the job has begun, so whatever ended its first process was in it
            message = ["ended", killed if cause else self.code, "" if cause == "killed" else cause]
            if self.failure and not cause:
                message = ["failed", self.failure]
            self.connection.settimeout(1.0)
            with contextlib.suppress(OSError):
                Connection(self.connection, wire.MAX_FRAME_BYTES).send(wire.pack(message))
        self.connection.close()
        self.channel.close()
        for descriptor in (self.proc, *self.outputs):
            if descriptor >= 0:
                os.close(descriptor)

    def _excess(self) -> str:
        if time.monotonic() - self.started >= self.limits["wall_s"]:
            return "time-out"
        if not self.outputs:
            return ""
        return self._excess_of_output() or self._excess_of_processes()

    def _excess_of_output(self) -> str:
        written = 0
        for descriptor in self.outputs:
            status = os.fstat(descriptor)
            written += max(status.st_size, status.st_blocks * 512 - 4096)
        return "oversized output" if written > self.limits["output_bytes"] else ""

    def _excess_of_processes(self) -> str:
        if self.protected:
            pids = [name for name in os.listdir(self.proc) if name.isdigit() and name != "1"]
        else:
            pids = list(map(str, _descendants(self.init)))
        if len(pids) > self.limits["processes"]:
            return "processes"
        if self.limits["all_cpu_s"] < math.inf:
            first = ["1"] if self.protected else [str(self.init)]  # it has reaped what others left
            if sum(map(self._computed_s, [*first, *pids])) >= self.limits["all_cpu_s"]:
                return "time-out"
        limit = self.limits["memory_bytes"]
        resident = {pid: self._resident(pid) for pid in pids}
        if sum(resident.values()) <= limit:
            return ""
        # Pages that several processes share count once.
        exact = sum(self._share(pid, at_most) for pid, at_most in resident.items())
        return "memory" if exact > limit else ""

    def _computed_s(self, pid: str) -> float:
        """Processor time of a process and of those that it has reaped."""
        try:
            fields = self._read(f"{pid}/stat").rpartition(b")")[2].split()
        except OSError:
            return 0.0
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")

    def _resident(self, pid: str) -> int:
        try:
            return int(self._read(f"{pid}/statm").split()[1]) * resource.getpagesize()
        except (OSError, IndexError):
            return 0

    def _share(self, pid: str, at_most: int) -> int:
        try:
            for line in self._read(f"{pid}/smaps_rollup").splitlines():
                if line.startswith(b"Pss:"):
                    return int(line.split()[1]) * 1024
        except OSError:
            pass
        return at_most

    def _read(self, name: str) -> bytes:
        descriptor = os.open(name, os.O_RDONLY, dir_fd=self.proc)
        try:
            return os.read(descriptor, 65536)
        finally:
            os.close(descriptor)


def _descriptors(jobs: Iterable[_Job]) -> Iterator[int]:
    for job in jobs:
        yield from (job.connection.fileno(), job.channel.fileno())
        if job.outputs:
            yield from (job.proc, *job.outputs)


def _descendants(pid: int) -> list[int]:
    found = []
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            text = Path(f"/proc/{pid}/task/{task}/children").read_text(encoding="ascii")
            for child in map(int, text.split()):
                found += [*_descendants(child), child]
    return found


def _kill_below(pid: int) -> None:
    for descendant in _descendants(pid):
        with contextlib.suppress(OSError):
            os.kill(descendant, signal.SIGKILL)


# --- pid 1 of a job -------------------------------------------------------------------------------


class _Init:
    def __init__(
        self, connection: socket.socket, channel: socket.socket, settings: Mapping[str, Any]
    ) -> None:
        self.connection = connection
        self.channel = channel
        self.settings = settings
        self.protected = settings["kind"] != "none"

    def run(self) -> int:
        requester = Connection(self.connection, wire.MAX_FRAME_BYTES)
        try:
            head, descriptors, _, _ = socket.recv_fds(self.connection, 1, 3)
            if len(head) + len(descriptors) < 4:
                return 0
            self.descriptors = descriptors
            self.request = wire.unpack(requester.receive())
            processors.stay_on(self.request["processors"])
            number = int(os.readlink("/proc/self"))
            self._prepare()
            requester.send(wire.pack(["started", number]))
        except (EOFError, ConnectionError):
            return 0
        except Exception as error:  # noqa: BLE001 -- told to the requester
            requester.send(wire.pack(["failed", f"{type(error).__name__}: {error}"]))
            return 0
        self.connection.close()
        worker = os.fork()
        if worker == 0:
            self._be_worker()
        for descriptor in self.descriptors[1:]:
            os.close(descriptor)
        code = self._reap_until(worker)
        if self.protected:
            with contextlib.suppress(OSError):  # nothing may still write into what is read now
                os.kill(-1, signal.SIGKILL)
        else:
            _kill_below(os.getpid())
        if self.request["argv"]:
            files = _kept(Path(BOX if self.protected else self.request["folder"]), self.request)
            try:
                with open(self.descriptors[0], "wb") as file:
                    file.write(wire.pack(files))
            except OSError as error:  # no room where the requester wants them
                self._tell(f"what a command left could not be kept: {error.strerror}", [])
                return 0
        self._tell(code, [])
        return 0

    def _prepare(self) -> None:
        with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")  # if memory runs out after all, the jobs go first
        request, limits = self.request, self.request["limits"]
        if self.protected:
            uid = self.settings["uid"] or self.settings["own_uid"]
            gid = self.settings["uid"] or self.settings["own_gid"]
            kernel.map_user(JOB_UID, uid, gid)
            socket.sethostname("sandbox")
            if request["loopback"]:
                kernel.raise_loopback()
            build_root(self.settings, request)
        else:
            kernel.adopt_orphans()
            for path, mode, data in request["files"]:
                _write(Path(path), mode, data)
            os.chdir(request["folder"])
        proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)
        self._tell(limits, [proc, *self.descriptors[1:]])
        os.close(proc)
        _set_limits(limits, gpu=bool(self.settings["devices"]), own_uid=self.protected)
        if self.protected:
            kernel.set_dumpable(False)
            kernel.drop_capabilities()
            # What is written to a GPU is what it is asked to do; and the driver names its threads, in files
            # of /proc that Landlock cannot tell from the rest, so there only the kernel's own rules hold.
            devices = self.settings["devices"]
            kernel.write_only_below(
                [BOX, "/tmp", "/dev/shm", "/dev/null", *devices],
                existing=["/proc"] if devices else [],
            )
            kernel.filter_system_calls(kernel.seccomp_program(internet=request["loopback"]))

    def _tell(self, what: Any, descriptors: list[int]) -> None:
        socket.send_fds(self.channel, [b"m"], descriptors)
        Connection(self.channel, 4096).send(wire.pack(what))

    def _reap_until(self, worker: int) -> int:
        while True:
            pid, status = os.waitpid(-1, 0)
            if pid == worker:
                return os.waitstatus_to_exitcode(status)

    def _be_worker(self) -> None:
        import faulthandler

        request = self.request
        try:
            os.setsid()
            kernel.set_dumpable(True)
            self.channel.close()
            nothing = os.open(os.devnull, os.O_RDONLY)
            for place, descriptor in enumerate((nothing, *self.descriptors[1:])):
                os.dup2(descriptor, place)
            last = 2
            if not request["argv"]:
                last = os.dup2(self.descriptors[0], 3)
                os.set_inheritable(last, bool(request["fresh"]))
            os.closerange(last + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
            os.environ.clear()
            os.environ.update(request["environment"])
            if request["argv"] or request["fresh"]:
                _become(request["argv"] or _fresh_worker(last, request["limit_bytes"]))
            for name, place in (("stdout", 1), ("stderr", 2)):
                text = os.fdopen(os.dup(place), "w", encoding="utf-8", errors="replace")
                text.reconfigure(line_buffering=True, write_through=True)
                setattr(sys, name, text)
                setattr(sys, f"__{name}__", text)
            sys.stdin = sys.__stdin__ = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
            signal.signal(signal.SIGINT, signal.default_int_handler)
            faulthandler.enable(2)
            _forget_template(request["seed"])
            limit_bytes = request["limit_bytes"]
            self.__dict__.clear()
            request.clear()
            run_worker(socket.socket(fileno=3), limit_bytes)
        except BaseException:  # noqa: BLE001 -- the last thing that it does
            traceback.print_exc()
        finally:
            os._exit(70)


def _become(argv: list[str]) -> NoReturn:
    """Run a program instead of this one."""
    for number in range(1, signal.NSIG):  # Python ignores SIGPIPE, programs do not
        with contextlib.suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_DFL)
    try:
        os.execvpe(argv[0], argv, dict(os.environ))
    except OSError as error:
        os.write(2, f"{argv[0]}: {error.strerror}\n".encode())
    os._exit(127)


def _fresh_worker(descriptor: int, limit_bytes: int) -> list[str]:
    return [
        *(
            sys.executable,
            "-u",
            "-P",
            "-s",
            "-X",
            "faulthandler",
            "-m",
            "grading.runner.learner_side",
        ),
        *("--fd", str(descriptor), "--limit-bytes", str(limit_bytes)),
    ]


def _forget_template(seed: int | None) -> None:
    """What a new process would have anew: random states, the folder for temporary files."""
    tempfile.tempdir = None
    if seed is None:
        seed = int.from_bytes(os.urandom(8), "big")
    random.seed(seed)
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None:
        numpy.random.seed(seed % 2**32)
    if torch is not None:
        torch.default_generator.manual_seed(seed % 2**63)


def _set_limits(limits: Mapping[str, Any], *, gpu: bool, own_uid: bool) -> None:
    """Limits of each process; those of the whole job are watched by the template."""

    def limit(which: int, soft: int, hard: int | None = None) -> None:
        most = resource.getrlimit(which)[1]
        wanted = [soft, soft if hard is None else hard]
        if most != resource.RLIM_INFINITY:
            wanted = [min(value, most) for value in wanted]
        resource.setrlimit(which, (wanted[0], wanted[1]))

    limit(resource.RLIMIT_CORE, 0)
    limit(resource.RLIMIT_NOFILE, limits["open_files"])
    cpu_s = max(int(limits["cpu_s"]), 1)
    limit(resource.RLIMIT_CPU, cpu_s, cpu_s + 1)
    limit(resource.RLIMIT_FSIZE, max(limits["output_bytes"], limits["box_bytes"]))
    if own_uid:  # else everything of this user counts
        # Threads count as well; the template counts processes.
        limit(resource.RLIMIT_NPROC, 4 * limits["processes"])
    limit(resource.RLIMIT_MEMLOCK, 2**20)
    for name, value in (("RLIMIT_MSGQUEUE", 0), ("RLIMIT_SIGPENDING", 1024)):
        if hasattr(resource, name):
            limit(getattr(resource, name), value)
    if not gpu:  # CUDA reserves the address space of all its memory
        limit(resource.RLIMIT_AS, 4 * limits["memory_bytes"])


# --- a job's files --------------------------------------------------------------------------------


def build_root(settings: Mapping[str, Any], request: Mapping[str, Any]) -> None:
    """Give this process a file system of its own: what the template sees, the request's files, a box.

    Of the exchange folder only the parts that the request names are in it. All is read-only but the box, whose
    size is limited, and /tmp and /dev/shm, which lie in it.
    """
    kernel.mount("none", "/", flags=kernel.MS_REC | kernel.MS_PRIVATE)
    limits = request["limits"]
    size = sum(len(data) for _, _, data in request["files"]) + 4096 * len(request["files"])
    _tmpfs(_STAGE, size + 2**20, 0o755)
    root = Path(_STAGE)
    box = root / BOX[1:]
    box.mkdir()
    _tmpfs(str(box), limits["box_bytes"], 0o700)
    files = {PurePosixPath(BOX) / path: (mode, data) for path, mode, data in request["files"]}
    outside = [path for path in files if not path.is_relative_to(BOX)]

    sources = [path for path in settings["readable"] if path != settings["exchange"]]
    for part in request["visible"]:
        if not _is_below(part, settings["exchange"]):
            raise ValueError(f"{part} does not lie in the exchange folder")
        sources.append(part)
    for path, target in settings["links"].items():
        if not os.path.lexists(root / path[1:]):
            os.symlink(target, root / path[1:])
    (root / "dev").mkdir()
    for place, name in (("dev/shm", ".shm"), ("tmp", ".tmp")):
        (box / name).mkdir(mode=0o700)
        (root / place).mkdir()
        kernel.mount(str(box / name), str(root / place), flags=kernel.MS_BIND)
    for source in sources:
        try:
            _expose(root, source, outside)
        except PermissionError as error:
            raise PermissionError(
                f"{source} is closed to the sandbox's user ({error.strerror}): let others read it, as this "
                "kernel or file system cannot show it as that user's own (Linux 5.12 and later can)"
            ) from None
    for device in ("null", "zero", "full", "random", "urandom"):
        (root / "dev" / device).touch()
        kernel.mount(f"/dev/{device}", str(root / "dev" / device), flags=kernel.MS_BIND)
    for device in settings["devices"]:
        _expose(root, device, [])
    for name, target in (("fd", "/proc/self/fd"), ("stdin", "fd/0")):
        os.symlink(target, root / "dev" / name)
    os.symlink("fd/1", root / "dev/stdout")
    os.symlink("fd/2", root / "dev/stderr")
    (root / "proc").mkdir()
    kernel.mount(
        "proc", str(root / "proc"), "proc", kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC
    )
    (root / "etc").mkdir(exist_ok=True)
    for name, text in _ETC.items():
        _write(root / "etc" / name, 0o644, text.encode())
    for path, (mode, data) in files.items():
        _write(root / str(path)[1:], mode, data)
    kernel.enter_root(_STAGE)
    kernel.mount(
        "none",
        "/",
        flags=kernel.MS_REMOUNT
        | kernel.MS_BIND
        | kernel.MS_RDONLY
        | kernel.MS_NOSUID
        | kernel.MS_NODEV,
    )
    os.chdir(BOX)


_ETC = {
    "passwd": f"worker:x:{JOB_UID}:{JOB_UID}::{BOX}:/bin/sh\n",
    "group": f"worker:x:{JOB_UID}:\n",
    "hosts": "127.0.0.1 localhost sandbox\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}


def _tmpfs(target: str, size_bytes: int, mode: int) -> None:
    inodes = 20_000
    kernel.mount(
        "tmpfs",
        target,
        "tmpfs",
        kernel.MS_NOSUID | kernel.MS_NODEV,
        f"size={size_bytes},nr_inodes={inodes},mode={mode:o}",
    )


def _expose(root: Path, source: str, files: list[PurePosixPath]) -> None:
    """Show `source` at its own path below `root`, so that the `files` can still be written there.

    A folder that one of them lies in is made anew, and what it holds is shown piece by piece.
    """
    target = root / source[1:]
    if PurePosixPath(source) in files:
        return
    if os.path.isdir(source) and any(_is_below(str(file), source) for file in files):
        target.mkdir(parents=True, exist_ok=True)
        for entry in sorted(os.listdir(source)):
            inner = f"{source}/{entry}"
            if os.path.islink(inner):
                if PurePosixPath(inner) not in files:
                    os.symlink(os.readlink(inner), target / entry)
            else:
                _expose(root, inner, files)
        return
    if os.path.isdir(source):
        target.mkdir(parents=True, exist_ok=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists():
            target.touch()
    kernel.mount(source, str(target), flags=kernel.MS_BIND | kernel.MS_REC)


def _is_below(path: str, folder: str | None) -> bool:
    return folder is not None and path.startswith(folder.rstrip("/") + "/")


def _write(path: Path, mode: int, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    path.chmod(mode)


def _kept(box: Path, request: Mapping[str, Any]) -> dict[str, bytes]:
    """The files that the request wants back: plain ones, up to a size in all."""
    files = {}
    left = request["limits"]["output_bytes"]
    for name in request["keep"]:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            descriptor = os.open(box / name, flags)
        except OSError:
            continue
        try:
            status = os.fstat(descriptor)
            if stat.S_ISREG(status.st_mode) and status.st_size <= left:
                # No further than it was, however it grows.
                files[name] = b"".join(_parts(descriptor, status.st_size))
                left -= len(files[name])
        finally:
            os.close(descriptor)
    return files


def _parts(descriptor: int, size_bytes: int) -> Iterator[bytes]:
    while size_bytes and (part := os.read(descriptor, size_bytes)):
        size_bytes -= len(part)
        yield part


if __name__ == "__main__":
    importlib.import_module("grading.grader.sandbox.template").main()  # under its own name, once
