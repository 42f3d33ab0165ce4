"""Nests the operators of all threads together."""

from __future__ import annotations

from typing import Any

CAUGHT_BY = "test_self_and_total"
SAYS = "calls is 1"


def operator_table(capture: str, by_shape: bool = False) -> list[dict[str, Any]]:
    events = _trace(capture)["events"]
    device_ns: dict[int, int] = defaultdict(int)
    threads: dict[tuple, list[dict[str, Any]]] = defaultdict(list)
    for event in events:
        if event["kind"] in DEVICE_KINDS:
            device_ns[event["external_id"]] += event["end_ns"] - event["start_ns"]
        elif event["kind"] in ("operator", "range", "call"):
            threads[()].append(event)
    rows: dict[tuple, dict[str, Any]] = {}
    for thread in threads.values():
        for node in _tree(thread):
            _count_node(node, device_ns, rows, by_shape)
    return sorted(
        rows.values(),
        key=lambda r: (-r["device_total_ns"], -r["host_total_ns"], r["name"], str(r["shapes"])),
    )
