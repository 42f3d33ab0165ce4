"""Figures and figures' sources of ex04-optimization-loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

FIGURES: dict[str, Callable[[], Any]] = {}
