"""A zip whose members are marked as encrypted, with a method that nobody knows."""

import io
import zipfile

EXERCISE = "scaling_ex01"
FOLDER = "modules/05-scaling-benchmarks/ex01-single-gpu-baseline"


def plant(entry, course):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(f"{FOLDER}/single_gpu_baseline.py", "passed")
    packed = bytearray(buffer.getvalue())
    for mark, flags, method in ((b"PK\1\2", 8, 10), (b"PK\3\4", 6, 8)):
        place = packed.index(mark)
        packed[place + flags] |= 1
        packed[place + method] = 99
    entry.with_name(f"{entry.name}.zip").write_bytes(bytes(packed))
