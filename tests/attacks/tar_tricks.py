"""A tar with hard links, devices, FIFOs, sparse files, absolute names and owners."""

import io
import tarfile

EXERCISE = "scaling_ex01"
FOLDER = "modules/05-scaling-benchmarks/ex01-single-gpu-baseline"


def plant(entry, course):
    with tarfile.open(f"{entry}.tar.gz", "w:gz") as archive:
        for name, kind, target in (
            (f"{FOLDER}/single_gpu_baseline.py", tarfile.LNKTYPE, "/etc/passwd"),
            (f"{FOLDER}/single_gpu_baseline.py", tarfile.SYMTYPE, "/etc/passwd"),
            ("pipe", tarfile.FIFOTYPE, ""),
            ("disk", tarfile.BLKTYPE, ""),
            ("/etc/evil", tarfile.REGTYPE, ""),
            ("../evil.py", tarfile.REGTYPE, ""),
        ):
            member = tarfile.TarInfo(name)
            member.type, member.linkname, member.mode = kind, target, 0o4777
            if kind == tarfile.REGTYPE:
                member.size = 6
                archive.addfile(member, io.BytesIO(b"passed"))
            else:
                archive.addfile(member)
