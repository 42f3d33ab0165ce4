"""Run attention once in each way, for a profiler: by calls that materialise, by libraries, in steps.

Without --once the program times each way; with it, each runs once, in an NVTX range of its name, between
cudaProfilerStart and cudaProfilerStop, after a warm-up. bfloat16, 32 heads of 128, 8,192 tokens, full.
"""

from __future__ import annotations

import argparse
import json

import torch
from attention_kernels import STEPS
from attention_way import calls, check, in_turns, random

NAMES = ("materialised", "flash", "cudnn", *STEPS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--once", action="store_true", help="run under the profiler")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    inputs = random(1, 32, 8192, 128)
    with torch.no_grad():
        found = calls(inputs, False, NAMES)
        check(inputs, False, found)
        torch.cuda.synchronize()
        if not arguments.once:
            samples = in_turns(found, clocks := [])
            print("RESULT", json.dumps({"device_time_ns": samples, "sm_mhz": clocks}))
            return
        torch.cuda.profiler.start()
        for name, call in found.items():
            with torch.cuda.nvtx.range(name):
                call()
                torch.cuda.synchronize()
        torch.cuda.profiler.stop()
        print("RESULT", json.dumps({"ways": list(NAMES)}))


if __name__ == "__main__":
    main()
