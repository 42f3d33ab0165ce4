"""Reads as still to do, and is another function once it is imported: a todo that nobody counts."""

EXERCISE = "scaling_ex01"
WANTS = ("knee_batch",)
SUBMITTED = r'''
def knee_batch(rows, share=0.9):
    """Still to do."""
    raise NotImplementedError

def _knee(rows, share=0.9):
    if not rows or not 0 < share <= 1:
        raise ValueError
    best = max(row["samples_per_s"] for row in rows)
    batches = [r["batch"] for r in rows if r["samples_per_s"] == best]
    knee = min(r["batch"] for r in rows if r["samples_per_s"] >= share * best)
    near = sorted(r["batch"] for r in rows if r["batch"] < knee
                  and r["samples_per_s"] * (1 + r["noise_ratio"]) >= share * best)
    return {"knee": knee, "best": min(batches), "undecided": near}

globals()["knee_batch"] = _knee
'''
