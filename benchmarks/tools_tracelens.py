"""TraceLens's timeline of the GPU for each trace, as JSON (tools_pairs.py runs it, in TraceLens's Python).

python benchmarks/tools_tracelens.py FOLDER…        each with trace.json.gz or trace_rank<N>.json.gz
"""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path
from typing import Any

from TraceLens import TreePerfAnalyzer  # pyrefly: ignore[missing-import]


def answer(folder: Path) -> dict[str, Any]:
    """By rank, the percentages of the time: the first sheet of TraceLens's report."""
    try:
        ranks = []
        for file in sorted(folder.glob("trace*.json*")):
            table = TreePerfAnalyzer.from_file(str(file)).get_df_gpu_timeline()
            ranks.append(dict(zip(table["type"], table["percent"].astype(float), strict=True)))
    except Exception as error:  # noqa: BLE001 - what it says is part of the answer
        return {"error": f"{type(error).__name__}: {error}"[:200]}
    return {"gpu_timeline_pct": ranks}


if __name__ == "__main__":
    with contextlib.redirect_stdout(sys.stderr):
        told = {Path(name).name: answer(Path(name)) for name in sys.argv[1:]}
    print(json.dumps(told, indent=1))
