"""A zip whose local headers name other files than its directory does."""

import io
import zipfile

EXERCISE = "scaling_ex01"
FOLDER = "modules/05-scaling-benchmarks/ex01-single-gpu-baseline"


def plant(entry, course):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(f"{FOLDER}/single_gpu_baseline.py", "raise NotImplementedError")
    packed = buffer.getvalue().replace(b"single_gpu_baseline.py", b"../../../../conftest.p", 1)
    entry.with_name(f"{entry.name}.zip").write_bytes(packed)
