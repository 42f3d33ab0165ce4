"""Files that are replaced as a whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiling_lab.atomic_files import replaced


def test_until_the_end_the_old_content_stands(tmp_path: Path) -> None:
    file = tmp_path / "score.json"
    file.write_text("old")
    with replaced(file) as draft:
        draft.write_text("new")
        assert file.read_text() == "old"
    assert file.read_text() == "new"
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("written", ["", "half"])
def test_what_fails_changes_nothing(tmp_path: Path, written: str) -> None:
    file = tmp_path / "score.json"
    file.write_text("old")
    with pytest.raises(ZeroDivisionError), replaced(file) as draft:
        if written:
            draft.write_text(written)
        raise ZeroDivisionError
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]


def test_what_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), replaced(tmp_path / "none" / "score.json") as draft:
        draft.write_text("new")
