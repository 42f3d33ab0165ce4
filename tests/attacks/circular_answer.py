"""An answer that holds itself."""

EXERCISE = "scaling_ex01"
WANTS = ("knee_batch",)
SUBMITTED = r"""
def knee_batch(rows, share=0.9):
    answer = {"knee": 4, "best": 4, "undecided": []}
    answer["undecided"].append(answer)
    return answer
"""
