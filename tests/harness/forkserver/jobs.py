"""What tests of the fork server hand it."""

from __future__ import annotations

import os
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from grading.runner.forkserver import ForkServer

forks = hasattr(os, "fork") and sys.platform not in ("darwin", "win32")
needs_fork = pytest.mark.skipif(not forks, reason="the fork server forks on Linux only")
QUIET = ["-q", "-p", "no:cacheprovider", "--noconftest"]
# The children must not find this repository's own pytest settings.
BARE = [*QUIET, "-c", os.devnull]


def template_of(server: ForkServer) -> Any:
    with server._templates.use(()) as template:
        return template


def write(folder: Path, text: str, name: str = "test_it.py") -> str:
    file = folder / name
    file.write_text(textwrap.dedent(text))
    return str(file)
