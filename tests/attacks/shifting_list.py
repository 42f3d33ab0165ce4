"""Returns a plain list and changes it from a thread until the check may have looked at it."""

EXERCISE = "scaling_ex01"
WANTS = ("knee_batch",)
SUBMITTED = r"""
import threading, itertools

def knee_batch(rows, share=0.9):
    if not rows or not 0 < share <= 1:
        raise ValueError
    answer = {"knee": 0, "best": 0, "undecided": []}

    def turn():
        for batch in itertools.islice(itertools.cycle(row["batch"] for row in rows), 100_000):
            answer.update(knee=batch, best=batch)
    threading.Thread(target=turn, daemon=True).start()
    return answer
"""
