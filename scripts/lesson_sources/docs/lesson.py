"""What the guides in docs/ take from the captures."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from grading.classroom import claims
from profiling_lab import captures
from profiling_lab.course import manifest as course
from scripts.lesson_sources.drawing import ROOT, reference, told

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@cache
def provenances() -> list[dict[str, Any]]:
    """The provenance of every capture."""
    files = sorted((ROOT / "captures").glob("*/provenance.json"))
    found = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    return [each for each in found if "capture" in each]


def versions(tool: str) -> str:
    """Every version of a tool, or of torch, triton or the driver, in the captures; "a, b"."""
    if tool == "driver":
        found = {each["driver"] for each in provenances()}
    elif tool == "CUDA":
        found = {each["cuda"]["toolkit"] for each in provenances()}
    elif tool == "schema":
        found = {each["tool"]["schema_version"] for each in provenances()} - {None}
    elif tool.startswith("Nsight"):
        found = {e["tool"]["version"] for e in provenances() if e["tool"]["name"] == tool}
    elif tool == "jax":
        found = {json.loads(captures.text("jax_jit", "jax_timing.json"))["jax"]}
    else:
        found = {each["frameworks"][tool] for each in provenances() if tool in each["frameworks"]}
    if not found:
        raise LookupError(f"no capture was made with {tool}")
    return ", ".join(sorted(found))


def days() -> str:
    """The first and the last day of recording."""
    found = sorted({each["date"] for each in provenances()})
    return found[0] if len(found) == 1 else f"{found[0]} to {found[-1]}"


@cache
def utilities(gpu: str = "NVIDIA H200") -> dict[str, Any]:
    """What benchmarks/utilities.py measured on a GPU."""
    file = ROOT / "benchmarks" / "results" / "utilities.json"
    return json.loads(file.read_text(encoding="utf-8"))[gpu]


def monitor_ratio(work: str, condition: str) -> str:
    """The same work under a condition of the benchmark over alone, with the interval of its median."""
    ratio = utilities()["monitor"][work][f"{condition}_ratio"]
    low, high = ratio["median_95_pct"]
    return f"{ratio['median']:.3f} ({low:.3f} to {high:.3f})"


def lost(capture: str) -> float:
    """Share of the speed that a program lost under the profiler, by its own clock; below 0: none."""
    return 1 - told(capture, "steps_per_s_traced") / told(capture, "steps_per_s")


def longer(capture: str) -> float:
    """By what share the same steps took longer under the profiler, by the program's own clock."""
    return told(capture, "traced_s") / told(capture, "untraced_s") - 1


def file_bytes(capture: str, name: str) -> int:
    """Size of a file of a capture."""
    return (ROOT / "captures" / capture / name).stat().st_size


def large(events: int) -> str:
    """Time and memory of a verdict on a capture of so many events, as the benchmark measured them."""
    report = json.loads((ROOT / "benchmarks/results/large_captures.json").read_text("utf-8"))
    found = next(row["lab"] for row in report["captures"] if row["events_count"] == events)
    machine = f"{report['machine']['cores_count']} cores"
    took = (
        f"{found['wall_s']:.0f} s" if found["wall_s"] < 100 else f"{found['wall_s'] / 60:.0f} min"
    )
    return f"{took} and {found['peak_rss_bytes'] / 1e9:.1f} GB ({machine})"


def graded(part: str, what: str) -> str:
    """What the benchmark of the grader measured: "cores", "students", "a_minute", "minutes", "memory" in GB."""
    report = json.loads((ROOT / "benchmarks/results/grading.json").read_text("utf-8"))
    found = report["without CUDA sources"][part]
    if what in ("students", "minutes"):
        return f"{found['students_count'] if what == 'students' else found['seconds'] / 60:.0f}"
    return {
        "cores": str(found["machine"]["cores_count"]),
        "a_minute": f"{found['submissions_a_minute']:.0f}",
        "memory": f"{max(found['resident_bytes']) / 1e9:.1f}",
    }[what]


def claimed_points() -> str:
    """The tasks whose points rest on a claim, as a table."""
    return claims.table(course.load(ROOT)).rstrip("\n")


def ranks_verdict(capture: str) -> str:
    """What the exercise on several GPUs says of a recording, as text."""
    found = reference("nsys_ex04").name_multi_gpu_bottleneck(capture)
    share = found.evidence["recoverable_ratio"]
    return f"`{found.category}`, `{found.subject}`, {share:.0%} recoverable"


def window_ns(capture: str) -> int:
    """The window that the Day 1 functions look at."""
    start, end = reference("ex_30").find_window(capture)
    return end - start


FIGURES: dict[str, Callable[[], Figure]] = {}


@cache
def diagnosis(*arguments: str, until: str = "") -> str:
    """What `lab diagnose` prints, as a block; up to the line that holds `until`."""
    import os
    from unittest import mock

    from click.testing import CliRunner

    from profiling_lab.cli import lab

    command = ["diagnose", *arguments]
    with mock.patch.dict(os.environ, {"COLUMNS": "80", "LAB_CAPTURES": str(ROOT / "captures")}):
        result = CliRunner().invoke(lab, command)
    if result.exit_code:
        raise RuntimeError(result.output)
    shown = result.stdout.partition(until)[0].rpartition("\n")[0] if until else result.stdout
    return f"\n```\n{shown.strip()}\n```\n"
