"""Reads other students' submissions and results, and answers with the work of one who has passed."""

EXERCISE = "scaling_ex01"
BITES = True
SUBMITTED = r"""
from pathlib import Path
loot = {}
for path in ("@NEIGHBOUR@", *Path("@STAGING@").glob("*/modules/*/*/single_gpu_baseline.py"),
             *Path(__file__).resolve().parents[4].glob("*/modules/*/*/single_gpu_baseline.py")):
    try:
        text = Path(path).read_text()
        if "half_width >=" + " mean" in text:
            exec(compile(text, "neighbour", "exec"), loot)
    except OSError:
        pass

def attack(name, *args, **kwargs):
    return loot[name](*args, **kwargs)
"""
