"""What do the tools say of other people's traces (public_recordings.py)?

    uv run python benchmarks/tools_public.py TOOL FOLDER [--python PATH]

FOLDER holds the traces and list.json; TOOL is lab, hta or tracelens, each asked of one trace at a time. Kept in
results/tools_comparison/public_TOOL.json: of each trace the share of the time in which the tool says that the device
works, or why it did not answer. What is true was read by a union of intervals (public_recordings.py, `truth`).
`tools_comparison.py judge` writes the comparison.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks import public_recordings  # noqa: E402
from benchmarks import tools_comparison as comparison  # noqa: E402
from benchmarks.tools_cases import RESULTS  # noqa: E402

IDLE_SHARE = {
    "hta": lambda told: told["temporal_breakdown"][0]["idle_time_pctg"] / 100,
    "tracelens": lambda told: told["gpu_timeline_pct"][0]["idle_time"] / 100,
}
BUSY = ("kernels_alone", "beside_copies", "copies_alone", "communication_alone", "page_migration")
NEAR = 0.02  # of the time: times in traces are rounded, and tools count copies in different ways
TITLES = {"lab": "`lab diagnose`", "hta": "HTA", "tracelens": "TraceLens"}
PACKAGES = {"hta": "HolisticTraceAnalysis", "tracelens": "TraceLens", "lab": "gpu-profiling-lab"}


def of_lab(file: Path) -> dict[str, Any]:
    """The engine's: of the device that works most, as the verdict adds up its window."""
    told = public_recordings.verdict(file)
    if "balance" not in told:
        return {"failed": told.get("refused", told.get("error", ""))[:200]}
    length = told["window"]["end_ns"] - told["window"]["start_ns"]
    shares = [sum(row.get(f"{name}_ns", 0) for name in BUSY) / length for row in told["balance"]]
    return {"busy_ratio": round(max(shares), 4), "says": told["findings"][0]["category"]}


def of_other(tool: str, python: Path, file: Path) -> dict[str, Any]:
    """HTA's or TraceLens's, in its own Python."""
    script = Path(__file__).with_name(f"tools_{tool}.py")
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text) / "one"
        folder.mkdir()
        suffix = ".json.gz" if file.name.endswith(".gz") else ".json"
        (folder / f"trace{suffix}").symlink_to(file.resolve())
        try:
            done = comparison.run(
                [str(python), str(script), str(folder)], timeout=public_recordings.LIMIT_S
            )
        except subprocess.TimeoutExpired:
            return {"failed": f"more than {public_recordings.LIMIT_S} s"}
    if done.returncode:
        return {"failed": (done.stderr.strip().splitlines() or [""])[-1][:200]}
    told = json.loads(done.stdout[done.stdout.index("{") :])["one"]
    try:
        return {"busy_ratio": round(1 - IDLE_SHARE[tool](told), 4)}
    except (KeyError, TypeError, IndexError):
        return {"failed": str(told.get("error", told.get("temporal_breakdown")))[:200]}


def page() -> Iterator[str]:
    """The tools on these traces, for TOOLS.md."""
    told = json.loads(public_recordings.RESULT.read_text(encoding="utf-8"))["recordings"]
    true = {
        f"{row['repository']}: {row['path']}": max(row["truth"]["busy_ratio"].values())
        for row in told
        if row["truth"].get("busy_ratio")
    }
    rows = []
    for tool, title in TITLES.items():
        file = RESULTS / f"public_{tool}.json"
        if not file.exists():
            continue
        document = json.loads(file.read_text(encoding="utf-8"))
        said = {
            name: answer["busy_ratio"]
            for name, answer in document["answers"].items()
            if name in true and "busy_ratio" in answer
        }
        off = [abs(share - true[name]) for name, share in said.items()]
        near = sum(distance <= NEAR for distance in off)
        rows.append(f"| {title} | {len(said)} | {near} | {max(off, default=0):.2f} |")
    yield f"""
## On other people's traces

The public traces of [public_recordings.py](public_recordings.py): {len(true)} of {len(told)} hold work of a device. Each tool was given each of them alone
([tools_public.py](tools_public.py)). What can be held against the truth is the share of the time in which the busiest device works: the truth is a
union of the operations' intervals from the first to the last. A tool that judges another stretch, the profiled steps for
example, is off without being wrong. None of these traces has a label, so nobody's causes are judged here.

| tool | answers | within {NEAR} of the truth | farthest |
|---|--:|--:|--:|"""
    yield from rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tool", choices=PACKAGES)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--python", type=Path, default=Path(sys.executable))
    options = parser.parse_args()
    answers = {}
    for known in json.loads((options.folder / "list.json").read_text()):
        file = options.folder / known["file"]
        name = f"{known['repository']}: {known['path']}"
        if options.tool == "lab":
            answers[name] = of_lab(file)
        else:
            answers[name] = of_other(options.tool, options.python, file)
        print(name, answers[name], flush=True)
    version = comparison.installed(options.python, PACKAGES[options.tool])
    document = {"tool": options.tool, "version": version, "answers": answers}
    out = RESULTS / f"public_{options.tool}.json"
    out.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
