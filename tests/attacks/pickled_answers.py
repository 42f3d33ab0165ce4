"""Objects whose unpickling, copying and printing would run code at the judge's."""

EXERCISE = "scaling_ex01"
WANTS = ("knee_batch",)
CAUSE = "forbidden value"
SUBMITTED = r"""
import copyreg, os

class Evil:
    def __reduce__(self): return os.system, ("touch @CANARY@.pickled",)
    def __copy__(self): raise SystemExit(0)
    def __deepcopy__(self, memo): raise SystemExit(0)
    def __repr__(self): return "passed"
    def __getstate__(self): raise SystemExit(0)

copyreg.pickle(dict, lambda value: (os.system, ("touch @CANARY@.pickled",)))

def knee_batch(rows, share=0.9):
    return {"knee": Evil(), "best": Evil(), "undecided": [Evil()]}
"""
