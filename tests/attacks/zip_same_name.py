"""A zip with the stub in other cases, forms of Unicode, separators and with dots in its path."""

import zipfile

EXERCISE = "scaling_ex01"
FOLDER = "modules/05-scaling-benchmarks/ex01-single-gpu-baseline"


def plant(entry, course):
    with zipfile.ZipFile(f"{entry}.zip", "w") as archive:
        for path in (
            f"{FOLDER}/single_gpu_baseline.py".upper(),
            f"{FOLDER}/./single_gpu_baseline.py",
            f"{FOLDER}/x/../single_gpu_baseline.py",
            f"{FOLDER}//single_gpu_baseline.py",
            f"{FOLDER}/single_gpu_baseline.py".replace("/", "\\\\"),
            f"{FOLDER}/single_gpu_baseline.py".replace("e", "\uff45"),
            f"{FOLDER}/single_gpu_baseline.py\0.txt",
        ):
            archive.writestr(path, "passed")
