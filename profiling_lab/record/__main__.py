from __future__ import annotations

import sys

from profiling_lab.record.cli import main

sys.exit(main())
