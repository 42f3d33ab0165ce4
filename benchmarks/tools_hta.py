"""HolisticTraceAnalysis's breakdowns of traces, as JSON (tools_comparison.py runs it, in HTA's Python).

python benchmarks/tools_hta.py FOLDER…        each with trace.json.gz or trace_rank<N>.json.gz
"""

from __future__ import annotations

import contextlib
import json
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hta.trace_analysis import TraceAnalysis  # pyrefly: ignore[missing-import]

MOST_ROWS = 8


def traces(folder: Path) -> dict[int, str]:
    """The traces of a folder by rank."""
    found = sorted(folder.glob("trace*.json*"))
    return dict(enumerate(map(str, found)))


def rows(table: Any) -> list[dict[str, Any]]:
    """The first rows of a table of HTA."""
    return json.loads(table.head(MOST_ROWS).to_json(orient="records"))


def answer(folder: Path) -> dict[str, Any]:
    """What HTA says: how the time divides, why the device idles, collectives, stragglers, launches."""
    analysis = TraceAnalysis(trace_files=traces(folder), include_last_profiler_step=True)
    asked: dict[str, Callable[[], Any]] = {
        "temporal_breakdown": lambda: rows(analysis.get_temporal_breakdown(visualize=False)),
        "idle_time_breakdown": lambda: rows(
            analysis.get_idle_time_breakdown(
                ranks=list(traces(folder)), visualize=False, show_idle_interval_stats=False
            )[0]
        ),
        "kernel_types": lambda: rows(analysis.get_gpu_kernel_breakdown(visualize=False)[0]),
        "comm_comp_overlap": lambda: rows(analysis.get_comm_comp_overlap(visualize=False)),
        "potential_stragglers": lambda: [int(r) for r in analysis.get_potential_stragglers()],
    }
    out = {}
    for name, ask in asked.items():
        try:
            out[name] = ask()
        except Exception as error:  # noqa: BLE001 - what it says is part of the answer
            out[name] = f"{type(error).__name__}: {error}"[:200]
    return out


def main() -> None:
    logging.disable(logging.CRITICAL)
    with contextlib.redirect_stdout(sys.stderr):
        told = {Path(name).name: answer(Path(name)) for name in sys.argv[1:]}
    print(json.dumps(told, indent=1))


if __name__ == "__main__":
    main()
