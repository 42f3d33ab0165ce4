"""Parses source that somebody else wrote, without giving it a way to exhaust the parser.

`ast.parse` recurses: a source of a few kilobytes can end it with RecursionError or MemoryError, or take
the whole process along (https://docs.python.org/3/library/ast.html#ast.parse warns of it). So what can
nest is counted first, without recursion, and a source beyond the limits is not parsed.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import threading
import tokenize
import warnings
from collections.abc import Iterator

# Far above what people write: the references reach brackets 6 deep, 16 operations in a chain and 8
# `elif` in a file (measured on 2026-11-22 by this module's own scan).
CHARACTERS = 400_000
BRACKETS = 60
CHAIN = 150
ELIFS = 150

_TRIPLE = r'"""[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*"""' + r"|'''[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*'''"
_SINGLE = r'"[^"\\\n]*(?:\\.[^"\\\n]*)*"' + r"|'[^'\\\n]*(?:\\.[^'\\\n]*)*'"
_TOKEN = re.compile(
    rf"""
      (?P<string>[A-Za-z]{{0,2}}(?:{_TRIPLE}|{_SINGLE}))
    | (?P<word>[^\W\d]\w*)
    | (?P<mark>[(\[{{)\]}},\n]|[-+~*/%@&|^.]|<<|>>)
    | (?P<skip>\#[^\n]*|\\\n|\d[\w.]*)
    | (?P<quote>["'])
    """,
    re.VERBOSE | re.DOTALL,
)
# Each can make the syntax tree one level deeper.
_NESTING_WORDS = frozenset({"not", "lambda", "if", "else", "await", "and", "or", "yield", "elif"})
_OPERATORS = frozenset(
    ["-", "+", "~", "*", "/", "//", "**", "%", "@", "&", "|", "^", ".", "<<", ">>"]
)
_BRACES = re.compile(r"\{\{|\}\}|[{}]")

_quietly = threading.Lock()


class _Unscannable(Exception):
    """The quick scan cannot tell strings from code here."""


def too_deep(text: str) -> str:
    """Why a Python source may not be parsed, in words; "" if it may.

    Holds for what does not parse at all as well: it says nothing of the syntax.
    """
    if len(text) > CHARACTERS:
        return f"it is {len(text):,} characters long; at most {CHARACTERS:,} are read"
    text = text.replace("\r\n", "\n").replace("\r", "\n")  # as the tokenizer does
    try:
        return _depth_problem(_marks(text))
    except _Unscannable:
        pass
    try:
        return _depth_problem(_exact_marks(text))
    except (tokenize.TokenError, SyntaxError):
        return ""  # the parser comes no further than the tokenizer


def parse_guarded(text: str) -> ast.Module | None:
    """The syntax tree of a source, None if it has none or is nested too deeply to ask.

    A byte order mark is left out. `too_deep` tells the two apart.
    """
    text = text.removeprefix("\ufeff")
    if too_deep(text):
        return None
    # Warnings of the parser quote the source; the filters are the whole process's, hence the lock.
    with _quietly, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


def _depth_problem(marks: Iterator[str]) -> str:
    """The limit that a source goes over, from its brackets, commas, line ends and operators.

    Operators between two commas of one pair of brackets can nest in each other; after a comma they
    begin anew, but for `lambda`, whose own commas are no end of it.
    """
    chains, lambdas, elifs, too_long = [0], 0, 0, False
    for mark in marks:
        if mark in ("(", "[", "{"):
            chains[-1] += 1  # a call of a call of a call
            too_long = chains[-1] > CHAIN
            chains.append(0)
            if len(chains) > BRACKETS + 1:
                return f"its brackets are nested more than {BRACKETS} deep"
        elif mark in (")", "]", "}"):
            if len(chains) > 1:
                chains.pop()
        elif mark == ",":
            chains[-1] = 0
        elif mark == "\n":
            if len(chains) == 1:
                chains[0] = lambdas = 0
        else:
            chains[-1] += 1
            lambdas += mark == "lambda"
            elifs += mark == "elif"
            if elifs > ELIFS:
                return f"it holds more than {ELIFS} elif"
            too_long = chains[-1] > CHAIN or lambdas > BRACKETS or sum(chains) > 2 * CHAIN
        if too_long:
            return f"an expression in it is a chain of more than {CHAIN} operations"
    return ""


def _marks(text: str) -> Iterator[str]:
    for match in _TOKEN.finditer(text):
        kind, found = match.lastgroup, match.group()
        if kind == "mark":
            yield found
        elif kind == "word":
            if found in _NESTING_WORDS:
                yield found
        elif kind == "string":
            if "{" in found and found.lstrip("rRbBuU")[:1] in "fFtT":
                yield from _inside(found)
        elif kind == "quote":
            if sys.version_info >= (3, 12):
                raise _Unscannable
            return  # a string without an end: the parser stops here as well


def _inside(string: str) -> Iterator[str]:
    """What stands between the braces of an f-string, as one chain that no comma breaks."""
    start, depth = 0, 0
    for brace in _BRACES.finditer(string):
        found = brace.group()
        if found in ("{{", "}}") and not depth:
            continue
        if found[0] == "{":
            start = start if depth else brace.end()
            depth += len(found)
        else:
            depth -= len(found)
            if depth <= 0:
                depth = 0
                code = string[start : brace.start()]
                yield from ("." for _ in re.finditer(r"[-+~*/%@&|^.(\[{]|[a-z]{2,}\s", code))
                yield ","
    if depth and sys.version_info >= (3, 12):
        raise _Unscannable  # its quotes may stand in its braces: f"{x["a"]}"


def _exact_marks(text: str) -> Iterator[str]:
    """The same by the tokenizer, which costs ten times as much before Python 3.12."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.OP:
            if token.string in _OPERATORS or token.string in "()[]{},":
                yield token.string
        elif token.type == tokenize.NEWLINE:
            yield "\n"
        elif token.type == tokenize.NAME and token.string in _NESTING_WORDS:
            yield token.string
