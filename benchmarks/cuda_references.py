"""How near do the CUDA references come to their ceilings, timed in turns in one run of a program?

    uv run python benchmarks/cuda_references.py                      on a machine with a GPU and nvcc
    uv run python benchmarks/cuda_references.py --log FILE --gpu "NVIDIA H200, driver 580.159.04" --date …

Builds the transpose and the reduction of solutions/ and runs each: its own time and that of its
ceiling (a copy; a read-only sweep) alternate five times, in ns. Raw times and the ratio of the medians
are added to benchmarks/results/cuda_references.json. With --log the output of the programs was
brought from another machine (both lines of each, one program after the other).
"""

from __future__ import annotations

import argparse
import datetime
import json
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from profiling_lab.record.tools import query_gpus  # noqa: E402

CUDA = Path("week07/day2_nsight_compute/cuda")
RESULT = ROOT / "benchmarks/results/cuda_references.json"
TARGETS = {"transpose": 0.90, "reduction": 0.95}  # of the ceiling's speed


def output_of_programs() -> str:
    """What both programs print, built from the references in a folder of their own."""
    with tempfile.TemporaryDirectory() as scratch:
        for folder in (ROOT / CUDA, ROOT / "solutions" / CUDA):
            shutil.copytree(folder, scratch, dirs_exist_ok=True)
        for built in Path(scratch).glob("*_student"):
            built.unlink()
        make = ["make", "--silent", "-C", scratch, f"ROOT={ROOT}", "run"]
        return subprocess.run(make, capture_output=True, text=True, check=True).stdout


def measured(output: str) -> dict[str, Any]:
    """Program → raw times, ratio of the medians, target. Raises ValueError without a result."""
    found = re.findall(r"^(\w+): .*\nRESULT (\{.*\})$", output, flags=re.MULTILINE)
    if not found:
        raise ValueError("the output holds no RESULT line")
    programs = {}
    for name, line in found:
        result = json.loads(line)
        if result["wrong"]:
            raise ValueError(f"{name}: {result['wrong']} wrong elements")
        ratio = statistics.median(result["ceiling_ns"]) / statistics.median(result["own_ns"])
        programs[name] = {
            "ratio_to_ceiling": round(ratio, 4),
            "target_ratio": TARGETS[name],
            **result,
        }
    return programs


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--log", type=Path, help="output of the programs from another machine")
    parser.add_argument("--gpu", help="with --log: its GPU and driver")
    parser.add_argument("--date", help="with --log: when it was measured (YYYY-MM-DD)")
    arguments = parser.parse_args()
    if arguments.log and not (arguments.gpu and arguments.date):
        parser.error("--log needs --gpu and --date")
    if arguments.log:
        gpu, date, output = arguments.gpu, arguments.date, arguments.log.read_text()
    else:
        found = query_gpus(("name", "driver_version"))
        if not found:
            parser.error(
                "no GPU answers here; bring the programs' output from another machine: --log"
            )
        gpu = f"{found[0]['name']}, driver {found[0]['driver_version']}"
        date, output = datetime.date.today().isoformat(), output_of_programs()
    run = {"gpu_and_driver": gpu, "date": date, "programs": measured(output)}
    kept = json.loads(RESULT.read_text()) if RESULT.exists() else {"runs": []}
    kept["what"] = "time of a reference and of its ceiling, in turns in one run; medians of the ns"
    kept["runs"].append(run)
    RESULT.write_text(json.dumps(kept, indent=1) + "\n")
    for name, program in run["programs"].items():
        print(f"{name}: {program['ratio_to_ceiling']:.3f} of its ceiling on {gpu}")


if __name__ == "__main__":
    main()
