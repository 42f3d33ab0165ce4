"""Which first-party code a function rests on, across files: what it uses, what that uses, and so on.

Read with `ast`, never by running. What counts is the code of definitions, wherever they stand: a kept result
holds when a module is renamed, a function moves to another file, or a comment, a docstring, an import or an
unused neighbour changes; it goes stale when something that the function uses changes.

Followed are names, attributes of imported modules, fixtures that a check asks for, and files of code that a
text names (probes, headers). Not followed are `grading.runner` and what it serves (how a check reaches the code
under judgement has tests of its own), captures, and what is found by a name that is computed at run time.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import tokenize
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path

from profiling_lab.course.closure import MODULE, words

FIRST_PARTY = ("grading", "profiling_lab", "tests")
NOT_FOLLOWED = ("grading/runner/", "grading/grader/", "grading/errors.py")
CODE = {".py", ".cu", ".cuh", ".c", ".cpp", ".h", ".hpp"}
FIXTURES = "grading/checks/fixtures.py"
WHOLE = "*"  # the name of a whole file


@dataclass(frozen=True, order=True)
class Part:
    """A definition in a file; `MODULE` is what a module does when imported, `WHOLE` all of a file."""

    file: Path
    name: str


@dataclass
class Source:
    """A module: its definitions, what its names are bound to by imports, and what each part uses."""

    file: Path
    root: Path
    texts: dict[str, str] = field(default_factory=dict)  # by definition
    nodes: dict[str, list[ast.AST]] = field(default_factory=dict)
    used: dict[str, list[Part]] = field(default_factory=dict)  # as far as it was asked for

    @staticmethod
    def read(file: Path, root: Path) -> Source:
        return _read(file, root, file.stat().st_mtime_ns, file.stat().st_size)

    @cached_property
    def imports(self) -> dict[str, Part]:
        """First-party names that imports of the whole file bind."""
        found: dict[str, Part] = {}
        for nodes in self.nodes.values():
            for node in nodes:
                for part in ast.walk(node):
                    found |= dict(_bound(part, self.root))
        return found

    def uses(self, name: str) -> list[Part]:
        """What a definition uses in this file and in others."""
        if name not in self.used:
            self.used[name] = list(dict.fromkeys(self._uses(name)))
        return self.used[name]

    def _uses(self, name: str) -> Iterator[Part]:
        for node in self.nodes.get(name, ()):
            seen: set[int] = set()
            for part in ast.walk(node):
                if isinstance(part, ast.Attribute):
                    yield from self._attribute(part, seen)
                elif isinstance(part, ast.Name) and id(part) not in seen:
                    yield from self._name(part.id)
                elif isinstance(part, ast.Constant) and isinstance(part.value, str):
                    yield from self._named_file(part.value)
            if isinstance(node, ast.FunctionDef) and _is_asked_by_pytest(node):
                for argument in node.args.args:
                    if argument.arg in self.texts:
                        yield Part(self.file, argument.arg)
                    else:
                        yield Part(self.root / FIXTURES, argument.arg)

    def _attribute(self, node: ast.Attribute, seen: set[int]) -> Iterator[Part]:
        names = [node.attr]
        inner: ast.AST = node.value
        while isinstance(inner, ast.Attribute):
            names.append(inner.attr)
            inner = inner.value
        if not isinstance(inner, ast.Name) or inner.id not in self.imports:
            return
        target = self.imports[inner.id]
        for attribute in reversed(names):
            if target.name != WHOLE:
                break
            module = target.file
            deeper = _module(module.parent / attribute) if module.name == "__init__.py" else None
            target = Part(deeper, WHOLE) if deeper else Part(module, attribute)
        seen.add(id(inner))
        yield target

    def _name(self, name: str) -> Iterator[Part]:
        if name in self.texts:
            yield Part(self.file, name)
        if name in self.imports:
            yield self.imports[name]

    def _named_file(self, text: str) -> Iterator[Part]:
        if len(text) > 200 or "\n" in text or Path(text).suffix not in CODE:
            return
        above = [folder for folder in self.file.parents if folder.is_relative_to(self.root)]
        probes = [folder / "probes" for folder in above]  # of its exercise, or of several
        for folder in (self.file.parent, *probes, self.root):
            with contextlib.suppress(OSError, ValueError):
                if (folder / text).is_file():
                    yield Part(folder / text, WHOLE)
                    return


@lru_cache(maxsize=1024)
def _read(file: Path, root: Path, _mtime_ns: int, _size: int) -> Source:
    text = file.read_text(encoding="utf-8")
    source = Source(file, root)
    if file.suffix != ".py":
        source.texts[WHOLE] = text
        return source
    plain = without_docstrings(text)
    lines = plain.splitlines(keepends=True)
    for node in ast.parse(plain).body:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
        typed = "".join(lines[first - 1 : node.end_lineno])
        with contextlib.suppress(SyntaxError, tokenize.TokenError):
            typed = words(typed)
        for name, meaning in _named(node, root):
            source.texts[name] = source.texts.get(name, "") + (meaning or typed) + "\n"
            source.nodes.setdefault(name, []).append(node)
    return source


def _named(node: ast.stmt, root: Path) -> Iterator[tuple[str, str]]:
    """What a statement at module level defines, and its meaning where its own text is not to count.

    An import of first-party code defines nothing by its text: what it binds is followed.
    """
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            yield node.name, ""
        case ast.Import() | ast.ImportFrom():
            own = any(True for _ in _bound(node, root))
            for alias in node.names:
                name = alias.asname or alias.name.partition(".")[0]
                origin = getattr(node, "module", "")
                yield (f"import:{name}", " ") if own else (name, f"{origin} {alias.name}")
        case ast.If() if ast.unparse(node.test).endswith("TYPE_CHECKING"):
            pass
        case ast.AnnAssign(target=ast.Name(id=name)):
            yield name, ""
        case ast.Assign() if all(isinstance(target, ast.Name) for target in node.targets):
            for target in node.targets:
                yield ast.unparse(target), ""
        case _:
            yield MODULE, ""


def _bound(node: ast.AST, root: Path) -> Iterator[tuple[str, Part]]:
    """The names that an import binds, if it is of first-party code."""
    if isinstance(node, ast.ImportFrom) and not node.level and node.module:
        if node.module.partition(".")[0] not in FIRST_PARTY:
            return
        folder = root / node.module.replace(".", "/")
        for alias in node.names:
            inner = _module(folder / alias.name)
            module = inner or _module(folder)
            if module:
                name = WHOLE if inner or alias.name == "*" else alias.name
                yield alias.asname or alias.name, Part(module, name)
    elif isinstance(node, ast.Import):
        for alias in node.names:
            top = alias.name.partition(".")[0]
            if top in FIRST_PARTY and (
                module := _module(root / (alias.name if alias.asname else top).replace(".", "/"))
            ):
                yield alias.asname or top, Part(module, WHOLE)


def _module(place: Path) -> Path | None:
    for file in (place.with_name(place.name + ".py"), place / "__init__.py"):
        if file.is_file():
            return file
    return None


def _is_asked_by_pytest(node: ast.FunctionDef) -> bool:
    return node.name.startswith("test_") or any(
        "fixture" in ast.unparse(decorator) for decorator in node.decorator_list
    )


def without_docstrings(source: str) -> str:
    """The source with an empty text in place of each docstring; lines may go."""
    lines = [line.encode() for line in source.splitlines(keepends=True)]
    places = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            first = node.body[0]
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                places.append(first)
    for node in sorted(places, key=lambda node: -node.lineno):
        above, below = node.lineno - 1, (node.end_lineno or node.lineno) - 1
        start, end = lines[above][: node.col_offset], lines[below][node.end_col_offset :]
        lines[above : below + 1] = [start + b'""' + end]
    return b"".join(lines).decode()


def closure(parts: Iterable[Part], root: Path) -> dict[Part, str]:
    """All parts that some parts rest on, themselves among them, each with its text."""
    out: dict[Part, str] = {}
    seen: set[Part] = set()
    queue = [Part(part.file.resolve(), part.name) for part in parts]
    root = root.resolve()
    while queue:
        part = queue.pop()
        place = part.file.relative_to(root).as_posix()
        if part in seen or place.startswith(NOT_FOLLOWED):
            continue
        seen.add(part)
        if not part.file.is_file():
            continue
        source = Source.read(part.file, root)
        if part.name == WHOLE:
            out[part] = source.texts.get(WHOLE, "")
            queue += [Part(part.file, name) for name in source.texts if name != WHOLE]
            continue
        if part.name in source.texts:
            out[part] = source.texts[part.name]
            queue += source.uses(part.name)
        elif part.name in source.imports:  # handed on, as a package's __init__ does
            queue.append(source.imports[part.name])
            continue
        elif part.name != MODULE:
            continue  # an argument of pytest's own, or a name that the module sets while it runs
        queue.append(Part(part.file, MODULE))
    return {part: text for part, text in sorted(out.items()) if text.strip()}


def digests(parts: Mapping[Part, str]) -> dict[Part, str]:
    """A short hash of each part's text."""
    return {part: digest(text) for part, text in parts.items()}


def total(parts: Mapping[Part, str]) -> str:
    """One short hash of all parts; where they stand does not count."""
    return digest("\n".join(sorted(set(digests(parts).values()))))


def digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]
