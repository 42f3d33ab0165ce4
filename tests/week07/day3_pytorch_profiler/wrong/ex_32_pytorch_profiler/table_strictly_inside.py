"""Asks a child to start later and end earlier: what begins with its parent is beside it."""

from __future__ import annotations

from typing import Any

CAUGHT_BY = "test_operators_that_cross_or_begin_together"
SAYS = "Self is the duration without the direct children"


def _tree(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    roots: list[dict[str, Any]] = []
    open_nodes: list[dict[str, Any]] = []
    for event in events:
        node = {"event": event, "children": [], "ids": [event["external_id"]]}
        while open_nodes:
            parent = open_nodes[-1]["event"]
            if (
                parent["start_ns"] < event["start_ns"] < parent["end_ns"]
                and event["end_ns"] < parent["end_ns"]
            ):
                break
            open_nodes.pop()
        (open_nodes[-1]["children"] if open_nodes else roots).append(node)
        open_nodes.append(node)
    return roots
