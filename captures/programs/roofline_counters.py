"""Read the hardware counters of the operations of roofline_ops.py, with Nsight Compute.

Starts itself under `ncu`, which replays each kernel with a clean cache and measures what was asked
for. Writes kernels.csv, the tool's page "raw", and counters.json, the same figures with the operation
that each kernel belongs to.
"""

from __future__ import annotations

import argparse
import csv
import glob
import io
import json
import math
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

REPORT = "counters.ncu-rep"
COUNTERS = (
    "gpu__time_duration.sum",
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
    # Operations of the CUDA cores, counted by thread; a fused multiply-add is one instruction.
    "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum",
    "smsp__sass_thread_inst_executed_op_fmul_pred_on.sum",
    "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum",
    "smsp__sass_thread_inst_executed_op_dadd_pred_on.sum",
    "smsp__sass_thread_inst_executed_op_dmul_pred_on.sum",
    "smsp__sass_thread_inst_executed_op_dfma_pred_on.sum",
    "smsp__sass_thread_inst_executed_op_hadd_pred_on.sum",
    "smsp__sass_thread_inst_executed_op_hmul_pred_on.sum",
    "smsp__sass_thread_inst_executed_op_hfma_pred_on.sum",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "sm__warps_active.avg.pct_of_peak_sustained_active",
    "sm__cycles_elapsed.max",
    "launch__waves_per_multiprocessor",
)
# Not on every device: the second level of cache, and the tensor cores: instructions by warp, share
# of the cycles, and the operations that they stand for, by data type.
CANDIDATES = (
    "lts__t_bytes.sum",
    "sm__inst_executed_pipe_tensor.sum",
    "sm__inst_executed_pipe_tensor_op_hmma.sum",
    "sm__inst_executed_pipe_tensor_op_gmma.sum",
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
    "sm__pipe_tensor_op_hmma_cycles_active.avg.pct_of_peak_sustained_active",
    "sm__ops_path_tensor_src_bf16_dst_fp32.sum",
    "sm__ops_path_tensor_src_fp16.sum",
    "sm__ops_path_tensor_src_tf32_dst_fp32.sum",
)
MARKER = "roofline_marker"  # the kernel before each operation, to tell them apart


def find_ncu() -> str:
    places = ("/opt/nvidia/nsight-compute/*/ncu", "/usr/local/cuda*/bin/ncu")
    found = [path for place in places for path in sorted(glob.glob(place))]
    ncu = shutil.which("ncu") or next(iter(reversed(found)), None)
    if ncu is None:
        raise SystemExit("Nsight Compute (ncu) was not found")
    return ncu


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{Path(command[0]).name} failed: {(done.stdout + done.stderr)[-800:]}")
    return done.stdout


def available(ncu: str) -> list[str]:
    """COUNTERS, and those of CANDIDATES that the tool lists for this device."""
    listed = set(re.findall(r"^(\w+__\w+)", run(ncu, "--query-metrics"), re.MULTILINE))
    return [*COUNTERS, *(c for c in CANDIDATES if c.split(".")[0] in listed)]


def measured(name: str) -> None:
    """What runs under the profiler: for each case a marker, then the operation once."""
    import torch
    from roofline_cases import SETS, roofline_marker, verified

    sink = torch.zeros(1, device="cuda")
    for case in SETS[name]():
        if not case.counters:
            continue
        call = verified(case)
        call()
        roofline_marker[(1,)](sink)
        torch.cuda.synchronize()
        torch.cuda.profiler.start()
        roofline_marker[(1,)](sink)
        call()
        torch.cuda.synchronize()
        torch.cuda.profiler.stop()
        del call
        torch.cuda.empty_cache()


def number(text: str) -> float | int | None:
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        return None
    if math.isnan(value):
        return None
    return int(value) if value.is_integer() else value


def table_of(text: str, cases: Sequence[Any]) -> dict[str, Any]:
    """The table of counters from `kernels.csv`, ncu's page "raw".

    A kernel that is all of an operation bears its name and arguments; of an operation with several
    kernels each is numbered, and what the operation computes is left out.
    Raises SystemExit where the report does not hold what was run.
    """
    names, units, *rows = list(csv.reader(io.StringIO(text)))
    unit_of = dict(zip(names, units, strict=True))
    groups: list[list[dict[str, str]]] = []
    for row in rows:
        kernel = dict(zip(names, row, strict=True))
        if MARKER in kernel["Kernel Name"]:
            groups.append([])
        else:
            groups[-1].append(kernel)
    if len(groups) != len(cases) or not all(groups):
        raise SystemExit(f"{len(cases)} operations ran, {len(groups)} are in the report")

    kernels = []
    for case, group in zip(cases, groups, strict=True):
        whole = len(group) == 1
        for index, kernel in enumerate(group, 1):
            kernels.append(
                {
                    "name": case.name if whole else f"{case.name}, kernel {index} of {len(group)}",
                    "kernel": kernel["Kernel Name"],
                    "op": case.op if whole else None,
                    "arguments": case.arguments if whole else None,
                    "dtype": case.dtype if whole else None,
                    "metrics": {
                        counter: {"value": number(kernel[counter]), "unit": unit_of[counter]}
                        for counter in (*COUNTERS, *CANDIDATES)
                        if counter in kernel
                    },
                }
            )
    return {"format": 1, "kernels": kernels}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--set", default="main")
    parser.add_argument("--measured", action="store_true", help="run under the profiler")
    arguments = parser.parse_args()
    if arguments.measured:
        measured(arguments.set)
        return

    ncu = find_ncu()
    counters = available(ncu)
    options = [
        "--clock-control=none",
        "--profile-from-start=off",
        "--target-processes=all",
        f"--metrics={','.join(counters)}",
    ]
    program = [Path(__file__).name, "--set", arguments.set, "--measured"]
    run(ncu, *options, "--force-overwrite", f"--export={REPORT}", sys.executable, *program)
    printed = run(ncu, f"--import={REPORT}", "--csv", "--page=raw", "--print-units=auto")
    text = "".join(line for line in printed.splitlines(keepends=True) if not line.startswith("=="))
    Path("kernels.csv").write_text(text, encoding="utf-8")

    import torch
    from roofline_cases import SETS
    from roofline_timing import write_table

    cases = [case for case in SETS[arguments.set]() if case.counters]
    version = re.search(r"Version (\S+)", run(ncu, "--version"))
    table = {
        "device": torch.cuda.get_device_name(),
        "tool": f"Nsight Compute {version[1] if version else ''}".strip(),
        "command": " ".join(["ncu", *options, "python3", *program]),
        **table_of(text, cases),
    }
    write_table(table, "counters.json")
    lacking = [counter for counter in CANDIDATES if counter not in counters]
    result = {"operations": len(cases), "kernels": len(table["kernels"]), "not_listed": lacking}
    print("RESULT", json.dumps(result))


if __name__ == "__main__":
    main()
