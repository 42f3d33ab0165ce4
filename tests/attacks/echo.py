"""Hands back what it was given: arguments, the check's own callbacks, and itself."""

EXERCISE = "energy_ex01"
SUBMITTED = r"""
seen = []

def attack(name, *args, **kwargs):
    seen.extend(args)
    seen.append(attack)
    return {"time_ns": list(seen), "power_mw": list(seen), "error": list(seen[:1])}
"""
