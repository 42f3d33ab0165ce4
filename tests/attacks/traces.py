"""Attaches to other processes: ptrace, process_vm_readv, pidfd_getfd, perf, bpf, userfaultfd, keyrings."""

EXERCISE = "scaling_ex01"
MUST_NOT_SAY = ("attached [",)
DANGEROUS = True
SUBMITTED = r"""
import ctypes, os, platform
libc = ctypes.CDLL(None, use_errno=True)
done = []
for pid in [os.getppid(), 1, *range(2, 60)]:
    if pid in (0, os.getpid()):
        continue
    if libc.ptrace(16, pid, 0, 0) == 0:
        done.append(f"ptrace {pid}")
        libc.ptrace(17, pid, 0, 0)
    buffer = ctypes.create_string_buffer(8)
if platform.machine() == "x86_64":
    for name, number, args in (
        ("bpf", 321, (0, 0, 0)), ("userfaultfd", 323, (0,)), ("io_uring_setup", 425, (8, 0)),
        ("keyctl", 250, (0, -3, 1)), ("add_key", 248, (b"user", b"x", b"y", 1, -3)), ("kexec_load", 246, (0, 0, 0, 0)),
        ("open_by_handle_at", 304, (-100, 0, 0)), ("mount", 165, (b"none", b"/tmp", b"tmpfs", 0, 0)),
        ("unshare_user", 272, (0x10000000,)), ("setns", 308, (0, 0)), ("pivot_root", 155, (b".", b".")),
        ("init_module", 175, (0, 0, b"")), ("swapon", 167, (b"/tmp/x", 0)), ("settimeofday", 164, (0, 0)),
        ("ptrace_seize", 101, (0x4206, os.getppid(), 0, 0)),
    ):
        if libc.syscall(number, *args) == 0 or (name in ("keyctl", "add_key") and ctypes.get_errno() == 0):
            done.append(name)

def attack(name, *args, **kwargs):
    raise ValueError(f"attached {done}" if done else "nothing")
"""
