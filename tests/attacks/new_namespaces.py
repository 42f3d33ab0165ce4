"""Makes namespaces of its own in which it is root, mounts over the course, and enters those of others."""

EXERCISE = "scaling_ex01"
WANTS = ("knee_batch",)
DANGEROUS = True
SUBMITTED = r"""
import ctypes

libc = ctypes.CDLL(None, use_errno=True)

def call(number, *arguments):
    return libc.syscall(ctypes.c_long(number), *[ctypes.c_long(a) if isinstance(a, int) else a for a in arguments])

import os

def knee_batch(rows, share=0.9):
    libc.unshare(0x10000000 | 0x00020000 | 0x40000000)
    for target in (b"/", b"@COURSE@", b"/tmp", b"/proc"):
        libc.mount(b"none", target, b"tmpfs", 0, None)
        libc.mount(b"/", target, None, 4096 | 16384, None)
        libc.umount2(target, 2)
    for pid in (1, os.getppid()):
        for kind in ("mnt", "pid", "net", "user"):
            try:
                descriptor = os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY)
                libc.setns(descriptor, 0)
            except OSError:
                pass
    libc.chroot(b"/proc/1/root")
    try:
        with open("@CANARY@", "a") as file:
            file.write("reached")
    except OSError:
        pass
    return {}
"""
