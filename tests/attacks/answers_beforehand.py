"""Finds the socket among its descriptors and writes answers before the questions come."""

EXERCISE = "scaling_ex01"
SUBMITTED = r"""
import os, stat
import msgspec

def sockets():
    for fd in range(3, 256):
        try:
            if stat.S_ISSOCK(os.fstat(fd).st_mode):
                yield fd
        except OSError:
            pass

def frame(*message):
    body = msgspec.msgpack.encode(list(message))
    return len(body).to_bytes(4, "big") + body

NAMES = ["throughput", "model_flops_utilization", "batch_sweep", "knee_batch", "same_conditions",
         "baseline_verdict"]
DATA = frame("loaded", NAMES, NAMES, {})
for _ in range(500):
    DATA += frame("return", {"knee": 4, "best": 4, "undecided": []})
for fd in sockets():
    try:
        os.set_blocking(fd, False)
        os.write(fd, DATA)
        os.set_blocking(fd, True)
    except OSError:
        pass

def attack(name, *args, **kwargs):
    return {}
"""
