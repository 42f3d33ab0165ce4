"""Pairs of matrix work outside the tensor cores (faulty) and on them (fixed), by libraries.

products.py          the ms of both, in turns, as one line of JSON
products.py --once   each once between cudaProfilerStart and cudaProfilerStop
"""

import json
import sys

import torch

RUNS, LAUNCHES = 7, 5

x = torch.randn(4096, 4096, device="cuda")
w = torch.randn(4096, 4096, device="cuda")
images = torch.randn(64, 128, 56, 56, device="cuda")
filters = torch.randn(128, 128, 3, 3, device="cuda")
queries = torch.randn(64, 1024, 64, device="cuda")
keys = torch.randn(64, 64, 1024, device="cuda")


def linear(fixed: bool):
    torch.backends.cuda.matmul.allow_tf32 = fixed
    return torch.nn.functional.linear(x, w)


def convolution(fixed: bool):
    torch.backends.cudnn.allow_tf32 = fixed
    return torch.nn.functional.conv2d(images, filters, padding=1)


def scores(fixed: bool):
    torch.backends.cuda.matmul.allow_tf32 = fixed
    return torch.bmm(queries, keys)


PAIRS = {"linear": linear, "convolution": convolution, "scores": scores}

for run in PAIRS.values():
    for fixed in (False, True) * 2:
        run(fixed)
torch.cuda.synchronize()
if "--once" in sys.argv:
    torch.cuda.profiler.start()
    for run in PAIRS.values():
        for fixed in (False, True):
            run(fixed)
            torch.cuda.synchronize()
    torch.cuda.profiler.stop()
else:
    found = {}
    for name, run in PAIRS.items():
        times = found[name] = {"faulty": [], "fixed": []}
        for _ in range(RUNS):
            for version, made in times.items():
                begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                begin.record()
                for _ in range(LAUNCHES):
                    run(version == "fixed")
                end.record()
                torch.cuda.synchronize()
                made.append(begin.elapsed_time(end) / LAUNCHES)
    print(json.dumps(found))
