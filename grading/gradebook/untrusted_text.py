"""Names and messages that come from submissions and are not trusted: control and direction characters go,
Markdown shows them as code.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from grading.runner.printable import printable

LONGEST_LINE = 500
MOST_LINES = 40
_MARKDOWN = re.compile(r"([\\`*_\[\]<>&|~$@]|^[#+\-]|(?<=www)\.|:(?=//))")


def clean(text: Any, limit: int = 200) -> str:
    """Untrusted text of one line without control and direction characters, shortened."""
    return printable(str(text), limit)


def clean_lines(message: str) -> list[str]:
    """A message as lines that are safe to show, its middle left out if it is long."""
    lines = message[: LONGEST_LINE * MOST_LINES * 4].expandtabs(4).splitlines()
    lines = [clean(line.rstrip(), LONGEST_LINE) for line in lines]
    while lines and not lines[-1]:
        lines.pop()
    if len(lines) > MOST_LINES:
        half = MOST_LINES // 2
        left_out = f"… {len(lines) - 2 * half} lines left out …"
        lines = [*lines[:half], left_out, *lines[-half:]]
    return lines


def inline(text: Any, limit: int = 200) -> str:
    """Untrusted text inside a line of Markdown: no character of it is obeyed, nothing becomes a link."""
    return _MARKDOWN.sub(r"\\\1", clean(text, limit)).replace("\\<", "&lt;")


def fenced(lines: Sequence[str]) -> list[str]:
    """Untrusted lines as a block of code whose fence they cannot close."""
    longest = max((len(run) for line in lines for run in re.findall(r"`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return [fence + "text", *lines, fence]


def encodable(text: str) -> str:
    """Text that UTF-8 can hold."""
    return text.encode("utf-8", "replace").decode("utf-8")


def encodable_data(value: Any) -> Any:
    """Plain data whose texts UTF-8 can hold."""
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, dict):
        return {encodable_data(key): encodable_data(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [encodable_data(item) for item in value]
    return value
