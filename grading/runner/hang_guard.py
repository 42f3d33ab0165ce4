"""Two guards around learner code that runs in this process: endless loops, and sudden ends.

`hang_guard` interrupts a loop of Python code that does not come back. It is generous and never a
grade: it counts processor time, so that a busy machine takes none of it, and code that sleeps has
PATIENCE times as long. A loop inside a C function cannot be interrupted this way, only by ending the
process.

`Journal` names what was running when the process ended without warning (`os._exit`, a crash in C):
one small memory-mapped file holds the entry while learner code runs, so that writing it costs a
few microseconds and survives the end of the process.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import json
import linecache
import mmap
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import FrameType

if sys.platform != "win32":
    import fcntl

DEFAULT_TIMEOUT_S = 60.0
PATIENCE = 4  # so many times the limit may pass by the clock, for code that waits, or waits for a processor
HANG_EXIT_CODE = 75
_REPEAT_S = 1.0
_GIVE_UP_AFTER = 5


class HangError(BaseException):
    """Learner code that did not come back; no Exception, so that `except Exception` lets it pass.

    Attributes: what (the call), spent (how long, in words), where ((file, line, function) or None).
    """

    what = "the code"
    spent = ""
    where: tuple[str, int, str] | None = None

    def __str__(self) -> str:
        text = f"{self.what} had not come back after {self.spent}"
        if self.where:
            file, line, function = self.where
            code = linecache.getline(file, line).strip()
            text += f"; it was at {Path(file).name}, line {line}, in {function}"
            text += f": {code}" if code else ""
        return text


@contextlib.contextmanager
def hang_guard(
    seconds: float,
    what: str,
    *,
    sources: Collection[str] = (),
    on_end: Callable[[str], None] | None = None,
) -> Iterator[None]:
    """Raise HangError in the block once it has computed for `seconds`, or has taken PATIENCE times as long.

    What it computes is the processor time of all threads of this process; no sooner than after `seconds` by
    the clock, so that many threads at once take no time from each other.

    what: the call, for the message. sources: files of the learner's code; the message gives the
    line in one of them where there is one. In the main thread of a POSIX system the interruption
    comes by SIGALRM, elsewhere by an exception that a timer thread sets. It is repeated if the
    code swallows it; after the fifth time the process is ended with HANG_EXIT_CODE, the reason
    goes to stderr and, before that, to `on_end`. A block that swallowed it and then came back
    raises HangError all the same. Time in a debugger does not count.
    """
    state = _State(seconds, what, sources, on_end)
    in_main = threading.current_thread() is threading.main_thread()
    alarm = _by_alarm if in_main and hasattr(signal, "setitimer") else _by_thread
    raised: BaseException | None = None
    try:
        with alarm(state):
            yield
    except BaseException as error:
        if not state.fired:
            raise
        raised = error
    if state.fired:
        hang = HangError()
        hang.what, hang.spent, hang.where = what, state.spent, state.where
        if raised is not None:
            hang.with_traceback(raised.__traceback__)
        raise hang from None


class _State:
    def __init__(
        self,
        seconds: float,
        what: str,
        sources: Collection[str],
        on_end: Callable[[str], None] | None,
    ) -> None:
        self.seconds = seconds
        self.what = what
        self.sources = sources
        self.on_end = on_end
        self.fired = 0
        self.debugged = False
        self.over = False
        self.where: tuple[str, int, str] | None = None
        self.spent = ""
        self._began = time.monotonic(), time.process_time()

    def is_due(self) -> bool:
        """Whether the block has had its time; looks at the clocks until it has."""
        if not self.spent:
            passed_s, computed_s = (
                time.monotonic() - self._began[0],
                time.process_time() - self._began[1],
            )
            # An alarm after `seconds` finds a little less: the machine did something else as well.
            if computed_s >= 0.9 * self.seconds:
                self.spent = f"{self.seconds:.3g} s of processor time"
            elif passed_s >= PATIENCE * self.seconds:
                self.spent = (
                    f"{PATIENCE * self.seconds:.3g} s, {computed_s:.2g} s of it processor time"
                )
        return bool(self.spent)

    def may_fire(self, frame: FrameType | None) -> bool:
        """Count one interruption at `frame`; False if a debugger runs. May end the process."""
        self.debugged = self.debugged or _in_debugger(frame)
        if self.debugged:
            return False
        if self.fired == 0:
            self.where = _line(frame, self.sources)
        self.fired += 1
        if self.fired > _GIVE_UP_AFTER:
            self.end_process()
        return True

    def end_process(self) -> None:
        reason = (
            f"{self.what} had not come back after {self.spent} and swallowed "
            f"{_GIVE_UP_AFTER} interruptions"
        )
        if self.where:
            reason += f" (at {Path(self.where[0]).name}, line {self.where[1]})"
        if self.on_end is not None:
            with contextlib.suppress(Exception):
                self.on_end(reason)
        with contextlib.suppress(OSError):
            os.write(2, f"\n{reason}; the process ends here.\n".encode())
        os._exit(HANG_EXIT_CODE)


@contextlib.contextmanager
def _by_alarm(state: _State) -> Iterator[None]:
    def on_alarm(_signal: int, frame: FrameType | None) -> None:
        if not state.over and state.is_due() and state.may_fire(frame):
            raise HangError

    started = time.monotonic()
    old_handler = signal.signal(signal.SIGALRM, on_alarm)
    repeat = min(state.seconds, _REPEAT_S)
    outer_left, outer_repeat = signal.setitimer(signal.ITIMER_REAL, state.seconds, repeat)
    try:
        try:
            yield
        finally:
            state.over = True  # first of all, so that no alarm interrupts the restoring below
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old_handler)
        if outer_left:  # a guard around this one goes on with the time that it has left
            left = max(outer_left - (time.monotonic() - started), 0.001)
            signal.setitimer(signal.ITIMER_REAL, left, outer_repeat)


@contextlib.contextmanager
def _by_thread(state: _State) -> Iterator[None]:
    target = threading.get_ident()
    set_exception = ctypes.pythonapi.PyThreadState_SetAsyncExc
    lock = threading.Lock()
    over = threading.Event()

    def watch() -> None:
        wait = state.seconds
        while not over.wait(wait):
            wait = min(state.seconds, _REPEAT_S)
            with lock:
                frame = sys._current_frames().get(target)
                if not over.is_set() and state.is_due() and state.may_fire(frame):
                    set_exception(ctypes.c_ulong(target), ctypes.py_object(HangError))

    threading.Thread(target=watch, name="hang-guard", daemon=True).start()
    try:
        yield
    finally:
        with lock:
            over.set()
            # Takes back an exception that is set but not raised yet.
            set_exception(ctypes.c_ulong(target), None)


def _in_debugger(frame: FrameType | None) -> bool:
    if any(base.__name__ == "Bdb" for base in type(getattr(sys.gettrace(), "__self__", 0)).mro()):
        return True
    while frame is not None:
        if frame.f_globals.get("__name__") in (
            "bdb",
            "pdb",
            "cmd",
            "code",
            "IPython.core.debugger",
        ):
            return True
        frame = frame.f_back
    return False


def _line(frame: FrameType | None, sources: Collection[str]) -> tuple[str, int, str] | None:
    innermost = None
    while frame is not None:
        where = (frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
        innermost = innermost or where
        if frame.f_code.co_filename in sources:
            return where
        frame = frame.f_back
    return innermost if not sources else None


# --- the journal ---------------------------------------------------------------------------------

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
