"""What was running when a process ended without warning (`os._exit`, a crash in C).

`Journal` names it: one small memory-mapped file holds the entry while learner code runs, so that writing
it costs a few microseconds and survives the end of the process.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import mmap
import os
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path

if sys.platform != "win32":
    import fcntl


_JOURNAL_BYTES = 4096


@dataclass(frozen=True)
class Entry:
    """What ran when a process ended: ids as in the manifest, and the hash of the source judged.

    reason: why the process ended, where that is known. source: the file, if it was given.
    """

    exercise: str
    task: str
    check: str
    source_hash: str
    pid: int
    source: str = ""
    reason: str = ""

    def describe(self) -> str:
        """Why the process ended, as far as can be told."""
        return self.reason or "os._exit, a crash in C code, or the process was killed"

    def __str__(self) -> str:
        """What to tell the learner, in a sentence."""
        file = Path(self.source).name if self.source else "the file"
        return (
            f"the last run ended inside {self.check or self.task or self.exercise}: "
            f"{self.describe()}; change {file} to try again"
        )


class Journal:
    """Notes on disk what runs now, so that the next run can tell what ended this process.

    path: names the files, `<stem>-<pid>-<n><suffix>` in its folder: one for each process.
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        self._file: Path | None = None
        self._descriptor = -1
        self._memory: mmap.mmap | None = None
        self._entry: Entry | None = None
        self._pid = 0
        self._left: list[tuple[Path, Entry]] = []

    def enter(
        self, *, exercise: str, task: str, check: str, source_hash: str, source: Path | None = None
    ) -> None:
        """Note that learner code starts now.

        What earlier runs left of this check, or of its task with another source, is settled.
        """
        for file, entry in self._left:
            same = (entry.exercise, entry.task) == (exercise, task)
            if same and (entry.check == check or entry.source_hash != source_hash):
                file.unlink(missing_ok=True)
        self._write(
            Entry(exercise, task, check, source_hash, os.getpid(), str(source) if source else "")
        )

    def leave(self) -> None:
        """Note that it came back."""
        self._entry = None
        if self._memory is not None and self._pid == os.getpid():
            self._memory[0:4] = b"\0\0\0\0"

    def note(self, reason: str) -> None:
        """Add why the process is about to end."""
        if self._entry is not None:
            self._write(replace(self._entry, reason=reason[:500]))

    def close(self) -> None:
        """Leave, and remove this process's file. What earlier runs left stays."""
        self.leave()
        if self._memory is None or self._pid != os.getpid():
            return
        self._memory.close()
        self._memory = None
        os.close(self._descriptor)
        if self._file is not None:
            self._file.unlink(missing_ok=True)

    clear = close

    def left_over(self) -> Entry | None:
        """What ran when an earlier process ended, the latest if there are several.

        It stays until its check is entered again, `forget` is called, or its source, if that was
        given, has changed.
        """
        self._left = []
        pattern = f"{self.path.stem}-*{self.path.suffix}"
        for file in self.path.parent.glob(pattern) if self.path.parent.is_dir() else ():
            if file == self._file or not _owner_ended(file):
                continue
            entry = _read_entry(file)
            if entry is None or (entry.source and _changed(entry)):
                file.unlink(missing_ok=True)
            else:
                self._left.append((file, entry))
        self._left.sort(key=lambda pair: pair[0].stat().st_mtime_ns)
        return self._left[-1][1] if self._left else None

    def ended_in(self, *, source_hash: str) -> dict[str, Entry]:
        """By task, what earlier runs left with this very source, after `left_over`.

        One check that ends the process speaks for all of its task: else each of them would have
        to end a run of its own before it is known.
        """
        return {e.task: e for _, e in self._left if e.source_hash == source_hash}

    def forget(self) -> None:
        """Remove what earlier processes left, so that those checks run again."""
        for file, _ in self._left:
            file.unlink(missing_ok=True)
        self._left = []

    def _write(self, entry: Entry) -> None:
        if self._memory is None or self._pid != os.getpid():
            self._open()
        assert self._memory is not None
        body = json.dumps(asdict(entry)).encode()
        if len(body) > _JOURNAL_BYTES - 4:
            short = replace(entry, check=entry.check[:500], source="", reason=entry.reason[:200])
            body = json.dumps(asdict(short)).encode()
        self._entry = entry
        self._memory[0:4] = b"\0\0\0\0"
        self._memory[4 : 4 + len(body)] = body
        self._memory[0:4] = len(body).to_bytes(4, "big")  # last: a half-written entry has no length

    def _open(self) -> None:
        self._pid = os.getpid()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        number = 0
        while True:
            name = f"{self.path.stem}-{self._pid}-{number}{self.path.suffix}"
            self._file = self.path.with_name(name)
            try:
                self._descriptor = os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
                break
            except FileExistsError:  # left by an earlier process with this number
                number += 1
        if sys.platform != "win32":
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)  # held until the process ends, however
        os.truncate(self._file, _JOURNAL_BYTES)
        self._memory = mmap.mmap(self._descriptor, _JOURNAL_BYTES)


def _owner_ended(file: Path) -> bool:
    if sys.platform == "win32":
        try:  # a file that a living process has mapped cannot be renamed
            file.rename(file)
        except OSError:
            return False
        return not _windows_process_lives(int(file.stem.split("-")[-2]))
    try:
        descriptor = os.open(file, os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def _windows_process_lives(pid: int) -> bool:
    kernel32 = ctypes.WinDLL("kernel32")  # type: ignore[attr-defined]
    handle = kernel32.OpenProcess(0x1000, False, pid)  # PROCESS_QUERY_LIMITED_INFORMATION
    if not handle:
        return False
    code = ctypes.c_ulong()
    kernel32.GetExitCodeProcess(handle, ctypes.byref(code))
    kernel32.CloseHandle(handle)
    return code.value == 259  # STILL_ACTIVE


def _read_entry(file: Path) -> Entry | None:
    try:
        data = file.read_bytes()
        length = int.from_bytes(data[:4], "big")
        fields = json.loads(data[4 : 4 + length]) if length else None
        return Entry(**fields) if fields else None
    except (OSError, ValueError, TypeError):
        return None


def _changed(entry: Entry) -> bool:
    try:
        digest = hashlib.sha256(Path(entry.source).read_bytes()).hexdigest()
    except OSError:
        return True
    return not digest.startswith(entry.source_hash)  # a shortened hash will do
