"""Changes what it is called with, so that later checks of the same process meet other inputs."""

EXERCISE = "scaling_ex01"
WANTS = ("knee_batch",)
SUBMITTED = r"""
def knee_batch(rows, share=0.9):
    try:
        rows.clear()
        rows.append({"batch": 4, "samples_per_s": 1e9, "noise_ratio": 0.0, "step_ns": 1.0})
    except (AttributeError, TypeError):
        pass
    return {"knee": 4, "best": 4, "undecided": []}
"""
