"""What is refused of a submission: limits, reasons, and names as they are shown."""

from __future__ import annotations

import re
import stat
import unicodedata
from collections.abc import Iterable

from grading.runner.printable import printable

FILE_BYTES = 1 << 20
ARCHIVE_BYTES = 64 << 20  # of an archive, packed and, where all of it must be read, unpacked
MEMBERS = 10_000
DIRECTORY_BYTES = 8 << 20  # of a zip's directory: 10,000 members with names of 800 bytes

SUFFIXES = (
    *(".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tbz"),
    *(".tar.xz", ".txz", ".tar.zst", ".tzst"),
)
UNSUPPORTED = (".7z", ".rar", ".gz", ".bz2", ".xz", ".zst", ".iso", ".dmg")
HIDDEN = frozenset({"__MACOSX", "@eaDir", "Thumbs.db", "desktop.ini", "lost+found"})
PACK_ANEW = "hand in the zip that `lab submit` writes"
TWICE = "handed in more than once"  # which one counts is for people to say


class Refused(Exception):
    """Something cannot be taken; the message says why and, where it helps, what to do."""


class NotThere(Refused):
    """An entry holds none of the course's files at their places."""


class StagingError(Exception):
    """The staging folder cannot be written: not the submission's doing."""


def hidden(name: str) -> bool:
    """Whether an entry is the system's own and no one's work (.git, .DS_Store, __MACOSX, …)."""
    return name.startswith(".") or name in HIDDEN


def shown(name: str, length: int = 200) -> str:
    """A name as it may be printed: composed (NFC), without what moves a cursor or turns the writing.

    Characters that control, format or encode nothing become their Python escapes; longer names are cut.
    """
    return printable(unicodedata.normalize("NFC", name), length)


def archive_stem(name: str) -> str:
    """A name without an archive's suffix."""
    for suffix in sorted((*SUFFIXES, *UNSUPPORTED, ".git"), key=len, reverse=True):
        if name.lower().endswith(suffix) and len(name) > len(suffix):
            return name[: -len(suffix)]
    return name


def stub_of(name: str, stubs: Iterable[str]) -> str:
    """The stub that a file is by its name alone, as a class system may have changed it; "" if none or several.

    Canvas: NAME_number_number_FILE, and FILE-1 for one that is handed in again.
    """
    found = [
        stub
        for stub in stubs
        for stem, dot, suffix in [stub.rpartition("/")[2].rpartition(".")]
        if re.fullmatch(
            rf"(?:[^_]+_(?:LATE_)?\d+_\d+_)?{re.escape(stem)}(?:-\d+)?\{dot}{suffix}", name
        )
    ]
    return found[0] if len(found) == 1 else ""


def allow(size: int, limit_bytes: int = FILE_BYTES) -> None:
    if size > limit_bytes:
        raise Refused(f"it is larger than {limit_bytes / (1 << 20):g} MiB")


def kind_of(mode: int) -> str:
    kinds = (
        (stat.S_ISDIR, "a folder"),
        (stat.S_ISFIFO, "a pipe"),
        (stat.S_ISSOCK, "a socket"),
        (stat.S_ISCHR, "a device"),
        (stat.S_ISBLK, "a device"),
    )
    return next((words for test, words in kinds if test(mode)), "something else")
