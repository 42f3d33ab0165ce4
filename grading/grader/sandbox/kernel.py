"""The Linux system calls of a sandbox that Python's library lacks, by ctypes.

Each function raises OSError, naming the call, when the kernel refuses. Importing this module works
on every system; its functions exist on Linux only.
"""

# Long because it is a list of system calls, each with its numbers.

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import os
import platform
import socket
import struct
from collections.abc import Iterable
from pathlib import Path

# <linux/sched.h>
CLONE_NEWTIME = 0x80
CLONE_NEWNS = 0x20000
CLONE_NEWCGROUP = 0x2000000
CLONE_NEWUTS = 0x4000000
CLONE_NEWIPC = 0x8000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
_ALL_NAMESPACES = (
    CLONE_NEWTIME
    | CLONE_NEWNS
    | CLONE_NEWCGROUP
    | CLONE_NEWUTS
    | CLONE_NEWIPC
    | CLONE_NEWUSER
    | CLONE_NEWPID
    | CLONE_NEWNET
)

# <linux/mount.h>
MS_RDONLY = 1
MS_NOSUID = 2
MS_NODEV = 4
MS_NOEXEC = 8
MS_REMOUNT = 32
MS_BIND = 4096
MS_REC = 16384
MS_PRIVATE = 1 << 18
MNT_DETACH = 2

# <linux/prctl.h>
_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_SECCOMP = 22
_PR_CAPBSET_DROP = 24
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_PR_CAP_AMBIENT = 47


@functools.cache
def _libc() -> ctypes.CDLL:
    library = ctypes.CDLL(None, use_errno=True)
    library.syscall.restype = ctypes.c_long
    return library


def _checked(result: int, what: str) -> int:
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def _prctl(option: int, value: int, what: str, more: int = 0) -> None:
    arguments = [ctypes.c_ulong(n) for n in (value, more, 0, 0)]
    _checked(_libc().prctl(option, *arguments), what)


def fork_into_namespaces(flags: int) -> int:
    """As os.fork, with a child that is in new namespaces from its first moment.

    In a new pid namespace it is pid 1 there. Only for a process of one thread: what libraries have
    registered to be done at a fork is not done, until the child forks by os.fork.
    """
    python = ctypes.PyDLL(None, use_errno=True)  # keeps the interpreter's lock
    python.syscall.restype = ctypes.c_long
    number = {"x86_64": 56, "aarch64": 220}[platform.machine()]
    arguments = [ctypes.c_ulong(n) for n in (number, flags | 17, 0, 0, 0, 0)]  # 17: SIGCHLD
    python.PyOS_BeforeFork()
    pid = python.syscall(*arguments)
    if pid == 0:
        python.PyOS_AfterFork_Child()
    else:
        python.PyOS_AfterFork_Parent()
    return _checked(pid, "clone")


def unshare(flags: int) -> None:
    """Give this process namespaces of its own."""
    _checked(_libc().unshare(flags), "unshare")


def mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    """mount(2)."""
    result = _libc().mount(
        source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), data.encode()
    )
    _checked(result, f"mount {kind or source} on {target}")


def bind(source: str, target: str, *, read_only: bool = True) -> None:
    """Show `source` (a file, or a folder with what is mounted below it) at `target`.

    read_only: only `target` itself, so with folders only where nothing else is mounted below.
    """
    mount(source, target, flags=MS_BIND | MS_REC)
    if read_only:
        flags = MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV
        mount("none", target, flags=flags)


def make_read_only(folder: str) -> None:
    """Make the mount at `folder` and everything mounted below it read-only. Linux 5.12 and later."""
    here, recursive, read_only, no_set_id = ctypes.c_int(-100), 0x8000, 1, 2
    attributes = struct.pack("=QQQQ", read_only | no_set_id, 0, 0, 0)
    arguments = (here, folder.encode(), recursive, attributes, ctypes.c_size_t(32))
    _checked(_libc().syscall(ctypes.c_long(442), *arguments), f"read-only mount of {folder}")


def enter_root(folder: str) -> None:
    """Make the mount at `folder` the root; the old root is out of reach afterwards."""
    os.chdir(folder)
    number = {"x86_64": 155, "aarch64": 41}[platform.machine()]
    _checked(_libc().syscall(ctypes.c_long(number), b".", b"."), "pivot_root")
    _checked(_libc().umount2(b".", MNT_DETACH), "umount of the old root")
    os.chdir("/")


