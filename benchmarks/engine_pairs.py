"""How true is what the engine says would be saved? Pairs of programs, a faulty one and one without the named fault.

    uv run python benchmarks/engine_pairs.py RECORDINGS [--run first|last] [--show look|all]

The programs, their labels and the fixes stand in pairs/pairs.toml, written before the engine saw a recording of them;
pairs/run.py times and records them on a GPU. RECORDINGS is the folder that it wrote: times and recordings, which are
not kept in the repository; what times_again.json says (`run.py again`) takes the place of the first times.
results/engine_pairs.json keeps of each its hash, the times of both versions, and what the engine said in its first run
over them and in its last. Half of the first pairs and all later ones
(pairs/draw.py) are not shown unless asked for: they are looked at once. Rows of recordings that are not given stay as they were.

said       what the engine says the label's cause costs, over the recorded window
measured   1 - fixed / faulty, medians of runs in turns, without a profiler
"""

from __future__ import annotations

import argparse
import hashlib
import json
import statistics
import subprocess
import time
from pathlib import Path
from typing import Any

from pairs import draw, harness

from profiling_lab.captures import inputs
from profiling_lab.diagnosis import engine
from profiling_lab.errors import LabError
from profiling_lab.findings import CATEGORIES

ROOT = Path(__file__).resolve().parent.parent
RESULT = ROOT / "benchmarks/results/engine_pairs.json"
PAGE = ROOT / "benchmarks/PAIRS.md"
TABLE = "<!-- table: engine_pairs.py -->\n"
SPREAD = 0.1  # of the median; since the seventh look a pair above is timed again, and listed apart if it stays
LATER = {
    2: "second",
    3: "third",
    4: "fourth",
    5: "fifth",
    6: "sixth",
    7: "seventh",
    8: "eighth",
}  # looks of which all pairs were hidden


def measured(times: dict[str, list[float]]) -> dict[str, float]:
    """The share that the fix saves, and the least and most that single runs in turns say."""
    single = sorted(1 - b / a for a, b in zip(times["faulty"], times["fixed"], strict=True))
    middle = 1 - statistics.median(times["fixed"]) / statistics.median(times["faulty"])
    return {"saved_ratio": middle, "least_ratio": single[0], "most_ratio": single[-1]}


def spread(times: dict[str, list[float]]) -> float:
    """Of the version whose single runs differ more: the range from the first quartile to the third, over the median."""
    quartiles = (statistics.quantiles(runs, n=4, method="inclusive") for runs in times.values())
    return max((third - first) / middle for first, middle, third in quartiles)


def verdict(file: Path, label: str) -> dict[str, Any]:
    """The engine's main finding, and what it says of the label's category."""
    begun = time.process_time()
    found = engine.judge(inputs.read([str(file)]))
    seen = found.seen[0]
    ratios = {f.category: f.evidence.get("recoverable_ratio", 0.0) for f in found.findings}
    # What lies below the floor is no finding, but it is said: 4 % where 3 % are measured is no miss.
    ranks = {}
    if found.job is not None:
        imbalance = 0 if found.job.once else found.job.imbalance_ns
        ranks = {"communication_bound": found.job.communication_ns, "rank_imbalance": imbalance}
    below = ranks.get(label, seen.saved.causes.get(CATEGORIES[label].cause, 0)) / seen.judged_ns
    return {
        "main": found.findings[0].category,
        "main_ratio": round(found.findings[0].evidence.get("recoverable_ratio", 0.0), 4),
        "said_ratio": round(ratios.get(label, below), 4),
        "findings": {name: round(ratio, 4) for name, ratio in ratios.items()},
        "cpu_s": round(time.process_time() - begun, 2),
    }


def contents(place: Path) -> bytes:
    """A recording's bytes; of a folder, those of its ranks' traces one after the other."""
    files = sorted(place.iterdir()) if place.is_dir() else [place]
    return b"".join(file.read_bytes() for file in files)


def table(rows: dict[str, dict], names: list[str]) -> list[str]:
    lines = [
        "| pair | library | label | measured (single runs) | first run: said, main finding | last run: said, main finding |",
        "|---|---|---|---|---|---|",
    ]
    for name in names:
        row = rows[name]
        m = row.get("measured")
        cells = [
            f"{row[run]['said_ratio']:.2f}, {row[run]['main']}" if run in row else ""
            for run in ("first", "last")
        ]
        spread = (
            f"{m['saved_ratio']:.2f} ({m['least_ratio']:.2f} to {m['most_ratio']:.2f})" if m else ""
        )
        lines.append(
            f"| `{name}` | {row['library']} | {row['label']} | {spread} | {cells[0]} | {cells[1]} |"
        )
    return lines


