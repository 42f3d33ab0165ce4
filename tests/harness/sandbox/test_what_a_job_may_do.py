"""The sandbox: what a job may do, use up, and do to what it shares."""

from __future__ import annotations

import fcntl
import os
import sys
from pathlib import Path

import pytest

from grading.grader.sandbox import Limits, kernel
from grading.runner import wire
from tests.harness.sandbox.places import SMALL, eventually

pytestmark = pytest.mark.proof  # it is the grader that uses it


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
