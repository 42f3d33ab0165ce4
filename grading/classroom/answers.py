"""What gives answers away: files that are left out by their place, and references by their text.

The second is the proof of the first: every function body of `solutions/` is searched for in every file
that is handed out, whatever its name.
"""

from __future__ import annotations

import ast
import fnmatch
import functools
import gzip
import io
import json
import re
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from profiling_lab import needs
from profiling_lab.course import stubs
from profiling_lab.course.manifest import SOLUTIONS, Course
from profiling_lab.errors import LabError

# Paths from the course's root; `*` matches `/` too.
LEFT_OUT = (
    "solutions/*",
    "tests/*/mistakes_*",
    "tests/*/mutants_*",
    "tests/*/equivalent_mutants_*",
    "tests/live_score.json",
    "tests/harness/*",  # proves the course with its references
    "tests/attacks/*",
    "captures/programs/case_*",  # their first lines say what is wrong with a case
    "benchmarks/TOOLS.md",  # says of each case what is wrong with it
    "benchmarks/results/tools_comparison*",
    "scripts/*",  # computes the lessons' figures, partly with the references
    "docs/instructor-guide.md",
    "docs/example_class/*",
    "CONTRIBUTING.md",
    ".ci/*",
    ".github/*",
    "uv.lock",
)
CASE = "case_"  # so begins the name of a case file: a recording whose cause a class is to find
SHORTEST = 60  # characters of code; of what is shorter there is often one way to write it


def is_left_out(inside: PurePosixPath) -> bool:
    """Whether a file of the course stays with the instructor, by its place."""
    return any(fnmatch.fnmatchcase(str(inside), pattern) for pattern in LEFT_OUT)


def handed_out(inside: PurePosixPath, text: str) -> str:
    """A text file as a class gets it: what says of a case file what is wrong with it is not in it."""
    if inside.parts[0] != "captures":
        return text
    if str(inside) == "captures/captures.toml":
        tomlkit = needs.module("tomlkit")
        recordings = tomlkit.parse(text)
        for name in [name for name in recordings if name.startswith(CASE)]:
            del recordings[name]
        return tomlkit.dumps(recordings)
    if inside.name == "provenance.json" and inside.parent.name.startswith(CASE):
        provenance = json.loads(text)
        command = re.split(r" --(?:trouble|variant|share)\b", provenance["command"])[0]
        told = provenance.get("reported_by_program", {})
        told = {key: told[key] for key in told if key not in ("trouble", "variant")}
        provenance |= {"command": command, "reported_by_program": told}
        return json.dumps(provenance, indent=1, ensure_ascii=False) + "\n"
    return text


def rests_on_references(file: Path) -> bool:
    """Whether a Python file reaches for the references: it names their folder as a path."""
    if file.suffix != ".py":
        return False
    text = file.read_text(encoding="utf-8")
    return re.search(rf"""["']{SOLUTIONS}(?:["']|/)""", text) is not None


# -- references by their text -----------------------------------------------------------------------


def bodies(course: Course) -> dict[str, list[str]]:
    """The code that only the references hold, normalised, with where it stands ("file: name").

    Of Python the bodies of functions without docstring, of CUDA the regions of solutions. What the
    stub holds as well is given, not an answer. Raises LabError if there are no references.
    """
    folder = course.root / SOLUTIONS
    if not folder.is_dir():
        raise LabError(f"{folder}: no such folder; answers are searched for by the references")
    given = {
        code
        for exercise in course.exercises
        for file, text in stubs.generate(course, exercise).items()
        for _, code in _code_of(file.name, text)
    }
    out: dict[str, list[str]] = {}
    for file in sorted(folder.rglob("*")):
        if file.suffix in (".py", ".cu", ".cuh") and file.is_file():
            inside = file.relative_to(course.root).as_posix()
            for name, code in _code_of(file.name, file.read_text(encoding="utf-8")):
                if len(code) >= SHORTEST and code not in given:
                    out.setdefault(code, []).append(f"{inside}: {name}")
    return out


@functools.cache  # of the same references, at each search
def _code_of(name: str, text: str) -> tuple[tuple[str, str], ...]:
    return tuple(_codes(name, text))


def _codes(name: str, text: str) -> Iterator[tuple[str, str]]:
    if not name.endswith(".py"):
        for match in stubs._REGION.finditer(text):
            yield match["task"], squeeze_c(match[0].partition("// <stub>")[0].partition("\n")[2])
        return
    lines = text.splitlines(keepends=True)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body[1:] if ast.get_docstring(node) is not None else node.body
            if body:
                block = "".join(lines[body[0].lineno - 1 : node.end_lineno])
                yield node.name, squeeze_python(block)


def squeeze_python(text: str) -> str:
    """Python code without comments and white space; what is no Python loses white space only."""
    out = []
    skipped = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    try:
        for token in tokenize.generate_tokens(io.StringIO(_dedented(text)).readline):
            if token.type not in skipped:
                out.append(token.string)
    except (tokenize.TokenError, IndentationError, SyntaxError):
        return squeeze(text)
    return squeeze("".join(out))


def _dedented(block: str) -> str:
    first = re.match(r"[ \t]*", block)
    margin = first[0] if first else ""
    return re.sub(rf"^{margin}", "", block, flags=re.MULTILINE) if margin else block


def squeeze_c(text: str) -> str:
    """C++ code without comments and white space."""
    return squeeze(re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL))


def squeeze(text: str) -> str:
    """Text without white space."""
    return re.sub(r"\s+", "", text)


_SQUEEZE = {".py": squeeze_python} | dict.fromkeys((".cu", ".cuh", ".cpp", ".h"), squeeze_c)


def found(course: Course, files: Iterable[Path]) -> list[str]:
    """Where code of the references stands in files: "file: as in solutions/…: name".

    Source and text are searched for whole bodies, recordings (also compressed) for definitions of a
    task's function.
    """
    wanted = bodies(course)
    names = {task.name for task in course.tasks.values() if not task.is_cuda}
    definition = re.compile(rb"def (?:" + "|".join(sorted(names)).encode() + rb")\(")
    out = []
    for file in files:
        data = file.read_bytes()
        if data[:2] == b"\x1f\x8b":
            data = gzip.decompress(data)
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError:
            text = ""
        if not text or (len(data) > 300_000 and file.suffix not in (".py", ".md")):
            if match := definition.search(data):
                out.append(f"{file}: {match[0].decode()}")
            continue
        form = _SQUEEZE.get(file.suffix, squeeze)(text)
        for code, places in wanted.items():
            if code in form:
                out.append(f"{file}: as in {places[0]}")
    return sorted(set(out))
