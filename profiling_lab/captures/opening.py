"""Find a recorded capture by its name, or by any path to it, and read its files.

    >>> from profiling_lab import captures
    >>> with captures.open("torch_inference_baseline") as capture:    # a timeline, as tables
    ...     capture.kernels.select("name", "duration_ns").head()
    >>> captures.text("ncu_memory", "kernels.csv")[:80]               # any file, decompressed
    >>> captures.provenance("ncu_memory")["gpu"]                      # how it was recorded

A capture is a folder in `captures/`, and its name is the folder's. What it is tells its content
(`kind`): a timeline of Nsight Systems (`profiling_lab.captures.nsys_export` has its tables), kernels of Nsight
Compute, a trace of PyTorch, chosen counters, or what a program measured of itself.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import re
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from profiling_lab.captures.kinds import MAIN_FILES, Kind
from profiling_lab.captures.nsys_export import NsysCapture
from profiling_lab.captures.sqlite_tables import SQLITE_MAGIC, check_file
from profiling_lab.errors import CaptureError, NoSuchCapture

GZIP_MAGIC = b"\x1f\x8b"
HEAD_BYTES = 65_536  # enough to tell what a file is: of a trace, the devices before its first event
# Larger texts are refused. A verdict on a trace takes about twelve times its size in memory and a
# second of processor time a MB (88 MB: 1,056 MB, 75 s, 2026-11-22), so this is what a machine with 8 GB
# can do, in minutes. An SQLite file may have any size.
MOST_TEXT_BYTES = 512 * 2**20
MOST_COUNTERS_BYTES = 2**20
MOST_NAMES = 3  # that an error suggests
NSYS_REPORT_MAGIC = b"NVIDIA Tegra Profiler Report"
NCU_REPORT_MAGIC = b"NVR\x00"
# What else people have at hand, told by its first bytes, and what to do with it.
OTHER_FILES = {
    b"PK\x03\x04": "is a zip archive: unpack it first",
    b"\x28\xb5\x2f\xfd": "is compressed with zstd: unpack it first",
    b"\xfd7zXZ": "is compressed with xz: unpack it first",
    b"BZh": "is compressed with bzip2: unpack it first",
    b"\x89HDF": "is HDF5: export it as SQLite (nsys export --type sqlite REPORT)",
    b"PAR1": "is Parquet: export it as SQLite (nsys export --type sqlite REPORT)",
    b"\x7fELF": "is a program: profile it, and give what the profiler wrote",
}
TIMELINE = MAIN_FILES[Kind.TIMELINE]
PROVENANCE = "provenance.json"
TOOL_HELP = "tool_help"  # a folder beside the captures: what the tools say about themselves
_RANK_TRACE = re.compile(r"trace_rank(\d+)\.json(\.gz)?")


@dataclass(frozen=True)
class Part:
    """A capture of one run; several may belong together (`profiling_lab.captures.inputs`).

    name: for people.
    path: what the functions of the course are given, a file or a folder. given: what it was named by.
    """

    name: str
    kind: Kind
    path: Path
    given: tuple[str, ...] = ()


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
    return Path(__file__).resolve().parents[2] / "captures"


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
    is_name = os.sep not in text and "/" not in text and text not in ("", ".", "..")
    if is_name and (named := folder() / text).is_dir():
        return named
    return Path(text)


def place(capture: str | os.PathLike[str]) -> Path:
    """The folder of a capture, given its name, or the folder or file at a path. Raises NoSuchCapture."""
    found = _place(capture)
    if not found.exists():
        raise _no_such(found, _folders())
    return found


def _no_such(place: Path, known: list[str]) -> NoSuchCapture:
    """The error for what is not there, with the nearest names: files beside it, captures of the course."""
    import difflib

    text = f"{place}: no such file or capture"
    near = {name: name for name in known}
    with contextlib.suppress(OSError):
        near |= {name: str(place.with_name(name)) for name in os.listdir(place.parent)}
    if close := [near[name] for name in difflib.get_close_matches(place.name, near, n=MOST_NAMES)]:
        return NoSuchCapture(f"{text}; did you mean {' or '.join(close)}?")
    if len(known) > MOST_NAMES:
        return NoSuchCapture(f"{text}; {len(known)} captures are in {folder()}")
    return NoSuchCapture(f"{text}; captures here: {', '.join(known) or 'none'}")


def file(capture: str | os.PathLike[str], name: str) -> Path:
    """One file of a capture: `file("ncu_memory", "kernels.csv")`.

    capture: its name, the path of its folder, or the path of such a file itself. name: inside it. A file that is kept
    compressed (`kernels.csv.gz`) is found under its plain name too. Raises NoSuchCapture, naming the
    captures that exist, and CaptureError, naming the files that the capture holds.
    """
    if os.path.isabs(name) or ".." in Path(name).parts:
        raise CaptureError(f"{name}: is no file inside a capture")
    place = _place(capture)
    if place.is_file():
        return place
    if not place.is_dir():
        raise _no_such(place, names() if name == TIMELINE else _folders())
    for candidate in (place / name, place / f"{name}.gz"):
        if candidate.is_file():
            return candidate
    held = ", ".join(sorted(entry.name for entry in place.iterdir() if entry.is_file()))
    raise CaptureError(f"{place.name}: holds no {name}; it has {held or 'no files'}")


def rank_traces(place: Path) -> dict[int, Path]:
    """The traces of a folder that holds one of each rank ("trace_rank0.json"), by rank; {} of others."""
    found = ((_RANK_TRACE.fullmatch(entry.name), entry) for entry in place.iterdir())
    return dict(sorted((int(name[1]), entry) for name, entry in found if name))


def text(capture: str | os.PathLike[str], name: str) -> str:
    """The text of one file of a capture, decompressed if need be; `capture` as in `file`.

    Raises CaptureError for a file that is cut off, damaged or not UTF-8, besides the errors of `file`.
    """
    place = file(capture, name)
    try:
        with place.open("rb") as stream:
            packed = stream.read(2) == GZIP_MAGIC
            stream.seek(0)
            source = gzip.GzipFile(fileobj=stream) if packed else stream
            data = source.read(MOST_TEXT_BYTES + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise CaptureError(f"{place}: is cut off or damaged (it does not decompress)") from None
    except OSError as error:
        raise _unreadable(place, error) from None
    if len(data) > MOST_TEXT_BYTES:
        raise CaptureError(
            f"{place}: has more than {MOST_TEXT_BYTES // 2**20} MiB of text; record less: fewer steps "
            "(torch.profiler.schedule), fewer launches (ncu -c)"
        )
    try:
        return data.decode(_encoding(data))
    except UnicodeDecodeError:
        raise CaptureError(f"{place}: is not text (not UTF-8)") from None


def _encoding(data: bytes) -> str:
    """UTF-8, or UTF-16 if its mark stands first: so PowerShell's > writes what a program prints."""
    return "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"


