"""What a function of a module rests on: its own source, and that of everything it uses there.

Read with `ast`, never by running. A verdict on one task holds while its closure is unchanged, even
if other functions of the same file are edited.
"""

from __future__ import annotations

import ast
import hashlib

MODULE = ""  # the name of what is no definition: imports, and statements at module level


def definitions(source: str) -> dict[str, str]:
    """The definitions of a module by name, as normalised source; all else under `MODULE`.

    Comments and layout do not count. Raises SyntaxError.
    """
    out: dict[str, str] = {MODULE: ""}
    for node in ast.parse(source).body:
        text = ast.unparse(node) + "\n"
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            out[node.name] = out.get(node.name, "") + text
        elif isinstance(node, ast.Assign) and all(isinstance(t, ast.Name) for t in node.targets):
            for target in node.targets:
                assert isinstance(target, ast.Name)
                out[target.id] = out.get(target.id, "") + text
        else:
            out[MODULE] += text
    return out


def changed(before: str, after: str) -> set[str]:
    """The names whose definitions differ. Raises SyntaxError."""
    old, new = definitions(before), definitions(after)
    return {name for name in {*old, *new} if old.get(name) != new.get(name)}


def users(source: str, names: set[str]) -> set[str]:
    """The definitions that use one of these names, directly or through others; and the names."""
    uses = {name: _names_in(text) for name, text in definitions(source).items()}
    out = set(names)
    while more := {name for name, used in uses.items() if used & out} - out:
        out |= more
    return set(uses) | out if MODULE in out else out


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
        queue += _names_in(parts[current])
    return _digest("".join(f"{part}\n{parts[part]}" for part in sorted(reached)))


def _names_in(text: str) -> set[str]:
    return {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]
