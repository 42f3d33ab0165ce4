"""Which submissions are written like the reference or like each other: evidence for a person, no verdict.

    for match in likeness(course, take_in(…)): …

Two functions are alike if their syntax trees are equal once everything is set aside that does not make
the program: comments, layout, docstrings, annotations, and ("renamed") the names that their author chose:
of parameters, variables, helpers and constants of the module. What the course gave is no evidence: the stub
stays out of it, and so does every statement that is in the lesson or in a given file of the exercise.

What is left must be large enough that two people would hardly write the same. `FLOOR` says how large,
in nodes of the syntax tree. Measured on this course: of its 319 references, the only two that are equal,
of 47 nodes, share their helper; without helpers the largest equal ones have 13 nodes. Of the 1,032
functions that its mistakes change, none is equal to its reference, and two of one task are equal
up to 8 nodes. But `achieved = work / time` or `min(peak, intensity * bandwidth)` has one way to be
written, and such references have 33 to 51 nodes. A floor of 60 leaves them out: 283 of the 319 are
compared (tests/harness/test_similarity.py).

CUDA sources are compared as a whole, by their tokens.

What runs may stand in the file as text, encoded or compressed: functions of a task that are found in such text
are compared as well ("hidden"), and a file that runs text at all is named, whatever it runs ("text").

Nothing is run. A source that does not parse, or is nested too deeply to be, is not compared.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import hashlib
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path, PurePosixPath

from grading.gradebook.hidden_text import hidden_texts, runs_text
from grading.grader.intake.parsing import parse_guarded
from grading.grader.intake.refused import FILE_BYTES
from grading.grader.intake.submissions import Submission
from profiling_lab.course import stubs
from profiling_lab.course.manifest import Course, Exercise
from profiling_lab.errors import CourseError

FLOOR = 60  # nodes of a syntax tree: some six lines of code
FLOOR_TOKENS = 60  # of a CUDA source: some five lines

_BUILTINS = frozenset(dir(builtins))
_TODO = re.compile(r"^[ \t]*// TODO\(", re.MULTILINE)


@dataclass(frozen=True)
class Match:
    """Submissions in which one function is written alike.

    kind: "reference" if they are like the course's solution, "student" if only like each other, "text" for one
    whose file runs text (exec, eval, compile, marshal), whatever it is like. how: "exact", "renamed" if names
    differ, "hidden" if it is in encoded or compressed text. function: the task's function, or the CUDA source's name.
    students: one or more for "reference", two or more for "student"; sorted. size: nodes of the syntax tree
    (tokens of a CUDA source) that the course did not give. compared: how many submissions have the
    function. helpers: whether what the function calls in its module is alike as well.
    """

    kind: str
    how: str
    exercise: str
    function: str
    students: tuple[str, ...]
    size: int
    compared: int
    helpers: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "students", tuple(self.students))  # JSON knows lists only

    @property
    def renamed(self) -> bool:
        """Whether they are alike but for names."""
        return self.how == "renamed"

    @property
    def share(self) -> float:
        """The part of the class that is written this way; a large one points to a common source."""
        return len(self.students) / self.compared if self.compared else 0.0

    def __str__(self) -> str:
        if self.kind == "text":
            return f"{self.exercise}: {', '.join(self.students)}: {self.function} runs text (exec)"
        like = "the reference" if self.kind == "reference" else "each other"
        unit = "tokens" if "." in self.function else "nodes"
        names = {"renamed": " but for names", "hidden": " in encoded text"}.get(self.how, "")
        return (
            f"{self.exercise}.{self.function}: {', '.join(self.students)} like {like}{names} "
            f"({self.size} {unit}; {len(self.students)} of {self.compared} submissions)"
        )


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


def likeness(
    course: Course,
    submissions: Iterable[Submission],
    *,
    floor: int = FLOOR,
    floor_tokens: int = FLOOR_TOKENS,
) -> list[Match]:
    """All matches among submissions, in the order of the manifest, the reference's first."""
    comparison = Comparison(course, floor=floor, floor_tokens=floor_tokens)
    for submission in submissions:
        comparison.add(submission)
    return comparison.matches()


