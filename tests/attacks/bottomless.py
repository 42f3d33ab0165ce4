"""Values without an end: nested, containing themselves, integers and text beyond all measure."""

EXERCISE = "scaling_ex01"
SUBMITTED = r"""
import sys
sys.setrecursionlimit(10**9)
count = 0

def attack(name, *args, **kwargs):
    global count
    count += 1
    if count % 4 == 0:
        loop = []
        loop.append(loop)
        return loop
    if count % 4 == 1:
        deep = []
        for _ in range(200_000):
            deep = [deep]
        return deep
    if count % 4 == 2:
        return 1 << 10_000_000
    return "x" * (300 << 20)
"""
DANGEROUS = True
