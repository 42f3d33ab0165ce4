"""Time your own program before and after a change, in rounds: the old version, the new one, the old one again.

Put both versions into `old` and `new`, and run this file. The times go into .lab/own_program/evidence.json.
On a GPU a call returns before its work is done: end each version with torch.cuda.synchronize(). Return
what to compare: numbers, or arrays on the host (of a tensor, its .cpu()).
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from profiling_lab.mine.functions import functions_for

ROUNDS = 15
COURSE = Path(__file__).resolve().parents[2]
FOLDER = COURSE / ".lab" / "own_program"


def old() -> object:
    """Your program before the change."""
    return sum([number * number for number in range(100_000)])


def new() -> object:
    """Your program after it, with the same result."""
    return sum(number * number for number in range(100_000))


def same(one: Any, other: Any) -> bool:
    """Equal, but for rounding."""
    if isinstance(one, float) or hasattr(one, "shape"):
        return np.shape(one) == np.shape(other) and np.allclose(one, other)
    return one == other


def main() -> None:
    """Measure, keep the times, and show the verdict."""
    assert same(old(), new()), "the two versions return different results"
    run: dict = {"run": "own", "before_ns": [], "after_ns": [], "again_ns": []}
    for _ in range(ROUNDS):
        for column, version in (("before_ns", old), ("after_ns", new), ("again_ns", old)):
            start = time.perf_counter_ns()
            version()
            run[column].append(time.perf_counter_ns() - start)
    FOLDER.mkdir(parents=True, exist_ok=True)
    document = {"schema": 1, "unit": "ns", "runs": [run]}
    (FOLDER / "evidence.json").write_text(json.dumps(document), encoding="utf-8")
    print(functions_for("ex_34", str(COURSE)).call("evidence_verdict", str(FOLDER), "own"))


if __name__ == "__main__":
    main()
