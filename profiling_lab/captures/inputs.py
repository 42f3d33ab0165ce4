"""What a user names on the command line, as captures that can be read, and which belong to one run.

    >>> parts = inputs.read(["my_run.nsys-rep", "my_kernels.ncu-rep"])
    >>> inputs.runs(parts)              # one run: a timeline, and pages of kernels that it ran

Everything is checked here, before a function of the course sees it: a function should have to deal with
what a recording says, not with what a file could be.
"""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec

from profiling_lab import captures
from profiling_lab.captures import Kind, Part, exports, merging
from profiling_lab.errors import CaptureError, EmptyCapture

DEVICE_CATEGORIES = rb'"(?:kernel|gpu_memcpy|gpu_memset)"'
# The same one by one, and the calls that issue it; in the words of older versions as well.
DEVICE_WORK = ("kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset")
CALLS = ("cuda_runtime", "cuda_driver", "runtime")
# What tells a step that was added here from one of the profiler's own.
ADDED_STEP = "no step was marked"


def read(arguments: Iterable[str]) -> list[Part]:
    """The captures that arguments name, in their order, each readable and of its kind.

    An argument is the name of a capture, its folder, a folder with a trace of each rank, or a file:
    SQLite or report of Nsight Systems, raw page or report of Nsight Compute, a trace. Reports are
    exported (`profiling_lab.captures.exports`). Traces of several ranks of one job become one capture, and so
    do their timelines (`profiling_lab.captures.merging`).
    Raises CaptureError, naming the argument, for what cannot be read.
    """
    given = list(dict.fromkeys(arguments))
    ranks: dict[tuple[Any, ...], dict[int, Part]] = defaultdict(dict)
    out: list[Part | tuple[Any, ...]] = []  # a job of several ranks stands for its traces
    for argument in given:
        part = _part(argument)
        job = None
        if part.kind == Kind.TRACE:
            file = captures.file(part.path, captures.MAIN_FILES[Kind.TRACE])
            job = _job(check_trace(file))
            part = replace(part, path=_with_step(part.path, file))
        if job is None:
            out.append(part)
            continue
        key, rank = job
        if rank in ranks[key]:
            raise CaptureError(f"{argument}: a second trace of rank {rank}; give each rank's once")
        ranks[key][rank] = part
        out += [key] if len(ranks[key]) == 1 else []
    return _with_job(
        [entry if isinstance(entry, Part) else _together(ranks[entry], entry[0]) for entry in out]
    )


def runs(parts: Sequence[Part]) -> list[list[Part]]:
    """Captures that belong to one run, together; in their order.

    Pages of kernels belong to the timeline or the trace that they are named with, if there is only one.
    Everything else is a run of its own.
    """
    whole = [part for part in parts if part.kind.is_of_a_run]
    pages = [part for part in parts if part.kind == Kind.KERNELS]
    if len(whole) == 1 and pages and len(whole) + len(pages) == len(parts):
        return [[*whole, *pages]]
    return [[part] for part in parts]


def _part(argument: str) -> Part:
    """The capture that an argument names, checked."""
    try:
        place = captures.place(argument)
    except OSError as error:  # a folder on the way that may not be entered, a name too long
        raise CaptureError(f"{argument}: cannot be read ({error.strerror})") from None
    if place.is_dir():
        if traces := captures.rank_traces(place):
            for file in traces.values():
                check_trace(file)
            return Part(
                place.resolve().name, Kind.TRACES, _all_with_steps(place, traces), (argument,)
            )
        if not _is_capture(place):
            return _folder_of_files(place, argument)
    elif not place.is_file():  # a pipe would wait for a writer
        raise CaptureError(f"{argument}: is neither a file nor a folder")
    else:
        place = exports.readable(place)
    kind = captures.kind(place)
    name = Path(argument).name or place.name
    if kind == Kind.TIMELINE:
        place = captures.path(place)
        name = place.parent.name if place.name == captures.TIMELINE else place.stem
        place = merging.with_ranks(place) or place
    elif kind == Kind.KERNELS:
        check_kernels(captures.file(place, captures.MAIN_FILES[kind]))
    return Part(name, kind, place, (argument,))


def _is_capture(place: Path) -> bool:
    return any(
        (place / name).is_file() or (place / f"{name}.gz").is_file()
        for name in captures.MAIN_FILES.values()
    )


