"""Links to the reference, as the stub and as a folder above it, and into the machine."""

EXERCISE = "scaling_ex01"
FOLDER = "modules/05-scaling-benchmarks"
STUB = f"{FOLDER}/ex01-single-gpu-baseline/single_gpu_baseline.py"


def plant(entry, course):
    (entry / FOLDER).mkdir(parents=True)
    (entry / FOLDER / "ex01-single-gpu-baseline").symlink_to(
        course.root / "solutions" / FOLDER / "ex01-single-gpu-baseline"
    )
    (entry / "week07").symlink_to("/etc")
    (entry / "labs").symlink_to(entry)
