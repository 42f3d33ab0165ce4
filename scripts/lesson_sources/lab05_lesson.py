"""What the lesson of Lab 05 computes and draws."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from scripts.lesson_sources import lab05_techniques as t

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIGURES: dict[str, Callable[[], Figure]] = {}

FIGURES |= t.FIGURES  # the techniques and JAX
