"""Neither a class nor a submission gets an answer, whatever kind of file it lies in."""

from __future__ import annotations

import ast
import functools
import gzip
from pathlib import Path, PurePosixPath

import pytest

from grading.classroom import answers, class_repo
from grading.grader.readable import copy_recordings, is_recorded, readable
from profiling_lab.course import manifest
from profiling_lab.course.manifest import Course

ROOT = Path(__file__).resolve().parents[2]
COURSE = manifest.load(ROOT)
STUBS = {stub for exercise in COURSE.exercises for stub in exercise.stubs}


def kinds() -> dict[str, PurePosixPath]:
    """Of each kind of file that the tree has the smallest: by the folders above it, and its suffix or name."""
    out: dict[tuple[str, ...], PurePosixPath] = {}
    for inside in sorted(class_repo.files_of(COURSE), key=lambda f: (ROOT / f).stat().st_size):
        if inside not in STUBS:  # a class gets these as they were handed out
            first = inside.name.partition("_")[0] + "_" if "_" in inside.name else ""
            kind = (
                *inside.parts[:2][:-1],
                *inside.parts[1:-1][:1],
                first,
                inside.suffix or inside.name,
            )
            out.setdefault(kind, inside)
    return {" ".join(kind): inside for kind, inside in out.items()}


@functools.cache
def one_line() -> str:
    """A line of a reference that is the whole of a function."""
    known = answers.bodies(COURSE)
    for file in sorted((ROOT / "solutions").rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        for node in ast.parse(text).body:
            if isinstance(node, ast.FunctionDef) and node.body[-1].lineno == node.end_lineno:
                body = node.body[1:] if ast.get_docstring(node) else node.body
                line = text.splitlines()[body[-1].lineno - 1]
                if len(body) == 1 and answers.squeeze_python(line) in known:
                    return line
    raise AssertionError("no reference is of one line")


def planted(inside: PurePosixPath, line: str, folder: Path) -> Path:
    """A copy of a file of the tree with a line of a reference at its end."""
    data = (ROOT / inside).read_bytes()
    packed = data[:2] == b"\x1f\x8b"
    data = (gzip.decompress(data) if packed else data) + f"\n{line}\n".encode()
    file = folder / inside.name
    file.write_bytes(gzip.compress(data) if packed else data)
    return file


READABLE = readable(COURSE)


def is_readable(inside: PurePosixPath) -> bool:
    return is_recorded(inside) or any((ROOT / inside).is_relative_to(path) for path in READABLE)


@pytest.mark.proof
def test_a_planted_line_is_refused_or_left_out_in_every_kind_of_file(tmp_path: Path) -> None:
    files = {}
    for number, (kind, inside) in enumerate(kinds().items()):
        if answers.goes(inside) or is_readable(inside):
            (tmp_path / str(number)).mkdir()
            files[kind] = planted(inside, one_line(), tmp_path / str(number))
    found = "\n".join(answers.found(COURSE, files.values()))
    assert not {kind for kind, file in files.items() if f"{file}: " not in found}


@pytest.mark.proof
def test_what_a_submission_may_read_holds_no_answer() -> None:
    """What a class gets is searched where it is built; here what a submission may read besides."""
    besides = [f for f in class_repo.files_of(COURSE) if is_readable(f) and not answers.goes(f)]
    assert not answers.found(COURSE, [ROOT / file for file in besides])


@pytest.mark.parametrize(
    "inside",
    [
        "solutions/week07/day1_nsight_systems/ex_30_nsight_systems.py",
        "tests/week07/day1_nsight_systems/mistakes_ex_30_nsight_systems.toml",
        "tests/week07/day1_nsight_systems/answers.py",
        "tests/week07/day1_nsight_systems/notes.md",
        "tests/harness/test_leaks.py",
        "scripts/lesson_sources/week07/lesson.py",
        "week07/day1_nsight_systems/answers.txt",
        "captures/programs/case_late.py",
        "new_folder/file.py",
    ],
)
def test_nobody_gets_what_nobody_named(inside: str) -> None:
    assert not answers.goes(PurePosixPath(inside))


def test_what_stands_beside_checks_and_stubs_is_not_readable(tmp_path: Path) -> None:
    exercise = COURSE.exercise("ncu_ex01")
    beside = [
        tmp_path / exercise.stub.parent / name
        for name in ("memory_bandwidth.cuh", "memory_bandwidth_student", "answers.py", "notes.cuh")
    ]
    tests = tmp_path / "tests" / exercise.stub.parent / "mistakes_memory_metrics.toml"
    for file in (*beside, tests):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("")
    course = Course(tmp_path, "", (exercise,))
    assert readable(course) == beside[:1]


def test_of_captures_only_recordings_are_shown(tmp_path: Path) -> None:
    """What says how a capture was made, and with which fault, is not beside it while a submission is judged."""
    copy_recordings(COURSE, tmp_path / "captures")
    shown = [file.relative_to(tmp_path) for file in (tmp_path / "captures").rglob("*.*")]
    assert {
        Path("captures/alloc_cached/timeline.sqlite"),
        Path("captures/case_mix_a/kernels.csv.gz"),
    } <= {*shown}
    told = [
        file for file in shown if file.name.startswith("case_") or file.suffix in (".md", ".toml")
    ]
    told += [f for f in shown if "programs" in f.parts and f.suffix != ".cuh"]
    told += [f for f in shown if "case_" in str(f) and f.name == "provenance.json"]
    assert not [file for file in told if (tmp_path / file).is_file()]


def test_given_files_are_there() -> None:
    given = {file for exercise in COURSE.exercises for file in exercise.given}
    assert given
    assert not [file for file in sorted(given) if not (ROOT / file).is_file()]
    assert not given & STUBS
