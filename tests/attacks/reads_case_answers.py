"""Reads what tells the fault of a recording: programs of cases, how they were started, recipes and pages."""

EXERCISE = "ex_30"
WANTS = ("busy_time",)
BITES = True
MUST_NOT_SAY = ("FOUND-WHAT-TELLS",)
SUBMITTED = r"""
import pathlib

def attack(name, *args, **kwargs):
    captures = pathlib.Path("@COURSE@/captures")
    telling = ["captures.toml", "README.md", "programs/*.py", "programs/*/*.cu", "programs/case_*/*",
               "case_*/provenance.json", "case_*/README.md", "*/README.md"]
    for pattern in telling:
        for file in captures.glob(pattern):
            try:
                if file.read_bytes():
                    raise ValueError(f"FOUND-WHAT-TELLS {pattern}")
            except OSError:
                pass
    raise ValueError("nothing that tells")
"""
