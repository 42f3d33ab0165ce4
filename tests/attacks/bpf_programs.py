"""Loads programs into the kernel: maps, socket filters, and a filter that forbids itself to write."""

EXERCISE = "scaling_ex01"
WANTS = ("knee_batch",)
SUBMITTED = r"""
import ctypes

libc = ctypes.CDLL(None, use_errno=True)

def call(number, *arguments):
    return libc.syscall(ctypes.c_long(number), *[ctypes.c_long(a) if isinstance(a, int) else a for a in arguments])

def knee_batch(rows, share=0.9):
    attributes = (1).to_bytes(4, "little") + (4).to_bytes(4, "little") * 2 + (64).to_bytes(4, "little") + bytes(112)
    for command in (0, 5):
        call(321, command, ctypes.create_string_buffer(attributes), 128)
    # seccomp: every write fails from now on.
    write = bytes.fromhex("2000000000000000" "1500000101000000" "0600000005000500" "060000000000ff7f")
    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]
    program = Program(4, write)
    libc.prctl(38, 1, 0, 0, 0)
    libc.prctl(22, 2, ctypes.byref(program))
    return {"knee": 4, "best": 4, "undecided": []}
"""
