"""Runs `dashboard` beside the learner's code, with a file to write."""

from __future__ import annotations

import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any


def written(module: ModuleType, results: dict[str, Any]) -> dict[str, Any]:
    """The page that is returned, what is in the file, and which files there are."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "page.html"
        file.write_text("what was there before " * 10_000, encoding="utf-8")
        page = module.dashboard(results, str(file))
        names = sorted(entry.name for entry in Path(folder).iterdir())
        return {"page": page, "file": file.read_bytes(), "names": names}


def refused(module: ModuleType, results: dict[str, Any]) -> dict[str, Any]:
    """The error that is raised (its kind, those it descends from, what it says), and the files after it."""
    with tempfile.TemporaryDirectory() as folder:
        kinds: list[str] = []
        said = ""
        try:
            module.dashboard(results, str(Path(folder) / "page.html"))
        except Exception as error:  # noqa: BLE001 -- whatever it is, the check names it
            kinds, said = [kind.__name__ for kind in type(error).__mro__], str(error)
        return {
            "kinds": kinds,
            "said": said,
            "names": sorted(entry.name for entry in Path(folder).iterdir()),
        }
