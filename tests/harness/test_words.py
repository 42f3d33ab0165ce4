"""What people read uses the words of docs/vocabulary.md, in sentences of at most 30 words."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from profiling_lab.course import manifest as course
from scripts.lesson_parts import pages

ROOT = Path(__file__).resolve().parents[2]
VOCABULARY = "docs/vocabulary.md"
MOST_WORDS = 30
# Files that had longer sentences when this test was written, and how many. Only to become shorter.
KNOWN = Path(__file__).with_name("known_long_sentences.txt")

PAGES = sorted(
    path.relative_to(ROOT).as_posix() for path in pages.texts() if "captures" not in path.parts
)
STUBS = sorted({str(stub) for exercise in course.load(ROOT).exercises for stub in exercise.stubs})
NOTEBOOKS = sorted(
    path.relative_to(ROOT).as_posix()
    for folder in ("week07", "labs", "modules")
    for path in (ROOT / folder).rglob("*.ipynb")
)


def text_of(name: str) -> str:
    """What people read in a file; of a notebook the text cells."""
    text = (ROOT / name).read_text(encoding="utf-8")
    if not name.endswith(".ipynb"):
        return text
    cells = json.loads(text)["cells"]
    return "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")


def retired() -> dict[str, str]:
    """Words that are not used, and what is written instead: the last table of the vocabulary."""
    table = (ROOT / VOCABULARY).read_text(encoding="utf-8").rpartition("| do not write |")[2]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines()[2:] if line[:1] == "|"]
    return {word.strip(): instead for words, instead, _ in rows for word in words.split(",")}


def found(word: str, text: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", text, re.IGNORECASE) is not None


def long_sentences(text: str) -> list[str]:
    """Sentences of more than `MOST_WORDS` words, without code, tables, headings, sources and addresses."""
    text = re.sub(r"^```.*?^```|<!--.*?-->|\(source:[^)]*\)", "", text, flags=re.DOTALL | re.M)
    text = re.sub(r"<[^>]+>|\]\([^)]*\)", "", text)
    pieces = re.split(r"\n\s*\n|\n(?=\s*(?:[-*|#>]|\d+\.)\s)", text)
    sentences = [
        sentence
        for piece in pieces
        if not piece.lstrip().startswith(("|", "#", "    "))
        for sentence in re.split(r"(?<=[.!?])[\"*)]*\s+| · ", piece.replace("\n", " "))
    ]
    return [sentence for sentence in sentences if len(sentence.split()) > MOST_WORDS]


def known() -> Counter[str]:
    rows = [line.split(maxsplit=1) for line in KNOWN.read_text(encoding="utf-8").splitlines()]
    return Counter({name: int(count) for count, name in rows})


@pytest.mark.concerns("name")
@pytest.mark.parametrize("name", [*PAGES, *STUBS, *NOTEBOOKS])
def test_words_are_the_vocabularys(name: str) -> None:
    if name == VOCABULARY:
        return  # it names them
    text = text_of(name)
    wrong = {word: instead for word, instead in retired().items() if found(word, text)}
    assert not wrong, f"{name}: write {wrong}; {VOCABULARY} says why"


@pytest.mark.concerns("name")
@pytest.mark.parametrize("name", [*PAGES, *NOTEBOOKS])
def test_sentences_are_short(name: str) -> None:
    long = long_sentences(text_of(name))
    most = known()[name]
    assert len(long) <= most, (
        f"{name}: {len(long)} sentences of more than {MOST_WORDS} words, {most} known:\n"
        + "\n".join(long)
    )


def test_a_long_sentence_and_a_retired_word_are_found() -> None:
    short, long = "It is so. ", "and on " * 15 + "it goes. "
    assert not long_sentences(short * 20)
    assert len(long_sentences(short + long)) == 1
    assert not long_sentences(f"```console\n{long}\n```\n\n| {long} |\n\n# {long}")
    assert retired()["utilisation"] == "utilization"
    assert found("mend", "to mend it") and not found("mend", "recommend it")
    assert not set(known()) - {*PAGES, *NOTEBOOKS}, "files that are no more"


# Words with which a lesson explains. "costs" and "so" mostly say how much, or what to do.
WHY = re.compile(r"\b(because|limited by|that is why|therefore|the reason)\b", re.IGNORECASE)
DAYS = [page for page in PAGES if re.fullmatch(r"week07/day\d\w+/README\.md", page)]


def unsupported(text: str) -> list[str]:
    """Paragraphs of a lesson's core that explain and link to nothing that shows it."""
    core = re.sub(r"^```.*?^```", "", text.split("\n## Further")[0], flags=re.DOTALL | re.M)
    paragraphs = [" ".join(piece.split()) for piece in re.split(r"\n\s*\n", core)]
    return [
        paragraph
        for paragraph in paragraphs
        if not paragraph.startswith(("|", "#")) and "](" not in paragraph
        if WHY.search(paragraph.replace("*", ""))
    ]


@pytest.mark.parametrize("page", DAYS)
def test_a_core_lesson_links_its_explanations_to_what_shows_them(page: str) -> None:
    """That the links lead somewhere is in test_repository; that they support the claim takes a reader."""
    assert not unsupported(text_of(page)), "link to the recording, section or source that shows it"


def test_unsupported_explanations_are_seen() -> None:
    assert unsupported("It waits, *because* it must.") == ["It waits, *because* it must."]
    assert not unsupported("It waits, because [it must](x.md).")
    assert not unsupported("It waits.\n\n## Further\n\nIt waits, because it must.")
    assert not unsupported("```\nbecause\n```")
