"""A zip in a zip in a zip, fifty times."""

import io
import zipfile

EXERCISE = "scaling_ex01"
FOLDER = "modules/05-scaling-benchmarks/ex01-single-gpu-baseline"


def plant(entry, course):
    data, name = b"passed", f"{FOLDER}/single_gpu_baseline.py"
    for _ in range(50):
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            archive.writestr(name, data)
        data, name = buffer.getvalue(), "submission.zip"
    entry.with_name(f"{entry.name}.zip").write_bytes(data)
