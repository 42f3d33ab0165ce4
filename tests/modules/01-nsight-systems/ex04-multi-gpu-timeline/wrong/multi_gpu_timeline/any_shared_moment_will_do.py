from __future__ import annotations

CAUGHT_BY = "test_collectives_that_do_not_belong_together"
SAYS = "one is missing in between"


def _belong_together(together: dict[int, dict], zero: list[dict]) -> bool:
    return all(_shared_ns(row, together[0]) > 0 for row in together.values())
