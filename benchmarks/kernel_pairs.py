"""Is it true what the engine says a fix of a kernel would save?

    uv run python benchmarks/kernel_pairs.py FOLDER

FOLDER holds what pairs/kernels.cu and pairs/kernels_second.cu gave on a GPU: kernel_times.json, the ms of both kernels
of each pair in turns, and kernels.csv and kernels_second.csv, raw pages of Nsight Compute with both. A pair's label is the comment above it, written before the engine
saw the page. Figures go to results/kernel_pairs.json, the table to ENGINE.md.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
RESULT = ROOT / "benchmarks/results/kernel_pairs.json"
PAGE = ROOT / "benchmarks/ENGINE.md"
MARK = "<!-- table: kernel_pairs.py -->"


def labels() -> dict[str, str]:
    """By pair, the category that its comment plants."""
    out, planted = {}, ""
    text = "".join(f.read_text(encoding="utf-8") for f in (ROOT / "benchmarks/pairs").glob("*.cu"))
    for line in text.splitlines():
        if found := re.match(r"// (\w+): ", line):
            planted = found[1]
        for name in re.findall(r"(\w+)_faulty\(", line):
            out.setdefault(name, planted)
    return out


def judged(folder: Path) -> list[dict[str, Any]]:
    """A row a pair: the label, what was measured, and what the engine says of the faulty kernel."""
    # Late, so that --help is there at once.
    from profiling_lab.captures import inputs
    from profiling_lab.diagnosis import engine
    from profiling_lab.findings import base_name

    told = []
    for page in sorted(folder.glob("kernels*.csv")):
        told += engine.judge(inputs.read([str(page)])).to_dict()["findings"]
    by_kernel = {base_name(f["subject"].partition(":")[2]): f for f in told}
    planted, rows = labels(), []
    for name, ms in json.loads((folder / "kernel_times.json").read_text()).items():
        if (found := by_kernel.get(f"{name}_faulty")) is None:
            continue  # the page has no such kernel
        rows.append(
            {
                "pair": name,
                "label": planted[name],
                "measured_ratio": 1
                - statistics.median(ms["fixed"]) / statistics.median(ms["faulty"]),
                "said": found["category"],
                "said_ratio": found["evidence"]["recoverable_ratio"],
                "bound": found["bound"],
            }
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    rows = judged(parser.parse_args().folder)
    RESULT.write_text(json.dumps({"pairs": rows}, indent=1) + "\n", encoding="utf-8")
    lines = [
        MARK,
        "",
        "| pair | label | measured | said |",
        "|---|---|---|---|",
        *(
            f"| `{r['pair']}` | {r['label']} | {r['measured_ratio']:.2f} | {'at most ' if r['bound'] else ''}"
            f"{r['said_ratio']:.2f}, {r['said']} |"
            for r in rows
        ),
    ]
    text = PAGE.read_text(encoding="utf-8")
    begin = text.index(MARK)
    end = text.index("\n## ", begin)
    PAGE.write_text(text[:begin] + "\n".join(lines) + "\n" + text[end:], encoding="utf-8")


if __name__ == "__main__":
    main()
