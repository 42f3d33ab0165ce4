"""A folder and an archive of the same student, so that it is open which of the two is graded."""

import zipfile

EXERCISE = "scaling_ex01"
CAUSE = "refused file"
STUB = "modules/05-scaling-benchmarks/ex01-single-gpu-baseline/single_gpu_baseline.py"


def plant(entry, course):
    (entry / STUB).parent.mkdir(parents=True)
    (entry / STUB).write_text("def knee_batch(*args):\n    return {}\n")
    with zipfile.ZipFile(f"{entry}.zip", "w") as archive:
        archive.writestr(STUB, "def knee_batch(*args):\n    return {}\n")
