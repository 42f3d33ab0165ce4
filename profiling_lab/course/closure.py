"""What a function of a module rests on: its own source, and that of everything it uses there.

Read with `ast`, never by running. A verdict on one task holds while its closure is unchanged, even
if other functions of the same file are edited. Hashes are of the words of the code as they were
typed, so that they are the same under every version of Python: `ast.unparse` and `ast.dump` are not.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import io
import tokenize
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

MODULE = ""  # the name of what is no definition: imports, and statements at module level


@dataclass(frozen=True)
class Definition:
    """A definition as it was typed (comments and layout do not count), and the names that it uses."""

    text: str = ""
    uses: frozenset[str] = frozenset()


@lru_cache(maxsize=32)
def definitions(source: str) -> Mapping[str, Definition]:
    """The definitions of a module by name; all else under `MODULE`. Raises SyntaxError."""
    lines = io.StringIO(source).readlines()
    out = {MODULE: Definition()}
    for node in ast.parse(source).body:
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
        text = "".join(lines[first - 1 : node.end_lineno])
        # Its lines may also hold a part of a neighbour (`a = 1; b = (`): they count as they are then.
        with contextlib.suppress(SyntaxError, tokenize.TokenError):
            text = words(text)
        uses = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
        for name in _names_of(node):
            before = out.get(name, Definition())
            out[name] = Definition(f"{before.text}{text}\n", before.uses | uses)
    return out


def changed(before: str, after: str) -> set[str]:
    """The names whose definitions differ. Raises SyntaxError."""
    old, new = definitions(before), definitions(after)
    return {name for name in {*old, *new} if old.get(name) != new.get(name)}


def users(source: str, names: set[str]) -> set[str]:
    """The definitions that use one of these names, directly or through others; and the names."""
    known = definitions(source)
    out = set(names)
    while more := {name for name, one in known.items() if one.uses & out} - out:
        out |= more
    return set(known) | out if MODULE in out else out


def closure_hash(source: str, name: str) -> str:
    """A short hash of a definition, of all that it uses in the module, and of the module's rest.

    Of the whole text if it does not parse or does not define the name.
    """
    try:
        parts = definitions(source)
    except (SyntaxError, ValueError):
        parts = {}
    if name not in parts:
        return _digest(source)
    reached: set[str] = set()
    queue = [name, MODULE]
    while queue:
        current = queue.pop()
        if current in reached or current not in parts:
            continue
        reached.add(current)
        queue += parts[current].uses
    return _digest("".join(f"{part}\n{parts[part].text}" for part in sorted(reached)))


def words(source: str) -> str:
    """The tokens of some Python code, without comments and layout within a line of it.

    Raises SyntaxError (IndentationError) or tokenize.TokenError for what is no Python.
    """
    lines = io.StringIO(source).readlines()
    out: list[str] = []
    depth, begin = 0, (1, 0)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        name = tokenize.tok_name[token.type]
        # From Python 3.12 on an f-string is many tokens, before it is one: take its text.
        if name.endswith("STRING_START"):
            begin = begin if depth else token.start
            depth += 1
        elif name.endswith("STRING_END"):
            depth -= 1
            if not depth:
                out.append(_between(lines, begin, token.end))
        elif depth or name in ("COMMENT", "NL", "ENDMARKER"):
            continue
        else:
            out.append(name if name in ("NEWLINE", "INDENT", "DEDENT") else token.string)
    return " ".join(out)


def _between(lines: list[str], begin: tuple[int, int], end: tuple[int, int]) -> str:
    """The text from one (line, column) to another; lines count from 1."""
    if begin[0] == end[0]:
        return lines[begin[0] - 1][begin[1] : end[1]]
    inner = lines[begin[0] : end[0] - 1]
    return "".join([lines[begin[0] - 1][begin[1] :], *inner, lines[end[0] - 1][: end[1]]])


def _names_of(node: ast.stmt) -> list[str]:
    """What a statement at module level defines; `MODULE` if it defines no single thing."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Assign):
        names = [target.id for target in node.targets if isinstance(target, ast.Name)]
        if len(names) == len(node.targets):
            return names
    return [MODULE]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]
