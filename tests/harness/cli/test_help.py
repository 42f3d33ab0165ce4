"""`lab`: help, usage errors, and what light commands import."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from profiling_lab.cli.app import COMMANDS, SECTIONS
from tests.harness.cli.small_course import Lab, one_line


def test_help_names_every_command(small: Lab) -> None:
    result = small("--help")
    assert result.exit_code == 0
    for title, commands in SECTIONS.items():
        assert title in result.output
        assert all(name in result.output for name in commands)
    assert all(len(line) <= 80 for line in result.output.splitlines())


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "record"])
def test_help_of_each_command_teaches(name: str, small: Lab) -> None:
    result = small(name, "--help")
    assert result.exit_code == 0
    assert len(result.output.splitlines()) >= 6
    assert all(len(line) <= 80 for line in result.output.splitlines())


def test_usage_errors_are_one_line(small: Lab) -> None:
    assert "did you mean check?" in one_line(small("chek"))
    assert "see lab hint --help" in one_line(small("hint", "--nothing"))
    assert "FILE" in one_line(small("diagnose"))


def test_unknown_ids_come_with_a_suggestion(small: Lab) -> None:
    for command in ("check", "hint", "solution", "reset"):
        assert "did you mean mini.length" in one_line(small(command, "mini.lenght"))
        assert "did you mean mini" in one_line(small(command, "minni"))


def test_outside_a_course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    outside = Lab(tmp_path)
    for arguments in (["check", "x"], ["hint"], ["submit"], []):
        assert "not inside the course" in one_line(outside(*arguments))


def test_light_commands_import_nothing_heavy(small: Lab) -> None:
    heavy = {"polars", "numpy", "torch", "pytest", "rich", "jinja2", "watchfiles", "grading"}
    program = (
        "import sys\n"
        "from click.testing import CliRunner\n"
        "from profiling_lab.cli import lab\n"
        "for arguments in ([], ['hint', 'mini.length'], ['--help']):\n"
        "    assert CliRunner().invoke(lab, arguments).exit_code == 0\n"
        f"print(sorted({heavy!r} & {{name.split('.')[0] for name in sys.modules}}))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