def summary(rows: dict[str, dict], names: list[str], run: str) -> str:
    away = sorted(
        abs(rows[n][run]["said_ratio"] - rows[n]["measured"]["saved_ratio"])
        for n in names
        if run in rows[n] and rows[n].get("measured")
    )
    named = sum(rows[n][run]["main"] == rows[n]["label"] for n in names if run in rows[n])
    if not away:
        judged = sum(run in rows[n] for n in names)
        return f"{run} run, {judged} programs: the label is the main finding of {named}"
    return (
        f"{run} run, {len(away)} pairs: |said - measured| {statistics.median(away):.3f} in the median, "
        f"{away[-1]:.2f} at most, {sum(a > 0.25 for a in away)} above 0.25; "
        f"the label is the main finding of {named}"
    )


def write_page(rows: dict[str, dict], names: list[str], groups: dict[str, list[str]]) -> None:
    """The table and its sums, behind the page's own text."""
    text = PAGE.read_text(encoding="utf-8")
    head = text[: text.index(TABLE) + len(TABLE)]
    sums = [
        f"- {title}, {summary(rows, group, run)}"
        for title, group in groups.items()
        for run in ("first", "last")
    ]
    lines = ["", *table(rows, names), "", *sums]
    PAGE.write_text(head + "\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recordings", type=Path)
    parser.add_argument("--run", choices=("first", "last"), default="last")
    parser.add_argument("--show", choices=("look", "all"), default="look")
    options = parser.parse_args()

    plan = harness.plan()
    times: dict[str, dict] = {}
    for file in sorted(options.recordings.glob("times*.json")):
        found = json.loads(file.read_text())
        times |= {name: row for name, row in found.items() if row["times_s"]["fixed"]}
    timed = set(times) | {name for name, pair in plan.items() if not pair.fix}
    kept = json.loads(RESULT.read_text()) if RESULT.exists() else {"pairs": {}}
    rows: dict[str, dict] = dict(kept["pairs"])
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    looks: set[int] = set()
    for name, pair in plan.items():
        recorded = [*options.recordings.glob(f"{name}_faulty*")]
        if name not in timed or not recorded:
            continue
        row: dict[str, Any] = {
            "label": pair.label,
            "library": pair.library,
            "recorder": pair.recorder,
        }
        if pair.fix:
            row["device"] = times[name].get("device", "NVIDIA H200")
            row["times_s"] = times[name]["times_s"]
            row["measured"] = measured(times[name]["times_s"])
        for version in harness.VERSIONS:
            files = [
                *options.recordings.glob(f"{name}_{version}.sqlite"),
                *options.recordings.glob(f"{name}_{version}.json.gz"),
                *options.recordings.glob(f"{name}_{version}"),
            ]
            if not files:
                continue
            held = row if version == "faulty" else row.setdefault("fixed", {})
            told = contents(files[0])
            held["sha256"], held["bytes"] = hashlib.sha256(told).hexdigest(), len(told)
            held |= {k: v for k, v in _kept(kept, name, version).items() if k in ("first", "last")}
            try:
                held[options.run] = verdict(files[0], pair.label)
            except LabError as error:
                held["refused"] = str(error).replace(str(files[0]), files[0].name)
        rows[name] = row
        looks.add(pair.look)
    # Each look is its own engine's.
    runs = {options.run if look < 3 else f"{options.run}, look {look}": commit for look in looks}
    commits = kept.get("commits", {}) | runs
    kept = {"commits": commits, "pairs": rows}
    RESULT.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    apart = set().union(*(draw.hidden(plan.values(), look) for look in (1, *LATER)))
    judged = [name for name in rows if options.run in rows[name] or "first" in rows[name]]
    look = [name for name in judged if name not in apart]
    groups = {"looked at": look}
    if options.show == "all":
        groups["hidden until the end"] = [n for n in judged if n in apart and plan[n].look == 1]
        for look, word in LATER.items():
            own = [name for name in judged if plan[name].look == look]
            pairs = [name for name in own if plan[name].fix]
            unsteady = [n for n in pairs if look > 6 and spread(rows[n]["times_s"]) > SPREAD]
            if unsteady:
                groups[f"{word} look, single runs spread by more than a tenth"] = unsteady
            groups |= {
                f"{word} look, hidden until the end": [n for n in pairs if n not in unsteady],
                f"{word} look, labels alone": [n for n in own if not plan[n].fix],
            }
    shown = [name for group in groups.values() for name in group]
    write_page(rows, shown, groups)
    print("\n".join(table(rows, shown)))
    for title, group in groups.items():
        print(f"{title}, {summary(rows, group, options.run)}")


def _kept(kept: dict, name: str, version: str) -> dict:
    row = kept["pairs"].get(name, {})
    return row if version == "faulty" else row.get("fixed", {})


if __name__ == "__main__":
    main()
