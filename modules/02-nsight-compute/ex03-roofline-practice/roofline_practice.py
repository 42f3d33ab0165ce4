"""Roofline practice: which roof is above this kernel?

The lesson is `README.md` in this folder, hints are in `hints.md`.
"""

from __future__ import annotations


def first_task(first: int, second: int) -> int:
    """The larger of two numbers of ns. Shapes, units, errors and the source stand here."""
    raise NotImplementedError
