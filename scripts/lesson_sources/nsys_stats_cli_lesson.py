"""Figures and figures' sources of ex03-nsys-stats-cli."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

FIGURES: dict[str, Callable[[], Any]] = {}
