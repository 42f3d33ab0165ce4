"""What an attack could reach: folders, files, sockets and processes, and what of them has changed."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import resource
import shutil
import socket
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from grading.proof import background_runs
from profiling_lab.course.manifest import Course
from tests.harness.attack_files import Attack

SECRET = "PLANTED-SECRET-3f9c"
_grounds = itertools.count()


class Ground:
    """Folders, files and sockets that an attack could reach, and what of them has changed."""

    def __init__(self, folder: Path, course: Course) -> None:
        self.folder, self.course = folder, course
        self.entries, self.staging = folder / "submissions", folder / "staging"
        self.outside, self.out = folder / "outside", folder / "out"
        for made in (self.entries, self.staging, self.outside, self.out):
            made.mkdir(mode=0o777)
        self.canary, self.secret = self.outside / "canary", self.outside / "secret.h"
        self.canary.write_text("alive\n")
        self.secret.write_text(f"{SECRET}\n")
        (self.out / "results.jsonl").write_text("{}\n")
        (self.out / "gradebook.csv").write_text("student,points\n")
        for file in (self.canary, self.secret, *self.out.iterdir()):
            file.chmod(0o666)
        neighbour = Path(
            "modules/05-scaling-benchmarks/ex01-single-gpu-baseline/single_gpu_baseline.py"
        )
        self.neighbour = folder / "staging" / "neighbour" / neighbour
        self.neighbour.parent.mkdir(parents=True)
        shutil.copy(course.root / "solutions" / neighbour, self.neighbour)
        self.heard: list[str] = []
        # Another one each time: the thread that listens holds an address for a moment longer.
        self.mark = f"lab-attacks-{os.getpid()}-{next(_grounds)}"
        self._doors = [socket.socket(socket.AF_INET), socket.socket(socket.AF_UNIX)]
        self._doors[0].bind(("127.0.0.1", 0))
        self._doors[1].bind("\0" + self.mark)
        self.port = self._doors[0].getsockname()[1]
        for door in self._doors:
            door.listen(64)
            threading.Thread(target=self._listen, args=(door,), daemon=True).start()
        self.socket = ""
        self._before: dict[str, Any] = {}

    def _listen(self, door: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                door.accept()[0].close()
                self.heard.append(f"a connection to {door.getsockname()!r}")

    def close(self) -> None:
        for door in self._doors:
            with contextlib.suppress(OSError):
                door.shutdown(socket.SHUT_RDWR)
            door.close()

    def filled_in(self, text: bytes) -> bytes:
        for name, value in {
            "COURSE": self.course.root,
            "OUT": self.out,
            "STAGING": self.staging,
            "NEIGHBOUR": self.neighbour,
            "OUTSIDE": self.outside,
            "CANARY": self.canary,
            "SECRET": self.secret,
            "MARK": self.mark,
            "SOCKET": self.socket,
        }.items():
            text = text.replace(b"@%s@" % name.encode(), str(value).encode())
        return text.replace(b"0xABCD", str(self.port).encode())

    def hand_in(self, attack: Attack, name: str) -> None:
        """Make the entry of an attack in the folder of submissions."""
        entry = self.entries / name
        if plant := attack.get("plant"):
            plant(entry, self.course)
        else:
            self._write(entry / attack.stub(self.course), attack.submitted(self.course))
        for path, text in attack.get("FILES", {}).items():
            self._write(entry / path, text.encode())

    def _write(self, file: Path, data: bytes) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(self.filled_in(data))

    def note(self) -> None:
        """Remember how everything is."""
        self._before = self._state()

    def changed(self) -> list[str]:
        """What is no longer as it was noted, in words."""
        after = self._state()
        found = [
            f"{key}: {before!r} became {after.get(key)!r}"
            for key, before in self._before.items()
            if after.get(key) != before
        ]
        return found + [f"{key} is new" for key in after if key not in self._before] + self.heard

    def _state(self) -> dict[str, Any]:
        state: dict[str, Any] = {
            "environment": dict(os.environ),
            "folder": os.getcwd(),
            "limits": [
                resource.getrlimit(n) for n in (resource.RLIMIT_CPU, resource.RLIMIT_NOFILE)
            ],
            "cores": sorted(os.sched_getaffinity(0)),
            "host": socket.gethostname(),
        }
        for folder in (self.outside, self.out, self.neighbour.parent):
            for file in folder.rglob("*"):
                if file.is_file():
                    state[str(file)] = (
                        file.read_bytes(),
                        file.stat().st_mode,
                        file.stat().st_nlink,
                    )
        for top, folders, files in os.walk(self.course.root):
            folders[:] = [
                name for name in folders if name not in ("__pycache__", ".git", ".venv", ".lab")
            ]
            for name in files:
                path = os.path.join(top, name)
                with contextlib.suppress(FileNotFoundError):  # an editor's own file
                    status = os.lstat(path)
                    state[path] = (status.st_size, status.st_mtime_ns, status.st_mode)
        return state


@contextlib.contextmanager
def reaping() -> Iterator[None]:
    """Whatever loses its parent below this process becomes a child of this process."""
    set_subreaper, libc = 36, ctypes.CDLL(None)
    libc.prctl(set_subreaper, 1, 0, 0, 0)
    try:
        yield
    finally:
        libc.prctl(set_subreaper, 0, 0, 0, 0)


def descendants() -> dict[int, str]:
    """All living processes below this one, with their commands; not what runs ahead for other tests."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
                if state != "Z":
                    parents[int(entry.name)] = int(parent)
    found: dict[int, str] = {}
    for pid in parents:
        above, seen = pid, set()
        while above in parents and above not in seen:
            seen.add(above)
            if above in background_runs.processes:
                break
            above = parents[above]
            if above == os.getpid():
                with contextlib.suppress(OSError):
                    found[pid] = Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
                break
    return found


def left_behind(before: Iterable[int], patience_s: float = 300.0) -> dict[int, str]:
    """Processes that are there now and were not, after those that are ending have ended."""
    end = time.monotonic() + patience_s
    while left := {pid: what for pid, what in descendants().items() if pid not in before}:
        if time.monotonic() > end:
            return left
        time.sleep(0.05)
    return {}
