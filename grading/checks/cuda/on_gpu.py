"""Compiles a CUDA source for the GPUs of this machine, with the real runtime, and runs it there.

The program, and a profiler that watches it, run as every command of a check does: plainly, or in the
grader's sandbox (see `grading.checks.commands`).
"""

from __future__ import annotations

import csv
import json
import math
import re
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from grading.checks import commands
from grading.checks.commands import Completed
from grading.checks.cuda import toolchain
from grading.runner.failures import StubError
from profiling_lab.course import doctor

RUN_TIMEOUT_S = 300  # a guard against a program that hangs
SHOWN = 400  # characters of what a program that failed said
CAPTURE = "run.nsys-rep"
EXPORT = "run.sqlite"


class LiveError(StubError):
    """A source was not compiled, a program failed, or a profiler is missing: says which and why.

    A check lets it pass: the plugin reports it as a failed check.
    """


def build(source: Path, given: Path, folder: Path) -> Path:
    """Compile a source into `folder`. given: where its headers lie. Raises LiveError."""
    target = folder / source.stem
    try:
        nvcc, cxx = toolchain.nvcc(), toolchain.cxx()
        command = [str(nvcc), "-std=c++17", "-O3", "-arch=native", "-ccbin", str(cxx)]
        command += [f"-I{path}" for path in (source.parent, given)]
        libraries = nvcc.parent.parent / "lib"  # where the wheels keep the runtime
        if (libraries / "libcudart_static.a").exists():
            command.append(f"-L{libraries}")
        result = toolchain.run([*command, str(source)], out=target, read=[source, given])
    except (toolchain.BuildError, toolchain.ToolchainError) as error:
        raise LiveError(str(error)) from None
    if result.returncode != 0:
        errors = toolchain.first_errors(result)
        raise LiveError(f"nvcc does not compile {source.name}:\n{errors}")
    return target


def run(program: Path, *arguments: object) -> str:
    """What a program prints. Raises LiveError if it fails."""
    return _run([program, *arguments], readable=[program], called=program.name).stdout


def result(program: Path, *arguments: object) -> dict[str, Any]:
    """What a program prints after "RESULT", as JSON. Raises LiveError if it fails, or prints none."""
    found = re.search(r"^RESULT (\{.*\})", run(program, *arguments), re.MULTILINE)
    if found is None:
        raise LiveError(f"{program.name} ended without its line RESULT {{…}}")
    try:
        read: dict[str, Any] = json.loads(found[1])
    except (ValueError, RecursionError) as error:
        raise LiveError(f"{program.name}: its line RESULT is no JSON ({error})") from None
    return read


def timed(program: Path, name: str) -> tuple[float, str]:
    """The time and the checksum that a program prints, in lines "name value" and "checksum value".

    Raises LiveError if it fails, or does not print both.
    """
    found = dict(re.findall(r"^(\w+) (\S+)$", run(program), flags=re.MULTILINE))
    if missing := [name for name in (name, "checksum") if name not in found]:
        raise LiveError(f"{program.name} printed no {', '.join(missing)}")
    try:
        time = float(found[name])
    except ValueError:
        time = math.nan
    if not _is_time(time):
        raise LiveError(f"{program.name} printed {name} {found[name]:.60}, expected a time")
    return time, found["checksum"]


def medians(measured: dict[str, Any], *names: str) -> list[float]:
    """The median of each list of times. Raises LiveError if one is no list of positive numbers."""
    out = []
    for name in names:
        times = measured.get(name)
        if not isinstance(times, list) or not times or not all(map(_is_time, times)):
            raise LiveError(f"the line RESULT holds {name} = {times!r:.60}, expected times in ns")
        out.append(statistics.median(times))
    return out


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and 0 < value < math.inf


def counters(program: Path, metrics: Iterable[str], *arguments: object) -> list[dict[str, str]]:
    """A row a kernel between cudaProfilerStart and -Stop, by Nsight Compute. Raises LiveError."""
    ncu = doctor.find_ncu()
    if ncu is None:
        raise LiveError("no ncu: Nsight Compute counts what the kernels did")
    command = [ncu, "--clock-control", "none", "--profile-from-start", "off", "--csv"]
    command += ["--page", "raw", "--print-units", "base", "--metrics", ",".join(metrics)]
    done = _run([*command, program, *arguments], readable=[program], called="ncu")
    rows = list(csv.DictReader(line for line in done.stdout.splitlines() if line.startswith('"')))
    if len(rows) < 2:  # the first one holds the units
        raise LiveError(f"ncu: {(done.stdout + done.stderr).strip()[-SHOWN:]}")
    return rows[1:]


def record(program: Path, folder: Path) -> Path:
    """A fresh capture of a program by Nsight Systems, exported into `folder`. Raises LiveError."""
    nsys = doctor.find_nsys()
    if nsys is None:
        raise LiveError("no nsys: a fresh capture must be recorded with Nsight Systems")
    options = ["--trace=cuda,nvtx", "--sample=none", "--cpuctxsw=none"]
    options += ["--capture-range=cudaProfilerApi", "--capture-range-end=stop"]
    command = [nsys, "profile", *options, "--output", CAPTURE, program]
    done = _run(command, readable=[program], keep=[CAPTURE], called="nsys profile")
    command = [nsys, "export", "--type=sqlite", "--output", EXPORT, CAPTURE]
    done = _run(command, files=done.files, keep=[EXPORT], called="nsys export")
    file = folder / EXPORT
    file.write_bytes(done.files[EXPORT])
    return file


def _run(
    command: Sequence[object],
    *,
    called: str,
    readable: Iterable[Path] = (),
    files: dict[str, bytes] | None = None,
    keep: Sequence[str] = (),
) -> Completed:
    done = commands.run(
        [str(part) for part in command],
        timeout_s=RUN_TIMEOUT_S,
        readable=readable,
        files=files,
        keep=keep,
        loopback=True,  # the parts of a profiler talk to each other
    )
    said = (done.stderr.strip() or done.stdout.strip())[-SHOWN:]
    if done.cause:
        raise LiveError(f"{called} was ended: {done.cause}. {said}")
    if done.returncode != 0:
        raise LiveError(f"{called} ended with exit code {done.returncode}: {said}")
    if missing := [name for name in keep if name not in done.files]:
        raise LiveError(f"{called} left no {', '.join(missing)}. {said}")
    return done
