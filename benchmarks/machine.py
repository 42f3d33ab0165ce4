"""What a benchmark's figures must say of where they come from: hardware and versions, no names."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
from pathlib import Path
from typing import Any


def describe(*libraries: str) -> dict[str, Any]:
    """Cores, memory, CPU model, Python, versions of `libraries` that are installed, and the date."""
    versions = {}
    for library in libraries:
        try:
            versions[library] = importlib.metadata.version(library)
        except importlib.metadata.PackageNotFoundError:
            versions[library] = "not installed"
    return {
        "date": datetime.date.today().isoformat(),
        "cores_count": os.cpu_count(),
        "cpu": _cpu(),
        "memory_bytes": _memory_bytes(),
        "system": platform.system(),
        "python": platform.python_version(),
        "libraries": versions,
    }


def _cpu() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
