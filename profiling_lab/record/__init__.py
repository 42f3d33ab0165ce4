"""Record the course's captures again, on the machine at hand.

Run as `python3 -m profiling_lab.record` from the root of the course, or as `lab record`. Standard
library only, so that it runs under whatever Python holds torch on a machine with a GPU.
"""

from __future__ import annotations


def main(argv: list[str] | None = None) -> int:
    """Run the recorder with `argv` (default: the process's arguments); returns the exit code."""
    # Here: the doctor needs single modules of this package, and nothing of the recorder.
    from profiling_lab.record.cli import main as run

    return run(argv)
