"""A zip of some kilobytes that unpacks to gigabytes, in one member and in ten thousand."""

import zipfile

EXERCISE = "scaling_ex01"
STUB = "modules/05-scaling-benchmarks/ex01-single-gpu-baseline/single_gpu_baseline.py"


def plant(entry, course):
    with zipfile.ZipFile(f"{entry}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open(STUB, "w", force_zip64=True) as member:
            for _ in range(300):
                member.write(b"\0" * (1 << 20))
        for number in range(12_000):
            archive.writestr(f"filler/{number}", "")
