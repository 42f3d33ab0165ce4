"""Runs with given times, and `lab compare`, run."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner, Result

from profiling_lab.analysis.compare import Compared, Row, compare_runs
from profiling_lab.analysis.measured_runs import of_verdict
from profiling_lab.analysis.measures import WINDOW, Launches, Run
from profiling_lab.captures import inputs
from profiling_lab.cli import lab
from profiling_lab.diagnosis import engine


def run(window_ns: float, name: str = "a", **kernels_ns: float) -> Run:
    """A timeline's run with a window and kernels."""
    made = Run(name, "timeline")
    made.put("time", WINDOW, window_ns)
    for kernel, ns in kernels_ns.items():
        made.put("kernels", kernel, ns)
        made.launches[kernel] = Launches(1, frozenset(("(1, 1, 1) × (32, 1, 1)",)))
    return made


def sides(before: list[float], after: list[float], **more: float) -> Compared:
    """Two sides of several windows."""
    return compare_runs([run(ns) for ns in before], [run(ns) for ns in after], **more)


def row(result: Compared, what: str) -> Row:
    """The row of this name."""
    return next(row for row in result.rows if row.what == what)


def of_file(file: Path) -> Run:
    """What a file says about itself, with the engine's verdict."""
    (part,) = inputs.read([str(file)])
    return of_verdict(part, engine.judge([part]))


def ask(*arguments: str) -> Result:
    """`lab compare` in this process."""
    return CliRunner().invoke(lab, ["compare", *arguments])