def _folder_of_files(place: Path, argument: str) -> Part:
    """A folder that is no capture of the course: the traces that PyTorch wrote there, or an error."""
    try:
        files = sorted(entry for entry in place.iterdir() if entry.is_file())
    except OSError as error:
        raise CaptureError(f"{place}: cannot be read ({error.strerror})") from None
    if (place / captures.PROVENANCE).is_file():
        held = ", ".join(file.name for file in files if file.name.endswith((".json", ".json.gz")))
        raise CaptureError(
            f"{place.name}: holds what a program says of itself ({held}), and neither a timeline, nor "
            "a page of kernels, nor a trace; there is nothing to diagnose in it"
        )
    traces = [file for file in files if file.name.endswith((".json", ".json.gz"))]
    if not traces:
        held = ", ".join(file.name for file in files[:5]) or "no files"
        raise CaptureError(f"{place}: a folder without a capture (it has {held}); name a file")
    parts = read([str(file) for file in traces])
    if len(parts) != 1:
        raise CaptureError(f"{place}: a folder with {len(parts)} captures; name one, or its file")
    return Part(place.resolve().name, parts[0].kind, parts[0].path, (argument,))


def _with_job(parts: list[Part]) -> list[Part]:
    """The captures, with timelines of the ranks of one job as one, in the place of the first."""
    timelines = [part for part in parts if part.kind == Kind.TIMELINE]
    job = merging.ranks_of_one_job([part.path for part in timelines]) if timelines[1:] else []
    if not job:
        return parts
    members = [part for part in timelines if part.path in job]
    merged = exports.scratch() / "ranks.sqlite"
    merging.merge(job, merged)
    given = tuple(name for part in members for name in part.given)
    one = Part(" + ".join(part.name for part in members), Kind.TIMELINE, merged, given)
    first, *others = members
    return [one if part is first else part for part in parts if part not in others]


# -- traces ---------------------------------------------------------------------------------------


class _Trace(msgspec.Struct):
    traceEvents: list[msgspec.Raw]  # noqa: N815 - as it is in the file
    distributedInfo: Any = None  # noqa: N815


def check_trace(file: Path) -> dict[str, Any]:
    """Check that a file is a whole trace of PyTorch's profiler; returns its "distributedInfo".

    Raises CaptureError for a file that is no JSON, is cut off, or holds no list "traceEvents", and
    EmptyCapture where nothing ran on a device while it was recorded.
    """
    text = captures.text(file, file.name)
    data = text.encode()
    try:
        found = msgspec.json.decode(data, type=_Trace)
    except msgspec.ValidationError:
        raise CaptureError(
            f"{file}: JSON, but not a trace of torch.profiler (no list traceEvents)"
        ) from None
    except (msgspec.DecodeError, RecursionError):
        found = _lenient(file, text)
    if not re.search(DEVICE_CATEGORIES, data, re.IGNORECASE):
        raise EmptyCapture(
            f"{file}: a trace in which nothing ran on a GPU; record it with torch.profiler and "
            "ProfilerActivity.CUDA (traces of other tools do not say what the course needs)"
        )
    info = found.distributedInfo
    return info if isinstance(info, dict) else {}


