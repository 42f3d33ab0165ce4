"""What HolisticTraceAnalysis says of the recorded traces of several ranks.

    uv run --no-project --with HolisticTraceAnalysis==0.5.0 python benchmarks/hta_oracle.py [CAPTURE…]

The course does not ship HolisticTraceAnalysis (it needs pandas and plotly). Its figures are computed here
once and kept in results/hta_oracle.json, with the hashes of the traces that they are of; the checks of
torch_ex03 hold `communication_overlap` against them. Needs no GPU.

Of each capture: the percentage of communication that runs beside computation, by rank
(`get_comm_comp_overlap`, with the last step, which HTA leaves out unless told; once in ns, and once as HTA
does it unless told, in whole µs), and what the search for stragglers (`get_potential_stragglers`)
returns or raises.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import json
import logging
import os
import sys
from pathlib import Path

from hta.trace_analysis import TraceAnalysis  # pyrefly: ignore[missing-import]

ROOT = Path(__file__).resolve().parent.parent
RESULT = ROOT / "benchmarks" / "results" / "hta_oracle.json"


def trace_files(capture: Path) -> dict[int, Path]:
    """The traces of a capture by rank."""
    found = {}
    for file in sorted(capture.glob("trace_rank*.json*")):
        found[int(file.name.removeprefix("trace_rank").split(".")[0])] = file
    return found


def analyse(files: dict[int, Path], whole_us: bool) -> TraceAnalysis:
    """The traces as HTA reads them, rounded down to whole µs or not."""
    os.environ["HTA_DISABLE_NS_ROUNDING"] = "0" if whole_us else "1"
    return TraceAnalysis(
        trace_files={rank: str(file) for rank, file in files.items()},
        include_last_profiler_step=True,
    )


def overlap(analysis: TraceAnalysis) -> dict[str, float]:
    """By rank, in %."""
    table = analysis.get_comm_comp_overlap(visualize=False)
    pairs = zip(table["rank"], table["comp_comm_overlap_pctg"], strict=True)
    return {str(rank): float(percentage) for rank, percentage in sorted(pairs)}


def judge(capture: Path) -> dict[str, object]:
    """HTA's figures of one capture."""
    files = trace_files(capture)
    with contextlib.redirect_stdout(sys.stderr):
        exact, rounded = analyse(files, whole_us=False), analyse(files, whole_us=True)
        try:
            stragglers: object = [int(rank) for rank in exact.get_potential_stragglers()]
        except (ValueError, LookupError) as error:  # what it says is part of the result
            stragglers = f"{type(error).__name__}: {error}"[:200]
        return {
            "sha256": {
                file.name.removesuffix(".gz"): hashlib.sha256(file.read_bytes()).hexdigest()
                for file in files.values()
            },
            "comp_comm_overlap_pctg": overlap(exact),
            "comp_comm_overlap_pctg_in_whole_us": overlap(rounded),
            "potential_stragglers": stragglers,
        }


def main() -> None:
    logging.disable(logging.CRITICAL)
    given = [Path(argument) for argument in sys.argv[1:]]
    captures = given or sorted((ROOT / "captures").glob("ddp_traces_*"))
    result = {
        "tool": "HolisticTraceAnalysis",
        "version": importlib.metadata.version("HolisticTraceAnalysis"),
        "captures": {capture.name: judge(capture) for capture in captures},
    }
    text = json.dumps(result, indent=2) + "\n"
    if given:
        print(text)
    else:
        RESULT.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
