"""Does it matter to atomics in shared memory whether lanes share a word or a bank, and do counters tell?

    uv run python benchmarks/shared_atomics.py [--out FILE]      a GPU, nvcc and ncu

Builds shared_atomics.cu and runs it: 256 threads a block add 200 times to one word, to a word each that all
lie in one bank, to such words with padding, and to words side by side; times in turns, in ns. Then the same
under ncu, for the waits for a bank: those of atomics, and all. Raw figures go to
benchmarks/results/shared_atomics.json.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from profiling_lab.record.tools import query_gpus  # noqa: E402

SOURCE = ROOT / "benchmarks/shared_atomics.cu"
RESULT = ROOT / "benchmarks/results/shared_atomics.json"
PATTERNS = ("one_word", "one_bank", "padded", "side_by_side")
WAITS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared"
METRICS = (f"{WAITS}.sum", f"{WAITS}_op_atom.sum")


def measure() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as scratch:
        program = str(Path(scratch) / "shared_atomics")
        build = ["nvcc", "-O3", "-std=c++17", "-arch=native", str(SOURCE), "-o", program]
        subprocess.run(build, check=True)
        said = subprocess.run([program], check=True, capture_output=True, text=True).stdout
        times = json.loads(said.split("RESULT ", 1)[1])
        ncu = ["ncu", "--clock-control=none", f"--metrics={','.join(METRICS)}", "--launch-count=4"]
        page = subprocess.run(
            [*ncu, "--page=raw", "--csv", program], check=True, capture_output=True, text=True
        ).stdout
    lines = page.splitlines()
    header = next(i for i, line in enumerate(lines) if line.startswith('"ID"'))
    rows = list(csv.DictReader(line for line in lines[header:] if line.startswith('"')))[1:]
    return {
        name: {
            "ns": times[name],
            "counters": {metric: int(row[metric].replace(",", "")) for metric in METRICS},
        }
        for name, row in zip(PATTERNS, rows, strict=True)
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=RESULT)
    out = parser.parse_args().out
    found = query_gpus(("name", "driver_version"))
    if not found:
        parser.error("no GPU answers here")
    report = {
        "what": "256 threads a block add 200 times to shared memory; ns in turns, counters by ncu",
        "gpu_and_driver": f"{found[0]['name']}, driver {found[0]['driver_version']}",
        "date": datetime.date.today().isoformat(),
        "patterns": measure(),
    }
    out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    for name, pattern in report["patterns"].items():
        print(name, statistics.median(pattern["ns"]), "ns", pattern["counters"])


if __name__ == "__main__":
    main()
