"""Looks the file's own name up among Python's modules, and not the package that it is in."""

from __future__ import annotations

import sys
from pathlib import Path

CAUGHT_BY = "test_lines_of_waits"
SAYS = "asyncio/events.py:84 _run"


def _of_a_library(file: str) -> bool:
    parts = Path(file).parts
    return (
        file.startswith("<")
        or "torch" in parts
        or "site-packages" in parts
        or parts[-1].removesuffix(".py") in sys.stdlib_module_names
    )
