"""How long do the Day 1 functions take on a capture of a million kernels?

    uv run python benchmarks/million_kernels.py [--kernels N] [--repeats N] [--nsys PATH]

Writes a Nsight Systems export of N kernels and the N calls that launched them (the same bytes of
content every time), then, in a fresh process a repeat: opens it and calls busy_time, idle_gaps and
launch_latency of the reference solution. Wall time, CPU time and peak memory of each go to
benchmarks/results/million_kernels.json. Where nsys is installed, its report
`nsys stats -r cuda_kern_exec_sum` over the same file is measured beside them.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from grading.checks.generate import schema
from profiling_lab import captures
from profiling_lab.mine.functions import load_file

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

REFERENCE = ROOT / "solutions/week07/day1_nsight_systems/ex_30_nsight_systems.py"
RESULT = ROOT / "benchmarks/results/million_kernels.json"
PROCESS = 0x1000000000000 + (4_242 << 24)
STREAMS = (7, 13, 17, 21)
LIBRARIES = ("polars", "numpy", "adbc-driver-sqlite", "adbc-driver-manager")


def generate(path: Path, kernels: int, seed: int = 7) -> None:
    """Write the capture: one device, four streams, kernels of 2 to 40 µs, idle stretches between."""
    import numpy as np

    rng = np.random.default_rng(seed)
    api_ns = rng.integers(2_500, 9_000, kernels)
    host_ns = rng.integers(300, 3_000, kernels)
    host_ns[rng.random(kernels) < 0.002] += 400_000  # the host computes: the device runs dry
    api_start = np.cumsum(host_ns + np.concatenate([[0], api_ns[:-1]])) + 50_000_000
    api_end = api_start + api_ns
    arrival = api_start + (api_ns * 0.7).astype(np.int64) + rng.integers(1_500, 4_000, kernels)
    duration = rng.integers(2_000, 40_000, kernels)
    stream = rng.integers(0, len(STREAMS), kernels)
    start = np.empty(kernels, dtype=np.int64)
    for index in range(len(STREAMS)):
        # start[i] = max(arrival[i], end[i-1] + gap), all at once: in time that leaves out the work
        # of the stream so far, it is a running maximum.
        here = np.flatnonzero(stream == index)
        work = duration[here] + 1_000
        before = np.cumsum(work) - work
        start[here] = np.maximum.accumulate(arrival[here] - before) + before
    order = rng.permutation(kernels)

    def column(values: Any) -> list[Any]:
        return values[order].tolist()

    names = {1: "cudaLaunchKernel_v7000", 2: "gemm_tile", 3: "scale_rows", 4: "softmax"}
    name = rng.integers(2, 5, kernels)
    correlation = np.arange(kernels) + 100
    varying = {
        "start": column(start),
        "end": column(start + duration),
        "streamId": column(np.array(STREAMS)[stream]),
        "correlationId": column(correlation),
        "demangledName": column(name),
        "shortName": column(name),
        "gridX": column(rng.integers(1, 4_000, kernels)),
        "gridId": column(correlation),
    }
    constant = {"globalPid": PROCESS, "contextId": 1, "blockX": 256, "registersPerThread": 32}
    ones = dict.fromkeys(("gridY", "gridZ", "blockY", "blockZ", "launchType", "cacheConfig"), 1)

    path.unlink(missing_ok=True)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = OFF")
    connection.execute("PRAGMA synchronous = OFF")
    tables = ("StringIds", "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME")
    for table in (*tables, "TARGET_INFO_GPU", "META_DATA_EXPORT", *schema.ENUMERATIONS):
        connection.execute(schema.create_statement(table))
    for table, rows in schema.ENUMERATIONS.items():
        connection.executemany(f"INSERT INTO {table} VALUES (?, ?, ?)", rows)
    connection.executemany("INSERT INTO StringIds VALUES (?, ?)", names.items())
    connection.executemany(
        "INSERT INTO META_DATA_EXPORT VALUES (?, ?)",
        [
            ("EXPORT_PRODUCT_VERSION", "2025.3.2.0"),
            ("EXPORT_SCHEMA_VERSION", "3.20.3"),
            ("EXPORT_SCHEMA_VERSION_MAJOR", "3"),
            ("EXPORT_SCHEMA_VERSION_MINOR", "20"),
            ("EXPORT_SCHEMA_VERSION_MICRO", "3"),
        ],
    )
    connection.execute(
        "INSERT INTO TARGET_INFO_GPU (vmId, id, name, smCount, cuDevice, busLocation) "
        "VALUES (1, 0, 'NVIDIA H200', 132, 0, '0000:06:00.0')"
    )
    fixed = constant | ones
    optional = ("graphNodeId", "greenContextId")
    values, literals = [], []
    for name_ in schema.columns("CUPTI_ACTIVITY_KIND_KERNEL"):
        if name_ in varying:
            literals.append("?")
            values.append(varying[name_])
        else:
            literals.append("NULL" if name_ in optional else str(fixed.get(name_, 0)))
    connection.executemany(
        f"INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ({', '.join(literals)})",
        zip(*values, strict=True),
    )
    connection.executemany(
        f"INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, 0, {PROCESS + 4_242}, ?, 1, 0, NULL)",
        zip(column(api_start), column(api_end), column(correlation), strict=True),
    )
    connection.commit()
    connection.close()


def measure(path: Path) -> dict[str, Any]:
    """In this process: open, busy, gaps and launch latency, each with wall and CPU seconds."""
    import resource

    steps: dict[str, dict[str, float]] = {}
    results: dict[str, Any] = {}

    def timed(name: str, action: Any) -> Any:
        wall, cpu = time.perf_counter(), time.process_time()
        value = action()
        steps[name] = {
            "wall_s": time.perf_counter() - wall,
            "cpu_s": time.process_time() - cpu,
        }
        return value

    def load() -> Any:
        return load_file(REFERENCE)

    def open_capture() -> None:
        with captures.open(path) as capture:
            results["kernels_count"] = capture.kernels.height

    reference = timed("import", load)
    timed("open", open_capture)
    results["busy_ns"] = timed("busy_time", lambda: reference.busy_time(str(path)))
    results["gaps_count"] = len(timed("idle_gaps", lambda: reference.idle_gaps(str(path))))
    latency = timed("launch_latency", lambda: reference.launch_latency(str(path)))
    results["queue_ns_sum"] = int(sum(latency["queue_ns"]))
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "steps": steps,
        "total_wall_s": sum(step["wall_s"] for step in steps.values()),
        "total_cpu_s": sum(step["cpu_s"] for step in steps.values()),
        "peak_rss_bytes": usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024),
        "results": results,
    }


def measure_nsys(nsys: str, path: Path, repeats: int) -> list[dict[str, Any]]:
    """`nsys stats -r cuda_kern_exec_sum` over the same SQLite file."""
    runs = []
    for _ in range(repeats):
        before, wall = os.times(), time.perf_counter()
        command = [nsys, "stats", "-r", "cuda_kern_exec_sum", "--format=csv", str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        after = os.times()
        runs.append(
            {
                "wall_s": time.perf_counter() - wall,
                "cpu_s": after.children_user
                + after.children_system
                - before.children_user
                - before.children_system,
                "exit_code": done.returncode,
            }
        )
    return runs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kernels", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--nsys", default=shutil.which("nsys"), help="the nsys to compare with")
    parser.add_argument("--file", type=Path, help="keep the capture here and use it if it exists")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure)))
        return

    from benchmarks.machine import describe

    with tempfile.TemporaryDirectory() as folder:
        path = options.file or Path(folder) / "million_kernels.sqlite"
        begun = time.perf_counter()
        if not path.exists():
            generate(path, options.kernels)
        generated_s = time.perf_counter() - begun
        command = [sys.executable, __file__, "--measure", str(path)]
        runs = [json.loads(subprocess.check_output(command)) for _ in range(options.repeats)]
        report: dict[str, Any] = {
            "what": "open, busy_time, idle_gaps and launch_latency in a fresh process a run",
            "machine": describe(*LIBRARIES),
            "kernels_count": options.kernels,
            "file_bytes": path.stat().st_size,
            "generate_s": generated_s,
            "median_total_wall_s": statistics.median(run["total_wall_s"] for run in runs),
            "median_total_cpu_s": statistics.median(run["total_cpu_s"] for run in runs),
            "largest_peak_rss_bytes": max(run["peak_rss_bytes"] for run in runs),
            "runs": runs,
        }
        if options.nsys:
            version = subprocess.check_output([options.nsys, "--version"], text=True).strip()
            report["nsys"] = {
                "version": version,
                "runs": measure_nsys(options.nsys, path, options.repeats),
            }
        else:
            report["nsys"] = "not installed here"
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    RESULT.write_text(json.dumps(report, indent=2) + "\n")
    for name in runs[0]["steps"]:
        median = statistics.median(run["steps"][name]["wall_s"] for run in runs)
        print(f"{name:16s} {median:6.2f} s")
    print(f"{'total':16s} {report['median_total_wall_s']:6.2f} s wall, "
          f"{report['median_total_cpu_s']:.2f} s CPU, "
          f"{report['largest_peak_rss_bytes'] / 1e9:.2f} GB peak")  # fmt: skip
    print(f"raw figures: {RESULT.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
