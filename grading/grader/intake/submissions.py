"""Takes submissions in: folders, archives and clones become trees that hold the course's stub files and no more.

    for submission in take_in(Path("submissions"), course, staging): ...

An entry is a folder, a .zip or .tar(.gz/.bz2/.xz), a git clone with or without a work tree, or a folder
that holds one archive and nothing else; or the one submission that was named. Its name is the student's:
whose it is on a roster, `identify` and `canonical` say without guessing. Several files of one student, as
Canvas gives a hand-in of several, are one entry. Two archives or folders of one student are refused by name,
both: which of them counts is not the grader's to choose.

`grading.grader.intake.taking` does the reading, in a process of its own, which is killed and made anew when an entry
takes too long or too much memory: one bad entry never stops the others.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import selectors
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grading.grader.intake.folders import Folder
from grading.grader.intake.owners import canonical, identify
from grading.grader.intake.refused import ARCHIVE_BYTES, TWICE, archive_stem, hidden, shown, stub_of
from grading.grader.intake.repositories import is_bare
from profiling_lab.course.manifest import Course
from profiling_lab.errors import LabError

# For one entry, of time as it passes; processor time has a smaller limit (`reader.ENTRY_CPU_S`). Only a dying
# disk needs longer.
ENTRY_TIMEOUT_S = 120.0

# What lies beside hand-ins and is none: rosters, policies, the class system's own lists.
_NO_HAND_INS = (".csv", ".toml", ".json", ".yml", ".yaml", ".log", ".md")


class SubmissionsError(LabError):
    """The submissions cannot be taken in at all; the message says why and what to do."""


@dataclass(frozen=True)
class Submission:
    """One student's work, staged.

    student: the entry's name, without an archive's suffix. tree: a folder with the taken files at the paths
    of the manifest, and nothing else. sha256: of these files with their paths. files: by path of the manifest,
    "submitted", "missing" or "refused: why". extra: what else was there, not taken. error: why nothing
    could be taken; "" otherwise. submitted_at: seconds since 1970 of a clone's last commit, else None: files' own times are those of a download.
    """

    student: str
    tree: Path
    sha256: str
    files: dict[str, str] = field(default_factory=dict)
    extra: tuple[str, ...] = ()
    extra_count: int = 0
    error: str = ""
    submitted_at: float | None = None


# -- taking in ------------------------------------------------------------------------------------


def take_in(
    source: Path,
    course: Course,
    staging: Path,
    *,
    single: bool | None = None,
    notice: Callable[[str], None] | None = None,
    progress: Callable[[int, int], None] | None = None,
    broke_reader: dict[str, str] | None = None,
) -> list[Submission]:
    """Stage every submission of a folder, or the one submission that `source` is; sorted by student.

    staging: a folder for the trees; each has a name that depends on its student only, and is made anew.
    single: whether `source` is one submission and no folder of them; None: it is if it holds a file of
    the course at its place, or is an archive or a repository. notice: is told, in a line, what of the
    folder was left out. progress: is told how many of how many entries are done.

    Raises SubmissionsError if there is nothing to take in or the staging folder cannot be written.
    """
    if os.open not in os.supports_dir_fd or not hasattr(os, "O_NOFOLLOW"):
        raise SubmissionsError("submissions can be taken in on Linux and macOS only")
    notice = notice or (lambda line: None)
    stubs = [str(stub) for exercise in course.exercises for stub in exercise.stubs]
    stubs = list(dict.fromkeys(stubs))
    by_student = _students(source, stubs, staging, single, notice)
    done: list[Submission] = []
    with _Reader(stubs, course.root, staging) as reader:
        for number, (student, entries) in enumerate(sorted(by_student.items()), 1):
            tree = staging / hashlib.sha256(student.encode()).hexdigest()[:16]
            entry, beside, extra = _one_of(entries, stubs)
            if entry is None:
                names = ", ".join(shown(entry.name) for entry in entries)
                answer = reader.refused(f"{TWICE}: {names}")
            else:
                answer = _take(reader, entry, tree, broke_reader, beside)
                answer["extra"] = [*answer.get("extra", ()), *extra]
                answer["extra_count"] = answer.get("extra_count", 0) + len(extra)
            done.append(
                Submission(
                    student,
                    tree,
                    answer.get("sha256", ""),
                    answer["files"],
                    tuple(answer.get("extra", ())),
                    answer.get("extra_count", 0),
                    answer.get("error", ""),
                    answer.get("submitted_at"),
                )
            )
            if progress:
                progress(number, len(by_student))
    return done


def _one_of(entries: list[Path], stubs: list[str]) -> tuple[Path | None, list[str], list[str]]:
    """One student's entries as one: the entry, course files beside it, and others; None if there is no telling.

    It is told by names alone: an archive or a folder, or files of the course, and whatever else lies beside them.
    """
    if len(entries) == 1:
        return entries[0], [], []
    loose = [entry for entry in entries if stub_of(entry.name, stubs)]
    packed = [
        entry for entry in entries if archive_stem(entry.name) != entry.name or entry.is_dir()
    ]
    others = [shown(entry.name) for entry in entries if entry not in loose and entry not in packed]
    if len(packed) == 1 and not loose:
        return packed[0], [], others
    if loose and not packed:
        return loose[0], [entry.name for entry in loose[1:]], others
    return None, [], []


def _take(
    reader: _Reader,
    entry: Path,
    tree: Path,
    broke_reader: dict[str, str] | None,
    beside: Sequence[str] = (),
) -> dict[str, Any]:
    """What came of an entry; an archive that broke its reader once is known by its hash."""
    digest = _digest(entry) if broke_reader is not None else ""
    if broke_reader is not None and digest in broke_reader:
        return reader.refused(broke_reader[digest])
    answer = reader.take(entry, tree, beside)
    if broke_reader is not None and digest and answer.pop("failed", False):
        broke_reader[digest] = answer["error"]
    return answer


def _digest(entry: Path) -> str:
    """SHA-256 of an archive's bytes; "" for what is none, or too large to be read at all."""
    try:
        if not stat.S_ISREG(entry.lstat().st_mode) or entry.stat().st_size > ARCHIVE_BYTES:
            return ""
        with open(entry, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


def _students(
    source: Path,
    stubs: list[str],
    staging: Path,
    single: bool | None,
    notice: Callable[[str], None],
) -> dict[str, list[Path]]:
    """The entries by the student's name as it is shown; several of one student together."""
    try:
        is_folder = source.is_dir()
        if not is_folder and not source.exists():
            raise SubmissionsError(f"{source}: there is nothing here; name the submissions' folder")
        if single or not is_folder or (single is None and _is_submission(source, stubs)):
            path = source.resolve()
            return {_student(path.name): [path]}
        with os.scandir(source.resolve()) as listing:
            found = sorted((Path(entry.path) for entry in listing), key=lambda path: path.name)
    except OSError as error:
        raise SubmissionsError(f"{source}: cannot be read ({error.strerror})") from None
    inside = staging.resolve()
    out: dict[tuple[str, str], list[Path]] = {}
    left_out = []
    for path in found:
        if hidden(path.name):
            continue
        who = identify(path.name)
        no_hand_in = path.name.lower().endswith(_NO_HAND_INS) and path.is_file()
        if no_hand_in or who.kind not in ("", "file") or inside.is_relative_to(path):
            left_out.append(shown(path.name))
            continue
        out.setdefault((canonical(path.name), who.number), []).append(path)
    if left_out:
        more = f" and {len(left_out) - 5} more" if len(left_out) > 5 else ""
        notice(f"{source}: not read as submissions: {', '.join(left_out[:5])}{more}")
    if not out:
        raise SubmissionsError(
            f"{source}: holds no submissions; a submission is a folder, a .zip or .tar file or a "
            "git clone in it, named for its student"
        )
    students: dict[str, list[Path]] = {}
    for entries in out.values():
        students.setdefault(_student(entries[0].name), []).extend(entries)
    return students


def _student(name: str) -> str:
    return shown(archive_stem(name)) or "submission"


def _is_submission(source: Path, stubs: list[str]) -> bool:
    """Whether a folder is a submission itself. Raises OSError, SubmissionsError if it may be both."""
    descriptor = os.open(source, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        folder = Folder(descriptor)
        if is_bare(descriptor):
            return True
        if not any(map(folder.has, stubs)):
            return False
        # One student's folder that bears the name of the course's must not hide all others.
        others = [
            name
            for name in folder.folders()
            if name != "solutions" and any(folder.has(f"{name}/{stub}") for stub in stubs)
        ]
    finally:
        os.close(descriptor)
    if others:
        raise SubmissionsError(
            f"{source}: is it one submission or a folder of them? It holds the course's files, and "
            f"so does {shown(others[0])}/ in it; put each submission into a folder of its own"
        )
    return True


class _Reader:
    """The process that reads entries, started again when one of them broke it. A context manager."""

    def __init__(self, stubs: list[str], root: Path, staging: Path) -> None:
        self.stubs, self.root, self.staging = stubs, root, staging
        self._process: subprocess.Popen[bytes] | None = None
        self._pending = b""

    def __enter__(self) -> _Reader:
        try:
            self.staging.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._unwritable(error.strerror or str(error)) from None
        return self

    def __exit__(self, *exc: object) -> None:
        self._end()

    def take(self, entry: Path, tree: Path, beside: Sequence[str] = ()) -> dict[str, Any]:
        """What came of an entry: a Taken as plain data. Raises SubmissionsError."""
        asked = {"path": str(entry), "tree": str(tree.absolute()), "beside": list(beside)}
        answer = self._ask(asked)
        if "staging" in answer:
            raise self._unwritable(answer["staging"])
        if "failed" in answer:
            return self.refused(answer["failed"]) | {"failed": True}
        return answer

    def refused(self, why: str) -> dict[str, Any]:
        """The answer for an entry of which nothing is taken."""
        return {"files": dict.fromkeys(self.stubs, "missing"), "error": why}

    def _unwritable(self, why: str) -> SubmissionsError:
        return SubmissionsError(
            f"{self.staging}: submissions cannot be copied here ({why}); free some space or name "
            "another folder, and start again: what is graded already is kept"
        )

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        code = 0
        for _ in range(2):  # the machine may have ended the reader for want of memory
            process = self._process or self._start()
            assert process.stdin
            try:
                process.stdin.write(json.dumps(request).encode() + b"\n")
                process.stdin.flush()
                return self._answer(process)
            except TimeoutError:
                self._end()
                return {"failed": f"reading it took more than {ENTRY_TIMEOUT_S:g} s"}
            except (EOFError, OSError):
                code = self._end()
        return {"failed": f"reading it broke the reader twice (exit code {code})"}

    def _start(self) -> subprocess.Popen[bytes]:
        ours = str(Path(__file__).resolve().parents[3])
        program = f"import sys; sys.path.insert(0, {ours!r}); import grading.grader.intake.reader as r; r.serve()"
        self._pending = b""
        self._process = process = subprocess.Popen(
            [sys.executable, "-I", "-W", "ignore", "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # so that what it starts can be ended with it
        )
        assert process.stdin
        setup = {"stubs": self.stubs, "root": str(self.root)}
        try:
            process.stdin.write(json.dumps(setup).encode() + b"\n")
            process.stdin.flush()
            self._answer(process)
        except (OSError, EOFError):
            self._end()
            raise SubmissionsError(
                f"the process that reads submissions does not start: try {sys.executable} -I -c pass"
            ) from None
        return process

    def _answer(self, process: subprocess.Popen[bytes]) -> dict[str, Any]:
        """The next line. Raises TimeoutError, EOFError."""
        assert process.stdout
        deadline = time.monotonic() + ENTRY_TIMEOUT_S
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._pending:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise TimeoutError
                data = os.read(process.stdout.fileno(), 1 << 20)
                if not data:
                    raise EOFError
                self._pending += data
        line, _, self._pending = self._pending.partition(b"\n")
        return json.loads(line)

    def _end(self) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        for stream in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):
                if stream:
                    stream.close()
        return process.wait()
