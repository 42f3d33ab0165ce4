"""A zip whose members climb out, are absolute, are named twice, and hide in other cases and encodings."""

import warnings
import zipfile

EXERCISE = "scaling_ex01"
STUB = "modules/05-scaling-benchmarks/ex01-single-gpu-baseline/single_gpu_baseline.py"


def plant(entry, course):
    with warnings.catch_warnings(), zipfile.ZipFile(f"{entry}.zip", "w") as archive:
        warnings.simplefilter("ignore")
        for name in ("../../evil.py", "@CANARY@", "modules/../../evil.py", "C:\\evil.py", "..\\evil.py", STUB,
                     STUB, STUB.upper(), "/etc/cron.d/evil", "a\0b.py"):
            archive.writestr(zipfile.ZipInfo(name), "def knee_batch(*args):\n    return {}\n")
