"""What gives answers away: a class gets certain kinds of files in certain places, none with a reference's text.

The second is the proof of the first: every function body of `solutions/` is searched for in every file
that is handed out, whatever its name.
"""

from __future__ import annotations

import ast
import functools
import gzip
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from profiling_lab import needs
from profiling_lab.course import stubs
from profiling_lab.course.manifest import SOLUTIONS, Course
from profiling_lab.errors import LabError

# What a class gets, by place and kind, as regular expressions for paths from the course's root. Nothing else:
# a new kind of file stays with the instructor until it is named here.
_LESSON = r"(\.(md|svg|ipynb|json|py|cu|cuh|mk|yml|sbatch)|/(Makefile|\.gitignore))"
GOES = (
    r"\.github/workflows/book\.yml|\.gitignore|AGENTS\.md|LICENSE|README\.md|course\.toml|pyproject\.toml",
    r"profiling_lab/.*(\.(py|toml|css|j2|js)|/LICENSE)",
    r"grading/.*(\.(py|cpp|css|j2|md|sh|yml)|/occupancy_table\.csv\.gz)",
    rf"(week07|modules|labs)/.*{_LESSON}",
    r"tests/(week07|modules|labs)/.*/(test_\w+\.py|probes/\w+\.py|cases\.json\.gz)",
    r"captures/(README\.md|captures\.toml)",
    r"captures/(?!programs/).*/.*\.(csv|gz|json|log|md|ncu-rep|nsys-rep|sql|sqlite|txt)",
    # The first lines of a case's program say what is wrong with it.
    r"captures/programs/(?!case_).*(\.(py|cu|cuh)|/(Makefile|\.gitignore))",
    r"docs/((?!instructor-guide)[\w-]+\.md|pictures/[\w-]+\.(png|svg))",
    # These pages, and their figures, name the causes of the case files.
    r"benchmarks/((?!TOOLS|ENGINE)\w+\.md|\w+\.(py|cu))",
    r"benchmarks/results/(?!tools_comparison|engine_verdicts)\w+\.json",
)
CASE = "case_"  # so begins the name of a case file: a recording whose cause a class is to find
SHORTEST = 60  # characters of code; of what is shorter there is often one way to write it


def goes(inside: PurePosixPath) -> bool:
    """Whether a class gets a file of the course, by its place and kind."""
    return any(re.fullmatch(pattern, str(inside)) for pattern in GOES)


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


# String literals of Python, kept; comments and backslashes before a line's end, dropped.
_STRING_OR_COMMENT = re.compile(
    r"""
    ("{3}(?:[^\\]|\\.)*?"{3} | '{3}(?:[^\\]|\\.)*?'{3} | "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*')
    | [#][^\n]* | \\\r?\n
    """,
    re.DOTALL | re.VERBOSE,
)


def squeeze_python(text: str) -> str:
    """Python code without comments and white space."""
    return squeeze(_STRING_OR_COMMENT.sub(lambda match: match[1] or "", text))


def squeeze_c(text: str) -> str:
    """C++ code without comments and white space."""
    return squeeze(re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL))


def squeeze(text: str) -> str:
    """Text without white space."""
    return re.sub(r"\s+", "", text)


_SQUEEZE = {".py": squeeze_python} | dict.fromkeys((".cu", ".cuh", ".cpp", ".h"), squeeze_c)


# What most bodies hold and few recordings do: where it is missing, such a body is not searched for.
_COMMON = (b"return", b"raise")


def found(course: Course, files: Iterable[Path]) -> list[str]:
    """Where code of the references is in files: "file: as in solutions/…: name".

    Everything is searched for whole bodies, recordings (also compressed) for definitions of a task's
    function as well.
    """
    wanted = [
        (code.encode(), places[0], {word for word in _COMMON if word.decode() in code})
        for code, places in bodies(course).items()
    ]
    names = {task.name for task in course.tasks.values() if not task.is_cuda}
    definition = re.compile(rb"def (?:" + b"|".join(n.encode() for n in sorted(names)) + rb")\(")
    out = []
    for file in files:
        data = file.read_bytes()
        if data[:2] == b"\x1f\x8b":
            data = gzip.decompress(data)
        if file.suffix in _SQUEEZE:
            form = _SQUEEZE[file.suffix](data.decode("utf-8", "replace")).encode()
        else:
            form = data.replace(b"\\n", b"").translate(None, b" \t\r\n\f\v")
            if file.suffix != ".md" and (match := definition.search(data)):
                out.append(f"{file}: {match[0].decode()}")
        there = {word for word in _COMMON if word in form}
        out += [
            f"{file}: as in {place}"
            for code, place, common in wanted
            if common <= there and code in form
        ]
    return sorted(set(out))