def _unreadable(place: Path, error: OSError) -> CaptureError:
    if isinstance(error, PermissionError):
        return CaptureError(f"{place}: no permission to read it")
    return CaptureError(f"{place}: cannot be read ({error.strerror})")


def kind(capture: str | os.PathLike[str]) -> Kind:
    """What a capture is, told by its content; of ranks' traces in a folder that of each file.

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
            return Kind(name)
        raise CaptureError(f"{capture}: holds none of {', '.join(MAIN_FILES.values())}")
    head = _head(place)
    if not head:
        raise CaptureError(f"{place}: is empty")
    if head.startswith(SQLITE_MAGIC):
        if is_gzip(place):
            raise CaptureError(f"{place}: is a compressed SQLite file: gunzip it first")
        return Kind.TIMELINE
    for magic, what in OTHER_FILES.items():
        if head.startswith(magic):
            raise CaptureError(f"{place}: {what}")
    if tool := report_tool(place):
        raise CaptureError(
            f"{place}: is a report of {tool}, in its own format; {EXPORT_COMMANDS[tool]}"
        )
    head_text = head.decode(_encoding(head), "replace")
    if head_text.lstrip().startswith(("{", "[")):
        chosen = '"traceEvents"' not in head_text and _has_counters(place)
        return Kind.COUNTERS if chosen else Kind.TRACE
    if re.search(r'^"?ID"?,', head_text, re.MULTILINE) or head_text.startswith("=="):
        return Kind.KERNELS
    if "Total Time (ns)" in head_text:
        raise CaptureError(f"{place}: is a table of nsys stats; give the SQLite file that it read")
    raise CaptureError(
        f"{place}: is neither an export of Nsight Systems (SQLite), nor ncu --page raw --csv, nor a "
        "Kineto trace (JSON)"
    )


EXPORT_COMMANDS = {
    "Nsight Systems": "export it: nsys export --type sqlite REPORT",
    "Nsight Compute": "export it: ncu --import REPORT --page raw --csv > kernels.csv",
}


def report_tool(place: Path) -> str:
    """The tool that wrote a report in its own format (.nsys-rep, .ncu-rep); "" if it is none.

    Raises CaptureError for a file that cannot be read.
    """
    head = _head(place, 64)
    if head.startswith(NSYS_REPORT_MAGIC):
        return "Nsight Systems"
    return "Nsight Compute" if head.startswith(NCU_REPORT_MAGIC) else ""


def is_gzip(place: Path) -> bool:
    """Whether a file is compressed by gzip, told by its first bytes."""
    with place.open("rb") as stream:
        return stream.read(2) == GZIP_MAGIC


def _head(place: Path, size: int = HEAD_BYTES) -> bytes:
    """The first bytes of a file, decompressed."""
    try:
        with place.open("rb") as stream:
            head = stream.read(size)
            if not head.startswith(GZIP_MAGIC):
                return head
            stream.seek(0)
            return gzip.GzipFile(fileobj=stream).read(size)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise CaptureError(f"{place}: is cut off or damaged (it does not decompress)") from None
    except OSError as error:
        raise _unreadable(place, error) from None


def _has_counters(place: Path) -> bool:
    """Whether a JSON file holds kernels with their counters (Day 4), and is not a trace."""
    if place.stat().st_size > MOST_COUNTERS_BYTES:
        return False
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
    key = version_of(file)
    capture = _opened.pop(key, None)
    if capture is None:
        check_file(file)
        capture = NsysCapture(file)
    _opened[key] = capture
    while len(_opened) > 1 and (
        len(_opened) > _KEEP_OPENED or sum(size for *_, size in _opened) > _KEEP_BYTES
    ):
        _opened.pop(next(iter(_opened)))
    return capture


def version_of(file: Path) -> tuple[str, int, int]:
    """Tells a file from others and from what it was before a change: its path, when it was written, its size."""
    status = file.stat()
    return os.path.realpath(file), status.st_mtime_ns, status.st_size


_opened: dict[tuple[str, int, int], NsysCapture] = {}
_KEEP_OPENED = 128
_KEEP_BYTES = 256_000_000
