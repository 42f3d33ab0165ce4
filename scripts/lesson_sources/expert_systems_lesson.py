"""Figures and figures' sources of ex08-expert-systems."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

FIGURES: dict[str, Callable[[], Any]] = {}
