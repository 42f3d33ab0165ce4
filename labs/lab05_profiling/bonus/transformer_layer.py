"""Lab 05: bonus challenges

The lesson is `README.md` in this folder, hints are in `hints.md`.
"""

from __future__ import annotations


def transformer_layer(first: int, second: int) -> int:
    """The larger of two numbers of ns. Shapes, units, errors and the source stand here."""
    raise NotImplementedError