def _with_step(place: Path, file: Path) -> Path:
    """A capture, or a copy of its trace in which one step reaches over all that was issued.

    Who never calls `profiler.step()` gets a trace without steps. Then the window reaches from the first
    call that issued device work to the last end of it, as in a timeline without ranges.
    """
    text = captures.text(file, file.name)
    if '"ProfilerStep#' in text:
        return place
    ends: dict[int, Decimal | int] = {}
    calls = []
    for event in json.loads(text, parse_float=Decimal)["traceEvents"]:
        match event:
            case {
                "cat": str(category),
                "ts": int() | Decimal() as start,
                "dur": int() | Decimal() as duration,
                "args": {"correlation": int(number)},
            }:
                category = category.lower()
            case _:
                continue  # whoever reads it says what is wrong with it, if anything
        if category in DEVICE_WORK:
            ends[number] = max(ends.get(number, start), start + duration)
        elif category in CALLS:
            calls.append((start, number, event))
    issuing = [call for call in calls if call[1] in ends]
    if not issuing:
        return place
    start, _, call = min(issuing, key=lambda issued: issued[0])
    step = {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#0"}
    step |= {"pid": call.get("pid"), "tid": call.get("tid"), "args": {"added": ADDED_STEP}}
    # Times stay as they are written: a float would lose ns.
    written = f'{json.dumps(step)[:-1]}, "ts": {start}, "dur": {max(ends.values()) - start}}}'
    marked = exports.scratch() / captures.MAIN_FILES[Kind.TRACE]
    marked.write_text(
        re.sub(r'"traceEvents"\s*:\s*\[', lambda found: f"{found[0]}{written},", text, count=1),
        encoding="utf-8",
    )
    return marked


def _all_with_steps(place: Path, traces: dict[int, Path]) -> Path:
    """The folder of ranks' traces, or another one with copies in which a step is marked."""
    marked = {rank: _with_step(file, file) for rank, file in traces.items()}
    if marked == traces:
        return place
    folder = exports.scratch()
    for rank, file in marked.items():
        shutil.copyfile(file, folder / f"trace_rank{rank}.json{'.gz' * captures.is_gzip(file)}")
    return folder


def _lenient(file: Path, text: str) -> Any:
    """What Python's parser makes of JSON that is not strictly so (NaN, which old versions wrote)."""
    from types import SimpleNamespace

    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        end = "cut off" if not text.rstrip().endswith(("}", "]")) else "damaged"
        raise CaptureError(f"{file}: is no JSON, or {end} ({error})") from None
    if not isinstance(document, dict) or not isinstance(document.get("traceEvents"), list):
        raise CaptureError(f"{file}: JSON, but not a trace of torch.profiler (no list traceEvents)")
    return SimpleNamespace(distributedInfo=document.get("distributedInfo"))


def _job(info: dict[str, Any]) -> tuple[tuple[Any, ...], int] | None:
    """Which job of several ranks a trace is of, and of which rank; None if it tells of none."""
    size, rank = info.get("world_size"), info.get("rank")
    if not isinstance(size, int) or not isinstance(rank, int) or size < 2:
        return None
    return (size, str(info.get("backend")), str(info.get("nccl_version"))), rank


def missing_ranks(part: Part) -> tuple[list[int], int]:
    """The ranks of a job whose traces a capture lacks, and how many the job has, as its traces say.

    None are missing where a trace says nothing, or another size than the others: that is for whoever
    reads them to say.
    """
    if part.kind == Kind.TRACES:
        files = [*captures.rank_traces(part.path).values()]
    else:
        files = [captures.file(part.path, captures.MAIN_FILES[Kind.TRACE])]
    jobs = [_job(check_trace(file)) for file in files]
    known = [job for job in jobs if job is not None]
    sizes = {job[0] for job, _ in known}
    if len(known) < len(jobs) or len(sizes) != 1:
        return [], 0
    (size,) = sizes
    return sorted(set(range(size)) - {rank for _, rank in known}), size


def _together(traces: dict[int, Part], size: int) -> Part:
    """One capture of the traces of a job's ranks; a single one stays a trace."""
    if len(traces) == 1:
        return next(iter(traces.values()))
    folder = exports.scratch()
    for rank, part in sorted(traces.items()):
        file = captures.file(part.path, captures.MAIN_FILES[Kind.TRACE])
        name = folder / f"trace_rank{rank}.json{'.gz' if captures.is_gzip(file) else ''}"
        try:
            os.symlink(file.resolve(), name)
        except OSError:  # Windows, without the right to make links
            shutil.copyfile(file, name)
    given = tuple(name for part in traces.values() for name in part.given)
    return Part(f"{len(traces)} ranks of {size}", Kind.TRACES, folder, given)


# -- pages of kernels -----------------------------------------------------------------------------


def check_kernels(file: Path) -> None:
    """Check that a file is a whole raw page of Nsight Compute as CSV.

    Raises CaptureError for another page, another table, a row that was cut off; EmptyCapture for a page
    without a kernel.
    """
    lines = captures.text(file, file.name).splitlines()
    start = next((i for i, line in enumerate(lines) if re.match(r'"?ID"?,', line)), None)
    said = next((line for line in lines if re.match(r"==(ERROR|WARNING)==", line)), "")
    if start is None:
        raise CaptureError(
            f"{file}: no table of kernels; make it with ncu --page raw --csv"
            + (f" (ncu said: {said[:200]})" if said else "")
        )
    try:
        header, *rows = (row for row in csv.reader(lines[start:], strict=True) if row)
    except csv.Error:
        raise CaptureError(f"{file}: cut off or damaged (a quote is never closed)") from None
    if "Metric Name" in header:
        raise CaptureError(
            f"{file}: the details page of Nsight Compute; the course reads the raw one: "
            "ncu --import REPORT --page raw --csv > kernels.csv"
        )
    if "Kernel Name" not in header:
        raise CaptureError(f"{file}: a table without kernels; make it with ncu --page raw --csv")
    rows = [row for row in rows if not row[0].startswith("==")]
    if uneven := next((row for row in rows if len(row) != len(header)), None):
        raise CaptureError(
            f"{file}: cut off or damaged (a row has {len(uneven)} of {len(header)} columns)"
        )
    if len(rows) < 2:  # the first one holds units
        raise EmptyCapture(
            f"{file}: holds no kernel (did ncu -k or -c leave one over?)"
            + (f"; ncu said: {said[:200]}" if said else "")
        )
