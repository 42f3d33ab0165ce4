"""Figures and figures' sources of ex05-cpu-sampling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

FIGURES: dict[str, Callable[[], Any]] = {}
