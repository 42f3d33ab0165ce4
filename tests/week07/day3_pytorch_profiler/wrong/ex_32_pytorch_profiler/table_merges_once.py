"""Joins an event with its only child of the same name, and not with that one's."""

from __future__ import annotations

import re
from typing import Any

CAUGHT_BY = "test_an_only_child_of_the_same_name_is_one_with_its_parent"
SAYS = "An event whose only child has its own name is one with it"


def _count_node(
    node: dict[str, Any],
    device_ns: dict[int, int],
    rows: dict[tuple, dict[str, Any]],
    by_shape: bool,
) -> int:
    event = node["event"]
    if len(node["children"]) == 1 and node["children"][0]["event"]["name"] == event["name"]:
        only = node["children"][0]
        node = {"event": event, "children": only["children"], "ids": node["ids"] + only["ids"]}
    below_ns = sum(_count_node(child, device_ns, rows, by_shape) for child in node["children"])
    if event["kind"] == "call":
        return below_ns
    self_ns = sum(device_ns.get(number, 0) for number in node["ids"] if number is not None)
    name = re.sub(r"^ProfilerStep#\d+$", "ProfilerStep*", event["name"])
    shapes = event["shapes"] if by_shape else None
    row = rows.setdefault(
        (name, str(shapes)),
        {
            "name": name,
            "shapes": shapes,
            "calls": 0,
            "host_total_ns": 0,
            "host_self_ns": 0,
            "device_self_ns": 0,
            "device_total_ns": 0,
        },
    )
    total_ns = event["end_ns"] - event["start_ns"]
    children_ns = sum(c["event"]["end_ns"] - c["event"]["start_ns"] for c in node["children"])
    row["calls"] += 1
    row["host_total_ns"] += total_ns
    row["host_self_ns"] += total_ns - children_ns
    row["device_self_ns"] += self_ns
    row["device_total_ns"] += self_ns + below_ns
    return self_ns + below_ns
