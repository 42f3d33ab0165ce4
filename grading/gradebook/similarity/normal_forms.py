"""Normal forms of Python: a definition as words, without what does not make the program."""

from __future__ import annotations

import ast
import builtins
import contextlib
import hashlib
from collections.abc import Iterable, Iterator
from functools import lru_cache

from grading.grader.intake.parsing import parse_guarded

_BUILTINS = frozenset(dir(builtins))


# Words begin with a mark where more than their text counts.
_NODE, _NAME, _CALLED = "\1", "\2", "\3"
NAMES = frozenset({_NAME, _CALLED})
_UNREAD = frozenset(
    {"annotation", "returns", "type_comment", "type_params", "type_ignores", "kind", "ctx"}
)
# Where a node holds a name that its author chose.
_NAME_FIELDS = {
    (ast.arg, "arg"),
    (ast.FunctionDef, "name"),
    (ast.AsyncFunctionDef, "name"),
    (ast.ClassDef, "name"),
    (ast.ExceptHandler, "name"),
    (ast.MatchAs, "name"),
    (ast.MatchStar, "name"),
    (ast.MatchMapping, "rest"),
    (ast.Global, "names"),
    (ast.Nonlocal, "names"),
}


class Words:
    """A definition as a list of words, without what does not make the program.

    bound: the names that it binds. size: its nodes that stand in none of the given statements.
    """

    def __init__(self, statements: frozenset[str] = frozenset()) -> None:
        self.statements = statements
        self.out: list[str] = []
        self.bound: set[str] = set()
        self.size = 0
        self.forms: list[str] = []  # of the statements, each by itself
        self._head: tuple[int, int] | None = None

    def function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """A task's function: its name, decorators and number of parameters are the course's."""
        self._node(node.args)
        self.size = 0
        self._block(node.body)

    def definition(self, node: ast.stmt) -> None:
        """One of the author's definitions."""
        if isinstance(node, ast.Assign | ast.AnnAssign):
            if node.value is not None:
                self._node(node.value)
        else:
            self._node(node)
            self.bound -= {getattr(node, "name", "")}

    def _block(self, body: list[ast.stmt]) -> None:
        if self._head is None:
            self._head = (len(self.out), self.size)
        self.out.append("{")
        for statement in body:
            if not (
                isinstance(statement, ast.Pass) or _is_docstring(statement) or _is_bare(statement)
            ):
                self._statement(statement)
        self.out.append("}")

    def _statement(self, statement: ast.stmt) -> None:
        start, size = len(self.out), self.size
        outer, self._head = self._head, None
        self._node(statement)
        head, self._head = self._head, outer
        if head:  # of a compound statement, what stands before its first block
            form, size = _alone(self.out[start : head[0]]), head[1] - size
        else:
            # `x = f(y)`, `return f(y)` and `f(y)` say the same about where f(y) comes from.
            if isinstance(statement, ast.Return | ast.Expr):
                start += 1
            elif isinstance(statement, ast.Assign) and len(statement.targets) == 1:
                start += 2 if isinstance(statement.targets[0], ast.Name) else 0
            elif isinstance(statement, ast.AnnAssign):
                start += 2 if isinstance(statement.target, ast.Name) else 0
            form, size = _alone(self.out[start:]), self.size - size
        self.forms.append(form)
        if form in self.statements:
            self.size -= size

    def _node(self, node: ast.AST, called: bool = False) -> None:
        self.size += 1
        out = self.out
        if isinstance(node, ast.Name):
            if not isinstance(node.ctx, ast.Load):
                self.bound.add(node.id)
            out.append((_CALLED if called else _NAME) + node.id)
            return
        kind = node.__class__
        # An annotated assignment is an assignment.
        fields = ("target", "value") if kind is ast.AnnAssign else kind._fields
        out.append("\1Assign" if kind is ast.AnnAssign else _NODE + kind.__name__)
        for name in fields:
            if name in _UNREAD:
                continue
            value = getattr(node, name, None)
            if isinstance(value, ast.AST):
                self._node(value, kind is ast.Call and name == "func")
            elif isinstance(value, list):
                if value and isinstance(value[0], ast.stmt):
                    self._block(value)
                    continue
                if kind is not ast.Assign:
                    out.append("[")
                for one in value:
                    if isinstance(one, ast.AST):
                        self._node(one)
                    elif (kind, name) in _NAME_FIELDS:
                        out.append(_NAME + one)
                    else:
                        out.append(repr(one))
                if kind is not ast.Assign:
                    out.append("]")
            elif isinstance(value, str) and (kind, name) in _NAME_FIELDS:
                self.bound.add(value)
                out.append(_NAME + value)
            else:
                out.append(repr(value))


def _alone(words: list[str]) -> str:
    """The normal form of one statement by itself: names are numbers, but for what is called."""
    numbers: dict[str, str] = {}
    return digest(
        numbers.setdefault(word, str(len(numbers)))
        if word[0] == _NAME and word[1:] not in _BUILTINS
        else word
        for word in words
    )


@lru_cache(maxsize=512)  # exercises of a unit share its lesson
def statement_forms(text: str) -> frozenset[str]:
    """The normal forms of the statements of a source, each by itself; none if it does not parse."""
    words = Words()
    if tree := parse_guarded(text):
        with contextlib.suppress(RecursionError):
            words._block(tree.body)
    return frozenset(words.forms)


def names_of(node: ast.stmt) -> list[str]:
    """What a statement at module level defines, imports left out."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return [node.target.id]
    return []


def origins(node: ast.Import | ast.ImportFrom) -> dict[str, str]:
    start = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
    return {alias.asname: start + alias.name for alias in node.names if alias.asname}


def defined(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        yield from names_of(node)


def real_body(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.stmt]:
    return [s for s in node.body if not (_is_docstring(s) or isinstance(s, ast.Pass))]


def is_todo(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    body = real_body(node)
    raised = body[0].exc if len(body) == 1 and isinstance(body[0], ast.Raise) else None
    raised = raised.func if isinstance(raised, ast.Call) else raised
    return isinstance(raised, ast.Name) and raised.id == "NotImplementedError"


def _is_docstring(node: ast.AST) -> bool:
    """Whether a statement is only a text: documentation, or a comment in other clothes."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _is_bare(node: ast.AST) -> bool:
    """Whether a statement is an annotation and nothing else."""
    return isinstance(node, ast.AnnAssign) and node.value is None


def digest(words: Iterable[str]) -> str:
    return hashlib.sha256("\0".join(words).encode("utf-8", "surrogatepass")).hexdigest()[:32]
