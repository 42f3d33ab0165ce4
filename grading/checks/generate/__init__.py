"""Seeded captures of simulated programs, for checks that must not know their numbers beforehand.

    from grading.checks.generate import Program, SCENARIOS, sync_bound

    scenario = sync_bound(seed=3, folder=tmp_path)
    scenario.path                  # a Nsight Systems SQLite export
    scenario.busy_ns()             # what is true of it, by counting
    scenario.savings_ns()          # what a real run without each cause would save

`Program` writes down and simulates a program of one's own; `write(program, path)` records it.

Timelines: `program` simulates, `truth` counts what is true of a run, `export` writes it in the tables of
`schema`, `scenarios` has ready ones, `drawn_timeline` takes each time by hand. Other captures: `kernels` and `ncu`
(pages of Nsight Compute), `kineto` (traces and memory snapshots), `serving` (requests of a server).
"""

from __future__ import annotations

from grading.checks.generate.export import write
from grading.checks.generate.program import CAUSES, Kernel, Program, Run, Stream
from grading.checks.generate.scenarios import (
    SCENARIOS,
    Scenario,
    allocation_bound,
    concurrent_kernels,
    copies_and_kernels,
    gpu_metrics_low_sm,
    graphs_only,
    healthy,
    host_bound,
    launch_bound,
    nested_gaps,
    sync_bound,
    transfer_bound,
    two_devices,
    two_processes_same_correlation,
    warmup_then_steady,
    with_overhead,
)

__all__ = [
    "CAUSES",
    "SCENARIOS",
    "Kernel",
    "Program",
    "Run",
    "Scenario",
    "Stream",
    "allocation_bound",
    "concurrent_kernels",
    "copies_and_kernels",
    "gpu_metrics_low_sm",
    "graphs_only",
    "healthy",
    "host_bound",
    "launch_bound",
    "nested_gaps",
    "sync_bound",
    "transfer_bound",
    "two_devices",
    "two_processes_same_correlation",
    "warmup_then_steady",
    "with_overhead",
    "write",
]
