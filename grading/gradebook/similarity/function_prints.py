"""What a function, or a CUDA source, is known by: the hashes of its normal form, and its size."""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from grading.gradebook.similarity.cuda_forms import cuda_statements, cuda_tokens, is_word
from grading.gradebook.similarity.given_code import Given
from grading.gradebook.similarity.hidden_text import hidden_texts
from grading.gradebook.similarity.normal_forms import (
    NAMES,
    Words,
    digest,
    is_todo,
    names_of,
    origins,
    real_body,
)
from grading.grader.intake.parsing import parse_guarded
from profiling_lab.course.manifest import Exercise, todo_markers


@dataclass(frozen=True)
class Print:
    """What one way to write a function is known by.

    body: of the function alone; whole: with what it uses of its module. exact: with the names as they
    were chosen, for the whole. Sizes in nodes (tokens) that were not given.
    """

    body: str
    whole: str
    exact: str
    body_size: int
    whole_size: int
    hidden: bool = False


def prints(text: str, stub: PurePosixPath, exercise: Exercise, known: Given) -> dict[str, Print]:
    """The tasks' functions of a source, each with what it is known by; those still to do are left out."""
    own = [task for task in exercise.tasks if task.stub == stub]
    if stub.suffix != ".py":
        written = {task.id for task in own if not task.live} - todo_markers(text)
        return cuda_prints(text, stub, known) if text and written else {}
    tasks = {task.name for task in own}
    tree = parse_guarded(text)
    if tree is None:
        return {}
    out = prints_of(tree, stub, tasks, known)
    # What is in encoded text counts where a file has both: nobody hides what he does not run.
    for source in hidden_texts(tree):
        if inner := parse_guarded(source):
            found = prints_of(inner, stub, tasks, known)
            out |= {name: replace(one, hidden=True) for name, one in found.items()}
    return out


def prints_of(
    tree: ast.Module, stub: PurePosixPath, names: Collection[str], known: Given
) -> dict[str, Print]:
    """Functions of a module by name, each with what it is known by; what is encoded in it is not looked at."""
    module = Module(tree, known.names.get(stub, frozenset()), known.statements)
    out = {}
    for name in sorted(set(names) & set(module.functions)):
        with contextlib.suppress(RecursionError):
            if one := module.print_of(name):
                out[name] = one
    return out


class Module:
    """A module's definitions, and the normal forms of its functions."""

    def __init__(self, tree: ast.Module, given: frozenset[str], statements: frozenset[str]) -> None:
        self.statements = statements
        self.functions: dict[str, ast.FunctionDef | ast.AsyncFunctionDef] = {}
        self.own: dict[str, ast.stmt] = {}  # what the author added, by name
        self.origins: dict[str, str] = {}  # what an imported name stands for
        self._words: dict[str, Words] = {}
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                self.functions[node.name] = node
            if isinstance(node, ast.Import | ast.ImportFrom):
                self.origins.update(origins(node))
            for name in names_of(node):
                if name not in given:
                    self.own[name] = node

    def print_of(self, name: str) -> Print | None:
        """What a function is known by; None if it is still to do. Raises RecursionError."""
        node = self.functions[name]
        if not real_body(node) or is_todo(node):
            return None
        words = Words(self.statements)
        words.function(node)
        used: list[str] = []
        body, exact = self._resolve(words, used)
        whole, size = list(body), words.size
        for helper in used:  # grows as helpers use helpers
            if helper not in self._words:
                self._words[helper] = Words(self.statements)
                self._words[helper].definition(self.own[helper])
            more = self._words[helper]
            renamed, chosen = self._resolve(more, used, helper)
            whole += [";", *renamed]
            exact += [";", *chosen]
            size += more.size
        form = digest(whole)
        return Print(digest(body), form, digest([form, *exact]), words.size, size)

    def _resolve(
        self, words: Words, used: list[str], itself: str = ""
    ) -> tuple[list[str], list[str]]:
        """The words with numbers for the names that the author chose, and these names in order.

        used: the author's definitions met so far; those met here are added.
        """
        numbers = {itself: "itself"} if itself else {}
        out, chosen = [], []
        for word in words.out:
            if word[0] not in NAMES:
                out.append(word)
                continue
            name = word[1:]
            if name in words.bound or name in numbers:
                out.append(numbers.setdefault(name, f"local {len(numbers)}"))
                chosen.append(name)
            elif name in self.own:
                if name not in used:
                    used.append(name)
                out.append(f"own {used.index(name)}")
                chosen.append(name)
            else:
                out.append(self.origins.get(name, name))
        return out, chosen


def cuda_prints(text: str, stub: PurePosixPath, known: Given) -> dict[str, Print]:
    tokens = cuda_tokens(text)
    size = sum(count for form, count in cuda_statements(tokens) if form not in known.statements)
    numbers: dict[str, str] = {}
    words = known.words.get(stub, frozenset())
    renamed = [
        numbers.setdefault(token, f"name {len(numbers)}")
        if is_word(token) and token not in words
        else token
        for token in tokens
    ]
    form = digest(renamed)
    return {stub.name: Print(form, form, digest(tokens), size, size)}
