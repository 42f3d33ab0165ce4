"""Whatever the instructor guide promises has a test, which is there."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
GUIDE = (HERE.parents[1] / "docs" / "instructor-guide.md").read_text(encoding="utf-8")
TABLE = tomllib.loads((HERE / "guide_promises.toml").read_text(encoding="utf-8"))
CLAIMED = re.compile(
    r"^\| exercise \|.*?(?:\n\n|\Z)", re.DOTALL | re.MULTILINE
)  # made of the manifest


def units(text: str) -> Iterator[str]:
    """Paragraphs, points of lists and rows of tables, each in one line; no code, no headings."""
    text = re.sub(r"^```.*?^```$", "", CLAIMED.sub("", text), flags=re.DOTALL | re.MULTILINE)
    unit = ""
    for line in [*text.splitlines(), ""]:
        begins = re.match(r"\s*(?:[-*]|\d+\.) |\|", line)
        ends = not line.strip() or line.startswith(("#", "|---"))
        if (begins or ends) and unit:
            yield unit
            unit = ""
        if not ends:
            unit = f"{unit} {line.strip()}".strip()


def unlisted(text: str) -> list[str]:
    """What is in the text and not in the table."""
    begins = (*TABLE["promises"], *TABLE["none"]["begins"])
    return [unit for unit in units(text) if not unit.startswith(begins)]


def missing(promises: dict[str, list[str]]) -> list[str]:
    """Tests of the table that are not there."""
    found: dict[str, set[str]] = {}
    for file in HERE.rglob("test_*.py"):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        place = file.relative_to(HERE).with_suffix("").as_posix()
        found[place] = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    return [
        test
        for tests in promises.values()
        for test in tests or ["no test at all"]
        if test.partition("::")[2] not in found.get(test.partition("::")[0], ())
    ]


def test_every_promise_of_the_guide_has_a_test() -> None:
    assert unlisted(GUIDE) == [], "add these to guide_promises.toml, with their tests"
    assert missing(TABLE["promises"]) == []
    told = list(units(GUIDE))
    gone = [
        begin
        for begin in (*TABLE["promises"], *TABLE["none"]["begins"])
        if not any(unit.startswith(begin) for unit in told)
    ]
    assert gone == [], "the guide does not say these any more"


def test_a_promise_without_a_test_is_seen() -> None:
    text = GUIDE + "\n\nIt makes coffee.\n\n- And tea,\n  too.\n"
    assert unlisted(text) == ["It makes coffee.", "- And tea, too."]
    assert missing({"x": ["test_batch::test_coffee"]}) == ["test_batch::test_coffee"]
    assert missing({"x": []}) == ["no test at all"]


# What opens a connection: standard library, and what is installed beside it.
NETWORK = {"urllib.request", "http", "ftplib", "smtplib", "ssl", "requests", "httpx", "aiohttp"}


def reaches_out(source: str) -> set[str]:
    """Modules and address families with which a source could speak to another machine."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            names = [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
        found |= {name for name in names if name in NETWORK or name.split(".")[0] in NETWORK}
        if isinstance(node, ast.Attribute) and node.attr in ("AF_INET", "AF_INET6"):
            found.add(node.attr)
    return found


def test_the_grader_opens_no_connection() -> None:
    sources = [*HERE.parents[1].glob("grading/**/*.py")]
    assert len(sources) > 50
    found = {f.name: out for f in sources if (out := reaches_out(f.read_text("utf-8")))}
    assert found == {"kernel.py": {"AF_INET"}}, "that one switches a sandbox's own loopback on"
    for text in ("import http.client", "from urllib import request", "socket.AF_INET6"):
        assert reaches_out(text), text
