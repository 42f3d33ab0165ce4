"""Takes the first entry of the file for the earliest, and the last for the latest."""

from __future__ import annotations

CAUGHT_BY = "test_balance_by_hand"
SAYS = "neither the first nor the last in the file"

_whole = littles_law  # noqa: F821 -- the reference, which the rest stays


def littles_law(
    capture: str, run: str, window: tuple[int, int] | None = None
) -> dict[str, float | None]:
    if window is None:
        _, sent, _, end = _moments(_run(capture, "requests.json", run))
        window = int(sent[0]), int(end[-1])
    return _whole(capture, run, window)
