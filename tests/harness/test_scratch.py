"""Scratch folders: one whose run was killed goes, one whose run lives stays."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from grading.runner import scratch

ROOT = Path(__file__).resolve().parents[2]
HOLDS = """
import sys
from pathlib import Path
from grading.runner import scratch
folder = scratch.new_folder("lab-grade-", Path(sys.argv[1]))
(folder / "cases").mkdir()
print(folder, flush=True)
sys.stdin.read()
"""


def run_in(where: Path) -> tuple[subprocess.Popen[str], Path]:
    """A run of its own that holds a folder, until it is ended."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(where)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    return process, Path(process.stdout.readline().strip())


def test_a_killed_runs_folder_is_removed_by_the_next_and_a_living_ones_stays(
    tmp_path: Path,
) -> None:
    killed, left = run_in(tmp_path)
    living, used = run_in(tmp_path)
    with killed, living:
        killed.kill()
        killed.wait()
        assert (left / "cases").is_dir() and (used / "cases").is_dir()
        mine = scratch.new_folder("lab-grade-", tmp_path)
        assert not left.exists() and (used / "cases").is_dir()
        again = scratch.new_folder("lab-grade-", tmp_path)
        assert mine.is_dir(), "a second folder of this process must not take the first for dead"
        for folder in (mine, again):
            scratch.remove(folder)
        assert sorted(tmp_path.iterdir()) == [used]
        living.kill()


@pytest.mark.parametrize("kind", ["no lock", "another name", "a link"])
def test_what_is_nobodys_scratch_is_left_alone(tmp_path: Path, kind: str) -> None:
    real = tmp_path / ("kept" if kind == "a link" else "folder")
    real.mkdir()
    if kind != "no lock":
        (real / scratch.LOCK).touch()
    if kind == "a link":
        (tmp_path / "lab-grade-x").symlink_to(real)
    elif kind == "no lock":
        real = real.rename(tmp_path / "lab-grade-x")
    scratch.remove(scratch.new_folder("lab-grade-", tmp_path))
    assert real.is_dir()
