"""Counts what the judge does with perf_event_open, on every process and processor."""

EXERCISE = "scaling_ex01"
WANTS = ("knee_batch",)
MUST_NOT_SAY = ("learned [",)
SUBMITTED = r"""
import ctypes

libc = ctypes.CDLL(None, use_errno=True)

def call(number, *arguments):
    return libc.syscall(ctypes.c_long(number), *[ctypes.c_long(a) if isinstance(a, int) else a for a in arguments])

def knee_batch(rows, share=0.9):
    attributes = (1).to_bytes(4, "little") + (112).to_bytes(4, "little") + bytes(104)
    opened = []
    for pid, cpu in ((-1, 0), (1, -1), (0, -1)):
        descriptor = call(298, ctypes.create_string_buffer(attributes), pid, cpu, -1, 0)
        if descriptor >= 0 and pid != 0:
            opened.append((pid, cpu))
    if opened:
        raise ValueError(f"learned [{opened}")
    return {}
"""
