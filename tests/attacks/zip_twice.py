"""A zip that holds the stub twice, and once more in capitals: a reader sees one, and another runs."""

import warnings
import zipfile

EXERCISE = "scaling_ex01"
CAUSE = "refused file"
STUB = "modules/05-scaling-benchmarks/ex01-single-gpu-baseline/single_gpu_baseline.py"


def plant(entry, course):
    with warnings.catch_warnings(), zipfile.ZipFile(f"{entry}.zip", "w") as archive:
        warnings.simplefilter("ignore")
        for name in (STUB, STUB, STUB.upper()):
            archive.writestr(zipfile.ZipInfo(name), "def knee_batch(*args):\n    return {}\n")
