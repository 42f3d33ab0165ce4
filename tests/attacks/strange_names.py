"""Entries and files named like options, paths, commands, formulas and control characters."""

EXERCISE = "scaling_ex01"
STUB = "modules/05-scaling-benchmarks/ex01-single-gpu-baseline/single_gpu_baseline.py"
ENTRY = "-rf =cmd|' \u202egnp\x1b[2J\n$(touch pwned)`id`"


def plant(entry, course):
    file = entry.with_name(ENTRY) / STUB
    file.parent.mkdir(parents=True)
    file.write_text("def knee_batch(*args):\n    return {}\n")
    for name in ("a\nb.py", "\x1b[31m.py", "-o", "x" * 200):
        (entry.with_name(ENTRY) / name).write_text("passed")
