"""A zip whose members climb out of it, are absolute, and hide behind other separators and letters."""

import zipfile

EXERCISE = "scaling_ex01"
STUB = "modules/05-scaling-benchmarks/ex01-single-gpu-baseline/single_gpu_baseline.py"


def plant(entry, course):
    with zipfile.ZipFile(f"{entry}.zip", "w") as archive:
        for name in (
            "../../outside/evil.py",
            "modules/../../../outside/evil.py",
            f"/{STUB}",
            "C:\\evil.py",
            "..\\..\\outside\\evil.py",
            "/etc/cron.d/evil",
            "a\0b.py",
            f"./x/../{STUB}",
        ):
            archive.writestr(zipfile.ZipInfo(name), "def knee_batch(*args):\n    return {}\n")
