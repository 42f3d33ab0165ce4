"""Leaves threads that write forged answers during the calls that follow."""

EXERCISE = "scaling_ex01"
CAUSE = ("protocol", "")
SUBMITTED = r"""
import os, stat, threading, time
import msgspec

BODY = msgspec.msgpack.encode(["return", {"knee": 4, "best": 4, "undecided": []}])

def later():
    while True:
        time.sleep(0.002)
        for fd in range(3, 64):
            try:
                if stat.S_ISSOCK(os.fstat(fd).st_mode):
                    os.write(fd, len(BODY).to_bytes(4, "big") + BODY)
            except OSError:
                pass

threading.Thread(target=later, daemon=True).start()

def attack(name, *args, **kwargs):
    time.sleep(0.01)
    return {}
"""
