"""Commands, policy and lists of the instructor guide are as it says."""

from __future__ import annotations

import csv
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from grading.classroom import claims, commands
from grading.cli import COMMANDS, UNPROTECTED, grade
from grading.gradebook import policy as policies
from grading.runner import results
from profiling_lab.cli import lab
from profiling_lab.course import manifest
from tests.harness.classroom.small_course import DUE

# It is instructors who hand out.
pytestmark = [pytest.mark.proof, pytest.mark.needs("tomlkit", "yaml")]

ROOT = Path(__file__).resolve().parents[3]


# -- the instructor guide ---------------------------------------------------------------------------------

GUIDE = (ROOT / "docs" / "instructor-guide.md").read_text(encoding="utf-8")


def guide_blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", GUIDE, re.DOTALL | re.MULTILINE)


def understood(words: list[str]) -> None:
    """Raises click's UsageError if a command of the guide is not understood; runs nothing."""
    program, rest = words[2], words[3:]
    if program == "python":
        assert rest[:2] == ["-m", "grading.classroom"]
        command, rest = commands.commands, rest[2:]
    elif program == "lab":
        command = lab
    else:
        command, rest = COMMANDS.get(rest[0], grade), rest[rest[0] in COMMANDS :]
    context = command.make_context(program, rest)
    while isinstance(command, click.Group):
        left = [*context._protected_args, *context.args]
        _, found, left = command.resolve_command(context, left)
        assert found is not None
        command, context = found, found.make_context(found.name, left, parent=context)


def test_commands_of_the_guide_are_understood() -> None:
    lines = [shlex.split(line) for block in guide_blocks("console") for line in block.splitlines()]
    assert len(lines) >= 8
    for words in lines:
        assert words[:2] == ["uv", "run"], words
        understood(words)
    with pytest.raises(click.UsageError):
        understood(["uv", "run", "grade", "submissions", "--out", "graded", "--typo"])
    with pytest.raises(click.UsageError):
        understood(["uv", "run", "lab", "dev", "class-repo", "there", "--typo"])


def test_first_page_of_the_guide_leads_to_a_gradebook(tmp_path: Path) -> None:
    """Its lines run as they stand, and the class comes out as its table says."""
    page = GUIDE.partition("## First page")[2].partition("\n## ")[0]
    (block,) = re.findall(r"^```bash\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    install, *lines = block.splitlines()
    assert (install, len(lines)) == ("pip install uv", 3)
    out, said = tmp_path / "graded", ""
    for line in lines:
        words = shlex.split(line)
        if words[:2] == ["uv", "run"]:
            words[:3] = [sys.executable, "-m", "grading.cli"]
        words = [re.sub(r"^graded\b", str(out), word) for word in words]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
        said += done.stdout
    with (out / "gradebook.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    told = re.findall(r"^\| (\w+ \w+) \| (\d+) of (\d+) \| (.*) \|$", page, re.MULTILINE)
    assert [(row["Student"], row["Total"], row["Out of"]) for row in rows] == [
        (name, points, full) for name, points, full, _ in told
    ]
    counts = [(row["Passed tasks"], row["Todo tasks"], row["Failed tasks"]) for row in rows]
    assert counts[:2] == [("2", "4", "0"), ("0", "4", "2")]
    assert rows[2]["Error tasks"] == "1" and rows[3]["State"] == "no submission"
    bob = (out / "feedback" / "Bob_Builder.md").read_text(encoding="utf-8")
    assert "throughput(" in bob and "expected" in bob
    cleo = said.split("Cleo Pires\n")[1]
    assert cleo.count("line 17 raises ModuleNotFoundError") == 1 and "import statistic" in cleo
    for name in ("gradebook_canvas.csv", "gradebook_moodle.csv", "class.html"):
        assert name in page and (out / name).is_file()


def test_policy_of_the_guide_is_one() -> None:
    text, rubric = guide_blocks("toml")
    (task,) = policies.loads(rubric, manifest.load(ROOT)).by_hand
    assert (task.possible, list(task.criteria)) == (6, ["evidence", "next step"])
    policy = policies.loads(text, manifest.load(ROOT))
    assert policy.sandbox == "bubblewrap"
    assert policy.deadline is not None
    assert policy.deadline.at.isoformat(timespec="minutes") == DUE


@pytest.mark.concerns()
def test_guide_lists_the_points_that_can_be_forged() -> None:
    again = "uv run scripts/lessons.py --write docs/instructor-guide.md"
    told = claims.table(manifest.load(ROOT)) in GUIDE
    assert told, again


def test_guide_names_every_outcome() -> None:
    told = " ".join(GUIDE.split())
    for word in (*results.CAUSES, *results.OUTCOMES):
        assert re.search(rf"\b{word}\b", told), f"the guide does not say what {word!r} is"
    assert UNPROTECTED not in GUIDE, "these words are read where they are asked for"
