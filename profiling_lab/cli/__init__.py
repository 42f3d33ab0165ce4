"""The `lab` command. Each group of commands is a module of its own, imported when it is used."""

from __future__ import annotations

import importlib
import sys

from profiling_lab.cli.app import lab, main

__all__ = ["grade", "lab", "main"]


def grade() -> None:
    """The command `grade`, which belongs to the course and not to the tool alone."""
    try:
        command = importlib.import_module("grading.cli")
    except ModuleNotFoundError as error:
        if error.name != "grading":
            raise
        print(
            "grade: belongs to the course: call it in a clone of it (uv run grade)", file=sys.stderr
        )
        sys.exit(2)
    sys.exit(command.main())
