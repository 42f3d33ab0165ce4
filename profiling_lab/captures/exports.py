"""Reports in the profilers' own formats (.nsys-rep, .ncu-rep), turned into files that can be read.

    >>> exports.readable(Path("my_run.nsys-rep"))        # my_run.sqlite, by nsys export
    >>> exports.readable(Path("my_kernels.ncu-rep"))     # a raw page as CSV, by ncu or ncu-report

Nsight Systems has to be installed for the first. For the second the Python package ncu-report will do
(`uv run --with ncu-report lab diagnose my_kernels.ncu-rep`), which needs neither Nsight Compute nor a
GPU.
"""

from __future__ import annotations

import csv
import functools
import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from profiling_lab import captures, needs
from profiling_lab.errors import CaptureError

NCU_PACKAGE = "ncu-report"
IDENTITY = (
    "ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream",
    "Block Size", "Grid Size", "Device", "CC",
)  # fmt: skip
# Removed when the process that made them ends, of which this is the id.
_KEPT: list[tuple[int, tempfile.TemporaryDirectory[str]]] = []


def readable(report: Path) -> Path:
    """The SQLite file or the raw page that a report becomes; any other file as it is.

    An SQLite file beside the report, of the same name and not older, is taken as its export. Otherwise
    it is exported: beside the report, as `nsys stats` does, where there is no such file yet; else into a
    temporary folder. A raw page is always temporary.
    Raises CaptureError for a file that cannot be read or exported, and where the tool is missing.
    """
    tool = captures.report_tool(report)
    if not tool:
        return report
    return _sqlite(report) if tool == "Nsight Systems" else _raw_page(report)


def scratch() -> Path:
    """A new temporary folder that is removed when the process ends."""
    folder = tempfile.TemporaryDirectory(prefix="lab-")
    _KEPT.append((os.getpid(), folder))
    return Path(folder.name)


def remove_scratch() -> None:
    """Remove this process's temporary folders now: for a fork, which ends without its finalizers."""
    for process, folder in _KEPT:
        if process == os.getpid():
            folder.cleanup()


def _sqlite(report: Path) -> Path:
    beside = report.with_suffix(".sqlite")
    if beside.is_file() and beside.stat().st_mtime_ns >= report.stat().st_mtime_ns:
        return beside
    nsys = _installed("nsys")
    if nsys is None:
        old = f" ({beside.name} is older than the report)" if beside.is_file() else ""
        raise CaptureError(
            f"{report}: a report of Nsight Systems, and nsys is not installed here{old}; export it "
            f"where it is: nsys export --type sqlite {report.name}, and give {beside.name}"
        )
    made = scratch() / beside.name
    _run([nsys, "export", "--type=sqlite", f"--output={made}", str(report)], report, made)
    if beside.exists():
        return made
    try:
        shutil.move(made, beside)
    except OSError:
        return made
    return beside


def _raw_page(report: Path) -> Path:
    made = scratch() / f"{report.stem}.csv"
    if ncu := _installed("ncu"):
        _run([ncu, "--import", str(report), "--page", "raw", "--csv"], report, made, to_file=True)
    elif importlib.util.find_spec("ncu_report"):
        with made.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, quoting=csv.QUOTE_ALL).writerows(_rows(report))
    else:
        adds = f"add the package: uv run --with {NCU_PACKAGE} lab diagnose {report.name}"
        if not needs.IN_A_CLONE:
            adds = f"add {needs.extra('ncu_report')}"
        raise CaptureError(
            f"{report}: a report of Nsight Compute, and neither ncu nor {NCU_PACKAGE} is installed "
            f"here; {adds}; or give its raw page: ncu --import {report.name} --page raw --csv > {made.name}"
        )
    return made


def _rows(report: Path) -> Iterator[Sequence[object]]:
    """Header, units and a row a kernel, as `ncu --page raw --csv` prints them in base units."""
    import ncu_report  # pyrefly: ignore[missing-import]

    try:
        context = ncu_report.load_report(str(report))
        ranges = [context.range_by_idx(i) for i in range(context.num_ranges())]
        actions = [part.action_by_idx(i) for part in ranges for i in range(part.num_actions())]
    except Exception as error:  # noqa: BLE001 - the package has no errors of its own
        raise CaptureError(f"{report}: {NCU_PACKAGE} cannot read it ({error})") from None
    held = [set(action.metric_names()) for action in actions]
    # The package makes no kernel of a report that it cannot read, and one without counters of where it was cut off.
    if not all(held) or not held:
        raise CaptureError(f"{report}: holds no kernel, or is cut off or damaged")
    names = sorted(name for name in set().union(*held) if not name.startswith("breakdown:"))
    units = {
        name: action.metric_by_name(name).unit()
        for action, own in zip(actions, held, strict=True)
        for name in names
        if name in own
    }
    yield [*IDENTITY, *names]
    yield [*([""] * len(IDENTITY)), *(units[name] for name in names)]
    for number, (action, own) in enumerate(zip(actions, held, strict=True)):
        value = functools.partial(_value, action, own)
        sizes = [
            f"({', '.join(str(value(f'launch__{what}_dim_{axis}')) for axis in 'xyz')})"
            for what in ("block", "grid")
        ]
        capability = [
            str(value(f"device__attribute_compute_capability_{part}"))
            for part in ("major", "minor")
        ]
        yield [
            number, "", "", "", action.name(action.NameBase_DEMANGLED), value("launch__context_id"),
            value("launch__stream_id"), *sizes, value("launch__device_id"), ".".join(capability),
            *(value(name) for name in names),
        ]  # fmt: skip


def _value(action: Any, own: set[str], name: str) -> object:
    if name not in own:
        return ""
    value = action.metric_by_name(name).value()
    return "no data" if value is None else value


def _installed(tool: str) -> str | None:
    # Here: only reports in a tool's own format need what the recorder knows of tools.
    from profiling_lab.record import tools
    from profiling_lab.record.errors import RecordError

    try:
        return str((tools.find_nsys if tool == "nsys" else tools.find_ncu)())
    except RecordError:
        return None


def _run(command: list[str], report: Path, made: Path, *, to_file: bool = False) -> None:
    """Run a tool that makes a file, or whose output is the file. Raises CaptureError if it fails."""
    name = Path(command[0]).name
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            check=False,
        )  # fmt: skip
    except OSError as error:
        raise CaptureError(f"{report}: {command[0]} does not start ({error.strerror})") from None
    if to_file and done.returncode == 0:
        made.write_text(done.stdout, encoding="utf-8")
    if done.returncode or not made.is_file():
        lines = [*done.stdout.splitlines(), *done.stderr.splitlines()]
        said = next((line.strip() for line in reversed(lines) if line.strip()), "nothing")
        raise CaptureError(
            f"{report}: {name} cannot read it (exit code {done.returncode}; it said: {said[:200]}); "
            f"a report takes the {name} that wrote it, or a newer one"
        )
