"""What the texts promise is there: commands, links, scripts, and that CI runs what the README says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from profiling_lab.cli.app import lab

ROOT = Path(__file__).resolve().parents[2]


TEXTS = [
    "README.md",
    "CONTRIBUTING.md",
    "AGENTS.md",
    *(
        file.relative_to(ROOT).as_posix()
        for folder in ("week07", "labs", "modules", "docs")
        for file in sorted((ROOT / folder).rglob("*.md"))
    ),
]
COMMAND = re.compile(r"uv run lab ([a-z]+)(?: ([a-z][a-z-]*))?")


def test_readme_holds_the_two_commands() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "pip install uv && uv run lab demo" in text
    assert "pip install uv && uv run --all-groups pytest --against solutions" in text


@pytest.mark.parametrize("page", TEXTS)
def test_tables_are_whole(page: str) -> None:
    """A row that is wrapped, or lacks a cell, ends the table where people read it."""
    in_code, cells, broken = False, 0, []
    for line in (ROOT / page).read_text(encoding="utf-8").splitlines():
        in_code ^= line.lstrip().startswith("```")
        bars = re.sub(r"`[^`]*`", "", line).replace(r"\|", "").count("|")
        if in_code or not line.strip():
            cells = 0
        elif re.fullmatch(r"\s*\|(\s*:?-+:?\s*\|)+", line):
            cells = bars
        elif cells and (bars != cells or not line.lstrip().startswith("|")):
            broken.append(line[:80])
    assert not broken, f"{page}: {broken}"


def commands() -> dict[str, set[str]]:
    """Each `lab` command with its subcommands."""
    import click

    context = click.Context(lab)
    out = {}
    for name in lab.list_commands(context):
        command = lab.get_command(context, name)
        group = command.list_commands(context) if isinstance(command, click.Group) else ()
        out[name] = set(group)
    return out


@pytest.mark.proof
@pytest.mark.parametrize("text", TEXTS)
def test_commands_in_texts_exist(text: str) -> None:
    known = commands()
    for match in COMMAND.finditer((ROOT / text).read_text(encoding="utf-8")):
        name, sub = match.groups()
        assert name in known, f"{text} names `lab {name}`, which is no command"
        if known[name] and sub:
            assert sub in known[name], f"{text} names `lab {name} {sub}`, which is no command"


@pytest.mark.parametrize("text", TEXTS)
def test_links_in_texts_lead_somewhere(text: str) -> None:
    file = ROOT / text
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)\s]*)?\)", file.read_text(encoding="utf-8"))
    broken = [link for link in links if "://" not in link and not (file.parent / link).exists()]
    assert not broken, f"{text} links to files that are not there: {broken}"


def test_scripts_in_texts_exist() -> None:
    for text in TEXTS:
        for script in re.findall(r"scripts/\w+\.py", (ROOT / text).read_text(encoding="utf-8")):
            assert (ROOT / script).is_file(), f"{text} names {script}, which is not there"


def test_ci_calls_what_the_readme_says() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    proof = "uv run --all-groups pytest --against solutions\n"
    for command in ("uv run lab demo\n", "uv run pytest\n", proof):
        assert command in script
    # What comes before the groups are installed shows what a newcomer has.
    assert script.index("uv run pytest\n") < script.index(proof)
