"""Leaves rows of the same device time in the order in which they were met."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

CAUGHT_BY = "test_operators_that_cross_or_begin_together"
SAYS = "the rows are not ordered by device_total_ns, then host_total_ns"


def operator_table(capture: str, by_shape: bool = False) -> list[dict[str, Any]]:
    events = _trace(capture)["events"]
    device_ns: dict[int, int] = defaultdict(int)
    threads: dict[tuple, list[dict[str, Any]]] = defaultdict(list)
    for event in events:
        if event["kind"] in DEVICE_KINDS:
            device_ns[event["external_id"]] += event["end_ns"] - event["start_ns"]
        elif event["kind"] in ("operator", "range", "call"):
            threads[event["process"], event["thread"]].append(event)
    rows: dict[tuple, dict[str, Any]] = {}
    for thread in threads.values():
        for node in _tree(thread):
            _count_node(node, device_ns, rows, by_shape)
    return sorted(rows.values(), key=lambda r: -r["device_total_ns"])
