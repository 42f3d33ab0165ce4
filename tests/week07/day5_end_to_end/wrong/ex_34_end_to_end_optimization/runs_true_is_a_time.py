"""Takes true for a number."""

from __future__ import annotations

CAUGHT_BY = "test_what_is_no_time_is_an_error"
SAYS = "is True, not a time"


def _all_times(value: object) -> bool:
    if not isinstance(value, list):
        return False
    for entry in value:
        for time in entry if isinstance(entry, list) else [entry]:
            if not isinstance(time, int) or time < 0:
                return False
    return True
