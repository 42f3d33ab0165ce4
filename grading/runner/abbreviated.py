"""Values and calls in a few words, as messages show them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from grading.runner.disguise import shortened


def abbreviate(value: Any, limit: int = 100) -> str:
    """A value that crossed, in at most about `limit` characters; of a path the last two parts."""
    kind = type(value)
    if isinstance(value, Path):
        names = value.parts
        return "…/" + "/".join(names[-2:]) if len(names) > 3 else value.as_posix()
    if kind is str and len(value) > 40 and re.fullmatch(r"/\S+", value):
        return repr(abbreviate(Path(value)))
    if kind.__module__ == "numpy" and hasattr(value, "shape") and value.shape != ():
        if value.size <= 6:
            return f"array({value.tolist()}, {value.dtype})"
        shape = "x".join(map(str, value.shape))
        return f"array({shape} {value.dtype})"
    if kind in (list, tuple):
        left, right = "[]" if kind is list else "()"
        parts = _some((abbreviate(item, limit // 2) for item in value), len(value), limit)
        if kind is tuple and len(value) == 1:
            parts += ","
        return left + parts + right
    if kind is dict:
        items = (f"{abbreviate(k, 40)}: {abbreviate(v, limit // 2)}" for k, v in value.items())
        return "{" + _some(items, len(value), limit) + "}"
    if callable(value) and hasattr(value, "__name__"):
        return str(value.__name__)
    return shortened(repr(value), limit)


def _some(items: Iterable[str], count: int, limit: int) -> str:
    shown: list[str] = []
    length = 0
    for item in items:
        if shown and length + len(item) > limit:
            return ", ".join(shown) + f", … {count} in all"
        shown.append(item)
        length += len(item) + 2
    return ", ".join(shown)


def call_text(name: str, args: tuple, kwargs: dict) -> str:
    given = [abbreviate(value, 60) for value in args]
    given += [f"{key}={abbreviate(value, 60)}" for key, value in kwargs.items()]
    return f"{name}({', '.join(given)})"


def with_article(noun: str) -> str:
    vowel = noun.lower().startswith(("a", "e", "i", "o", "u", "nd"))  # an ndarray
    return f"{'an' if vowel else 'a'} {noun}"
