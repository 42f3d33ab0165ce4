"""Text that a submission had a hand in, made safe to print: one way for messages, names and pages."""

from __future__ import annotations


def printable(text: str, most: int, *, lines: bool = False) -> str:
    """A text in which no character moves a cursor, turns the writing or is no character; not too long.

    Such characters become their Python escapes, a byte that is no UTF-8 `\\xNN`. lines: line ends stay.
    most: characters that are kept.
    """
    if len(text) > most:
        cut = f" … ({len(text) - most} characters more)" if lines else "…"
        text = text[: most if lines else most - 1]
    else:
        cut = ""
    if text.isprintable():
        return text + cut
    return (
        "".join(c if c.isprintable() or (lines and c == "\n") else _escaped(c) for c in text) + cut
    )


def _escaped(character: str) -> str:
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is no UTF-8, as Python reads file names
        return f"\\x{code - 0xDC00:02x}"
    return character.encode("unicode_escape").decode()