class Comparison:
    """Compares submissions that come one after another; some 50 kB are kept of each.

    floor, floor_tokens: how large a function and a CUDA source must be to be flagged, without what
    was given.
    """

    def __init__(
        self, course: Course, *, floor: int = FLOOR, floor_tokens: int = FLOOR_TOKENS
    ) -> None:
        self.course = course
        self.floor, self.floor_tokens = floor, floor_tokens
        self._given = {exercise.id: given(course, exercise) for exercise in course.exercises}
        self._references: dict[tuple[str, str], Print] = {}
        self._found: dict[tuple[str, str], dict[str, Print]] = defaultdict(dict)
        self._known: dict[tuple[PurePosixPath, bytes], dict[str, Print]] = {}
        self._runs_text: dict[tuple[str, str], set[str]] = defaultdict(set)
        for exercise in course.exercises:
            for stub in exercise.stubs:
                text = _read(course.solution(stub))
                for function, one in self._prints(text, stub, exercise).items():
                    self._references[exercise.id, function] = one

    def add(self, submission: Submission) -> None:
        """Take note of one submission; of an earlier one of the same student only what it lacks stays."""
        for exercise in self.course.exercises:
            for stub in exercise.stubs:
                if submission.files.get(str(stub)) != "submitted":
                    continue
                text = _read(submission.tree / stub)
                for function, one in self._prints(text, stub, exercise).items():
                    self._found[exercise.id, function][submission.student] = one
                tree = parse_guarded(text) if stub.suffix == ".py" else None
                if tree is not None and runs_text(tree):
                    self._runs_text[exercise.id, stub.name].add(submission.student)

    def matches(self) -> list[Match]:
        """All matches so far, in the order of the manifest, the reference's first."""
        out = []
        for exercise in self.course.exercises:
            names = [task.name for task in exercise.tasks]
            names += [stub.name for stub in exercise.stubs if stub.suffix != ".py"]
            for function in dict.fromkeys(names):
                students = self._found.get((exercise.id, function), {})
                least = self.floor_tokens if "." in function else self.floor
                reference = self._references.get((exercise.id, function))
                for kind, how, alike, size, helpers in _groups(students, reference, least):
                    count = len(students)
                    out.append(Match(kind, how, exercise.id, function, alike, size, count, helpers))
            for stub in exercise.stubs:
                for student in sorted(self._runs_text.get((exercise.id, stub.name), ())):
                    out.append(Match("text", "exact", exercise.id, stub.name, (student,), 0, 1))
        return out

    def _prints(self, text: str, stub: PurePosixPath, exercise: Exercise) -> dict[str, Print]:
        """The same text need not be read twice: much of a class hands in what it was given."""
        key = stub, hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
        if key not in self._known:
            self._known[key] = prints(text, stub, exercise, self._given[exercise.id])
        return self._known[key]


def _groups(
    students: dict[str, Print], reference: Print | None, least: int
) -> Iterator[tuple[str, str, tuple[str, ...], int, bool]]:
    """Who is alike in one function: (kind, how, students, size, helpers)."""
    by_body: dict[str, dict[str, Print]] = defaultdict(dict)
    for student, one in sorted(students.items()):
        by_body[one.body][student] = one
    own = []
    for group in by_body.values():
        by_whole: dict[str, dict[str, Print]] = defaultdict(dict)
        for student, one in group.items():
            by_whole[one.whole][student] = one
        body_counts = next(iter(group.values())).body_size >= least
        for whole, alike in by_whole.items():
            one = next(iter(alike.values()))
            if one.whole_size < least:
                continue
            if reference and whole == reference.whole:
                by_how: dict[str, list[str]] = {"exact": [], "renamed": [], "hidden": []}
                for student, found in alike.items():
                    how = "exact" if found.exact == reference.exact else "renamed"
                    by_how["hidden" if found.hidden else how].append(student)
                for how, names in by_how.items():
                    if names:
                        yield "reference", how, tuple(names), one.whole_size, True
            elif len(alike) > 1 and not (body_counts and len(by_whole) > 1):
                how = "exact" if len({p.exact for p in alike.values()}) == 1 else "renamed"
                how = "hidden" if any(p.hidden for p in alike.values()) else how
                own.append(("student", how, tuple(alike), one.whole_size, True))
        if not body_counts:
            continue
        one = next(iter(group.values()))
        if reference and one.body == reference.body:
            names = tuple(s for s, p in group.items() if p.whole != reference.whole)
            if names:
                yield "reference", "renamed", names, one.body_size, False
        elif len(by_whole) > 1:
            own.append(("student", "renamed", tuple(group), one.body_size, False))
    yield from own


# -- what the course gave -------------------------------------------------------------------------


