"""Mistakes as edits: each fits its reference exactly, or is refused by its name."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path, PurePosixPath

import pytest

from profiling_lab.course import manifest, mistakes
from profiling_lab.course.mistakes import Mistake
from profiling_lab.errors import CourseError

STUB = PurePosixPath("day/ex.py")
REFERENCE = '''
LIMIT = 3


def larger(first, second):
    """The larger of two."""
    return max(first, second)


def both(first, second):
    """The sum of two."""
    total = first + second
    return total
'''

Read = Callable[..., list[Mistake]]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Read mistakes, in a course of one exercise."""

    def written(inside: str, text: str) -> None:
        file = tmp_path / inside
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(text), encoding="utf-8")

    def read_(table: str, stub: PurePosixPath = STUB, reference: str = REFERENCE) -> list[Mistake]:
        written(f"solutions/{stub}", reference)
        written(
            f"tests/day/test_{stub.stem}.py",
            """
            @task("ex.larger")
            def test_larger(stub): ...
            """,
        )
        written(f"tests/day/mistakes_{stub.stem}.toml", table)
        course = manifest.Course(tmp_path, "", ())
        return mistakes.read(course, stub)

    return read_


def entry(lines: str) -> str:
    return f"[test_larger.slip]\nsays = 'words'\n{lines}\n"


def test_an_edit_changes_what_it_names(read: Read) -> None:
    (one,) = read(entry("find = 'max(first'\nput = 'min(first'"))
    assert (one.slug, one.caught_by, one.says) == ("slip", "test_larger", "words")
    assert one.source == REFERENCE.replace("max(", "min(")
    assert one.names == ("larger",)


def test_several_edits_are_of_one_mistake(read: Read) -> None:
    edits = "{ find = 'first + second', put = 'first' }, { find = 'LIMIT = 3', put = 'LIMIT = 4' }"
    (one,) = read(entry(f"edits = [{edits}]"))
    assert one.source == REFERENCE.replace("first + second", "first").replace("= 3", "= 4")
    assert one.names == ("LIMIT", "both")


def test_definitions_follow_the_reference(read: Read) -> None:
    (one,) = read(
        entry("code = '''\n_right = larger\ndef larger(*two):\n    return -_right(*two)\n'''")
    )
    space: dict = {}
    exec(one.source, space)
    assert space["larger"](3, 5) == -5
    assert one.names == ("_right", "larger")


def test_a_cuda_source_is_edited_as_text(read: Read) -> None:
    cuda = {"stub": PurePosixPath("day/kernel.cu"), "reference": "int a = 1;\nint b = 2;\n"}
    (one,) = read(entry("find = 'a = 1'\nput = 'a = 0'"), **cuda)
    assert (one.source, one.names) == ("int a = 0;\nint b = 2;\n", ())
    (one,) = read(entry("code = 'int a = 0;'"), **cuda)
    assert one.source == "int a = 0;"


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (
            entry("find = 'sum('\nput = 'max('"),
            r"'sum\(' is 0 times in .*the reference has changed",
        ),
        (entry("find = 'first, second)'\nput = ''"), "is 3 times in .*add lines around it"),
        (entry("find = 'max(first, second)'\nput = 'max( first, second)  # !'"), "is the same as"),
        (entry("find = 'LIMIT = 3'\nput = 'LIMIT = 3'"), "is the same as"),
        (
            entry("code = '''def larger(first, second):\n    return max(first, second)'''"),
            "is the same",
        ),
        (entry("code = 'def other(): pass'"), "defines nothing that .*ex.py defines"),
        (entry("find = 'max('\nput = 'max(('"), "is no Python"),
        (entry("find = ' '\nput = 'x'"), "two texts"),
        (entry("edits = [{ find = 'max', put = 'x' }, { find = 'ax(', put = 'y' }]"), "overlap"),
        (entry("find = 'max'"), "has says, and either"),
        (entry("find = 'max'\nput = 'min'\nwhy = 'x'"), "has says, and either"),
        (entry("find = 'max'\nput = 'min'").replace("'words'", "' '"), "says is empty"),
    ],
)
def test_what_is_no_mistake_is_refused_by_its_name(read: Read, table: str, words: str) -> None:
    with pytest.raises(CourseError, match=f"mistakes_ex.toml: slip: .*{words}"):
        read(table)


def test_a_check_that_is_not_there_is_named_with_its_mistakes(read: Read) -> None:
    table = entry("find = 'max('\nput = 'min('").replace("test_larger", "test_gone")
    with pytest.raises(CourseError, match=r"test_gone: no check of test_ex.py; .*catch slip"):
        read(table)
    with pytest.raises(CourseError, match="slip: two mistakes"):
        both = entry("find = 'max('\nput = 'min('")
        read(both + both.replace("test_larger", '"test_larger[1]"'))


def test_what_lacks_a_file_has_none_and_what_cannot_be_read_says_so(
    read: Read, tmp_path: Path
) -> None:
    assert mistakes.read(manifest.Course(tmp_path, "", ()), STUB) == []
    with pytest.raises(CourseError, match=r"mistakes_ex.toml: Invalid"):
        read("[")
    read(entry("find = 'max('\nput = 'min('"))
    (tmp_path / "solutions" / STUB).unlink()
    with pytest.raises(CourseError, match=r"ex.py: missing, and .*mistakes_ex.toml edits it"):
        mistakes.read(manifest.Course(tmp_path, "", ()), STUB)
