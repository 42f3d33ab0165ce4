"""A zip whose directory claims sizes of zip64 that no file has."""

import io
import zipfile

EXERCISE = "scaling_ex01"
FOLDER = "modules/05-scaling-benchmarks/ex01-single-gpu-baseline"


def plant(entry, course):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        info = zipfile.ZipInfo(f"{FOLDER}/single_gpu_baseline.py")
        info.extra = b"\1\0\x10\0" + b"\xff" * 16
        archive.writestr(info, "passed")
    packed = bytearray(buffer.getvalue())
    place = packed.rindex(b"PK\1\2")
    packed[place + 20 : place + 28] = b"\xff" * 8
    entry.with_name(f"{entry.name}.zip").write_bytes(bytes(packed))
