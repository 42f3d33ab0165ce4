"""Find a recorded capture by its name, or by any path to it, and read its files.

    >>> from profiling_lab import captures
    >>> with captures.open("torch_inference_baseline") as capture:    # a timeline, as tables
    ...     capture.kernels.select("name", "duration_ns").head()
    >>> captures.text("ncu_memory", "kernels.csv")[:80]               # any file, decompressed
    >>> captures.provenance("ncu_memory")["gpu"]                      # how it was recorded

A capture is a folder in `captures/`, and its name is the folder's. What it is tells its content
(`kind`): a timeline of Nsight Systems (`profiling_lab.nsys_export` has its tables), kernels of Nsight
Compute, a trace of PyTorch, chosen counters, or what a program measured of itself.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import zlib
from pathlib import Path
from typing import Any

from profiling_lab.errors import CaptureError, NoSuchCapture
from profiling_lab.nsys_export import SQLITE_MAGIC, NsysCapture, check_file

GZIP_MAGIC = b"\x1f\x8b"
HEAD_BYTES = 65_536  # enough to tell what a file is: of a trace, the devices before its first event
TIMELINE = "timeline.sqlite"
PROVENANCE = "provenance.json"
TOOL_HELP = "tool_help"  # a folder beside the captures: what the tools say about themselves
# What a capture of each kind is read from; it may be kept compressed, with ".gz" behind the name. A
# folder is of the first kind whose file it holds: chosen counters may come with the page that they were
# taken from, which then holds too little for a verdict on a kernel.
MAIN_FILES = {
    "timeline": TIMELINE,
    "counters": "counters.json",
    "kernels": "kernels.csv",
    "trace": "trace.json",
}


def folder() -> Path:
    """The folder that holds the captures of the course: `captures/` of the nearest course tree.

    `LAB_CAPTURES` overrides it. Outside a course the current folder is searched upwards, then the
    tree that this library is installed from.
    """
    if override := os.environ.get("LAB_CAPTURES"):
        return Path(override)
    here = Path.cwd().resolve()
    for parent in (here, *here.parents):
        if (parent / "course.toml").is_file() and (parent / "captures").is_dir():
            return parent / "captures"
    return Path(__file__).resolve().parent.parent / "captures"


def names() -> list[str]:
    """The names of the captures that `open` knows, sorted."""
    root = folder()
    if not root.is_dir():
        return []
    return sorted(entry.name for entry in root.iterdir() if (entry / TIMELINE).is_file())


def path(name_or_path: str | os.PathLike[str]) -> Path:
    """The SQLite file of a timeline, given its name or any path to it; raises what `file` raises."""
    return file(name_or_path, TIMELINE)


def _place(capture: str | os.PathLike[str]) -> Path:
    """The folder of a capture of this name, else the path itself, whether there is something or not."""
    text = os.fspath(capture)
    named = folder() / text
    return named if os.sep not in text and "/" not in text and named.is_dir() else Path(text)


def place(capture: str | os.PathLike[str]) -> Path:
    """The folder of a capture, given its name, or the folder or file at a path. Raises NoSuchCapture."""
    found = _place(capture)
    if not found.exists():
        raise NoSuchCapture(f"{found}: no such file or capture; captures: {', '.join(_folders())}")
    return found


def file(capture: str | os.PathLike[str], name: str) -> Path:
    """One file of a capture: `file("ncu_memory", "kernels.csv")`.

    capture: its name, the path of its folder, or the path of such a file itself. A file that is kept
    compressed (`kernels.csv.gz`) is found under its plain name too. Raises NoSuchCapture, naming the
    captures that exist, and CaptureError, naming the files that the capture holds.
    """
    place = _place(capture)
    if place.is_file():
        return place
    if not place.is_dir():
        known = ", ".join(names() if name == TIMELINE else _folders()) or "none"
        raise NoSuchCapture(f"{place}: no such file or capture; captures here: {known}")
    for candidate in (place / name, place / f"{name}.gz"):
        if candidate.is_file():
            return candidate
    held = ", ".join(sorted(entry.name for entry in place.iterdir() if entry.is_file()))
    raise CaptureError(f"{place.name}: holds no {name}; it has {held or 'no files'}")


def text(capture: str | os.PathLike[str], name: str) -> str:
    """The text of one file of a capture, decompressed if need be; `capture` as in `file`.

    Raises CaptureError for a file that is cut off, damaged or not UTF-8, besides the errors of `file`.
    """
    place = file(capture, name)
    try:
        data = place.read_bytes()
        if data[:2] == GZIP_MAGIC:
            data = gzip.decompress(data)
        return data.decode("utf-8-sig")
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise CaptureError(f"{place}: is cut off or damaged (it does not decompress)") from None
    except UnicodeDecodeError:
        raise CaptureError(f"{place}: is not text (not UTF-8)") from None
    except OSError as error:
        raise CaptureError(f"{place}: cannot be read ({error.strerror})") from None


def kind(capture: str | os.PathLike[str]) -> str:
    """What a capture is, told by its content: "timeline", "kernels", "trace" or "counters".

    timeline: a SQLite file of Nsight Systems; kernels: the raw page of Nsight Compute as CSV; trace: a
    Kineto trace (JSON); counters: chosen counters of named operations (JSON, Day 4).
    capture: a name, a folder, or a file. Raises NoSuchCapture, and CaptureError for what is none of
    these.
    """
    place = Path(os.fspath(capture))
    if not place.is_file():
        for name, main_file in MAIN_FILES.items():
            try:
                file(capture, main_file)
            except NoSuchCapture:
                raise
            except CaptureError:
                continue
            return name
        raise CaptureError(f"{capture}: holds none of {', '.join(MAIN_FILES.values())}")
    try:
        with place.open("rb") as stream:
            head = stream.read(HEAD_BYTES)
    except PermissionError:
        raise CaptureError(f"{place}: no permission to read it") from None
    except OSError as error:
        raise CaptureError(f"{place}: cannot be read ({error.strerror})") from None
    if not head:
        raise CaptureError(f"{place}: is empty")
    if head.startswith(SQLITE_MAGIC):
        return "timeline"
    head_text = (
        text(place, "")[:HEAD_BYTES]
        if head.startswith(GZIP_MAGIC)
        else head.decode("utf-8", "replace")
    )
    if head_text.lstrip("\ufeff \n\r\t").startswith(("{", "[")):
        return "counters" if '"traceEvents"' not in head_text and _has_counters(place) else "trace"
    if re.search(r'^"?ID"?,', head_text, re.MULTILINE) or head_text.startswith("=="):
        return "kernels"
    raise CaptureError(
        f"{place}: is neither an export of Nsight Systems (SQLite), nor ncu --page raw --csv, nor a "
        "Kineto trace (JSON)"
    )


def _has_counters(place: Path) -> bool:
    """Whether a JSON file holds kernels with their counters (Day 4), and is not a trace."""
    try:
        document = json.loads(text(place, ""))
    except ValueError:
        return False
    return isinstance(document, dict) and "kernels" in document and "traceEvents" not in document


def provenance(capture: str | os.PathLike[str]) -> dict[str, Any]:
    """What `provenance.json` of a capture says: GPU, tool, command, what the program reported.

    Raises CaptureError for one that is no JSON object, besides the errors of `text`.
    """
    found = file(capture, PROVENANCE)
    try:
        recorded = json.loads(text(found, PROVENANCE))
    except ValueError:
        raise CaptureError(f"{found}: is not JSON") from None
    if not isinstance(recorded, dict):
        raise CaptureError(f"{found}: holds no object")
    return recorded


def provenance_beside(file: Path) -> dict[str, Any]:
    """What `provenance.json` in the folder of a capture's file says; empty if there is none."""
    try:
        return provenance(file.parent) if (file.parent / PROVENANCE).is_file() else {}
    except CaptureError:
        return {}


