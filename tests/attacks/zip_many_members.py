"""A zip of twelve thousand members around one stub."""

import zipfile

EXERCISE = "scaling_ex01"
CAUSE = "refused file"
STUB = "modules/05-scaling-benchmarks/ex01-single-gpu-baseline/single_gpu_baseline.py"


def plant(entry, course):
    with zipfile.ZipFile(f"{entry}.zip", "w") as archive:
        archive.writestr(STUB, "def knee_batch(*args):\n    return {}\n")
        for number in range(12_000):
            archive.writestr(f"filler/{number}", "")
