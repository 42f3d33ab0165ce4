"""Sends frames that are no messages: endless lengths, half a frame, references to what does not exist."""

EXERCISE = "scaling_ex01"
CAUSE = ("protocol", "oversized output", "exit", "crash", "time-out")
SUBMITTED = r"""
import msgspec
from grading.runner import learner_side, wire

def framed(body):
    return len(body).to_bytes(4, "big") + body

pack = msgspec.msgpack.encode
BAD = [
    b"\xff\xff\xff\xff",
    framed(b"\x91" * 200_000 + b"\xc0"),
    framed(b"\xdd\xff\xff\xff\xff"),
    framed(b"\xdf\xff\xff\xff\xff"),
    framed(pack(["return", {0: 5}])),
    framed(pack(["return", {2: ["float64", [2**40, 2**40], b""]}])),
    framed(pack(["return", {2: ["object", [1], b"12345678"]}])),
    framed(pack(["return", {3: ["profiling_lab.course.manifest:Course", {"root": {5: "/"}}]}])),
    framed(pack(["return", {3: ["os:system", {"command": "true"}]}])),
    framed(pack(["return", {4: ["check", 0, "mine"]}])),
    framed(pack(["return", {6: b"\x01" * 5000}])),
    framed(pack(["raised", {"kind": "exception"}])),
    framed(pack(["callback", 10**9, [], {}])),
    framed(pack({"kind": "passed"})),
    b"",
]

def handle(self, body):
    BAD.append(BAD.pop(0))
    self.out.sendall(BAD[0])
    import os
    os._exit(0)

real = learner_side.Connection.send
def send(self, body):
    learner_side.LearnerSide.out = self.stream
    return real(self, body)
learner_side.Connection.send = send
learner_side.LearnerSide.handle = handle

def attack(name, *args, **kwargs):
    return None
"""