def _folders() -> list[str]:
    root = folder()
    if not root.is_dir():
        return []
    marks = (*MAIN_FILES.values(), PROVENANCE)
    return sorted(
        entry.name
        for entry in root.iterdir()
        if entry.name != TOOL_HELP
        and any((entry / mark).is_file() or (entry / f"{mark}.gz").is_file() for mark in marks)
    )


def open(name_or_path: str | os.PathLike[str]) -> NsysCapture:
    """Open a capture by its name (see `names`) or by the path of an exported SQLite file.

    A file that has not changed since it was last opened is not read again: the same NsysCapture
    comes back, with the tables it has. Raises NoSuchCapture, or CaptureError if the file is not a
    readable Nsight Systems export.
    """
    file = path(name_or_path)
    check_file(file)
    status = file.stat()
    key = str(file.resolve()), status.st_mtime_ns, status.st_size
    capture = _opened.pop(key, None) or NsysCapture(file)
    _opened[key] = capture
    while len(_opened) > 1 and (
        len(_opened) > _KEEP_OPENED or sum(size for *_, size in _opened) > _KEEP_BYTES
    ):
        _opened.pop(next(iter(_opened)))
    return capture


_opened: dict[tuple[str, int, int], NsysCapture] = {}
_KEEP_OPENED = 32
_KEEP_BYTES = 256_000_000
