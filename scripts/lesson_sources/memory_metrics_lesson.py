"""Figures and figures' sources of ex01-memory-metrics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

FIGURES: dict[str, Callable[[], Any]] = {}
