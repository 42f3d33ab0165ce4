"""A zip of some hundred kilobytes that unpacks to three hundred megabytes, in the stub itself."""

import zipfile

EXERCISE = "scaling_ex01"
CAUSE = "refused file"
STUB = "modules/05-scaling-benchmarks/ex01-single-gpu-baseline/single_gpu_baseline.py"


def plant(entry, course):
    with (
        zipfile.ZipFile(f"{entry}.zip", "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open(STUB, "w", force_zip64=True) as member,
    ):
        for _ in range(300):
            member.write(b"\0" * (1 << 20))
