"""Takes from its own process the right to write, to open and to grow, so that its answer cannot come back."""

EXERCISE = "scaling_ex01"
WANTS = ("knee_batch",)
SUBMITTED = r"""
import resource

def knee_batch(rows, share=0.9):
    for which in (resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE, resource.RLIMIT_CORE, resource.RLIMIT_AS):
        resource.setrlimit(which, (0, 0))
    return {"knee": 4, "best": 4, "undecided": []}
"""
