"""Opens sockets of every family and asks for names: a word to anybody outside is one too many."""

EXERCISE = "scaling_ex01"
BITES = True
MUST_NOT_SAY = ("connected [",)
SUBMITTED = r"""
import os, socket
done = []
for family in range(0, 46):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET):
        try:
            found = socket.socket(family, kind)
        except (OSError, ValueError):
            continue
        if family != socket.AF_UNIX:
            done.append(f"family {family}")
        found.close()
try:
    socket.getaddrinfo("localhost", 80)
    socket.create_connection(("127.0.0.1", @PORT@), 1)
    done.append("loopback")
except OSError:
    pass

def attack(name, *args, **kwargs):
    raise ValueError(f"connected {done[:6]}" if done else "nothing")
"""
