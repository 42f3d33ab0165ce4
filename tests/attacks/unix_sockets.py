"""Connects to every socket that lies about: the sandbox's own door, abstract names, daemons of the machine."""

EXERCISE = "scaling_ex01"
MUST_NOT_SAY = ("connected [",)
SUBMITTED = r"""
import glob, os, re, socket
names = set(glob.glob("/tmp/**/*", recursive=True)) | set(glob.glob("/run/**/*", recursive=True))
names |= {"@SOCKET@", "/var/run/docker.sock", "/run/dbus/system_bus_socket", "\0@MARK@"}
try:
    for line in open("/proc/net/unix"):
        name = line.split()[-1]
        names.add("\0" + name[1:] if name.startswith("@") else name)
except OSError:
    pass
done = []
for name in names:
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):
        try:
            with socket.socket(socket.AF_UNIX, kind) as door:
                door.settimeout(0.2)
                door.connect(name)
                done.append(name)
        except (OSError, ValueError):
            pass

def attack(name, *args, **kwargs):
    raise ValueError(f"connected {done}" if done else "nothing")
"""