@dataclass(frozen=True)
class Given:
    """What an exercise hands to everybody.

    names: of each stub, those that it defines or imports. statements: normal forms of all statements that
    stand in lessons and given files. words: identifiers of the given CUDA sources, by stub.
    """

    names: dict[PurePosixPath, frozenset[str]] = field(default_factory=dict)
    statements: frozenset[str] = frozenset()
    words: dict[PurePosixPath, frozenset[str]] = field(default_factory=dict)


_FENCE = re.compile(
    r"^(?P<mark>`{3,}|~{3,})[^\n]*\n(?P<code>.*?)^(?P=mark)[ \t]*$", re.DOTALL | re.MULTILINE
)


def given(course: Course, exercise: Exercise) -> Given:
    """What the course gives for an exercise: stubs, lessons, and the other sources in its folder."""
    try:
        texts = {
            PurePosixPath(path.relative_to(course.root)): text
            for path, text in stubs.generate(course, exercise).items()
        }
    except (CourseError, OSError):  # a repository without the references
        texts = {stub: _read(course.root / stub) for stub in exercise.stubs}
    names, words, statements = {}, {}, set()
    sources = [text for stub, text in texts.items() if stub.suffix == ".py"]
    cuda = [text for stub, text in texts.items() if stub.suffix != ".py"]
    for file in _given_files(course, exercise):
        text = _read(file)
        if file.suffix == ".md":
            blocks = [match["code"] for match in _FENCE.finditer(text)]
            sources += [
                re.sub(r"^[ \t]*(?:>>> ?|\.\.\. ?)", "", block, flags=re.M) for block in blocks
            ]
            cuda += blocks
        elif file.suffix == ".py":
            sources.append(text)
        else:
            cuda.append(text)
    for text in sources:
        statements.update(_statement_forms(text))
    tokens = [_cuda_tokens(text) for text in cuda]
    statements |= {form for one in tokens for form, _ in _cuda_statements(one)}
    known = frozenset(token for one in tokens for token in one if _is_word(token))
    for stub, text in texts.items():
        if stub.suffix == ".py":
            tree = parse_guarded(text)
            names[stub] = frozenset(_defined(tree)) if tree else frozenset()
        else:
            words[stub] = known
    return Given(names, frozenset(statements), words)


def _given_files(course: Course, exercise: Exercise) -> list[Path]:
    """Lessons, and sources that are no stubs, in the exercise's folder, and in the one of its unit."""
    folder = course.root / exercise.folder
    own = {course.root / stub for other in course.exercises for stub in other.stubs}
    kinds = (".md", ".py", ".cu", ".cuh", ".h", ".hpp")
    inside = (file for file in folder.rglob("*") if file.suffix in kinds)
    above = folder.parent.glob("*.md")
    unit = course.root.joinpath(*folder.relative_to(course.root).parts[:1])
    docs = unit.glob("docs/*.md")
    return sorted({file for file in (*inside, *above, *docs) if file.is_file()} - own)


def _read(file: Path) -> str:
    try:
        with open(file, encoding="utf-8", errors="replace") as opened:
            return opened.read(FILE_BYTES)
    except OSError:
        return ""


# -- Python ---------------------------------------------------------------------------------------


def prints(text: str, stub: PurePosixPath, exercise: Exercise, known: Given) -> dict[str, Print]:
    """The tasks' functions of a source, each with what it is known by; those still to do are left out."""
    if stub.suffix != ".py":
        return _cuda_prints(text, stub, known)
    tasks = {task.name for task in exercise.tasks if task.stub == stub}
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
    module = _Module(tree, known.names.get(stub, frozenset()), known.statements)
    out = {}
    for name in sorted(set(names) & set(module.functions)):
        with contextlib.suppress(RecursionError):
            if one := module.print_of(name):
                out[name] = one
    return out


