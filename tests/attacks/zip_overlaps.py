"""A zip whose thousand members share one stretch of compressed bytes."""

import copy
import io
import zipfile

EXERCISE = "scaling_ex01"
FOLDER = "modules/05-scaling-benchmarks/ex01-single-gpu-baseline"


def plant(entry, course):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"{FOLDER}/single_gpu_baseline.py", bytes(20 << 20))
        first = archive.infolist()[0]
        for number in range(1000):
            other = copy.copy(first)
            other.filename = f"{FOLDER}/{number}.py"
            archive.filelist.append(other)
            archive.NameToInfo[other.filename] = other
        archive._didModify = True  # pyrefly: ignore[missing-attribute]
    entry.with_name(f"{entry.name}.zip").write_bytes(buffer.getvalue())
