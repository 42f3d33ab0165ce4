"""Makes page faults wait for ever: userfaultfd under memory that it hands over as its answer."""

EXERCISE = "scaling_ex01"
WANTS = ("knee_batch",)
SLOW = 1.0
SUBMITTED = r"""
import ctypes

libc = ctypes.CDLL(None, use_errno=True)

def call(number, *arguments):
    return libc.syscall(ctypes.c_long(number), *[ctypes.c_long(a) if isinstance(a, int) else a for a in arguments])

import mmap

def knee_batch(rows, share=0.9):
    descriptor = call(323, 0o2000001)
    memory = mmap.mmap(-1, 1 << 20)
    if descriptor >= 0:
        api = ctypes.create_string_buffer((0xAA).to_bytes(8, "little") + bytes(16))
        libc.ioctl(descriptor, ctypes.c_ulong(0xC018AA3F), api)
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        area = address.to_bytes(8, "little") + (1 << 20).to_bytes(8, "little") + (1).to_bytes(8, "little")
        libc.ioctl(descriptor, ctypes.c_ulong(0xC020AA00), ctypes.create_string_buffer(area + bytes(8)))
        return {"knee": bytes(memory[:16]), "best": 4, "undecided": []}
    return {}
"""
