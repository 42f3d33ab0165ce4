"""The `lab` command. Each group of commands is a module of its own, imported when it is used."""

from __future__ import annotations

from profiling_lab.cli.app import lab, main

__all__ = ["lab", "main"]
