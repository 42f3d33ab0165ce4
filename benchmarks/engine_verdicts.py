"""What does the engine say of every recording of the course, and what do the references say?

    uv run python benchmarks/engine_verdicts.py [--out FILE]

For each timeline, trace and job of several ranks in captures/: the main finding of the engine and of the
references (the learner's functions, solved), the share of the window that each would save, what the engine leaves
unexplained, and the processor time of each. Raw figures go to benchmarks/results/engine_verdicts.json;
[ENGINE.md](ENGINE.md) says why verdicts differ.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
RESULT = ROOT / "benchmarks/results/engine_verdicts.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=RESULT)
    options = parser.parse_args()

    # Late, so that --help is there at once.
    from benchmarks.machine import describe
    from profiling_lab import captures
    from profiling_lab.analysis.spent import UNEXPLAINED
    from profiling_lab.captures import inputs
    from profiling_lab.diagnosis import engine
    from profiling_lab.errors import LabError
    from profiling_lab.mine.asking import ask_all
    from profiling_lab.mine.functions import functions_for

    patterns = ("timeline.sqlite", "trace.json*", "trace_rank*")
    found = {file.parent.name for p in patterns for file in captures.folder().glob(f"*/{p}")}
    rows: dict[str, dict[str, Any]] = {}
    for name in sorted(found):
        parts = inputs.read([name])
        begun = time.process_time()
        verdict = engine.judge(parts)
        main_finding = verdict.findings[0]
        shares = [
            one.classes[UNEXPLAINED] / one.length_ns for seen in verdict.seen for one in seen.spent
        ]
        rows[name] = {
            "engine": main_finding.category,
            "engine_ratio": main_finding.evidence.get("recoverable_ratio"),
            "engine_cpu_s": time.process_time() - begun,
            "unexplained_ratio": max(shares),
        }
        begun = time.process_time()
        try:
            said = ask_all(parts, partial(functions_for, against=str(ROOT / "solutions")))
            first = said.findings[0]
            rows[name] |= {
                "references": first.category,
                "references_ratio": first.evidence.get("recoverable_ratio"),
            }
        except LabError as error:
            rows[name] |= {"references": type(error).__name__, "references_ratio": None}
        rows[name]["references_cpu_s"] = time.process_time() - begun
    report = {
        "machine": describe("polars", "numpy"),
        "median_unexplained_ratio": statistics.median(
            r["unexplained_ratio"] for r in rows.values()
        ),
        "recordings": rows,
    }
    options.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    for name, row in rows.items():
        if row["engine"] != row["references"]:
            print(f"{name:32} {row['references']:20} {row['engine']}")
    print(f"median unexplained {report['median_unexplained_ratio']:.3%} of {len(rows)} recordings")


if __name__ == "__main__":
    main()
