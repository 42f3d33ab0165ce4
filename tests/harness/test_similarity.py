"""Likeness: what is written alike is found whatever it is called, what the course gave is no evidence."""

from __future__ import annotations

import ast
import base64
import bz2
import codecs
import dataclasses
import gzip
import json
import lzma
import re
import textwrap
import zlib
from collections import defaultdict
from pathlib import Path

import pytest

from grading.gradebook import similarity
from grading.gradebook.similarity import FLOOR, Comparison, Match, likeness
from grading.gradebook.similarity.function_prints import prints_of
from grading.gradebook.similarity.hidden_text import runs_text
from grading.grader.intake.submissions import Submission
from profiling_lab.course import manifest, mistakes
from tests.harness.similar_sources import (
    CUDA,
    FROM_THE_LESSON,
    KERNEL,
    LESSON,
    OTHER,
    REFERENCE,
    RENAMED,
    STUB,
)

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def course(tmp_path):
    root = tmp_path / "course"
    files = {
        "course.toml": """
            [course]
            title = "Small"
            [[exercises]]
            id = "ex_1"
            title = "One"
            stub = "week/ex_1.py"
            minutes = 1
            difficulty = 1
            skills = []
            tasks = [{name = "busy", title = "A", points = 1},
                     {name = "ratio", title = "B", points = 1},
                     {name = "fast", title = "C", points = 1, stub = "fast.cu"},
                     {name = "wide", title = "D", points = 1, stub = "fast.cu"}]
            """,
        "week/README.md": LESSON,
        f"solutions/{STUB}": REFERENCE,
        f"solutions/{CUDA}": KERNEL,
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(textwrap.dedent(text) if name.endswith("toml") else text)
    return manifest.load(root)


@pytest.fixture
def hand_in(tmp_path):
    def hand_in(student: str, text: str, stub: str = STUB, state: str = "submitted") -> Submission:
        tree = tmp_path / "staged" / student
        (tree / stub).parent.mkdir(parents=True, exist_ok=True)
        (tree / stub).write_text(text, encoding="utf-8")
        return Submission(student, tree, "", {stub: state})

    return hand_in


def found(matches: list[Match]) -> list[tuple]:
    return [(m.kind, m.how, m.function, m.students) for m in matches]


def test_the_reference_is_found_as_it_is_and_renamed(course, hand_in):
    matches = likeness(
        course, [hand_in("ada", REFERENCE), hand_in("bob", RENAMED), hand_in("eve", OTHER)]
    )
    assert found(matches) == [
        ("reference", "exact", "busy", ("ada",)),
        ("reference", "renamed", "busy", ("bob",)),
    ]
    assert matches[0].size >= FLOOR and matches[0].compared == 3 and matches[0].helpers
    assert matches[0].share == pytest.approx(1 / 3)
    assert "ada like the reference" in str(matches[0]) and "but for names" in str(matches[1])


HIDINGS = {
    "base64 of zlib": lambda text: (
        f"import base64, zlib\nexec(zlib.decompress(base64.b64decode({base64.b64encode(zlib.compress(text))!r})))"
    ),
    "hex, backwards": lambda text: f"exec(bytes.fromhex({text.hex()[::-1]!r}[::-1]).decode())",
    "base85 of lzma, in pieces": lambda text: (
        "import base64, lzma\nparts = "
        + repr(
            [base64.b85encode(lzma.compress(text)).decode()[i : i + 50] for i in range(0, 5000, 50)]
        )
        + "\nexec(lzma.decompress(base64.b85decode(''.join(parts))))"
    ),
    "plain text": lambda text: f"exec({text.decode()!r})",
    "numbers of characters": lambda text: (
        f"import builtins\ngetattr(builtins, 'ex' + 'ec')(bytes({list(text)}))"
    ),
    "ascii85 of gzip, by an attribute": lambda text: (
        "import base64, gzip\n_run = vars()['__builtins__']\n_run.exec(gzip.decompress("
        f"base64.a85decode({base64.a85encode(gzip.compress(text, mtime=0))!r})))"
    ),
    "rot13 in a dictionary": lambda text: (
        "import codecs\nfrom types import FunctionType\n"
        f"PARTS = {{'text': {codecs.encode(text.decode(), 'rot13')!r}}}"
    ),
    "zlib without its head, twice": lambda text: (
        f"import zlib, runpy\nDATA = {zlib.compress(zlib.compress(text)[2:-4])!r}"
    ),
    "bz2 of base32": lambda text: (
        f"import base64, bz2\nexec(base64.b32decode(bz2.decompress({bz2.compress(base64.b32encode(text))!r})))"
    ),
}


@pytest.mark.parametrize("hide", HIDINGS.values(), ids=HIDINGS)
def test_a_reference_in_encoded_text_is_found_and_what_runs_text_is_named(course, hand_in, hide):
    text = hide(RENAMED.encode()) + "\n"
    ast.parse(text)
    matches = likeness(course, [hand_in("ada", text), hand_in("eve", OTHER)])
    assert found(matches) == [
        ("reference", "hidden", "busy", ("ada",)),
        ("text", "exact", "ex_1.py", ("ada",)),
    ]
    assert "in encoded text" in str(matches[0])
    assert "runs text" in str(matches[1])


def test_text_that_unpacks_without_end_takes_no_longer(course, hand_in):
    bomb = base64.b64encode(zlib.compress(bytes(200 << 20), 9)).decode()
    assert likeness(course, [hand_in("ada", f"import torch\nDATA = {bomb!r}\n")]) == []


def test_nothing_of_this_course_runs_text():
    running = {
        str(file.relative_to(ROOT))
        for file in (ROOT / "solutions").rglob("*.py")
        if runs_text(ast.parse(file.read_text(encoding="utf-8")))
    }
    assert running == set()


def test_layout_comments_annotations_and_documentation_do_not_count(course, hand_in):
    text = re.sub(r'"""The part.*?"""', '"""Other words."""', REFERENCE)
    text = text.replace("list[tuple[int, int]]", "object").replace("total = 0", "total: int = 0")
    text = text.replace("  # clocks differ", "").replace(
        "    total = 0", "    # so far\n    total = (0)"
    )
    matches = likeness(course, [hand_in("ada", text)])
    assert found(matches) == [("reference", "exact", "busy", ("ada",))]


@pytest.mark.parametrize(
    ("old", "new"),
    [("max(0, ", "max(1, "), ("total += ", "total -= "), ("+ _SLACK_NS", ""), ("= 5", "= 6")],
)
def test_another_program_is_not_alike(course, hand_in, old, new):
    assert old in REFERENCE
    matches = likeness(course, [hand_in("ada", REFERENCE.replace(old, new))])
    assert not [m for m in matches if m.helpers]


def test_names_may_not_be_swapped(course, hand_in):
    """Renaming is one to one: other variables in the same places are another program."""
    swapped = REFERENCE.replace(
        "min(end, last) - max(start, first)", "min(end, first) - max(start, last)"
    )
    assert likeness(course, [hand_in("ada", swapped)]) == []


def test_a_large_body_is_found_though_its_helper_differs(course, hand_in):
    helper = "    return [list(pair) for pair in sorted(intervals)]\n"
    text = re.sub(r"    out: list.*?return out\n", helper, REFERENCE, flags=re.DOTALL)
    whole = likeness(course, [hand_in("ada", text)], floor=20)
    assert found(whole) == [("reference", "renamed", "busy", ("ada",))]
    assert not whole[0].helpers


def test_students_like_each_other_are_found_together(course, hand_in):
    other = OTHER.replace("depth", "open_now").replace("since", "opened")
    class_ = [hand_in("zoe", other), hand_in("ada", OTHER), hand_in("bob", REFERENCE)]
    matches = likeness(course, class_)
    assert found(matches) == [
        ("reference", "exact", "busy", ("bob",)),
        ("student", "renamed", "busy", ("ada", "zoe")),
    ]
    assert found(likeness(course, [hand_in("ada", OTHER), hand_in("eve", OTHER)])) == [
        ("student", "exact", "busy", ("ada", "eve"))
    ]
    assert likeness(course, [hand_in("ada", OTHER)]) == []


def test_what_has_one_way_to_be_written_is_not_flagged(course, hand_in):
    class_ = [hand_in("ada", REFERENCE), hand_in("bob", REFERENCE)]
    assert "ratio" not in {match.function for match in likeness(course, class_)}
    assert "ratio" in {match.function for match in likeness(course, class_, floor=1)}


def test_a_class_that_copies_the_lesson_is_not_flagged(course, hand_in):
    class_ = [hand_in(name, FROM_THE_LESSON) for name in ("ada", "bob", "eve")]
    assert likeness(course, class_) == []
    (course.root / "week/README.md").write_text("# Lesson\n")
    assert found(likeness(course, class_)) == [("student", "exact", "busy", ("ada", "bob", "eve"))]


def test_a_lesson_of_this_course_does_not_flag_a_class(hand_in):
    """Every code block of a real lesson, as the body of a task's function."""
    course = manifest.load(ROOT)
    exercise = course.exercise("ex_32")
    lesson = course.lesson(exercise).read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", lesson, re.DOTALL | re.MULTILINE)
    task = next(task for task in exercise.tasks if task.stub == exercise.stub)
    given = similarity.given(course, exercise)
    sizes = []
    for block in blocks:
        text = f"def {task.name}(x):\n" + textwrap.indent(block, "    ") + "    return x\n"
        one = similarity.prints(text, exercise.stub, exercise, given).get(task.name)
        sizes.append(one.whole_size if one else 0)
    assert len(blocks) > 3
    assert max(sizes) < FLOOR


def test_what_is_to_do_or_cannot_be_read_is_not_compared(course, hand_in):
    todo = "def busy(a, b):\n    '''Doc.'''\n    raise NotImplementedError\n"
    class_ = [
        hand_in("ada", todo),
        hand_in("bob", todo),
        hand_in("broken1", "def busy(:\n"),
        hand_in("broken2", "def busy(:\n"),
        hand_in("deep1", REFERENCE + "x = " + "-" * 10_000 + "1\n"),
        hand_in("refused", REFERENCE, state="refused: it is a link"),
        Submission("gone", course.root / "nowhere", "", {STUB: "submitted"}),
        hand_in("empty", ""),
        hand_in("odd", "busy = 3\nimport busy\nclass busy: pass\n"),
    ]
    assert likeness(course, class_, floor=1) == []


def test_every_kind_of_statement_has_a_form(course, hand_in):
    text = """
import os.path as p
class Helper(Base, metaclass=M):
    x: int
    y = 3
    @property
    async def f(self, *a, k=1, **kw): yield await g(*a, **kw)
@decorated
async def busy(a, /, b, *, c=1):
    global G
    async with open(a) as f, b: pass
    async for i in a: print(i, end=f"{i!r:>{c}}")
    else: del i
    try: import math as m
    except* (ValueError, TypeError) as e: raise Helper from e
    match a:
        case [1, *rest] if rest: return lambda q: q
        case {"k": v, **more}: return {**more, v: (yield)}
        case Helper(x=1) | None as whole: assert whole, "no"
    while (n := c): c -= 1; continue
    return [x for x, in b if not x], {1, 2}, a[1:2, ...], b"x", 1j, Helper.__name__
"""
    class_ = [hand_in("ada", text), hand_in("bob", text.replace("rest", "tail"))]
    assert found(likeness(course, class_)) == [("student", "renamed", "busy", ("ada", "bob"))]


def test_cuda_is_compared_by_its_tokens(course, hand_in):
    solved = KERNEL.split("// <stub>")[0] + "int main() { return 0; }\n"
    renamed = re.sub(r"//.*", "/* mine */", solved).replace("tile", "patch")
    renamed = re.sub(r"\bat\b", "k", renamed)
    slow = solved.replace("33", "32")
    class_ = [
        hand_in("ada", KERNEL, CUDA),
        hand_in("bob", renamed, CUDA),
        hand_in("eve", slow, CUDA),
        hand_in("half", "// TODO(ex_1.wide): x\n" + solved, CUDA),
        hand_in("todo", "// TODO(ex_1.fast): x\n// TODO(ex_1.wide): y\n" + solved, CUDA),
        hand_in("given", "#include <cstdio>\nint main() { return 0; }\n", CUDA),
        hand_in("given2", "#include <cstdio>\nint main() { return 0; }\n", CUDA),
    ]
    assert found(likeness(course, class_)) == [
        ("reference", "exact", "fast.cu", ("ada", "half")),
        ("reference", "renamed", "fast.cu", ("bob",)),
    ]


def test_a_repository_without_references_compares_students(course, hand_in):
    for file in (course.root / "solutions").rglob("*.*"):
        file.unlink()
    assert found(likeness(course, [hand_in("ada", REFERENCE), hand_in("bob", RENAMED)])) == [
        ("student", "renamed", "busy", ("ada", "bob"))
    ]


def test_one_by_one_gives_the_same_and_survives_json(course, hand_in):
    class_ = [hand_in("bob", RENAMED), hand_in("ada", REFERENCE)]
    comparison = Comparison(course)
    for submission in reversed(class_):
        comparison.add(submission)
    matches = comparison.matches()
    assert matches == likeness(course, class_)
    again = [
        Match(**one) for one in json.loads(json.dumps([dataclasses.asdict(m) for m in matches]))
    ]
    assert again == matches


@pytest.mark.proof
def test_the_floor_stands_above_what_coincides_in_this_course():
    """What the module says of its floor: references and mistakes, compared with each other."""
    course = manifest.load(ROOT)
    references, equal, compared = {}, [], 0
    forms: dict[str, set] = defaultdict(set)
    for exercise in course.exercises:
        given = similarity.given(course, exercise)
        for stub in exercise.stubs:
            if stub.suffix != ".py":
                continue
            text = course.solution(stub).read_text(encoding="utf-8")
            own = similarity.prints(text, stub, exercise, given)
            for name, one in own.items():
                references[exercise.id, name] = one
                compared += one.whole_size >= FLOOR
                forms[one.whole].add((exercise.id, name, one.whole_size))
            for mistake in mistakes.read(course, stub):
                changed = own.keys() & set(mistake.names)
                prints = prints_of(ast.parse(mistake.source), stub, changed, given)
                for name, one in prints.items():
                    equal += [(mistake.slug, name)] if one.whole == own[name].whole else []
                    forms[one.whole].add((exercise.id, name, one.whole_size))
    assert equal == []
    coincide = [next(iter(group))[2] for group in forms.values() if len(group) > 1]
    assert coincide and max(coincide) < FLOOR
    assert compared > 0.8 * len(references)