class _Module:
    """A module's definitions, and the normal forms of its functions."""

    def __init__(self, tree: ast.Module, given: frozenset[str], statements: frozenset[str]) -> None:
        self.statements = statements
        self.functions: dict[str, ast.FunctionDef | ast.AsyncFunctionDef] = {}
        self.own: dict[str, ast.stmt] = {}  # what the author added, by name
        self.origins: dict[str, str] = {}  # what an imported name stands for
        self._words: dict[str, _Words] = {}
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                self.functions[node.name] = node
            if isinstance(node, ast.Import | ast.ImportFrom):
                self.origins.update(_origins(node))
            for name in _names_of(node):
                if name not in given:
                    self.own[name] = node

    def print_of(self, name: str) -> Print | None:
        """What a function is known by; None if it is still to do. Raises RecursionError."""
        node = self.functions[name]
        if not _real_body(node) or _is_todo(node):
            return None
        words = _Words(self.statements)
        words.function(node)
        used: list[str] = []
        body, exact = self._resolve(words, used)
        whole, size = list(body), words.size
        for helper in used:  # grows as helpers use helpers
            if helper not in self._words:
                self._words[helper] = _Words(self.statements)
                self._words[helper].definition(self.own[helper])
            more = self._words[helper]
            renamed, chosen = self._resolve(more, used, helper)
            whole += [";", *renamed]
            exact += [";", *chosen]
            size += more.size
        form = _digest(whole)
        return Print(_digest(body), form, _digest([form, *exact]), words.size, size)

    def _resolve(
        self, words: _Words, used: list[str], itself: str = ""
    ) -> tuple[list[str], list[str]]:
        """The words with numbers for the names that the author chose, and these names in order.

        used: the author's definitions met so far; those met here are added.
        """
        numbers = {itself: "itself"} if itself else {}
        out, chosen = [], []
        for word in words.out:
            if word[0] not in _NAMES:
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


# Words begin with a mark where more than their text counts.
_NODE, _NAME, _CALLED = "\1", "\2", "\3"
_NAMES = frozenset({_NAME, _CALLED})
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


class _Words:
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
    return _digest(
        numbers.setdefault(word, str(len(numbers)))
        if word[0] == _NAME and word[1:] not in _BUILTINS
        else word
        for word in words
    )


@lru_cache(maxsize=512)  # exercises of a unit share its lesson
def _statement_forms(text: str) -> frozenset[str]:
    """The normal forms of the statements of a source, each by itself; none if it does not parse."""
    words = _Words()
    if tree := parse_guarded(text):
        with contextlib.suppress(RecursionError):
            words._block(tree.body)
    return frozenset(words.forms)


def _names_of(node: ast.stmt) -> list[str]:
    """What a statement at module level defines, imports left out."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return [node.target.id]
    return []


def _origins(node: ast.Import | ast.ImportFrom) -> dict[str, str]:
    start = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
    return {alias.asname: start + alias.name for alias in node.names if alias.asname}


def _defined(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        yield from _names_of(node)


def _real_body(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.stmt]:
    return [s for s in node.body if not (_is_docstring(s) or isinstance(s, ast.Pass))]


def _is_todo(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    body = _real_body(node)
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


def _digest(words: Iterable[str]) -> str:
    return hashlib.sha256("\0".join(words).encode("utf-8", "surrogatepass")).hexdigest()[:32]


# -- CUDA -----------------------------------------------------------------------------------------

_CUDA = re.compile(
    r"""
      (?P<skip>//(?:[^\n\\]|\\.)*|/\*.*?\*/|\s+|\\\n)
    | (?P<token>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|[A-Za-z_]\w*|\.?\d[\w.']*|<<<|>>>
        |->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||::|[-+*/%&|^]=|.)
    """,
    re.VERBOSE | re.DOTALL,
)


def _cuda_prints(text: str, stub: PurePosixPath, known: Given) -> dict[str, Print]:
    if not text or _TODO.search(text):
        return {}
    tokens = _cuda_tokens(text)
    size = sum(count for form, count in _cuda_statements(tokens) if form not in known.statements)
    numbers: dict[str, str] = {}
    words = known.words.get(stub, frozenset())
    renamed = [
        numbers.setdefault(token, f"name {len(numbers)}")
        if _is_word(token) and token not in words
        else token
        for token in tokens
    ]
    form = _digest(renamed)
    return {stub.name: Print(form, form, _digest(tokens), size, size)}


@lru_cache(maxsize=64)
def _cuda_tokens(text: str) -> tuple[str, ...]:
    """The tokens of a CUDA source, without comments."""
    return tuple(match["token"] for match in _CUDA.finditer(text) if match["token"])


def _cuda_statements(tokens: Iterable[str]) -> Iterator[tuple[str, int]]:
    """The normal forms of a source's statements (up to ; { or }), and how many tokens they have."""
    statement: list[str] = []
    for token in tokens:
        statement.append(token)
        if token in (";", "{", "}"):
            numbers: dict[str, str] = {}
            yield (
                _digest(
                    numbers.setdefault(t, str(len(numbers))) if _is_word(t) else t
                    for t in statement
                ),
                len(statement),
            )
            statement = []


def _is_word(token: str) -> bool:
    return token[0].isalpha() or token[0] == "_"
