"""The sandbox: what a job can see, do and use up, and that nothing of it is left behind."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from grading.errors import SandboxError, SandboxUnavailable
from grading.grader.sandbox import (
    _ENVIRONMENT,
    KINDS,
    Limits,
    _packages,
    _why_not,
    client,
    kernel,
    open_sandbox,
    strongest,
)
from grading.runner import wire
from grading.runner.learner_side import Connection
from grading.runner.scoring import NotGraded

pytestmark = pytest.mark.proof  # it is the grader that uses it

ROOT = Path(__file__).resolve().parents[2]
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
    if why := _why_not(kind) if sys.platform == "linux" else "sandboxes are Linux's":
        raise NotGraded("not run", why)


@pytest.fixture(params=KINDS)
def kind(request) -> str:
    """Each kind of sandbox."""
    need(request.param)
    return request.param


def opened(folder: Path, kind: str):
    need(kind)
    os.environ["LAB_TEST_SECRET"] = SECRET
    try:
        place = Place(folder, kind)
        with place.sandbox:
            yield place
    finally:
        os.environ.pop("LAB_TEST_SECRET", None)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """The strongest sandbox that works here: without bubblewrap all tests run, and prove the other kind."""
    works = [kind for kind in KINDS if sys.platform == "linux" and not _why_not(kind)]
    yield from opened(tmp_path_factory.mktemp("sandbox"), (*works, *KINDS)[0])


@pytest.fixture(scope="module")
def place_without_bubblewrap(tmp_path_factory):
    yield from opened(tmp_path_factory.mktemp("sandbox"), "namespaces")


# --- what a job sees ------------------------------------------------------------------------------


def test_a_job_sees_what_is_readable_and_nothing_else(place):
    ended = place.job(f"""
        import os
        from pathlib import Path
        return [
            Path({str(place.given / "header.h")!r}).read_text(),
            os.listdir({str(place.course)!r}),
            os.listdir({str(place.course / "week")!r}),
            sorted(os.listdir({str(ROOT)!r})),
            [f"{{folder}}/{{file}}" for folder, _, files in os.walk({str(ROOT / "grading")!r}) for file in files],
            [p for p in ("/home", "/var", "/sys", "/run", "/opt", "/etc/shadow") if os.path.exists(p)],
        ]
        """)
    header, course, week, root, grading, others = ended.returned
    assert (header, course, week) == ("given", ["week"], ["given"])
    assert set(root) <= {"grading", "profiling_lab", ".venv"}
    assert {str(Path(file).relative_to(ROOT / "grading")) for file in grading} == {
        "__init__.py",
        "grader/sandbox/kernel.py",
        "grader/sandbox/template.py",
        "runner/hang_guard.py",
        "runner/wire.py",
        "runner/learner_side.py",
    }
    assert others == []


def test_of_the_exchange_folder_a_job_sees_its_own_part(place):
    look = f"""
        import os
        folder = {str(place.exchange)!r}
        return [os.listdir(folder), open(folder + "/one/capture").read()] if os.path.exists(folder) else None
        """
    assert place.job(look, visible=[place.exchange / "one"]).returned == [["one"], "of one"]
    assert place.job(look).returned is None
    with pytest.raises(SandboxError, match="does not lie in the exchange folder"):
        place.job(look, visible=[place.course / "solutions"])


def test_what_the_judge_adds_to_the_exchange_folder_later_can_be_read(place):
    process, connection, printed = place.start(
        "def f(path): return open(path).read()", visible=[place.exchange / "two"]
    )
    late = place.exchange / "two" / "late"
    late.mkdir(mode=0o700)
    (late / "file").write_text("came late")
    (late / "file").chmod(0o600)
    connection.send(wire.pack(["call", "f", "f", [str(late / "file")], {}]))
    assert wire.unpack(connection.receive()) == ["return", "came late"]
    connection.stream.close()
    process.wait(20)
    printed.close()


def test_no_process_but_its_own_and_no_environment_but_its_own(place):
    ended = place.job("""
        import os
        seen = {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            for name in ("environ", "cmdline"):
                try:
                    seen[pid + name] = open(f"/proc/{pid}/{name}", "rb").read()
                except OSError:
                    seen[pid + name] = b""
        return [seen, dict(os.environ), os.getpid(), os.getuid()]
        """)
    seen, environment, pid, uid = ended.returned
    assert {name.rstrip("abcdefghijklmnopqrstuvwxyz") for name in seen} == {"1", str(pid)}
    assert uid == 1000
    assert SECRET not in str(seen) + str(environment)
    assert seen[f"{pid}cmdline"]
    assert seen["1environ"] == b""


def test_the_first_process_of_a_job_cannot_be_looked_into(place):
    ended = place.job("""
        import os
        got = []
        for name in ("environ", "mem", "maps", "fd", "root", "cwd", "fdinfo", "map_files"):
            try:
                path = f"/proc/1/{name}"
                got.append(os.listdir(path) if os.path.isdir(path) else open(path, "rb").read(1))
            except OSError:
                pass
        return got
        """)
    assert ended.returned == []


def test_descriptors_are_the_workers_own(place):
    ended = place.job("""
        import os
        return sorted(os.readlink(f"/proc/self/fd/{n}").split(":")[0] for n in range(64)
                      if os.path.lexists(f"/proc/self/fd/{n}"))
        """)
    kinds = [name for name in ended.returned if not name.startswith("/proc")]
    outputs = [name for name in kinds if name.endswith("(deleted)")]
    assert sorted(set(kinds) - set(outputs)) == ["/dev/null", "socket"]
    assert kinds.count("socket") == 1
    assert len(outputs) == 4  # stdout, stderr and Python's own copies


def test_a_stub_appears_at_its_own_path_among_the_given_files(place):
    stub = place.given / "stub.cu"
    ended = place.job(
        f"""
        import os
        return [
            sorted(os.listdir({str(place.given)!r})),
            open({str(stub)!r}).read(),
            open({str(place.given / "header.h")!r}).read(),
            open({str(place.given / "deeper/data")!r}).read(),
        ]
        """,
        files={stub: b"submitted", place.given / "header.h": b"replaced"},
    )
    names = ["deeper", "header.h", "stub.cu"]
    assert ended.returned == [names, "submitted", "replaced", "deep"]
    assert (place.given / "header.h").read_text() == "given"
    assert not stub.exists()


# --- what a job may do ----------------------------------------------------------------------------


def test_it_writes_into_its_box_only(place):
    attempts = """
        import os
        written = []
        with open("/proc/self/mountinfo") as file:
            places = {line.split()[4] for line in file}
        for place in sorted(places):
            target = place + "/planted" if os.path.isdir(place) else place
            try:
                open(target, "a").close()
                written.append(place)
            except OSError:
                pass
        try:
            open("/proc/self/comm", "w").close()
            written.append("/proc")
        except OSError:
            pass
        return [written, len(places), os.statvfs("/").f_flag & os.ST_RDONLY]
        """
    ended = place.job(attempts, visible=[place.exchange / "one"])
    written, places, read_only = ended.returned
    assert read_only
    if not kernel.landlock_version():  # what else forbids it
        written.remove("/proc")
    assert set(written) <= {"/box", "/tmp", "/dev/shm"} | {
        f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom")
    }
    assert {"/box", "/tmp"} <= set(written)
    assert places > 10


FAMILIES = """
    import socket
    opened = set()
    for family in range(64):
        for kind in (1, 2, 3, 5):
            try:
                socket.socket(family, kind).close()
                opened.add(family)
            except OSError:
                pass
    return sorted(opened)
    """


def test_no_network_of_any_family(place):
    assert place.job(FAMILIES).returned == [1]


def test_loopback_where_it_is_asked_for(place):
    ended = place.job(
        """
        import socket
        with socket.create_server(("127.0.0.1", 0)) as server:
            socket.create_connection(server.getsockname()).close()
        names = [name for _, name in socket.if_nameindex()]
        try:
            socket.create_connection(("1.1.1.1", 53), timeout=2)
        except OSError as error:
            return [names, type(error).__name__]
        """,
        loopback=True,
    )
    assert ended.returned == [["lo"], "OSError"]
    assert set(place.job(FAMILIES, loopback=True).returned) <= {1, 2, 10, 16}


def test_system_calls_that_no_honest_code_needs_are_refused(place):
    names = [
        "unshare",
        "mount",
        "ptrace",
        "memfd_create",
        "shmget",
        "io_uring_setup",
        "bpf",
        "keyctl",
    ]
    names += ["userfaultfd", "perf_event_open", "process_vm_readv", "setns", "chroot", "pivot_root"]
    column = 0 if os.uname().machine == "x86_64" else 1
    numbers = {name: kernel._NUMBERS[name][column] for name in names}
    ended = place.job(f"""
        import ctypes
        libc = ctypes.CDLL(None, use_errno=True)
        got = {{}}
        for name, number in {numbers!r}.items():
            ctypes.set_errno(0)
            got[name] = [libc.syscall(number, 0, 0, 0, 0, 0), ctypes.get_errno()]
        # clone with CLONE_NEWUSER, and the newer clone3
        got["clone"] = [libc.syscall({56 if column == 0 else 220}, 0x10000011, 0, 0, 0, 0), ctypes.get_errno()]
        got["clone3"] = [libc.syscall(435, 0, 0), ctypes.get_errno()]
        return got
        """)
    assert ended.returned.pop("clone3") == [-1, 38]
    assert ended.returned == {name: [-1, 1] for name in (*names, "clone")}


def test_no_rights_are_left(place):
    ended = place.job("""
        with open("/proc/self/status") as file:
            return {line.split(":")[0]: line.split(":")[1].strip() for line in file}
        """)
    status = ended.returned
    assert all(int(status[name], 16) == 0 for name in ("CapPrm", "CapEff", "CapBnd", "CapAmb"))
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    if os.geteuid() == 0:
        assert int(Path(f"/proc/{min(place.processes())}/status").stat().st_uid) == 0
        uids = {Path(f"/proc/{pid}").stat().st_uid for pid in place.processes()}
        assert max(uids) >= 65534  # the template is nobody's


def test_honest_code_can_do_what_it_needs(place):
    ended = place.job("""
        import multiprocessing, subprocess, sys, tempfile, threading
        thread = threading.Thread(target=print, args=("from a thread",))
        thread.start()
        thread.join()
        with multiprocessing.Pool(2) as pool:
            mapped = pool.map(abs, [-1, -2])
        with tempfile.TemporaryFile() as file:
            file.write(b"x")
        code = "import numpy; print(numpy.arange(3).sum())"
        child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        return [mapped, child.stdout, child.stderr]
        """)
    assert ended.returned == [[1, 2], "3\n", ""]
    assert (ended.code, ended.cause) == (0, "")
    assert ended.printed == b"from a thread\n"


# --- what a job may use up ------------------------------------------------------------------------

BOMBS = {
    "memory": ("a = []\nwhile True: a.append(bytearray(2**22))", "memory"),
    "memory of several processes": (
        """
        import os, time
        for _ in range(6):
            if os.fork() == 0:
                block = bytes(range(256)) * (80 * 2**12)
                time.sleep(60)
        time.sleep(60)
        """,
        "memory",
    ),
    "memory of a process that hides": (
        """
        import ctypes
        ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
        a = []
        while True: a.append(bytearray(2**22))
        """,
        "memory",
    ),
    "processes": (
        """
        import os
        while True:
            try:
                os.fork()
            except OSError:
                pass
        """,
        "processes",
    ),
    "output": ("import os\nwhile True: os.write(1, bytes(60_000))", "oversized output"),
    "output far out": (
        "import os, time\nos.ftruncate(2, 6 * 2**20)\ntime.sleep(60)",
        "oversized output",
    ),
    "time in C": ("import itertools\nsum(itertools.repeat(0))", "time-out"),
    "a stopped process": ("import os\nos.kill(os.getpid(), 19)", "time-out"),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_ends_with_its_cause(place, name):
    body, cause = BOMBS[name]
    before = place.processes()
    limits = Limits(**{**vars(SMALL), "wall_s": 0.5}) if cause == "time-out" else SMALL
    ended = place.job(body, limits=limits)
    assert (ended.code, ended.cause) == (-9, cause)
    assert isinstance(ended.returned, EOFError | OSError) or "too large" in str(ended.returned)
    assert eventually(lambda: place.processes() <= before)
    assert place.job("return 1").returned == 1


def test_files_fill_its_box_and_no_more(place):
    ended = place.job("""
        import os
        sizes = []
        for folder in ("/box", "/tmp", "/dev/shm"):
            try:
                with open(folder + "/bomb", "wb", buffering=0) as file:
                    while file.write(bytes(2**20)) == 2**20: pass
            except OSError: pass
            sizes.append(os.path.getsize(folder + "/bomb"))
        n = 0
        try:
            while True:
                open(f"/tmp/{n}", "w").close()
                n += 1
        except OSError:
            return [sum(sizes), n]
        """)
    size, count = ended.returned
    assert size <= SMALL.box_bytes
    assert count <= 20_000


def test_space_on_the_judges_disk_cannot_be_taken_past_the_end_of_its_output(place):
    ended = place.job("""
        import ctypes, os
        libc = ctypes.CDLL(None, use_errno=True)
        libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]
        return [libc.fallocate(1, 1, 0, 2**30), os.fstat(1).st_blocks]  # 1: FALLOC_FL_KEEP_SIZE
        """)
    assert ended.returned == [-1, 0]


# --- nothing is left ------------------------------------------------------------------------------


def test_a_job_leaves_no_process(place):
    before = place.processes()
    process, connection, printed = place.start("""
        import os, threading, time
        def f():
            threading.Thread(target=time.sleep, args=(60,)).start()
            if os.fork() == 0:
                os.setsid()
                if os.fork() == 0:
                    time.sleep(60)
                os._exit(0)
            return 1
        """)
    connection.send(wire.pack(["call", "f", "f()", [], {}]))
    connection.receive()
    assert len(place.processes() - before) >= 3
    connection.stream.close()
    assert process.wait(20) == 0
    assert place.processes() <= before
    printed.close()


@pytest.mark.parametrize("how", ["kill", "forget"])
def test_a_job_ends_with_its_requester(place, how):
    before = place.processes()
    process, connection, printed = place.start("import time\ndef f(): time.sleep(60)")
    connection.send(wire.pack(["call", "f", "f()", [], {}]))
    if how == "kill":
        process.kill()
        assert (process.wait(20), process.cause) == (-9, "")
        process.kill()  # once more does no harm
    else:
        del process
    assert eventually(lambda: place.processes() <= before)
    connection.stream.close()
    printed.close()


def test_jobs_have_no_files_in_common(place):
    leave = """
        import os
        found = [os.listdir(folder) for folder in ("/tmp", "/dev/shm", "/box")]
        for folder in ("/tmp", "/dev/shm", "/box"):
            open(folder + "/left", "w").close()
        return found
        """
    first, second = place.job(leave).returned, place.job(leave).returned
    assert first == second
    assert "left" not in str(first)


SEARCH = """
    import re
    found = set()
    with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as memory:
        for line in maps:
            span, rights, *_ = line.split()
            if rights[0] == "r" and "[v" not in line:
                start, end = (int(n, 16) for n in span.split("-"))
                try:
                    memory.seek(start)
                    text = memory.read(end - start)
                except (OSError, OverflowError, ValueError):
                    continue
                found |= set(re.findall(rb"MARK-[0-9a-f]{16}", text))
    return sorted(found)
    """


def test_a_job_finds_nothing_of_former_jobs_in_its_memory(place):
    former, own = os.urandom(8).hex(), os.urandom(8).hex()
    limits = Limits(box_bytes=8 * 2**20)
    place.job("return len(open('/box/mark').read())", files={"mark": f"MARK-{former}".encode() * 9})
    ended = place.job(f"own = 'MARK-' + '{own}'\n" + textwrap.dedent(SEARCH), limits=limits)
    assert ended.returned == [f"MARK-{own}".encode()]


def test_jobs_draw_different_numbers_unless_they_have_the_same_seed(place):
    draw = "import random, numpy\nreturn [random.random(), numpy.random.rand()]"
    a, b, c, d = (place.job(draw, seed=seed).returned for seed in (None, None, 3, 3))
    assert a[0] != b[0]
    assert a[1] != b[1]
    assert c == d


# --- failures of the sandbox ----------------------------------------------------------------------


def test_after_the_template_has_died_it_is_started_anew(place):
    process, connection, printed = place.start("def f(): return 1")
    restarts = place.sandbox.restarts
    os.kill(place.sandbox._process.pid, signal.SIGKILL)
    with pytest.raises(SandboxError, match="has ended"):
        process.wait(20)
    connection.stream.close()
    printed.close()
    assert place.job("return 2").returned == 2
    assert place.sandbox.restarts == restarts + 1


SCRIPT = """
import json, sys, time
from pathlib import Path
sys.path.insert(0, {root!r})
from grading.grader.sandbox import client, open_sandbox
folder = Path(sys.argv[1])
sandbox = open_sandbox({kind!r}, exchange=folder / "exchange", readable=[], scratch=folder)
done = client.run(sandbox.address, ["sh", "-c", "id -u; echo made > a; ls /"], timeout_s=60, keep=["a"])
from os import getuid
print(json.dumps([getuid(), sandbox._process.pid, done.stdout.decode(), done.files["a"].decode()]), flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("user", ["this user", "an unprivileged user"])
def test_it_dies_with_its_owner(user, kind):
    python = sys.executable
    environment: dict[str, str] = {"PATH": os.defpath}
    options: dict[str, Any] = {}
    if user != "this user":
        if os.geteuid() != 0:
            pytest.skip("only root can be somebody else")
        options = {"user": 65534, "group": 65534, "extra_groups": []}
        python = _python_of_everybody()
        environment["PYTHONPATH"] = os.pathsep.join(_packages())
    folder = Path(tempfile.mkdtemp(prefix="lab-owner-"))
    try:
        (folder / "exchange").mkdir()
        if options:
            shutil.chown(folder, 65534, 65534)
        owner = subprocess.Popen(
            [python, "-c", SCRIPT.format(root=str(ROOT), kind=kind), str(folder)],
            stdout=subprocess.PIPE,
            env=environment,
            cwd="/",
            **options,
        )
        with owner:
            try:
                said = owner.stdout.readline()
                assert said, "the sandbox did not start"
                uid, process, printed, kept = json.loads(said)
                assert printed.split()[0] == "1000"
                assert uid == (65534 if options else os.getuid())
                assert kept == "made\n"
                processes = descendants(process)
                assert len(processes) >= 2
            finally:
                owner.kill()
            assert eventually(lambda: not any(map(alive, processes)))
    finally:
        shutil.rmtree(folder)


def _python_of_everybody() -> str:
    for python in (sys.executable, "/usr/bin/python3"):
        asked = "import sys, msgspec; print(sys.version_info[:2])"
        try:
            done = subprocess.run(
                [python, "-c", asked],
                check=False,
                env={"PYTHONPATH": os.pathsep.join(_packages())},
                user=65534,
                capture_output=True,
                text=True,
                cwd="/",
            )
        except OSError:
            continue
        if done.stdout.strip() == str(sys.version_info[:2]):
            return python
    pytest.skip("no Python of this version that another user may start")


@needs_linux
def test_a_sandbox_that_does_not_start_says_why(tmp_path, monkeypatch):
    (tmp_path / "exchange").mkdir()
    monkeypatch.setattr("grading.grader.sandbox._BOOT", "raise SystemExit('the reason')")
    with pytest.raises(SandboxError, match="the reason"):
        open_sandbox(exchange=tmp_path / "exchange", scratch=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["exchange"]


@needs_linux
def test_the_exchange_folder_must_not_be_readable_as_a_whole(tmp_path):
    (tmp_path / "exchange").mkdir()
    for readable in (tmp_path, tmp_path / "exchange"):
        with pytest.raises(SandboxError, match="lie inside each other"):
            open_sandbox(exchange=tmp_path / "exchange", readable=[readable])
    with pytest.raises(SandboxError, match="no place for its files"):
        open_sandbox(exchange=tmp_path / "exchange", scratch=tmp_path / "no")
    with pytest.raises(SandboxError, match="does not exist"):
        open_sandbox(exchange=tmp_path / "exchange", readable=[tmp_path / "no"])


def test_without_any_sandbox_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr("grading.grader.sandbox._why_not", lambda kind: f"{kind} is broken")
    with pytest.raises(
        SandboxUnavailable, match="bubblewrap is broken; namespaces is broken.*apt-get"
    ):
        open_sandbox(exchange=tmp_path)
    monkeypatch.setattr(
        "grading.grader.sandbox._why_not", lambda kind: "no bwrap" if kind == "bubblewrap" else ""
    )
    assert strongest() == "namespaces"
    with pytest.raises(SandboxUnavailable, match="no bwrap; namespaces works here"):
        open_sandbox("bubblewrap", exchange=tmp_path)
    with pytest.raises(SandboxUnavailable, match="no sandbox of the kind"):
        open_sandbox("perhaps", exchange=tmp_path)
    monkeypatch.setattr(sys, "platform", "darwin")
    for kind in ("auto", "none"):
        with pytest.raises(SandboxUnavailable, match="on Linux only"):
            open_sandbox(kind, exchange=tmp_path)


@needs_linux
def test_why_bubblewrap_is_not_there(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert _why_not.__wrapped__("bubblewrap") == "bubblewrap is not installed"
    monkeypatch.setattr(shutil, "which", lambda name: "/bin/false")
    assert _why_not.__wrapped__("bubblewrap") == "bubblewrap: 1"


def test_an_address_of_no_sandbox_is_an_error_of_the_sandbox(tmp_path):
    with pytest.raises(SandboxError, match="has ended"):
        client.run(tmp_path / "socket", ["true"], timeout_s=1)


# --- commands -------------------------------------------------------------------------------------


def test_a_command_gets_files_and_leaves_files(place, tmp_path):
    (tmp_path / "header.h").write_text("copied")
    done = client.run(
        place.sandbox.address,
        ["sh", "-c", f"cat in {tmp_path}/header.h; echo oops >&2; echo out > kept; exit 3"],
        files={"in": b"given "},
        readable=[tmp_path, Path("/usr/bin")],
        environment={"LAB_VARIANT": "1"},
        timeout_s=60,
        keep=["kept", "missing"],
    )
    assert done == client.Completed(3, b"given copied", b"oops\n", {"kept": b"out\n"}, "")


def test_only_plain_files_are_kept(place):
    script = """
        ln -s /etc/passwd link; mkfifo fifo; mkdir folder; echo 1 > plain; ln plain again
        head -c 3000000 /dev/zero > large
        (setsid sh -c 'while :; do echo x >> growing; done' &)
        """
    names = ["link", "fifo", "folder", "plain", "again", "large"]
    done = client.run(
        place.sandbox.address,
        ["sh", "-c", textwrap.dedent(script)],
        timeout_s=60,
        keep=names,
        limits=SMALL,
    )
    assert (done.returncode, done.files) == (0, {"plain": b"1\n", "again": b"1\n"})
    for name in ("../up", "/etc/passwd", "..", ""):
        with pytest.raises(ValueError, match="without a folder"):
            client.run(place.sandbox.address, ["true"], timeout_s=1, keep=[name])


def test_how_a_command_ends(place):
    address = place.sandbox.address

    def ended(argv, **options):
        done = client.run(address, argv, **{"timeout_s": 60, **options})
        return done.returncode, done.cause

    assert ended(["sleep", "60"], timeout_s=0.3) == (-9, "time-out")
    assert ended(["sh", "-c", "kill -SEGV $$"]) == (-11, "")
    assert ended(["yes"], limits=SMALL) == (-9, "oversized output")
    assert ended(["sh", "-c", "while :; do :; done"], limits=Limits(cpu_s=1)) == (-9, "time-out")
    done = client.run(address, ["no-such-program"], timeout_s=60)
    assert (done.returncode, done.stderr) == (127, b"no-such-program: No such file or directory\n")


def test_a_fresh_worker_has_nothing_imported(place):
    text = "import sys\nbefore = sorted(sys.modules)\ndef f(): return [m for m in before if m == 'numpy']"
    for fresh, expected in ((True, []), (False, ["numpy"])):
        process, connection, printed = place.start(text, fresh=fresh)
        connection.send(wire.pack(["call", "f", "f()", [], {}]))
        assert wire.unpack(connection.receive()) == ["return", expected]
        connection.stream.close()
        assert process.wait(20) == 0
        printed.close()


# --- without bubblewrap ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "test",
    [
        test_a_job_sees_what_is_readable_and_nothing_else,
        test_of_the_exchange_folder_a_job_sees_its_own_part,
        test_no_process_but_its_own_and_no_environment_but_its_own,
        test_the_first_process_of_a_job_cannot_be_looked_into,
        test_it_writes_into_its_box_only,
        test_no_network_of_any_family,
        test_no_rights_are_left,
        test_a_job_leaves_no_process,
        test_after_the_template_has_died_it_is_started_anew,
    ],
)
def test_namespaces_do_the_same(place_without_bubblewrap, test):
    test(place_without_bubblewrap)


# --- without protection ---------------------------------------------------------------------------


@needs_linux
def test_without_protection_only_when_asked_for(tmp_path):
    exchange = tmp_path / "exchange"
    exchange.mkdir()
    with open_sandbox("none", exchange=exchange, scratch=tmp_path) as sandbox:
        assert "No sandbox" in sandbox.describe()
        script = "cat in; echo kept > out; (setsid sleep 61 &)"
        done = client.run(
            sandbox.address, ["sh", "-c", script], files={"in": b"x"}, timeout_s=60, keep=["out"]
        )
        assert (done.stdout, done.files) == (b"x", {"out": b"kept\n"})
        done = client.run(sandbox.address, ["sleep", "62"], timeout_s=0.2)
        assert (done.returncode, done.cause) == (-9, "time-out")
        assert eventually(lambda: len(descendants(sandbox._process.pid)) == 1)


@needs_linux
def test_the_filter_exists_for_the_machines_that_it_names():
    for machine in ("x86_64", "aarch64"):
        program = kernel.seccomp_program(machine=machine)
        assert len(program) % 8 == 0
        assert len(program) // 8 < 4096
    with pytest.raises(OSError, match="riscv64"):
        kernel.seccomp_program(machine="riscv64")


def test_the_sandbox_user_has_a_name_for_libraries_that_ask(monkeypatch) -> None:
    import getpass
    import pwd

    def unknown(uid):
        raise KeyError(f"getpwuid(): uid not found: {uid}")

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises((KeyError, OSError)):
        getpass.getuser()
    for name, value in _ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    assert getpass.getuser() == "worker"


@pytest.mark.parametrize("which", ["place", "place_without_bubblewrap"])
def test_the_template_is_not_the_first_process_of_its_namespace(which, request) -> None:
    """Libraries tell by the pid whether they run in a child, and the first process of a job is pid 1."""
    processes = [Path(f"/proc/{pid}") for pid in request.getfixturevalue(which).processes()]
    pids = [
        re.search(r"^NSpid:.*\s(\d+)$", (process / "status").read_text(), re.MULTILINE)
        for process in processes
        if (words := (process / "cmdline").read_bytes().split(b"\0"))
        and any(word.endswith(b"sandbox.template import main; main()") for word in words)
        and b"bwrap" not in words[0]
    ]
    assert pids
    assert all(found and found[1] != "1" for found in pids)


@pytest.fixture
def device() -> Iterator[Path]:
    """A device file that does nothing, in the place of a GPU's."""
    if os.geteuid() != 0:
        pytest.skip("not run: only root makes device files")
    device = Path(f"/dev/lab-test-{os.getpid()}")
    os.mknod(device, stat.S_IFCHR, os.makedev(1, 3))
    try:
        device.chmod(0o666)
        yield device
    finally:
        device.unlink()


# As the driver names its own; where it cannot, cuInit returns an error.
NAME_A_THREAD = "import os; open(f'/proc/self/task/{os.getpid()}/comm', 'w').write('gpu')"


def test_with_a_device_it_can_be_used(kind, device, tmp_path) -> None:
    """CUDA opens the files of a GPU for reading and writing, and names its threads."""
    with open_sandbox(kind, exchange=tmp_path, devices=[device]) as sandbox:
        text = f"open({str(device)!r}, 'r+b', buffering=0).write(b'x')\n{NAME_A_THREAD}"
        ended = client.run(sandbox.address, [sys.executable, "-c", text], timeout_s=20)
    assert (ended.returncode, ended.stderr) == (0, b"")


def test_with_a_device_the_kernel_still_keeps_its_own(kind, device, tmp_path) -> None:
    attack = (Path(__file__).parents[1] / "attacks/proc_back_doors.py").read_text()
    namespace: dict = {}
    exec(attack, namespace)
    text = namespace["SUBMITTED"] + "\nattack('')"
    with open_sandbox(kind, exchange=tmp_path, devices=[device]) as sandbox:
        ended = client.run(sandbox.address, [sys.executable, "-c", text], timeout_s=20)
    assert b"ValueError: nothing" in ended.stderr


def test_without_a_device_nothing_below_proc_can_be_written(kind, tmp_path) -> None:
    with open_sandbox(kind, exchange=tmp_path) as sandbox:
        ended = client.run(sandbox.address, [sys.executable, "-c", NAME_A_THREAD], timeout_s=20)
    assert b"PermissionError" in ended.stderr


# --- what a job does to what it shares --------------------------------------------------------------


@pytest.mark.parametrize(
    "lock",
    [
        "fcntl.flock(file, fcntl.LOCK_EX)",
        "fcntl.flock(file, fcntl.LOCK_SH)",
        "fcntl.lockf(file, fcntl.LOCK_SH)",
        "fcntl.fcntl(file, 37, struct.pack('hhqqi4x', 0, 0, 0, 0, 0))",  # F_OFD_SETLK, a read lock
    ],
)
def test_a_jobs_lock_on_a_file_that_it_may_read_is_not_felt_outside(place, lock):
    file = Path(sys.prefix) / "pyvenv.cfg"
    process, connection, printed = place.start(
        f"import fcntl, struct\nheld = []\n"
        f"def f():\n    file = open({str(file)!r}, 'rb')\n    held.append(file)\n    {lock}\n    return True"
    )
    with printed, connection.stream:
        connection.send(wire.pack(["call", "f", "f()", [], {}]))
        assert wire.unpack(connection.receive()) == ["return", True]
        with open(file, "r+b") as outside:
            fcntl.flock(outside, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.lockf(outside, fcntl.LOCK_EX | fcntl.LOCK_NB)
    process.wait(20)


def test_a_job_takes_no_lease_on_a_file(place):
    ended = place.job("""
        import fcntl
        with open("/box/own", "wb"):
            pass
        try:
            fcntl.fcntl(open("/box/own", "rb"), fcntl.F_SETLEASE, fcntl.F_RDLCK)
        except PermissionError:
            return "refused"
        """)
    assert ended.returned == "refused"


def test_a_job_sets_limits_of_its_own_process_only(place):
    ended = place.job("""
        import resource
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
        found = [resource.getrlimit(resource.RLIMIT_FSIZE)]
        for which in range(16):
            try:
                found.append(resource.prlimit(1, which, (0, 0)))
            except PermissionError:
                pass
        return found
        """)
    assert ended.returned == [(4096, 4096)]


def test_a_file_that_is_replaced_while_the_sandbox_runs_is_still_there_for_later_jobs(place):
    header = place.single
    look = f"return open({str(header)!r}).read()"
    assert place.job(look).returned == "single"
    newer = header.with_name("newer")
    newer.write_text("newer")
    newer.replace(header)
    assert place.job(look).returned == "single"
    assert (
        place.job("return open('/etc/ld.so.cache', 'rb').read(4)").returned
        == (Path("/etc/ld.so.cache").read_bytes()[:4])
    )
