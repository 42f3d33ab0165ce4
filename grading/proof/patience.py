"""Guards against commands that hang, also right on a machine that does other work at the same time."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

CLOCK_S = 1800.0  # for what sleeps; nothing that a test starts takes a minute where it is alone


def run(
    command: Sequence[object], *, cpu_s: int = 120, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run a command with its output as text; fails if a process of it computes for more than cpu_s seconds.

    options: as `subprocess.run` takes them.
    """

    def limit() -> None:
        import resource  # not on Windows

        resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s + 1))

    words = [str(word) for word in command]
    if sys.platform != "win32":
        options["preexec_fn"] = limit
    usual: dict[str, Any] = {"capture_output": True, "text": True, "timeout": CLOCK_S}
    done = subprocess.run(words, check=False, **usual | options)
    if sys.platform != "win32":
        ended = done.returncode == -signal.SIGXCPU
        assert not ended, f"ended after {cpu_s} s of processor time: {words}\n{done.stderr}"
    return done
