from __future__ import annotations

from profiling_lab.cli import main

main()
