"""How long, and how much memory, does a verdict take on a capture of 1,000,000 and 10,000,000 events?

    uv run python benchmarks/large_captures.py [--events N…] [--nsys PATH] [--nsys-ai PYTHON]
        [--limit-s S] [--out FILE]

Writes a Nsight Systems export with N/2 kernels and the N/2 calls that launched them (as
million_kernels.py does), then runs, each in a fresh process and one after the other, `lab diagnose`,
where there is nsys `nsys analyze` with its default rules, and by a Python that has
it `nsys-ai diagnose`. Of each: wall time, CPU time, peak memory (the largest resident set of the process
or of one of its children), exit code; what passes the limit is ended and noted as such. Raw figures go to
benchmarks/results/large_captures.json; those of a tool that is not here stay as they were, with their date.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
RESULT = ROOT / "benchmarks/results/large_captures.json"
EVENTS = (1_000_000, 10_000_000)
LIBRARIES = ("polars", "numpy", "adbc-driver-sqlite")
KEPT_OUTPUT = 300  # characters


def measure(command: list[str], limit_s: float, folder: Path = ROOT) -> dict[str, Any]:
    """A command in a process group of its own, to its end or the limit."""
    with tempfile.TemporaryFile("w+") as output:
        begun = time.perf_counter()
        process = subprocess.Popen(
            command, cwd=folder, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
        over = threading.Event()

        def end() -> None:
            over.set()
            os.killpg(process.pid, signal.SIGKILL)

        timer = threading.Timer(limit_s, end)
        timer.start()
        _, status, usage = os.wait4(process.pid, 0)
        timer.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        wall_s = time.perf_counter() - begun
        output.seek(0)
        text = output.read()
    return {
        "wall_s": wall_s,
        "cpu_s": usage.ru_utime + usage.ru_stime,
        "peak_rss_bytes": usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024),
        "exit_code": process.returncode,
        "passed_limit": over.is_set(),
        "output_end": text[-KEPT_OUTPUT:].replace(str(folder), "."),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, nargs="+", default=EVENTS)
    parser.add_argument("--nsys", default=shutil.which("nsys"), help="the nsys to compare with")
    parser.add_argument("--nsys-ai", type=Path, help="a Python that has nsys-ai")
    parser.add_argument("--limit-s", type=float, default=3600, help="of one run")
    parser.add_argument("--out", type=Path, default=RESULT)
    options = parser.parse_args()

    from benchmarks.machine import describe
    from benchmarks.million_kernels import generate

    report: dict[str, Any] = {
        "what": "lab diagnose; nsys analyze, default rules; nsys-ai diagnose",
        "machine": describe(*LIBRARIES),
        "limit_s": options.limit_s,
        "captures": [],
    }
    before = json.loads(options.out.read_text("utf-8")) if options.out.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        for events in options.events:
            path = Path(folder) / "large.sqlite"
            generate(path, events // 2)
            row: dict[str, Any] = {"events_count": events, "file_bytes": path.stat().st_size}
            for old in before.get("captures", []):
                if old["events_count"] == events:
                    kept = {tool: old[tool] for tool in ("nsys", "nsys_ai") if tool in old}
                    row |= {t: {"date": before["machine"]["date"]} | one for t, one in kept.items()}
            if importlib.util.find_spec("polars"):
                lab = [sys.executable, "-m", "profiling_lab.cli", "diagnose", str(path), "--json"]
                row["lab"] = measure(lab, options.limit_s)
            if options.nsys:
                analyze = [options.nsys, "analyze", "--format=csv", "--output=-", str(path)]
                row["nsys"] = measure(analyze, options.limit_s)
            if options.nsys_ai:
                ask = [str(options.nsys_ai.absolute()), "-m", "nsys_ai", "diagnose", str(path)]
                row["nsys_ai"] = measure(ask, options.limit_s, Path(folder))
            report["captures"].append(row)
            for tool in ("lab", "nsys", "nsys_ai"):
                if tool in row:
                    found = row[tool]
                    print(
                        f"{events:>12,} events  {tool:8s} {found['wall_s']:8.1f} s wall "
                        f"{found['cpu_s']:8.1f} s CPU {found['peak_rss_bytes'] / 1e9:6.2f} GB peak"
                        f"{'  (ended at the limit)' if found['passed_limit'] else ''}"
                        f"{'' if not found['exit_code'] else '  exit ' + str(found['exit_code'])}",
                        flush=True,
                    )
            options.out.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
