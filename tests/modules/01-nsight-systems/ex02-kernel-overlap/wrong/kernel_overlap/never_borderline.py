"""Says nothing of how close to the floor it is."""

from __future__ import annotations

CAUGHT_BY = "test_close_to_the_floor"
SAYS = "on either side is borderline"

BORDERLINE_RATIO = -1.0
