"""How long does a learner wait for `lab`, `lab hint`, `lab check`, and for a re-check while watching?

    uv run python benchmarks/commands.py [--repeats N]

Runs on a copy of the course in which Day 1 is solved (the references stand in for the learner's
work). Commands are timed as whole processes: wall time, and CPU time of the process and its
children as the system accounts for it. A re-check is timed in a running watcher, from the saved
change to the verdict: one function changes, its checks run. Warm disk: one run before is not
counted. Raw figures go to benchmarks/results/commands.json.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from grading.runner.forkserver import ForkServer
from grading.runner.watcher import Watcher
from profiling_lab.course import manifest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

RESULT = ROOT / "benchmarks/results/commands.json"
COMMANDS = {
    "lab": [],
    "lab hint": ["hint", "ex_30.busy_time"],
    "lab check task": ["check", "ex_30.busy_time"],
    "lab check ex_30": ["check", "ex_30"],
    "lab diagnose": ["diagnose", "torch_inference_baseline", "--against", "solutions"],
}
AIMS_S = {
    "lab": 0.5,
    "lab hint": 0.5,
    "lab check ex_30": 2.0,
    "re-check while watching": 0.5,
}


def solved_course(folder: Path) -> Path:
    """A copy of the course with the references in place of the stubs."""
    skip = shutil.ignore_patterns(".*", "__pycache__", "lab-*.html")
    shutil.copytree(ROOT, folder, ignore=skip)
    course = manifest.load(folder)
    for exercise in course.exercises:
        for stub in exercise.stubs:
            shutil.copyfile(course.solution(stub), folder / stub)
    return folder


def timed(command: list[str], cwd: Path) -> dict[str, float]:
    """One run of a command: wall and CPU seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout[-2000:]}")
    cpu = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return {"wall_s": wall, "cpu_s": cpu}


def rechecks(folder: Path, repeats: int) -> list[dict[str, float]]:
    """Change one function, as a learner who saves, and wait for the verdict."""
    course = manifest.load(folder)
    exercise = course.exercise("ex_30")
    file = folder / exercise.stub
    source = file.read_text(encoding="utf-8")
    out = []
    with ForkServer(preload=("polars", "numpy")) as server:
        server.start()
        watcher = Watcher(course, exercise.tasks, server)
        for repeat in range(repeats + 1):
            changed = source.replace(
                "    start, end = find_window(capture, nvtx_range)\n    return {",
                f"    start, end = find_window(capture, nvtx_range)\n    _ = {repeat}\n    return {{",
                1,
            )
            assert changed != source
            start = time.perf_counter()
            file.write_text(changed, encoding="utf-8")
            tasks = watcher.changed([file])
            result = watcher.check(tasks)
            wall = time.perf_counter() - start
            assert result.outcomes.get("ex_30.busy_time") == "passed", result
            out.append({"wall_s": wall})
    return out[1:]


def main() -> None:
    """Measure, print medians beside the aims, and keep the raw figures."""
    from benchmarks.machine import describe

    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--repeats", type=int, default=7)
    repeats = parser.parse_args().repeats
    samples: dict[str, list[dict[str, float]]] = {}
    with tempfile.TemporaryDirectory(prefix="lab-benchmark-") as scratch:
        folder = solved_course(Path(scratch) / "course")
        for name, arguments in COMMANDS.items():
            command = [sys.executable, "-m", "profiling_lab.cli", *arguments]
            timed(command, folder)
            samples[name] = [timed(command, folder) for _ in range(repeats)]
        samples["re-check while watching"] = rechecks(folder, repeats)
    result: dict[str, Any] = {
        "machine": describe("click", "rich", "polars", "pytest"),
        "aims_s": AIMS_S,
    }
    result["samples"] = samples
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    for name, rows in samples.items():
        medians = {key: statistics.median(row[key] for row in rows) for key in rows[0]}
        text = ", ".join(f"{key[:-2]} {value:.2f} s" for key, value in medians.items())
        aim = f"   aim {AIMS_S[name]} s" if name in AIMS_S else ""
        print(f"{name:<26} {text}{aim}")
    print(f"raw figures: {RESULT.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
