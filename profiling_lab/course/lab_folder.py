"""What the course keeps about a learner: small JSON files in `.lab/`, beside the manifest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from profiling_lab.atomic_files import replaced

FOLDER = ".lab"


def read(root: Path, name: str) -> dict[str, Any]:
    """The entries of a file; none if it is missing, damaged, or holds something else."""
    try:
        data = json.loads((root / FOLDER / name).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


def write(root: Path, name: str, entries: dict[str, Any]) -> None:
    """Replace a file as a whole, so that nobody reads half of it. Raises OSError."""
    file = root / FOLDER / name
    file.parent.mkdir(exist_ok=True)
    with replaced(file) as draft:
        draft.write_text(json.dumps(entries, indent=1), encoding="utf-8")
