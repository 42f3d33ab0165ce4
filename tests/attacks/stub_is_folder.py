"""A folder where the stub should be, with a package in it."""

EXERCISE = "scaling_ex01"
FOLDER = "modules/05-scaling-benchmarks/ex01-single-gpu-baseline"


def plant(entry, course):
    folder = entry / FOLDER / "single_gpu_baseline.py"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("def knee_batch(*args):\n    return {}\n")
