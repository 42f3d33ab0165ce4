"""The kinds of sandboxes, which of them work on this machine, and why the others do not."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path

from grading.errors import SandboxUnavailable

KINDS = ("bubblewrap", "namespaces")  # the strongest first
LAUNCHER = Path(__file__).with_name("launch.py")


def strongest() -> str:
    """The strongest kind of sandbox that works here. Raises SandboxUnavailable, saying what to install."""
    require_linux()
    wrong = [why for kind in KINDS if (why := why_not(kind))]
    if len(wrong) == len(KINDS):
        raise SandboxUnavailable(
            f"no sandbox: {'; '.join(wrong)}. Install bubblewrap (Debian, Ubuntu: apt-get install bubblewrap; "
            "Fedora: dnf install bubblewrap). It needs user namespaces: on Ubuntu 24.04 and later allow them "
            "with `sysctl -w kernel.apparmor_restrict_unprivileged_userns=0`; start a container with "
            "`--security-opt seccomp=unconfined --cap-add SYS_ADMIN`"
        )
    return next(kind for kind in KINDS if not why_not(kind))


def require_linux() -> None:
    if not sys.platform.startswith("linux"):
        raise SandboxUnavailable(
            "submissions can be sandboxed on Linux only: grade on a Linux machine, in a Linux container or "
            "virtual machine (WSL 2 on Windows will do)"
        )


@functools.cache
def why_not(kind: str) -> str:
    """Why this kind of sandbox does not work here, "" if it does."""
    flags = "" if os.geteuid() == 0 else "--unshare-user"
    if kind == "bubblewrap":
        program = shutil.which("bwrap")
        if program is None:
            return "bubblewrap is not installed"
        command = [program, *flags.split(), "--unshare-pid", "--unshare-net", "--ro-bind", "/", "/"]
        command.append("true")
    else:
        command = [sys.executable, "-I", str(LAUNCHER), "--try"]
    try:
        tried = subprocess.run(
            command, env={"PATH": os.defpath}, capture_output=True, text=True, check=False, cwd="/"
        )
    except OSError as error:
        return f"{kind} does not start ({error})"
    said = tried.stderr.strip().splitlines()
    return "" if tried.returncode == 0 else f"{kind}: {said[-1] if said else tried.returncode}"
