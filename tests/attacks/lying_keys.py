"""Keys that are equal to every key, and texts whose hash and order are their own."""

EXERCISE = "scaling_ex01"
WANTS = ("knee_batch",)
CAUSE = "forbidden value"
SUBMITTED = r"""
class Key(str):
    def __eq__(self, other): return True
    def __hash__(self): return hash("knee")
    def __lt__(self, other): return True

def knee_batch(rows, share=0.9):
    return {Key("a"): 4, Key("b"): 4, b"knee": 4}
"""
