"""Lets an iterator run over counted batches: what was asked for and copied when each item came."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any


def order(
    module: ModuleType,
    count: int,
    depth: int | None,
    source_fails: int | None = None,
    copy_fails: int | None = None,
    most: int | None = None,
) -> dict[str, Any]:
    """Consume `module.prefetched`, at most `most` items.

    Returns "items" (each with "value", and how many batches were "asked" for and "copied" when it was
    handed out), the "copies" in their order, and "error", the text of what came out at the end.
    source_fails, copy_fails: the batch at which the source or the copy raises.
    """
    copies: list[int] = []
    asked = 0
    items: list[dict[str, Any]] = []

    def batches() -> Iterator[int]:
        nonlocal asked
        for number in range(count):
            asked += 1
            if number == source_fails:
                raise OSError(f"batch {number} cannot be read")
            yield number

    def copy_in(number: int) -> str:
        copies.append(number)
        if number == copy_fails:
            raise RuntimeError(f"batch {number} cannot be copied")
        return f"copy of {number}"

    error = ""
    try:
        given = () if depth is None else (depth,)
        for item in module.prefetched(batches(), copy_in, *given):
            items.append({"value": item, "asked": asked, "copied": len(copies)})
            if most is not None and len(items) == most:
                break
    except Exception as raised:  # noqa: BLE001 - whatever comes out is what is judged
        error = f"{type(raised).__name__}: {raised}"
    return {"items": items, "copies": copies, "error": error}


def order_or_raise(module: ModuleType, count: int, depth: int) -> list[Any]:
    """All items; what is raised comes out."""
    return list(module.prefetched(range(count), str, depth))
