"""A tar whose stub is a hard link to another member, and to a file of the machine."""

import io
import tarfile

EXERCISE = "scaling_ex01"
FOLDER = "modules/05-scaling-benchmarks/ex01-single-gpu-baseline"


def plant(entry, course):
    with tarfile.open(f"{entry}.tar", "w") as archive:
        for name, kind, target in (
            ("other.py", tarfile.REGTYPE, ""),
            (f"{FOLDER}/single_gpu_baseline.py", tarfile.LNKTYPE, "other.py"),
            ("week07", tarfile.SYMTYPE, "/etc"),
            ("week07/passwd", tarfile.LNKTYPE, "/etc/passwd"),
        ):
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, target
            if kind == tarfile.REGTYPE:
                text = b"def knee_batch(*args):\n    return {}\n"
                member.size = len(text)
                archive.addfile(member, io.BytesIO(text))
            else:
                archive.addfile(member)
