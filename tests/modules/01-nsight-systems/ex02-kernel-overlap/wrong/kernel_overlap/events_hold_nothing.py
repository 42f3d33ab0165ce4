"""Takes a kernel that an event holds back for one that is ready."""

from __future__ import annotations

CAUGHT_BY = "test_what_an_event_holds_back_is_not_ready"
SAYS = "What an event holds back is not ready"


def _held_by_events(capture: str, device: int) -> dict[tuple[int, int], int]:
    return {}
