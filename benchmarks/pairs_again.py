"""How well can what a fix saves be known? Pairs that were timed and recorded once more, on another machine.

    uv run python benchmarks/pairs_again.py RECORDINGS…

RECORDINGS are folders that pairs/run.py wrote (`both`, PAIRS_AGAIN for more recordings by the same process). Of each pair:
what both times say that the fix saves (the first is that of results/engine_pairs.json), and what the engine says of each
recording. Raw figures go to results/pairs_again.json.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from engine_pairs import RESULT, measured, verdict
from pairs import harness

from profiling_lab.errors import EmptyCapture

OUT = RESULT.with_name("pairs_again.json")


def said(folder: Path, name: str, label: str) -> Iterator[float]:
    """What is said of each recording of the faulty version that holds work, the first one first."""
    for word in ("faulty", "again0", "again1"):
        for end in (".sqlite", ".json.gz", ""):
            file = folder / f"{name}_{word}{end}"
            if file.exists():
                with suppress(EmptyCapture):
                    yield verdict(file, label)["said_ratio"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recordings", type=Path, nargs="+")
    plan, first = harness.plan(), json.loads(RESULT.read_text())["pairs"]
    rows: dict[str, list[dict[str, Any]]] = {}
    for folder in parser.parse_args().recordings:
        for file in sorted(folder.glob("times*.json")):
            for name, told in json.loads(file.read_text()).items():
                times = told["times_s"]
                if not times["fixed"]:
                    continue
                rows.setdefault(name, []).append(
                    {
                        "device": told["device"],
                        "times_s": times,
                        "measured": measured(times),
                        "said_ratio": [*said(folder, name, plan[name].label)],
                    }
                )
    OUT.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    apart, spread = {}, []
    for name, found in rows.items():
        before = first[name]["measured"]["saved_ratio"]
        for one in found:
            if one["times_s"] != first[name]["times_s"]:
                apart[name] = abs(one["measured"]["saved_ratio"] - before)
            if len(one["said_ratio"]) > 1:
                spread.append(max(one["said_ratio"]) - min(one["said_ratio"]))
    for look in sorted({plan[name].look for name in apart}):
        own = [ratio for name, ratio in apart.items() if plan[name].look == look]
        print(
            f"look {look}: {len(own)} pairs timed twice, {statistics.median(own):.3f} apart in the median, {max(own):.2f} at most"
        )
    print(
        f"all {len(apart)}: {statistics.median(apart.values()):.3f} apart in the median, {sum(a > 0.05 for a in apart.values())} by more than 0.05"
    )
    print(
        f"{len(spread)} programs recorded three times by one process: what is said differs by {statistics.median(spread):.3f} in the median, {max(spread):.2f} at most"
    )


if __name__ == "__main__":
    main()