def map_user(inside: int, outside_uid: int, outside_gid: int) -> None:
    """After unshare(CLONE_NEWUSER): be `inside` in the new namespace, and nobody else."""
    for name, line in (
        ("uid_map", f"{inside} {outside_uid} 1"),
        ("setgroups", "deny"),
        ("gid_map", f"{inside} {outside_gid} 1"),
    ):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(line)


def show_as_own(folder: str, uid: int) -> None:
    """Cover a folder by itself, with root's files in it as those of `uid`. For root, Linux 5.12 on.

    Raises OSError where the kernel or the file system cannot do that.
    """
    ready, go_on = socket.socketpair()
    holder = os.fork()  # a user namespace is described by a process in it
    if holder == 0:
        try:
            ready.close()
            unshare(CLONE_NEWUSER)
            go_on.sendall(b"r")
            go_on.recv(1)
        finally:
            os._exit(0)
    go_on.close()
    try:
        if not ready.recv(1):
            raise OSError(errno.EPERM, "no user namespace for an id-mapped mount")
        for name in ("uid_map", "gid_map"):
            with open(f"/proc/{holder}/{name}", "w", encoding="ascii") as file:
                file.write(f"0 {uid} 1")
        namespace = os.open(f"/proc/{holder}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        ready.close()
        os.waitpid(holder, 0)
    call, here = _libc().syscall, ctypes.c_int(-100)
    clone, empty_path, map_ids = 1 | os.O_CLOEXEC | 0x8000, 0x1000, 0x100000
    try:
        tree = _checked(call(ctypes.c_long(428), here, folder.encode(), clone), "open_tree")
        attributes = struct.pack("=QQQQ", map_ids, 0, 0, namespace)
        try:
            _checked(
                call(ctypes.c_long(442), tree, b"", empty_path, attributes, ctypes.c_size_t(32)),
                "mount_setattr",
            )
            _checked(call(ctypes.c_long(429), tree, b"", here, folder.encode(), 4), "move_mount")
        finally:
            os.close(tree)
    finally:
        os.close(namespace)


def raise_loopback() -> None:
    """Bring up `lo` in this network namespace."""
    import fcntl  # not on Windows

    up, flags_offset = 0x1, 16
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as plain:
        request = b"lo".ljust(flags_offset, b"\0") + struct.pack("h", up) + bytes(22)
        fcntl.ioctl(plain, 0x8914, request)  # SIOCSIFFLAGS


def die_with_parent() -> None:
    """SIGKILL for this process when the thread that forked it ends."""
    _prctl(_PR_SET_PDEATHSIG, 9, "PR_SET_PDEATHSIG")


def adopt_orphans() -> None:
    """Be the parent of descendants whose own parent has ended."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1, "PR_SET_CHILD_SUBREAPER")


def set_dumpable(yes: bool) -> None:
    """Whether processes of the same user may look into this one, and /proc/self is its own."""
    _prctl(_PR_SET_DUMPABLE, int(yes), "PR_SET_DUMPABLE")


def no_new_privileges() -> None:
    """From here on no program that this process starts gains anything by its set-id bits."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1, "PR_SET_NO_NEW_PRIVS")


def drop_capabilities() -> None:
    """Give up every capability for good."""
    no_new_privileges()
    with contextlib.suppress(OSError):  # before Linux 4.3
        _prctl(_PR_CAP_AMBIENT, 4, "PR_CAP_AMBIENT_CLEAR_ALL")
    for number in range(64):
        try:
            _prctl(_PR_CAPBSET_DROP, number, "PR_CAPBSET_DROP")
        except OSError:  # past the last one, or no right to: what is not held cannot come back
            break
    header = struct.pack("=Ii", 0x20080522, 0)
    _checked(_libc().capset(header, bytes(24)), "capset")


def use_huge_pages() -> int:
    """Put this process's anonymous memory into huge pages, so that a fork has fewer to copy.

    Returns how many there are; 0 where the kernel cannot (before Linux 6.1, or switched off).
    """
    size, collapse, count = 2**21, 25, 0
    with open("/proc/self/maps", encoding="ascii", errors="replace") as file:
        lines = [line.split() for line in file]
    for addresses, rights, _, _, inode, *name in lines:
        if inode != "0" or rights[:2] != "rw" or name[:1] not in ([], ["[heap]"]):
            continue
        start, end = (int(address, 16) for address in addresses.split("-"))
        for place in range(-(-start // size) * size, end - size + 1, size):
            count += not _libc().madvise(ctypes.c_void_p(place), ctypes.c_size_t(size), collapse)
    return count


# --- seccomp --------------------------------------------------------------------------------------

# Numbers of x86_64, of aarch64 (None: it does not exist there).
_NUMBERS: dict[str, tuple[int | None, int]] = {
    "socket": (41, 198),
    "socketpair": (53, 199),
    "clone": (56, 220),
    "clone3": (435, 435),
    "ioctl": (16, 29),
    "fallocate": (285, 47),
    "prlimit64": (302, 261),
    "flock": (73, 32),
    "fcntl": (72, 25),
    # More memory than the template can see without a memory cgroup.
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "shmget": (29, 194),
    "shmat": (30, 196),
    "msgget": (68, 186),
    "semget": (64, 190),
    "mq_open": (240, 180),
    # Other processes.
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "pidfd_getfd": (438, 438),
    "kcmp": (312, 272),
    # Namespaces and mounts.
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "open_tree_attr": (467, 467),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "fanotify_init": (300, 262),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    # Parts of the kernel with a history.
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "bpf": (321, 280),
    "userfaultfd": (323, 282),
    "perf_event_open": (298, 241),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "modify_ldt": (154, None),  # type: ignore[dict-item]
    "vmsplice": (278, 75),
    # The machine.
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "reboot": (169, 142),
    "syslog": (103, 116),
    "acct": (163, 89),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "adjtimex": (159, 171),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "iopl": (172, None),  # type: ignore[dict-item]
    "ioperm": (173, None),  # type: ignore[dict-item]
}
_OF_THEIR_OWN = {
    *("socket", "socketpair", "clone", "clone3", "ioctl", "fallocate"),
    *("prlimit64", "flock", "fcntl"),
}

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT, _SECOND_ARGUMENT = 0, 4, 16, 24
_TERMINAL_INPUT = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX: typing into somebody's terminal
_LOCKING = (6, 7, 37, 38)  # F_SETLK, F_SETLKW, F_OFD_SETLK, F_OFD_SETLKW
_LEASING = 1024  # F_SETLEASE


def seccomp_program(*, internet: bool = False, machine: str | None = None) -> bytes:
    """The filter of system calls, in classic BPF.

    internet: AF_INET, AF_INET6 and AF_NETLINK may be opened besides AF_UNIX (for the loopback of a
    network namespace of its own). machine: as platform.machine() names it.
    Raises OSError (ENOSYS) for a machine whose numbers are not known here.
    """
    machine = machine or platform.machine()
    if machine not in ("x86_64", "aarch64"):
        raise OSError(errno.ENOSYS, f"no filter of system calls is written for {machine}")
    intel = machine == "x86_64"

    def number(name: str) -> int:
        return _NUMBERS[name][0 if intel else 1]  # type: ignore[return-value]

    def step(code: int, value: int, then: int = 0, otherwise: int = 0) -> bytes:
        return struct.pack("=HBBI", code, then, otherwise, value)

    def refuse(with_errno: int) -> bytes:
        return step(_RETURN, _ERRNO | with_errno)

    allow = step(_RETURN, _ALLOW)
    program = [
        step(_LOAD, _ARCHITECTURE),
        step(_EQUAL, 0xC000003E if intel else 0xC00000B7, 1, 0),
        step(_RETURN, _KILL),
        step(_LOAD, _NUMBER),
    ]
    if intel:  # the x32 ABI has numbers of its own
        program += [step(_AT_LEAST, 0x40000000, 0, 1), refuse(errno.ENOSYS)]
    families = [1, *([2, 10, 16] if internet else [])]
    for name in ("socket", "socketpair"):
        body = [step(_LOAD, _FIRST_ARGUMENT)]
        for family in families:
            body += [step(_EQUAL, family, 0, 1), allow]
        body.append(refuse(errno.EAFNOSUPPORT))
        program += [step(_EQUAL, number(name), 0, len(body)), *body]
    program += [
        step(_EQUAL, number("clone"), 0, 4),
        step(_LOAD, _FIRST_ARGUMENT),
        step(_ANY_BIT, _ALL_NAMESPACES & ~CLONE_NEWTIME, 0, 1),  # that bit is part of the signal
        refuse(errno.EPERM),
        allow,
        # Its flags lie in memory, where a filter cannot look; libraries fall back to clone.
        step(_EQUAL, number("clone3"), 0, 1),
        refuse(errno.ENOSYS),
        step(_EQUAL, number("ioctl"), 0, 5),
        step(_LOAD, _SECOND_ARGUMENT),
        step(_EQUAL, _TERMINAL_INPUT[0], 1, 0),
        step(_EQUAL, _TERMINAL_INPUT[1], 0, 1),
        refuse(errno.EPERM),
        allow,
        # It can take space on a disk past the end of a file, where no limit of sizes sees it.
        step(_EQUAL, number("fallocate"), 0, 1),
        refuse(errno.EOPNOTSUPP),
        # Limits of the calling process only: those of the job's first process are not the job's to set.
        step(_EQUAL, number("prlimit64"), 0, 4),
        step(_LOAD, _FIRST_ARGUMENT),
        step(_EQUAL, 0, 0, 1),
        allow,
        refuse(errno.EPERM),
        # Locks work on files that are open for reading only, so a job could lock those of the machine. Nothing
        # outside may feel a job's lock, and libraries need theirs to succeed: they do, and lock nothing.
        step(_EQUAL, number("flock"), 0, 1),
        refuse(0),
        step(_EQUAL, number("fcntl"), 0, len(_LOCKING) + 5),
        step(_LOAD, _SECOND_ARGUMENT),
        *[step(_EQUAL, command, len(_LOCKING) - n + 1, 0) for n, command in enumerate(_LOCKING)],
        step(_EQUAL, _LEASING, 0, 2),
        refuse(errno.EPERM),
        refuse(0),
        allow,
    ]
    for name in _NUMBERS.keys() - _OF_THEIR_OWN:
        if number(name) is not None:
            program += [step(_EQUAL, number(name), 0, 1), refuse(errno.EPERM)]
    return b"".join([*program, allow])


def filter_system_calls(program: bytes) -> None:
    """Apply a filter to this process and everything that it starts."""
    no_new_privileges()
    text = ctypes.create_string_buffer(program, len(program))
    head = struct.pack("@HP", len(program) // 8, ctypes.addressof(text))
    buffer = ctypes.create_string_buffer(head, len(head))
    result = _libc().prctl(
        _PR_SET_SECCOMP, ctypes.c_ulong(2), ctypes.byref(buffer), ctypes.c_ulong(0), 0
    )
    _checked(result, "seccomp")


# --- Landlock -------------------------------------------------------------------------------------

_WRITES_V1 = 0b1111111110010  # WRITE_FILE, and REMOVE_DIR … MAKE_SYM
_WRITE_FILE, _REFER, _TRUNCATE = 1 << 1, 1 << 13, 1 << 14


def landlock_version() -> int:
    """Of the kernel's Landlock; 0 without it."""
    return max(int(_libc().syscall(ctypes.c_long(444), None, ctypes.c_size_t(0), 1)), 0)


def write_only_below(folders: Iterable[str | Path], *, existing: Iterable[str | Path] = ()) -> bool:
    """From here on this process writes nowhere else, whatever is mounted how. False: no Landlock.

    existing: folders in which it may write to files that are there, and make or remove none.
    """
    version = landlock_version()
    if not version:
        return False
    rights = _WRITES_V1 | (_REFER if version >= 2 else 0) | (_TRUNCATE if version >= 3 else 0)
    to_files = rights & (_WRITE_FILE | _TRUNCATE)
    rules = struct.pack("=Q", rights)
    handle = _libc().syscall(ctypes.c_long(444), rules, ctypes.c_size_t(len(rules)), 0)
    _checked(handle, "landlock_create_ruleset")
    try:
        folders = [str(folder) for folder in folders]
        for folder in (*folders, *map(str, existing)):
            place = os.open(folder, os.O_PATH | os.O_CLOEXEC)
            try:
                # A file takes only those of the rights that mean something for a file.
                allowed = rights if os.path.isdir(folder) and folder in folders else to_files
                rule = struct.pack("=Qi", allowed, place)
                result = _libc().syscall(ctypes.c_long(445), ctypes.c_int(handle), 1, rule, 0)
                _checked(result, f"landlock_add_rule for {folder}")
            finally:
                os.close(place)
        no_new_privileges()
        _checked(
            _libc().syscall(ctypes.c_long(446), ctypes.c_int(handle), 0), "landlock_restrict_self"
        )
    finally:
        os.close(handle)
    return True
