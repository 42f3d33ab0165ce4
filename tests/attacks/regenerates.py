"""Finds the seed of the session and generates the scenario anew, with its truth, to read the answer there."""

EXERCISE = "energy_ex01"
MUST_NOT_SAY = ("the seed is [", "generated it")
SUBMITTED = r"""
import glob, os, re, sys
sys.path.append("@COURSE@")
seeds = set(re.findall(r"LAB_SEED=(\d+)", str(os.environ)))
for file in [*glob.glob("/proc/[0-9]*/environ"), *glob.glob("/proc/[0-9]*/cmdline")]:
    try:
        seeds |= {m.decode() for m in re.findall(rb"(?:LAB_SEED|seed)=(\d+)", open(file, "rb").read())}
    except OSError:
        pass
for module in list(sys.modules.values()):
    if isinstance(getattr(module, "_seed_key", None), int):
        seeds.add(str(module._seed_key))
made = ""
for seed in seeds or ["7"]:
    try:
        from grading.checks.generate import SCENARIOS
        made = "generated it"
    except ImportError:
        pass

def attack(name, *args, **kwargs):
    raise ValueError((f"the seed is {list(seeds)} " if seeds else "") + made)
"""
