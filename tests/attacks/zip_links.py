"""A zip with symbolic links, and members that are written through them."""

import stat
import zipfile

EXERCISE = "scaling_ex01"
FOLDER = "modules/05-scaling-benchmarks/ex01-single-gpu-baseline"


def plant(entry, course):
    with zipfile.ZipFile(f"{entry}.zip", "w") as archive:
        for name, target in (
            (
                f"{FOLDER}/single_gpu_baseline.py",
                f"{course.root}/solutions/{FOLDER}/single_gpu_baseline.py",
            ),
            ("out", "/etc"),
        ):
            link = zipfile.ZipInfo(name)
            link.external_attr = (stat.S_IFLNK | 0o777) << 16
            archive.writestr(link, target)
        archive.writestr("out/evil.py", "passed")
