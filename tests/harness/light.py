"""A Python that has what a newcomer's first `uv run` installs, and nothing of the groups."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import venv
from collections.abc import Collection
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

PROJECT = "gpu-profiling-lab"
PYPROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))
DEFAULT_GROUPS = [
    Requirement(line).name
    for group in PYPROJECT["tool"]["uv"]["default-groups"]
    for line in PYPROJECT["dependency-groups"][group]
]


def distributions(groups: Collection[str] = DEFAULT_GROUPS) -> set[str]:
    """The distributions of the project's own dependencies and the default groups, with theirs."""
    found: set[str] = set()
    names = [PROJECT, *groups]
    while names:
        name = names.pop()
        if name in found:
            continue
        found.add(name)
        for line in metadata.requires(name) or ():
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                names.append(requirement.name)
    return found


def make(folder: Path, distributions: Collection[str]) -> Path:
    """Make the environment in a new folder, of links to what is installed here; returns its Python."""
    venv.create(folder, symlinks=sys.platform != "win32")
    python = folder / "bin" / "python"
    asked = "import sysconfig; print(sysconfig.get_path('purelib'))"
    there = Path(subprocess.check_output([python, "-c", asked], text=True).strip())
    for name in distributions:
        one = metadata.distribution(name)
        for top in {file.parts[0] for file in one.files or ()} - {"..", "__pycache__"}:
            if not (there / top).exists():
                (there / top).symlink_to(Path(str(one.locate_file(top))))
    return python
