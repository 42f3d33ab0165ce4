"""Text of a subclass that equals, begins and ends with everything, as keys and as values."""

EXERCISE = "scaling_ex01"
WANTS = ("same_conditions",)
CAUSE = "forbidden value"
SUBMITTED = r"""
class Word(str):
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def startswith(self, *args): return True
    def __hash__(self): return hash("missing")

def same_conditions(one, other, varied=()):
    if "weather" in varied:
        raise ValueError("weather")
    return {Word("x"): [], "different": [Word("torch")]}
"""
