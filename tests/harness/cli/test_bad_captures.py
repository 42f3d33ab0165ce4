"""Captures that cannot be read end in one line."""

from __future__ import annotations

import hashlib
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.harness.cli.small_course import SOLUTIONS, Lab, one_line


def _truncated(good: Path, bad: Path) -> None:
    bad.write_bytes(good.read_bytes()[: good.stat().st_size // 2])


def _text(good: Path, bad: Path) -> None:
    bad.write_text("kernel,duration\n")


def _empty(good: Path, bad: Path) -> None:
    bad.write_bytes(b"")


def _other_database(good: Path, bad: Path) -> None:
    with sqlite3.connect(bad) as connection:
        connection.execute("CREATE TABLE notes (text)")


def _without_a_column(good: Path, bad: Path) -> None:
    shutil.copy(good, bad)
    with sqlite3.connect(bad) as connection:
        connection.execute(
            "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL RENAME COLUMN streamId TO somethingElse"
        )


def _without_kernels(good: Path, bad: Path) -> None:
    shutil.copy(good, bad)
    with sqlite3.connect(bad) as connection:
        connection.execute("DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL")
        connection.execute("DROP TABLE IF EXISTS CUPTI_ACTIVITY_KIND_GRAPH_TRACE")


def _without_the_table(good: Path, bad: Path) -> None:
    shutil.copy(good, bad)
    with sqlite3.connect(bad) as connection:
        connection.execute("DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL")
        connection.execute("DROP TABLE IF EXISTS CUPTI_ACTIVITY_KIND_GRAPH_TRACE")


BAD = {
    "truncated": (_truncated, "truncated"),
    "text": (_text, "SQLite"),
    "empty": (_empty, "is empty"),
    "other_database": (_other_database, "not an Nsight Systems export"),
    "without_a_column": (_without_a_column, "streamId"),
    "without_kernels": (_without_kernels, "no kernel"),
    "without_the_table": (_without_the_table, "CUPTI_ACTIVITY_KIND_KERNEL"),
}


@pytest.mark.parametrize("kind", BAD)
@pytest.mark.parametrize("command", ["diagnose", "compare", "report"])
def test_bad_captures_are_one_line(
    kind: str, command: str, outside: Lab, scenario: Callable[..., Path], tmp_path: Path
) -> None:
    make, words = BAD[kind]
    if kind == "without_kernels" and command != "diagnose":
        return  # what copies cost can be judged; a function of the course wants a kernel
    good = scenario("transfer_bound")
    bad = tmp_path / f"{kind}.sqlite"
    make(good, bad)
    before = hashlib.sha256(bad.read_bytes()).hexdigest()
    files = [str(bad)] if command != "compare" else [str(good), str(bad)]
    whose = ["--against", SOLUTIONS] if command == "diagnose" else []
    line = one_line(outside(command, *files, *whose))
    assert words in line
    assert bad.name in line
    assert hashlib.sha256(bad.read_bytes()).hexdigest() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == [bad.name]


def test_missing_captures_and_folders(
    outside: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scenario: Callable[..., Path]
) -> None:
    shipped = tmp_path / "captures"
    (shipped / "one_of_them").mkdir(parents=True)
    shutil.copy(scenario("healthy"), shipped / "one_of_them" / "timeline.sqlite")
    monkeypatch.setenv("LAB_CAPTURES", str(shipped))
    line = one_line(outside("diagnose", "another", "--against", SOLUTIONS))
    assert "captures here: one_of_them" in line
    shutil.copy(scenario("healthy"), tmp_path / "my_run.sqlite")
    line = one_line(outside("diagnose", str(tmp_path / "my_rum.sqlite"), "--against", SOLUTIONS))
    assert f"did you mean {tmp_path / 'my_run.sqlite'}?" in line
    (tmp_path / "folder").mkdir()
    assert "folder" in one_line(outside("diagnose", "folder", "--against", SOLUTIONS))
    assert outside("diagnose", "one_of_them", "--against", SOLUTIONS).exit_code == 0


def test_no_permission(
    outside: Lab, monkeypatch: pytest.MonkeyPatch, scenario: Callable[..., Path]
) -> None:
    file = scenario("healthy")
    real = Path.open

    def refuse(self: Path, *arguments: Any, **options: Any) -> object:
        if self.name == file.name:
            raise PermissionError(13, "Permission denied", str(self))
        return real(self, *arguments, **options)

    monkeypatch.setattr(Path, "open", refuse)
    line = one_line(outside("diagnose", str(file), "--against", SOLUTIONS))
    assert "no permission to read it" in line
