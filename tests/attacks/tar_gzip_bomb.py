"""A small tar.gz that unpacks to a gigabyte of headers."""

import gzip
import tarfile

EXERCISE = "scaling_ex01"
FOLDER = "modules/05-scaling-benchmarks/ex01-single-gpu-baseline"


def plant(entry, course):
    member = tarfile.TarInfo(f"{FOLDER}/single_gpu_baseline.py").tobuf() * 2048
    with gzip.open(f"{entry}.tar.gz", "wb", compresslevel=6) as archive:
        for _ in range(64):
            archive.write(member)
