"""What is not installed with the base of the course, and the one command that brings it.

The one table of it. Whatever says "not run", in a check, a command, a test or a page, takes its command
from here.
"""

from __future__ import annotations

import importlib
import platform as this_platform
import re
import sys
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from profiling_lab.errors import LabError

if TYPE_CHECKING:
    from profiling_lab.course.manifest import Task

# The group of pyproject.toml that brings a need of the manifest, or a module by the name it is imported by.
GROUPS = {
    "polars": "course",
    "adbc_driver_manager": "course",
    "adbc_driver_sqlite": "course",
    "jinja2": "course",
    "pynvml": "course",
    "watchfiles": "course",
    "torch": "frameworks",
    "triton": "frameworks",
    "jax": "frameworks",
    "nvcc": "cuda",
    "jupyterlab": "notebooks",
    "matplotlib": "notebooks",
    "submitit": "graders",
    "tomlkit": "graders",
    "cosmic_ray": "authors",
    "jupytext": "authors",
    "nbclient": "authors",
    "nbformat": "authors",
    "yaml": "authors",
    "playwright": "browser",
    "mcp": "assistants",
    "skills_ref": "assistants",
    "sphinx": "book",
    "myst_parser": "book",
    "furo": "book",
}
# The extra of the wheel that brings a module to the tool alone.
EXTRAS = {"mcp": "mcp", "ncu_report": "ncu"}
IN_A_CLONE = (Path(__file__).resolve().parents[1] / "course.toml").is_file()
# Groups do not bring these everywhere: (platforms, and of each the architectures; none for all).
LINUX: dict[str, tuple[str, ...]] = {"linux": ()}
WHEELS: dict[str, dict[str, tuple[str, ...]]] = {
    "torch": {**LINUX, "darwin": ("arm64",), "win32": ("AMD64",)},
    "jax": {**LINUX, "darwin": ("arm64",), "win32": ("AMD64",)},
    "triton": LINUX,
    "nvcc": LINUX,
}
# What the system's own packages bring.
CXX = {
    "linux": "install g++ with the system's packages (Debian, Ubuntu: apt install g++)",
    "darwin": "xcode-select --install",
    "win32": "install Microsoft's C++ build tools",
}


def groups_of(tasks: Iterable[Task]) -> list[str]:
    """The groups that bring what tasks need, as far as a group brings it, sorted."""
    asked = frozenset().union(*(task.needs for task in tasks))
    return sorted({GROUPS[need] for need in asked & GROUPS.keys()})


def install(groups: Iterable[str]) -> str:
    """The command that adds groups to what is installed."""
    return " ".join(["uv sync --inexact", *(f"--group {name}" for name in sorted(set(groups)))])


def remedy(missing: Iterable[str], platform: str = "", architecture: str = "") -> str:
    """What brings all that is missing, as a command where groups do; "" where something cannot be brought.

    missing: needs of the manifest, or modules. platform, architecture: in the words of `sys.platform` and
    `platform.machine()`; this machine's by default.
    """
    platform = platform or sys.platform
    groups = {name: group(name, platform, architecture) for name in missing}
    other = CXX.get(platform, "") if "cxx" in groups else ""
    if any(not found and not (name == "cxx" and other) for name, found in groups.items()):
        return ""
    found = set(groups.values()) - {""}
    return ", and ".join([*([install(found)] if found else []), *([other] if other else [])])


def group(name: str, platform: str = "", architecture: str = "") -> str:
    """The group that brings this; "" where none does. The machine as in `remedy`."""
    platform = platform or sys.platform
    architectures = WHEELS.get(name, {platform: ()}).get(platform)
    if architectures is None:
        return ""
    if architectures and (architecture or this_platform.machine()) not in architectures:
        return ""
    return GROUPS.get(name, "")


def lacks(what: str, missing: Collection[str]) -> str:
    """Why something is not run here, and the command that changes it where there is one."""
    command = remedy(missing)
    words = f"{what} needs {', '.join(sorted(missing))}, which this machine lacks"
    return f"{words}: {command}" if command else words


def waiting(tasks: Iterable[Task], can: Collection[str]) -> str:
    """How many of these tasks run once something is installed, and the command; "" for none.

    can: what this machine has (`profiling_lab.course.doctor.capabilities`).
    """
    found = [lacking for task in tasks if remedy(lacking := task.needs - set(can))]
    if not found:
        return ""
    lacking = frozenset().union(*found)
    words = "1 task needs" if len(found) == 1 else f"{len(found)} tasks need"
    return f"{words} {', '.join(sorted(lacking))}, not installed here: {remedy(lacking)}"


def module(name: str) -> Any:
    """Import what a group brings. Raises LabError with the command where it is not installed."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if said := explain(error):
            raise LabError(said) from None
        raise


def explain(error: ModuleNotFoundError) -> str:
    """What to do about a module that is missing; "" where no group brings it."""
    name = (error.name or "").partition(".")[0]
    found = group(name)
    if IN_A_CLONE:
        return f"{name} is not installed: {install([found])}" if found else ""
    if name in EXTRAS:
        return f"{name} comes with {extra(name)}"
    if found == "course":
        return f"{name} comes with the course, and not with the tool alone: call this in a clone (uv run lab …)"
    return f"{name} is not installed: install it here" if found else ""


def extra(name: str) -> str:
    """The extra of the wheel that brings a module, with its command."""
    return f"the extra [{EXTRAS[name]}]: in a clone, uv tool install '.[{EXTRAS[name]}]'"


def explained(text: str) -> str:
    """Somebody else's words on an error, with the command after them where a module is missing."""
    found = re.search(r"No module named '(\w+)[^']*'", text)
    if not found or not (brings := group(found[1])):
        return text
    return f"{text[: found.end()]}: {install([brings])}{text[found.end() :]}"
