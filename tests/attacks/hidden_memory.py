"""Takes memory that is nobody's: memfd, shared memory, pipes, sockets' buffers, tmpfs."""

EXERCISE = "scaling_ex01"
WANTS = ("knee_batch",)
DANGEROUS = True
SUBMITTED = r"""
import ctypes, mmap, os, socket

def knee_batch(rows, share=0.9):
    total, block = 0, b"x" * (1 << 20)
    try:
        fd = os.memfd_create("hidden")
        for _ in range(6000):
            total += os.write(fd, block)
    except (OSError, AttributeError):
        pass
    libc = ctypes.CDLL(None, use_errno=True)
    for _ in range(200):
        identity = libc.shmget(0, 64 << 20, 0o1600)
        if identity < 0:
            break
        libc.shmat.restype = ctypes.c_void_p
        address = libc.shmat(identity, None, 0)
        if address and address != ctypes.c_void_p(-1).value:
            ctypes.memset(address, 1, 64 << 20)
    keep = []
    try:
        for _ in range(10_000):
            pair = socket.socketpair()
            for end in pair:
                end.setblocking(False)
            keep.append(pair)
            while pair[0].send(block):
                pass
    except OSError:
        pass
    if total > 5 << 30:
        open("@CANARY@", "a").write(f"{total} bytes nobody counted\n")
    return {"bytes": total}
"""
SLOW = 1.0
